"""A Markdown text on a terminal, and in a pipe."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest

from mcp_launch.commands.markdown import show_markdown
from mcp_launch.commands.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = """\
# A title

<!-- this part is
generated -->

## A heading

A paragraph with `code` → and a [link](https://example.org/), long enough to be longer than eighty
columns are.

- one item, which is long enough to be broken: it goes on and on, beyond the eighty columns
- two

1. first
2. second

| option | meaning |
| --- | --- |
| `--cwd` | the directory, in a sentence that is longer than what is left of eighty columns |

```toml
[servers.docs]
args = ["one", "two"]
```

> A quotation.
"""


class Terminal(io.TextIOWrapper):
    """A terminal that keeps what is written to it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return what a terminal shows, without styles."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")

    def call(text: str = TEXT, *, width: int = 80, encoding: str = "utf-8") -> str:
        written = io.BytesIO()
        file = Terminal(written, encoding=encoding, errors="strict", newline="")
        show_markdown(text, Screen(file=file, width=width))
        file.flush()
        return written.getvalue().decode(encoding)

    return call


def strip_styles(text: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()]


def test_a_text_is_laid_out_on_a_terminal(show: Callable[..., str]) -> None:
    assert strip_styles(show()) == [
        "A title",
        "",
        "A heading",
        "",
        "A paragraph with code → and a link (https://example.org/), long enough to be",
        "longer than eighty columns are.",
        "",
        " - one item, which is long enough to be broken: it goes on and on, beyond the",
        "   eighty columns",
        " - two",
        "",
        " 1. first",
        " 2. second",
        "",
        "option  meaning",
        "─" * 80,
        "--cwd   the directory, in a sentence that is longer than what is left of eighty",
        "        columns",
        "",
        "    [servers.docs]",
        '    args = ["one", "two"]',
        "",
        "    A quotation.",
    ]


@pytest.mark.parametrize(("width", "most"), [(40, 40), (80, 80), (200, 100)])
def test_lines_are_as_long_as_the_terminal_but_not_too_long_to_read(
    show: Callable[..., str], width: int, most: int
) -> None:
    lengths = [len(line) for line in strip_styles(show(width=width))]

    assert most - 15 < max(lengths) <= most


def test_a_line_of_code_that_is_too_long_is_shown_whole(show: Callable[..., str]) -> None:
    line = "x" * 100

    shown = "".join(one.strip() for one in strip_styles(show(f"```\n{line}\n```")))

    assert shown == line


def test_a_terminal_without_colours_still_shows_headings_and_code_in_bold(
    show: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    shown = show()

    assert "\x1b[1mA heading\x1b[0m" in shown
    assert "\x1b[1mcode\x1b[0m" in shown
    assert not re.search(r"\x1b\[[\d;]*3\d", shown)


def test_a_dumb_terminal_gets_marks_instead_of_styles(
    show: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")

    shown = show()

    assert "\x1b" not in shown
    assert "\n## A heading\n" in shown
    assert "with `code` →" in shown


def test_a_terminal_that_shows_only_ascii_gets_only_ascii(show: Callable[..., str]) -> None:
    shown = show(encoding="ascii")

    assert "->" in shown
    assert " - two" in shown


def test_no_style_has_a_background(show: Callable[..., str]) -> None:
    shown = show()

    assert not re.search(r"\x1b\[[\d;]*(4[0-8]|10\d)\b", shown)


def test_a_pipe_gets_plain_markdown_without_comments(capsys: pytest.CaptureFixture[str]) -> None:
    show_markdown(TEXT)

    head, tail = TEXT.split("<!-- this part is\ngenerated -->\n\n")
    assert capsys.readouterr().out == head + tail


def test_a_paragraph_after_a_generated_table_is_not_a_row_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_markdown("<!-- made -->\n| a |\n| --- |\n| b |\n<!-- until here -->\n\nA paragraph.\n")

    assert capsys.readouterr().out == "| a |\n| --- |\n| b |\n\nA paragraph.\n"


def test_a_text_cannot_control_the_terminal(show: Callable[..., str]) -> None:
    assert "\x1b]" not in show("a `\x1b]52;c;ZXZpbA==\x07` b")

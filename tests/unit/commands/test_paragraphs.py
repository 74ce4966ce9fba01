"""Lines on terminals of all widths, and in pipes."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest
from rich.text import Text
from wrap_requests import write

from mcp_launch.commands import wrap, wrap_report
from mcp_launch.commands.paragraphs import print_paragraph, print_row
from mcp_launch.commands.screen import Screen

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "one two three /a/very/long/path/that/does/not/fit four"


def print_at(width: int, text: str, *, is_terminal: bool = True, indent: int = 0) -> list[str]:
    file = io.StringIO()
    screen = Screen(file=file, width=width, force_terminal=is_terminal)
    print_paragraph(screen, text, indent=indent)
    return file.getvalue().splitlines()


def test_a_paragraph_is_broken_between_words_and_hangs() -> None:
    assert print_at(14, TEXT, indent=2) == [
        "  one two",
        "    three",
        "    /a/very/long/path/that/does/not/fit",
        "    four",
    ]


def test_in_a_pipe_it_is_one_line() -> None:
    assert print_at(14, TEXT, is_terminal=False) == [TEXT]


def test_wide_characters_count_twice() -> None:
    assert print_at(8, "日本 日本 日") == ["日本", "  日本", "  日"]


def print_row_at(width: int) -> list[str]:
    file = io.StringIO()
    screen = Screen(file=file, width=width, soft_wrap=False, force_terminal=True)
    print_row(screen, Text("10:00:00 it abcdef stderr   "), Text("word " * 60))
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 200])
def test_the_end_of_a_row_goes_on_below_its_beginning(width: int) -> None:
    lines = print_row_at(width)

    assert len(lines) > 1
    assert max(map(len, lines)) <= width
    assert {line.index("word") for line in lines} == {28}


def test_in_a_narrow_terminal_a_row_is_wrapped_as_any_line() -> None:
    assert print_row_at(40)[1].startswith("word")


def test_only_on_a_terminal_the_home_is_a_tilde(own_home: Path) -> None:
    text = f"in {own_home}/a, '{own_home}/b c', /x{own_home}/d and {own_home}-2/e"

    assert print_at(1000, text) == [text.replace(f"in {own_home}", "in ~")]
    assert print_at(1000, text, is_terminal=False) == [text]


def show_on_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what `wrap --dry-run` shows in a terminal, without its colours."""
    file = io.StringIO()

    def open_screen(**_: bool) -> Screen:
        return Screen(file=file, width=width, force_terminal=True)

    monkeypatch.setattr(wrap_report, "Screen", open_screen)
    monkeypatch.setenv("NO_COLOR", "1")
    request = wrap.WrapRequest([], [], [], is_dry=True)
    assert wrap.run(request, os.environ, is_wrapping=True) == 0
    return file.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()


LONG = """\
[mcp_servers.docs]
command = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "a text of many words", "/srv/data"]
"""


def test_a_change_is_broken_between_the_words_of_the_command(
    own_home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.is_dir()
    write(own_home / ".codex" / "config.toml", LONG)

    lines = show_on_terminal(80, monkeypatch)

    assert lines[0] == "~/.codex/config.toml (Codex, user)"
    assert lines[3:5] == [
        '    - args = ["-y", "@modelcontextprotocol/server-filesystem",',
        '              "a text of many words", "/srv/data"]',
    ]
    assert lines[6:9] == [
        '    + args = ["run", "--server", "docs", "npx", "-y",',
        '              "@modelcontextprotocol/server-filesystem", "a text of many words",',
        '              "/srv/data"]',
    ]
    assert all(len(line) <= 80 for line in lines if "/mcp-launch" not in line)
    wide = show_on_terminal(200, monkeypatch)
    assert wide[3] == f"    - {LONG.splitlines()[2]}"

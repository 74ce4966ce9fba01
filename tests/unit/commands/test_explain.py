"""`mcp-launch explain` and `doctor --explain`."""

from __future__ import annotations

import io
import re
import sys

import pytest
from command_line import run_command
from json_formats import check_format

from mcp_launch import cli
from mcp_launch.doctor.explanation import GROUPS, HEADINGS, read_explanation
from mcp_launch.doctor.finding import CHECKS


class Terminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def show(monkeypatch: pytest.MonkeyPatch, *words: str, columns: int = 80) -> list[str]:
    """Return the lines that a terminal shows, without styles."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", terminal)
    assert cli.run(list(words)) == 0
    text = re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue())
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize(
    "words",
    [["explain", "ML206"], ["explain", "ml206"], ["doctor", "--explain", "ML206"]],
    ids=" ".join,
)
def test_a_pipe_gets_the_text_with_the_level(words: list[str]) -> None:
    done = run_command(*words)

    title, _, rest = read_explanation("ML206").partition("\n")
    level = "A warning, reported by `mcp-launch doctor`."
    assert done == (0, f"{title}\n\n{level}\n{rest}", "")


def test_several_codes_are_explained_one_after_another_and_each_once() -> None:
    done = run_command("explain", "ML301", "ML206", "ml301")

    titles = re.findall(r"^# (ML\d+)", done.stdout, re.MULTILINE)
    assert titles == ["ML301", "ML206"]


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("code", CHECKS)
def test_a_terminal_shows_every_text_whole(
    code: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = show(monkeypatch, "explain", code, columns=columns)

    assert lines[0].strip() == f"{code}: {CHECKS[code].title}"
    assert [line for line in lines if line in HEADINGS] == list(HEADINGS)
    assert max(map(len, lines)) <= min(columns, 100)
    # Every word is there: only the marks of Markdown are gone.
    text = re.sub(r"^```\w*$", "", read_explanation(code), flags=re.MULTILINE)
    shown = re.sub(r"\W", "", "".join(lines))
    assert re.sub(r"\W", "", text.partition("\n")[2]) in shown


def test_without_a_code_a_pipe_gets_one_in_each_line() -> None:
    done = run_command("explain")

    lines = [line.split(None, 2) for line in done.stdout.splitlines()]
    assert lines == [[code, check.level, check.title] for code, check in CHECKS.items()]


def test_without_a_code_a_terminal_shows_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = show(monkeypatch, "explain")

    assert [line for line in lines if line in GROUPS.values()] == list(GROUPS.values())
    assert len(lines) == len(CHECKS) + 2 * len(GROUPS) + 1
    assert lines[-2:] == ["", "mcp-launch explain CODE says more about one of them"]
    assert max(map(len, lines)) <= 80


def test_the_beginning_of_codes_lists_them() -> None:
    done = run_command("explain", "ml40")

    assert [line[:5] for line in done.stdout.splitlines()] == [
        code for code in CHECKS if code.startswith("ML40")
    ]


@pytest.mark.parametrize("words", [["explain"], ["doctor", "--explain"]], ids=" ".join)
def test_an_unknown_code_is_refused_with_a_suggestion(words: list[str]) -> None:
    done = run_command(*words, "ML266")

    assert (done.returncode, done.stdout) == (2, "")
    assert "the doctor has no code 'ML266'" in done.stderr
    assert "did you mean ML206? list all codes: mcp-launch explain" in done.stderr


def test_the_json_has_every_code_with_its_text() -> None:
    document = check_format("explain", run_command("explain", "--json").stdout)

    assert document["codes"] == [
        {"code": code, "level": check.level, "title": check.title, "text": read_explanation(code)}
        for code, check in CHECKS.items()
    ]


@pytest.mark.parametrize("words", [["explain"], ["doctor", "--explain"]], ids=" ".join)
def test_the_json_of_some_codes_has_only_these(words: list[str]) -> None:
    document = check_format("explain", run_command(*words, "ML206", "--json").stdout)

    assert [one["code"] for one in document["codes"]] == ["ML206"]

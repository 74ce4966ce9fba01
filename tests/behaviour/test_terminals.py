"""What commands print on terminals and in pipes, and how they ask."""

from __future__ import annotations

import io
import json
import re
import sys
from typing import TYPE_CHECKING

import pytest
from call_parts import CallParts
from command_line import run_command
from wrap_requests import write

from mcp_launch import main

if TYPE_CHECKING:
    from pathlib import Path

DOCS = """\
[mcp_servers.docs]
command = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "/srv/data"]
"""


class Terminal(io.TextIOWrapper):
    """A terminal that keeps what is written to it."""

    def isatty(self) -> bool:
        return True


def type_in(
    monkeypatch: pytest.MonkeyPatch, *words: str, width: int = 80, answer: bytes = b""
) -> str:
    """Return what a command shows on a terminal."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm-256color")
    written = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", Terminal(io.BytesIO(answer), encoding="utf-8"))
        patch.setattr(sys, "stdout", Terminal(written, encoding="utf-8", newline=""))
        main([*words])
        sys.stdout.flush()
        return written.getvalue().decode()


def strip_styles(text: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()]


@pytest.fixture
def wrappable(own_home: Path, project: Path) -> Path:
    assert project.is_dir()
    return write(own_home / ".codex" / "config.toml", DOCS)


@pytest.mark.usefixtures("wrappable")
@pytest.mark.parametrize("width", [60, 80, 200])
def test_on_a_terminal_sentences_are_broken_between_words(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = strip_styles(type_in(monkeypatch, "wrap", "--dry-run", width=width))

    assert lines[0] == "~/.codex/config.toml (Codex, user)"
    assert [line for line in lines if len(line) > width] == []
    assert "".join(line.strip() for line in lines).count("/srv/data") == 2


@pytest.mark.parametrize(("answer", "is_changed"), [(b"y\n", True), (b"\xff\xfe\n", False)])
def test_only_yes_is_yes(
    wrappable: Path, answer: bytes, is_changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(monkeypatch, "wrap", answer=answer)

    assert (wrappable.read_text(encoding="utf-8") != DOCS) is is_changed


def test_numbers_that_json_does_not_have_are_texts(tmp_path: Path) -> None:
    arguments = {"x": float("nan"), "y": 1.5}
    CallParts(tmp_path / "state").add({"id": float("inf"), "arguments": arguments})

    shown = run_command("calls", "--json").stdout

    [call] = json.loads(shown, parse_constant=lambda name: f"invalid {name}")["calls"]
    assert (call["id"], call["arguments"]) == ("inf", {"x": "nan", "y": 1.5})


@pytest.mark.parametrize(("width", "most"), [(40, 40), (80, 80), (200, 100)])
def test_a_topic_is_as_wide_as_the_terminal_but_not_too_wide_to_read(
    width: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = type_in(monkeypatch, "explain", "options", width=width)

    assert most - 15 < max(map(len, strip_styles(shown))) <= most
    assert "##" not in shown
    # It can be read on dark terminals and on light ones.
    assert not re.search(r"\x1b\[[\d;]*(4[0-8]|10\d)\b", shown)

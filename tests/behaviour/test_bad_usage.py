"""Errors in a command line: one style, whatever finds them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from command_line import run_command

from mcp_launch.commands.app import COMMANDS

if TYPE_CHECKING:
    from fake_machine import FakeMachine


@pytest.mark.parametrize(
    ("line", "problem", "fix"),
    [
        (
            "ps --whatch",
            "no such option: --whatch (Possible options: --watch)",
            "mcp-launch ps --help",
        ),
        (
            "logs -n",
            "option '-n' requires an argument",
            "mcp-launch logs --help shows how to use it",
        ),
        ("logs -n many", "invalid value for '--lines' / '-n': ", "mcp-launch logs --help"),
        ("calls -n 0", "invalid value for '--lines' / '-n': ", "mcp-launch calls --help"),
        ("doctor docs", "got unexpected extra argument(s) (docs)", "mcp-launch doctor --help"),
        (
            "wrap --pass-env safe",
            "--pass-env is an option of run, not of wrap",
            "write it after --: mcp-launch wrap [SERVER...] -- --pass-env",
        ),
        ("wrap --strict", "--strict is an option of run, not of wrap", "write it after --: "),
        ("doctr", "mcp-launch has no command 'doctr'", "did you mean doctor?\n"),
        ("frobnicate", "mcp-launch has no command 'frobnicate'", "write before a server's comm"),
        (
            "--server docs",
            "the word run is missing before --server",
            "write run: mcp-launch run --s",
        ),
        (
            "--start=called npx -y it --api-key s3cret-key-of-mine",
            "the word run is missing before --start",
            "write run: mcp-launch run --start=called npx -y it --api-key ***\n",
        ),
        ("-- npx", "mcp-launch has no command '--'", "write before a server's command"),
    ],
)
def test_an_error_names_the_problem_and_its_fix(line: str, problem: str, fix: str) -> None:
    done = run_command(*line.split())

    assert done.returncode == 2
    first, second = done.stderr.splitlines(keepends=True)
    assert first.startswith(f"[mcp-launch] {problem}")
    assert second.startswith(f"[mcp-launch]   fix: {fix}")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "name", "near"),
    [
        ("list dosc", "dosc", "docs"),
        ("ps dosc", "dosc", "docs"),
        ("calls dosc", "dosc", "docs"),
        ("wrap dosc", "dosc", "docs"),
        ("env dosc", "dosc", "docs"),
        ("restart dosc", "dosc", ""),
        ("list --host curser", "curser", "cursor"),
        ("ps --host curser", "curser", "cursor"),
        ("calls --host curser", "curser", "cursor"),
        ("wrap --host curser", "curser", "cursor"),
        ("doctor --host curser", "curser", "cursor"),
    ],
)
def test_a_wrong_name_is_refused_with_the_nearest(
    words: str, name: str, near: str, machine: FakeMachine
) -> None:
    machine.write("~/.claude.json", '{"mcpServers": {"docs": {"command": "sh"}}}')

    done = run_command(*words.split())

    assert (done.returncode, done.stdout) == (2, "")
    assert name in done.stderr
    assert f"did you mean {near}" in done.stderr or not near


def test_the_help_text_shows_every_command_with_a_whole_sentence() -> None:
    shown = run_command("--help").stdout

    names = re.findall(r"^  ([a-z]+) +[A-Z]", shown, re.MULTILINE)
    assert sorted(names) == sorted(COMMANDS)
    assert "..." not in shown.replace("[ARGS]...", "").replace("[ARGS...]", "")

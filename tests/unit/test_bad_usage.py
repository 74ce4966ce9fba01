"""Errors in a command line: one style, whatever finds them."""

from __future__ import annotations

import pytest
from command_line import run_command

HELP = "--help shows how to use it"


@pytest.mark.parametrize(
    ("line", "problem", "fix"),
    [
        ("ps --whatch", "mcp-launch ps has no option --whatch", "did you mean --watch? "),
        ("ps --frob", "mcp-launch ps has no option --frob", "mcp-launch ps --help lists the op"),
        ("logs -n", "-n needs a value", "mcp-launch logs --help shows which"),
        ("logs -n many", "--lines does not take this value: ", f"mcp-launch logs {HELP}"),
        ("logs -n 0", "--lines does not take this value: ", f"mcp-launch logs {HELP}"),
        ("ps --json=3", "--json does not take a value", "write only --json"),
        ("doctor codex", "mcp-launch doctor does not take codex", "write: mcp-launch doctor --h"),
        (
            "doctor docs",
            "mcp-launch doctor does not take docs",
            "write: mcp-launch doctor --select ML:docs",
        ),
        ("trust a b", "mcp-launch trust does not take b", f"leave it out; mcp-launch trust {HELP}"),
        ("completion", "mcp-launch completion needs SHELL", "add it: mcp-launch completion SHELL"),
        ("profile", "mcp-launch profile needs a command", "write mcp-launch profile add or mcp-"),
        ("profile ad", "mcp-launch profile has no command 'ad'", "did you mean add? mcp-launch p"),
        ("ls", "mcp-launch has no command 'ls'", "mcp-launch list shows the servers in"),
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
    "command",
    ["completion", "doctor", "env", "logs", "profile add", "profile list", "restart", "wrap"],
)
def test_a_help_text_is_for_people(command: str) -> None:
    shown = run_command(*command.split(), "--help").stdout

    for mark in ("\\b", "\b", "{", "[x>", "<str>"):
        assert mark not in shown


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_is_shown(option: str) -> None:
    assert run_command(option).stdout.startswith("mcp-launch ")


def test_the_help_text_shows_every_command_with_a_whole_sentence() -> None:
    shown = run_command("--help").stdout

    assert "..." not in shown.replace("[ARGS]...", "").replace("[ARGS...]", "")
    assert "mcp-launch COMMAND --help shows the options of a command." in shown


def test_an_explanation_fixes_nothing() -> None:
    done = run_command("doctor", "--explain", "ML206", "--fix", "--yes")

    assert done.returncode == 2
    assert "--explain cannot be combined with --live, --fix or --yes" in done.stderr

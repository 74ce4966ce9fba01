"""`ps` where no server runs: what it says, and which words it refuses."""

from __future__ import annotations

import io
import json
import sys

import pytest
from command_line import run_command
from fake_hosts import limit_to_subtree

from mcp_launch import main, system
from mcp_launch.machine import recognize_server


class Terminal(io.StringIO):
    """An end of a terminal."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


@pytest.fixture(autouse=True)
def only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the processes of the machine: some of them may be servers."""
    monkeypatch.setattr(system, "open_table", limit_to_subtree)


def test_without_servers_the_data_is_empty_and_it_is_said_what_a_server_is() -> None:
    assert run_command("ps").stdout.splitlines() == [
        "No MCP servers are running.",
        recognize_server.EXPLANATION,
    ]
    assert run_command("ps", "codex").stdout == (
        "No MCP server that runs matches codex. mcp-launch ps shows all.\n"
    )
    data = json.loads(run_command("ps", "--json").stdout)

    assert (data["version"], data["hosts"], data["ownerless"]) == (1, [], [])
    assert run_command("ps", "--short").stdout == ""


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--watch"], "--watch needs a terminal"),
        (["--json", "--watch"], "cannot be combined"),
        (["--short", "--json"], "cannot be combined"),
        (["--short", "--watch"], "cannot be combined"),
    ],
    ids=["a pipe", "json and watch", "short and json", "short and watch"],
)
def test_a_way_to_show_that_is_not_possible_is_refused(words: list[str], problem: str) -> None:
    done = run_command("ps", *words)

    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


def test_a_terminal_on_which_nothing_would_be_seen_is_not_watched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(sys, stream, Terminal())

    assert main(["ps", "--watch"]) == 2
    assert "TERM says dumb" in capsys.readouterr().err

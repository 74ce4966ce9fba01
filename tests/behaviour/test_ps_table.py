"""The table of `ps`, on terminals of any width and in a pipe."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from call_parts import CallParts
from command_line import run_command
from fake_output import FakeOutput
from made_up_launches import MadeUpLaunches, make_binding, record
from rich.cells import cell_len

from mcp_launch import main, system

if TYPE_CHECKING:
    from pathlib import Path

THREADS = ("01a1ebf6-14a1-7fd0-8b12-02ae8e0b4675", "01a1ebf6-193e-7d90-a25f-5d5f19161259")
FAILURE = {"problem": "npx was not found on PATH", "fix": "install Node"}


class Machine:
    """A Codex with two threads and four launches."""

    def __init__(self, made_up: MadeUpLaunches, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made_up = made_up
        self.host = made_up.start("codex")
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(system, "open_table", lambda: made_up.table)

    def launch(self, server: str, thread: str, megabytes: int = 40, **facts: Any) -> str:
        """Add a launch and its server; return the server's pid."""
        launcher = self.made_up.start("mcp-launch", self.host, 5)
        processes = {"launcher": record(launcher), "host": record(self.host)}
        if megabytes:
            processes |= self.made_up.start_server(launcher, megabytes)
        usual = {"server": server, "binding": make_binding(thread), "calls": 0}
        self.made_up.write_lease(f"l-{launcher}", processes, **usual | facts)
        return str(processes["server"]["pid"]) if megabytes else "-"

    def fill(self) -> None:
        """Add two threads with all kinds of servers."""
        now = time.time()
        self.launch("files", THREADS[0], calls=12, last_call=now - 185)
        self.launch("docs", THREADS[0], megabytes=82, restarts=1)
        self.launch("db", THREADS[0], 0, state="resting", since=now - 185, saved=80_000_000)
        self.launch("broken", THREADS[1], 0, state="failed", failure=FAILURE)

    def show(self, *words: str, width: int = 80, encoding: str = "utf-8") -> list[str]:
        """Return what a terminal of this width shows."""
        self._monkeypatch.setenv("COLUMNS", str(width))
        self._monkeypatch.setenv("MCP_LAUNCH_HOME", str(self.made_up.state))
        output = FakeOutput(is_terminal=True, encoding=encoding)
        return output.show(lambda: main(["ps", *words])).splitlines()

    def pipe(self, *words: str) -> str:
        """Return what a pipe gets."""
        home = str(self.made_up.state)
        return run_command("ps", *words, table=self.table, MCP_LAUNCH_HOME=home).stdout

    @property
    def table(self) -> Any:
        return self.made_up.table


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(MadeUpLaunches(tmp_path / "state", monkeypatch), monkeypatch)


def test_each_server_has_one_row_below_its_session_and_host(machine: Machine) -> None:
    machine.fill()

    assert machine.show() == [
        "    SERVER      PID  UP  MEMORY  CALLS  LAST  STATE",
        "Codex  pid 5000001  up 1h  4 servers  146 MB (saves 80 MB)",
        "  thread 01a1ebf6-14a1  /work/shop",
        "    files   5000005  1h   47 MB     12    3m  running",
        "    docs    5000009  1h   89 MB      0     -  running, 1 restart",
        "    db            -   -  5.0 MB      0     -  resting 3m, saves 80 MB",
        "  thread 01a1ebf6-193e  /work/shop",
        "    broken        -   -  5.0 MB      0     -  failed, npx was not found on PATH",
    ]
    assert f"  thread {THREADS[0]}  /work/shop" in machine.pipe().splitlines()
    assert machine.pipe("--short") == "2 sessions, 4 servers, 146 MB\n"


@pytest.mark.parametrize("width", [30, 40, 60, 79, 80, 81, 120, 200])
@pytest.mark.parametrize("words", [[], ["-v"]], ids=["short", "verbose"])
def test_no_line_is_wider_than_the_terminal(width: int, words: list[str], machine: Machine) -> None:
    machine.fill()
    machine.launch(
        "日本語のとても長い名前のサーバーです",
        THREADS[1],
        calls=12345,
        last_call=time.time(),
        noise=2,
    )

    lines = machine.show(*words, width=width)

    assert [line for line in lines if cell_len(line) > width] == []


def test_a_terminal_that_has_only_ascii_gets_no_other_mark(machine: Machine) -> None:
    machine.launch("a-server-with-a-very-long-name-that-has-no-room", THREADS[0])

    shown = "\n".join(machine.show(width=60, encoding="ascii"))

    assert shown.isascii()
    assert "    a-server-w...  " in shown


def test_details_come_with_verbose_below_their_server(machine: Machine) -> None:
    runner = {"left_out": True, "why": "its package is installed"}
    machine.launch("docs", THREADS[0], noise=1, outer="launch-0", runner=runner)
    machine.launch("broken", THREADS[0], 0, state="failed", failure=FAILURE)

    shown = machine.pipe("-v")

    for detail in (
        "1 line of its stdout were not messages",
        "started without its runner: its package is installed",
        "inside launch launch-0",
        "fix: install Node",
    ):
        assert f"\n      {detail}\n" in shown
    assert "launcher: process 5000002; also processes 5000003, 5000004" in shown


def test_calls_that_nobody_counts_are_not_said_to_be_none(machine: Machine) -> None:
    machine.launch("docs", THREADS[0], wire="direct")

    assert machine.show()[3].endswith("   -     -  running")


def test_calls_per_minute_and_failures_are_shown_while_there_are_some(machine: Machine) -> None:
    machine.launch("files", THREADS[0], calls=12)
    parts, now = CallParts(machine.made_up.state), time.time()
    for outcome in ("ok", "died"):
        parts.add({"server": "files", "launch": "l-5000002", "time": now - 1, "outcome": outcome})

    assert "/MIN" in machine.show()[0]
    assert "/MIN" not in machine.show(width=50)[0]
    assert machine.show()[3].endswith("running, 1 failed call")


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["files"], ["files", "files"]),
        (["codex"], ["files", "docs", "files"]),
        (["--host", "codex"], ["files", "docs", "files"]),
        ([THREADS[1][:13]], ["files"]),
        ([THREADS[1][:8]], ["files", "docs", "files"]),
        (["docs", THREADS[1]], ["docs", "files"]),
        (["docs", "--host", "claude"], []),
    ],
    ids=["a server", "a host", "--host", "a thread", "threads", "either", "neither"],
)
def test_names_choose_servers_hosts_and_sessions(
    words: list[str], left: list[str], machine: Machine
) -> None:
    machine.launch("files", THREADS[0])
    machine.launch("docs", THREADS[0])
    machine.launch("files", THREADS[1])

    hosts = json.loads(machine.pipe("--json", *words))["hosts"]

    sessions = [session for host in hosts for session in host["sessions"]]
    assert [one["server"] for session in sessions for one in session["servers"]] == left


def test_where_processes_cannot_be_seen_nothing_is_said_to_be_missing(machine: Machine) -> None:
    machine.table.SEES_ALL = False

    shown = " ".join(machine.show())

    assert "No MCP servers" not in shown
    assert "servers may run that are not listed" in shown

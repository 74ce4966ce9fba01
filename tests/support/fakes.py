"""Fakes for table-driven tests: a context, a process table, a sighting."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mcp_launch.hosts import Identity, Sighting, load
from mcp_launch.launch.context import Context
from mcp_launch.values import Found, Missing, Process, ProcessIdentity

if TYPE_CHECKING:
    from mcp_launch.values import Verdict


def make_context(**facts: Any) -> Context:
    """Return the context of a Codex session in /work/app, with the given facts changed."""
    nothing = Missing(["it was not looked for"])
    identity = Identity(facts.pop("session", nothing), facts.pop("thread", nothing))
    values: dict[str, Any] = {
        "launch": Found("launch-1", "made for this launch"),
        "host": Found("codex", "process 10 (codex) above us"),
        "host_pid": Found("10", "process 10 (codex) above us"),
        "identity": identity,
        "facts": load("codex"),
        "sighting": make_sighting(FakeProcessTable(), 10),
        "inherited_cwd": Found("/inherited", "inherited"),
        "place": Found("/work/app", "inherited"),
        "project_root": Found("/work/app", ".git in it"),
        "home": "/home/me",
        "host_homes": ["/home/me/.codex"],
        "host_environ": {},
    }
    return Context(**(values | facts))


class FakeProcessTable:
    """A process table with the processes and facts that the test adds."""

    SEES_ALL = True

    def __init__(self) -> None:
        self.processes: dict[int, Process] = {}
        self.argv: dict[int, list[str]] = {}
        self.executables: dict[int, str] = {}
        self.variables: dict[int, dict[str, str]] = {}
        self.files: dict[int, list[str]] = {}
        self.cwds: dict[int, str] = {}
        self.owners: dict[int, int] = {}
        self.writers: dict[int, Verdict] = {}
        self.age: float | None = 0.0
        self.boot = "boot-1"

    def add(self, pid: int, name: str, parent: int = 1, start: str | None = "ticks:5") -> Process:
        process = Process(ProcessIdentity(pid, start), parent, name)
        self.processes[pid] = process
        return process

    def boot_id(self) -> str:
        return self.boot

    def look(self, pid: int) -> Process | None:
        return self.processes.get(pid)

    def read_argv(self, pid: int) -> list[str]:
        return self.argv.get(pid, [])

    def read_executable(self, pid: int) -> str:
        return self.executables.get(pid, "")

    def read_cwd(self, pid: int) -> str:
        return self.cwds.get(pid, "")

    def read_environ(self, pid: int) -> dict[str, str]:
        return self.variables.get(pid, {})

    def read_variable(self, pid: int, name: str) -> str | None:
        return self.variables.get(pid, {}).get(name)

    def read_owner(self, pid: int) -> int | None:
        return self.owners.get(pid, os.getuid())

    def list_open_files(self, pid: int) -> list[str]:
        return self.files.get(pid, [])

    def holds_writing_end(self, pid: int, fd: int) -> Verdict:
        assert fd == 0
        return self.writers.get(pid, "different")

    def list_listening(self, pid: int) -> list[str]:
        del pid
        return []

    def measure_share(self, pid: int) -> int | None:
        del pid
        return None

    def list_pids(self) -> list[int]:
        return list(self.processes)

    def is_running(self, pid: int) -> bool:
        return pid in self.processes

    def list_descendants(self, pid: int) -> list[int]:
        return [one for one, process in self.processes.items() if process.parent == pid]

    def started_seconds_ago(self, pid: int) -> float | None:
        assert pid
        return self.age


def make_sighting(table: FakeProcessTable, pid: int, **facts: Any) -> Sighting:
    """Return a sighting of one process of the table."""
    values: dict[str, Any] = {
        "process": table.look(pid),
        "environ": {"HOME": "/home/me"},
        "cwd": "/work/app",
        "is_starter": True,
    }
    return Sighting(table=table, **(values | facts))

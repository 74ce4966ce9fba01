"""Launches without processes: a made-up process table, and the leases that go with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fakes import FakeProcessTable

from mcp_launch.machine import running, units
from mcp_launch.machine.recognize_server import Configured
from mcp_launch.machine.units import Memory

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from mcp_launch.machine.running import Census

# Above any pid of the kernel's, so that nothing real is found in /proc.
FIRST_PID = 5_000_000


class MadeUpLaunches:
    """Hosts, launches and pools, with processes of 10 MB unless a test says otherwise."""

    def __init__(self, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = state
        self.table: Any = FakeProcessTable()
        self.table.add(1, "init", 0)
        self.table.age = 3600.0
        self.sizes: dict[int, int] = {}
        monkeypatch.setattr(units, "measure", self._measure)

    def _measure(self, pid: int) -> Memory:
        is_there = pid in self.table.processes
        return Memory(self.sizes.get(pid, 10) * 1_000_000 if is_there else 0)

    def start(self, name: str = "x", parent: int = 1, megabytes: int = 10) -> int:
        """Add a process; return its pid."""
        pid = FIRST_PID + len(self.table.processes)
        self.table.add(pid, name, parent)
        self.sizes[pid] = megabytes
        return pid

    def start_server(self, launcher: int, megabytes: int = 10) -> dict[str, Any]:
        """Add keeper, guardian and server below a process; return their records."""
        keeper = self.start("mcp-keeper", launcher, 1)
        guardian = self.start("mcp-guardian", keeper, 1)
        server = self.start("node", guardian, megabytes)
        return {"keeper": record(keeper), "guardian": record(guardian), "server": record(server)}

    def write_lease(self, launch: str, processes: dict[str, Any], **facts: Any) -> None:
        """Write the lease of a launch of docs, of a Codex unless its context says otherwise."""
        context = {
            "host": {"value": "codex"},
            "project_root": {"value": "/work/shop"},
            "cwd": {"value": "/work/shop"},
        }
        usual = {"launch": launch, "server": "docs", "state": "running", "context": context}
        self._write(f"leases/{launch}.json", {**usual, "processes": processes, **facts})

    def write_pool(self, key: str, processes: dict[str, Any], **facts: Any) -> None:
        """Write the record of a pool."""
        usual = {"pool": "p-1", "server": "docs", "cwd": "/work/shop", "sessions": []}
        self._write(f"pools/{key}.json", {**usual, "processes": processes, **facts})

    def _write(self, name: str, content: dict[str, Any]) -> None:
        path = self.state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        path.write_text(json.dumps({"version": 1, "boot": "boot-1", **content}), encoding="utf-8")
        path.chmod(0o600)

    def take(self) -> Census:
        """Return the census."""
        return running.take(self.table, str(self.state), [Configured("docs", ("docs-server",))])

    def end(self, *pids: int) -> None:
        """Remove processes."""
        for pid in pids:
            del self.table.processes[pid]


def record(pid: int) -> dict[str, Any]:
    """Return a process of the table as a lease names it."""
    return {"pid": pid, "start": "ticks:5"}


def make_binding(name: str) -> dict[str, str]:
    """Return the binding of a server to a thread of Codex."""
    return {"state": "confirmed", "session": name, "thread": name, "evidence": "a call"}

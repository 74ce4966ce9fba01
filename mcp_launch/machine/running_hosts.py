"""Name the host of a recorded call as `ps` does, also if it is a program that is not a known host.

A record has the name of a known host, or `unknown`. While the launch runs, its lease says which
process that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch import hosts, state, system
from mcp_launch.machine import process_titles
from mcp_launch.protocol import get_member
from mcp_launch.state import leases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.machine.call_records import RecordedCall
    from mcp_launch.system import ProcessTable


class RunningHosts:
    """The names of hosts, each looked up once."""

    def __init__(self, environ: Mapping[str, str], table: ProcessTable | None = None) -> None:
        self._directory = state.find_leases(environ)
        self._table = table or system.open_table()
        self._known: dict[str, str] = {}  # by launch

    def name(self, call: RecordedCall) -> str:
        """Return the host's name, or its process's if it is not a known host."""
        if call.host != hosts.UNKNOWN.name or not call.launch.isalnum():
            return call.host
        if call.launch not in self._known:
            self._known[call.launch] = self._look_up(call.launch) or call.host
        return self._known[call.launch]

    def _look_up(self, launch: str) -> str:
        """Return the name of a launch's host process; empty if it is gone."""
        host = get_member(leases.read(f"{self._directory}/{launch}.json"), "processes", "host")
        pid = get_member(host, "pid")
        if not isinstance(pid, int) or leases.judge(self._table, host) != "same":
            return ""
        process = self._table.look(pid)
        return process_titles.name_process(self._table, process) if process else ""

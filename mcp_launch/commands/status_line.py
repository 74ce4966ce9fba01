"""`mcp-launch ps --short`: one line for a prompt or a status line.

A prompt waits for it, so `mcp_launch.main` calls it without the command-line library, whose
import would take longer than all of this. Alone among the commands, it does not print through
`commands.screen`: it prints only numbers and words of its own.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from mcp_launch.machine import running, units
from mcp_launch.machine.running import list_distinct
from mcp_launch.machine.survey import open_survey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.machine.running import Census


def run(environ: Mapping[str, str]) -> int:
    """Print the line for all servers; nothing if there are none, or if something is wrong."""
    with contextlib.suppress(Exception):  # a prompt must not show our errors; `ps` does
        show(open_survey(environ).take_census())
    return 0


def show(census: Census) -> None:
    """Print one line; nothing at all if nothing runs."""
    if not running.is_empty(census):
        sys.stdout.write(sum_up(census) + "\n")


def sum_up(census: Census) -> str:
    """Return how many sessions, servers and orphans there are, and their memory."""
    sessions = sum(len(host.sessions) for host in census.hosts)
    servers = [server for host in census.hosts for server in host.servers]
    shares = {
        pid: share
        for server in (*servers, *census.ownerless)
        for pid, share in server.shares.items()
    }
    words = [units.count(sessions, "session"), units.count(len(list_distinct(servers)), "server")]
    words += [units.tell_size(units.add_up(shares.values()).amount)]
    words += [units.count(len(census.ownerless), "orphan")] if census.ownerless else []
    return ", ".join(words)

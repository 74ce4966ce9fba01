"""What is left of launches that could not clean up after themselves.

Nobody has to ask for it: guardians clean up when nobody waits for them, and so does every command
that reads leases. Only a launch that is proven dead is cleaned up after.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch import hosts, state
from mcp_launch.protocol import get_member
from mcp_launch.state import handshake_files, launch_log, leases, pools

if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.system import ProcessTable

_KILLED = "mcp-launch itself was killed"


def tidy(table: ProcessTable, directory: str) -> None:
    """Clean up after dead launches and pools; `directory` is that of the leases."""
    read_living(table, directory)
    launch_log.prune(launch_log.find_directory(os.environ), directory)
    handshake_files.prune(os.environ)
    pools.reclaim_stale(table, f"{state.find_directory(os.environ)}/pools")


def read_living(table: ProcessTable, directory: str) -> dict[str, dict[str, Json]]:
    """Return the leases by their paths; remove those of dead launches, and log their ends."""
    records = leases.read_all(directory)
    for path in [path for path, record in records.items() if leases.is_stale(table, record)]:
        launch_log.append_end(path, _explain_end(table, records.pop(path)))
        state.remove(path)
    return records


def note_killed(lease: str, host: str, code: int | None, *, is_host_lost: bool) -> None:
    """Log the end of a launch whose launcher was killed; `code` is its server's exit code."""
    from mcp_launch.runtime.lease import tell_exit

    why = f"{hosts.name_in_sentence(host)} has ended" if is_host_lost else _KILLED
    how = f"; the server {tell_exit(code)}" if code is not None else ""
    launch_log.append_end(lease, why + how)


def _explain_end(table: ProcessTable, record: dict[str, Json]) -> str:
    if leases.is_of_earlier_boot(table, record):
        return "the machine was restarted"
    if leases.judge(table, get_member(record, "processes", "host")) == "different":
        host = get_member(record, "context", "host", "value")
        return f"{hosts.name_in_sentence(str(host))} has ended"
    return _KILLED

"""Servers that several sessions share through agent-deck's pool.

Its sessions get each other's progress and requests (agent-deck#324 and later), and they all
work in the pool's directory.
"""

from __future__ import annotations

import glob
import os
import socket
from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import printable
from mcp_launch.machine.subject import Subject
from mcp_launch.system import linux

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey

# Where agent-deck puts its sockets, regardless of TMPDIR.
_DIRECTORY = "/tmp"  # noqa: S108  # agent-deck's choice
_PREFIX, _SUFFIX = "agentdeck-mcp-", ".sock"

# A live pool accepts at once; one that hangs must not delay the other checks.
_CONNECT_LIMIT = 0.5

_FIX = (
    "add it to exclude_mcps under [mcp_pool] in ~/.agent-deck/config.toml (or set enabled = false "
    "there), then restart its sessions"
)


def check(survey: Survey, directory: str = _DIRECTORY) -> Iterator[Finding]:
    """Find the sockets of a running pool, and the entries that use one."""
    names = {item.name for item in survey.items}
    for path in sorted(glob.glob(f"{glob.escape(directory)}/{_PREFIX}*{_SUFFIX}")):
        server = os.path.basename(path)[len(_PREFIX) : -len(_SUFFIX)]
        if survey.is_narrowed and server not in names:
            continue
        connections = linux.count_connections(path)
        if _is_own(path) and (connections or _accepts(path)):
            count = f" ({connections} connected)" if connections else ""
            yield Finding(
                "ML406",
                Subject(server=server, file=path),
                f"agent-deck's pool shares one {printable(server)} among all sessions{count}",
                _FIX,
            )
    for item in survey.servers:
        if _is_pooled(item):
            yield Finding(
                "ML406",
                item.point(),
                f"{printable(item.name)} is agent-deck's pooled server, not the session's own",
                _FIX,
            )


def _is_own(path: str) -> bool:
    try:
        return os.stat(path).st_uid == os.getuid()
    except OSError:
        return False  # removed just now


def _accepts(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as ours:
        ours.settimeout(_CONNECT_LIMIT)
        try:
            ours.connect(path)
        except OSError:
            return False  # left behind by a pool that has ended
        return True


def _is_pooled(item: Item) -> bool:
    words = item.command
    program = os.path.basename(words[0]) if words else ""
    if program == "agent-deck":
        return words[1:2] == ["mcp-proxy"]
    named = [os.path.basename(word) for word in words]
    return program in {"nc", "ncat", "socat"} and any(_PREFIX in name for name in named)

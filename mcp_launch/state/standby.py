"""What a launcher hands to itself while `standby_process` stands in for it.

It is kept in a file without a name, in memory: nobody else can read it, and it goes with the
process.
"""

from __future__ import annotations

import os
from stat import S_ISREG

from mcp_launch import state
from mcp_launch.errors import LaunchError
from mcp_launch.protocol import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

# Names its descriptor and what has happened; `standby_process` sets it.
RESUME = "MCP_LAUNCH_RESUME"

# The version of its format: the launcher may be updated while it is on standby. It grows with
# every change of what a broker's snapshot consists of.
_VERSION = 5

# The name of the file, for those who look at our descriptors.
_NAME = "mcp-launch"

# What is larger is not kept: it would take more memory than standby saves.
_LIMIT = 1 << 20


class Suspended:
    """The state of a launch that has nothing to do."""

    __slots__ = ("broker", "ended", "host_is_lost", "launch", "lease", "parent", "shared", "signal")

    def __init__(  # noqa: PLR0913, PLR0917  # the parts of a file
        self,
        launch: str,
        parent: int,
        broker: dict[str, Any],
        lease: dict[str, Any],
        ended: dict[str, Any],
        shared: dict[str, Any] | None,
    ) -> None:
        self.launch = launch  # its id
        self.parent = parent  # the process that has started it
        self.broker = broker  # as `broker.snapshot` describes it
        self.lease = lease  # what a lease says that does not follow from the broker
        self.ended = ended  # what is known of the servers that have ended
        self.shared = shared  # the connection to a server that others use, too
        self.signal = 0  # that has arrived on standby
        self.host_is_lost = False  # since then


def write(kept: Suspended) -> int:
    """Return an inheritable descriptor from which it can be read.

    Raises:
        OSError: There is no room, it is too large, or the system cannot do it.

    """
    content = json_text.encode(
        {
            "version": _VERSION,
            "launch": kept.launch,
            "parent": kept.parent,
            "broker": kept.broker,
            "lease": kept.lease,
            "ended": kept.ended,
            "shared": kept.shared,
        }
    ).encode()
    if len(content) > _LIMIT:
        raise OSError(0, f"its state takes {len(content)} bytes")
    fd = os.memfd_create(_NAME, 0)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        os.close(fd)
        raise
    return fd


def take(environ: MutableMapping[str, str]) -> Suspended | None:
    """Return the state of the launch that this one continues; None if it is a new one.

    Raises:
        LaunchError: It is the state of another version of this program.

    """
    named = environ.pop(RESUME, "").split(",")
    try:
        fd, number, is_lost = (int(part) for part in named)
        status = os.fstat(fd)
        if not S_ISREG(status.st_mode) or status.st_nlink:
            return None  # not one of ours, which are files without a name
        with open(fd, "rb") as file:
            file.seek(0)
            content: Any = json_text.parse(file.read())
        version, launch = content["version"], str(content["launch"])
    except (OSError, ValueError, OverflowError, LookupError, TypeError):
        return None  # somebody has set the variable
    if version != _VERSION:
        state.remove(state.name_lease(environ, launch))
        raise LaunchError(
            "mcp-launch was updated while this launch was idle, and cannot continue it",
            fix="reconnect the server, or start a new session",
        )
    parts = (content[name] for name in ("parent", "broker", "lease", "ended", "shared"))
    kept = Suspended(launch, *parts)
    for open_fd in kept.shared["descriptors"] if kept.shared else ():
        os.set_inheritable(open_fd, False)  # noqa: FBT003  # named by the function
    kept.signal = number
    kept.host_is_lost = bool(is_lost) or os.getppid() != kept.parent
    return kept

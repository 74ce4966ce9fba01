"""What a launcher hands to itself while `standby_process` stands in for it.

It is kept in a file without a name, in memory: nobody else can read it, and it goes with the
process.
"""

from __future__ import annotations

import os
from stat import S_ISREG

from mcp_launch.errors import LaunchError
from mcp_launch.protocol import json_text
from mcp_launch.protocol.memory import Remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping
    from typing import Any

# Names its descriptor and what has happened; `standby_process` sets it.
RESUME = "MCP_LAUNCH_RESUME"

# The version of its format: the launcher may be updated while it is on standby.
_VERSION = 1

# The name of the file, for those who look at our descriptors.
_NAME = "mcp-launch"


class History:
    """Everything that has happened in a launch without a server: its state follows from that."""

    __slots__ = ("events", "host_is_lost", "launch", "memories", "parent", "signal")

    def __init__(
        self,
        launch: str,
        parent: int,
        events: list[tuple[float, str, bytes]],
        memories: Iterable[Remembered],
    ) -> None:
        self.launch = launch  # its id
        self.parent = parent  # the process that has started it
        self.events = events  # time, timer (empty: the host spoke), what the host said
        self.memories = list(memories)  # what the host was answered from
        self.signal = 0  # that has arrived on standby
        self.host_is_lost = False  # since then


def write(history: History) -> int:
    """Return an inheritable descriptor from which it can be read.

    Raises:
        OSError: There is no room, or the system cannot do it.

    """
    content = json_text.encode(
        {
            "version": _VERSION,
            "launch": history.launch,
            "parent": history.parent,
            "events": [[when, timer, _spell(data)] for when, timer, data in history.events],
            "memories": [_describe(memory) for memory in history.memories],
        }
    ).encode()
    fd = os.memfd_create(_NAME, 0)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        os.close(fd)
        raise
    return fd


def take(environ: MutableMapping[str, str]) -> History | None:
    """Return the history of the launch that this one continues; None if it is a new one.

    Raises:
        LaunchError: Another version of mcp-launch has written it.

    """
    named = environ.pop(RESUME, "")
    if not named:
        return None
    try:
        fd, number, is_lost = named.split(",")
        status = os.fstat(int(fd))
        if not S_ISREG(status.st_mode) or status.st_nlink:
            return None  # not one of ours, which are files without a name
        with open(int(fd), "rb") as file:
            file.seek(0)
            kept: Any = json_text.parse(file.read())
        if kept["version"] != _VERSION:
            # Without its history, the host's next call would reach a server without a handshake.
            raise LaunchError(
                "mcp-launch was updated while this server was waiting for its first call",
                fix="reconnect the server, or start a new session",
            )
        events = [(when, timer, _read(data)) for when, timer, data in kept["events"]]
        memories = [_restore(memory) for memory in kept["memories"]]
        history = History(kept["launch"], kept["parent"], events, memories)
        history.signal = int(number)
        history.host_is_lost = is_lost == "1" or os.getppid() != history.parent
    except (OSError, ValueError, OverflowError, LookupError, TypeError):
        return None  # somebody has set the variable
    return history


def _describe(memory: Remembered) -> dict[str, object]:
    answers = [
        [method, _spell(cursor), _spell(kept)] for (method, cursor), kept in memory.answers.items()
    ]
    return {
        "client": memory.client,
        "written": memory.written,
        "size_of_server": memory.size_of_server,
        "answers": answers,
    }


def _restore(kept: dict[str, Any]) -> Remembered:
    answers = {(method, _read(cursor)): _read(line) for method, cursor, line in kept["answers"]}
    memory = Remembered(kept["client"], kept["written"], answers)
    memory.size_of_server = kept["size_of_server"]
    return memory


def _spell(data: bytes) -> str:
    return data.decode("latin-1")


def _read(text: str) -> bytes:
    return text.encode("latin-1")

"""Readers of a request's session that more than one host needs."""

from __future__ import annotations

import time

from mcp_launch.hosts import Callers, pick_text, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts import Caller
    from mcp_launch.protocol.json_text import Json

# Members of `_meta` that say by their name who made them, so that they mean the same whatever
# the host is. The last one is not from a host: the protocol is about to get it.
_NAMES = (
    "vscode.conversationId",
    "agent-session-id",  # Goose
    "assemblySessionId",  # Factory Droid
    "qwen-code/invocation",  # an object, whose `sessionId` it is
    "io.modelcontextprotocol/conversation-handle",
)

# The one with which comes a directory, and the name of that.
_WITH_PLACE = "agent-session-id"
_PLACE = "agent-working-dir"


# How many times as long as a search took until the next one.
_PAUSE = 50


class Pace:
    """Spaces out a search that found nothing: the longer it takes, the rarer it is.

    Which files a process holds open shows in no stamp, and a host may have thousands of them.
    """

    __slots__ = ("_again_at", "_began")

    def __init__(self) -> None:
        self._began = self._again_at = 0.0

    def is_due(self) -> bool:
        """Return whether it is time for a search."""
        return time.monotonic() >= self._again_at

    def begin(self) -> None:
        """Note that a search begins."""
        self._began = time.monotonic()

    def end(self) -> None:
        """Note that it is over."""
        now = time.monotonic()
        self._again_at = now + _PAUSE * (now - self._began)


class NamedCallers(Callers):
    """Reads the session that a request names; `own` is what only this host calls it."""

    def __init__(self, own: str = "") -> None:
        self._names = (own, *_NAMES) if own else _NAMES
        self.names = (*self._names, _PLACE)

    def read(self, meta: dict[str, Json]) -> Caller | None:
        """Return the session that one of the members names; None if none does."""
        for name in self._names:
            value = meta.get(name)
            if isinstance(value, dict):
                value = value.get("sessionId")
            session = records.pick_id(value)
            if session is not None:
                place = pick_text(meta, _PLACE) if name == _WITH_PLACE else None
                where = 'the call\'s _meta["{}"]'
                self.origins = (where.format(name), "", where.format(_PLACE) if place else "")
                return (session, None, place)
        return None


class RecordCallers(NamedCallers):
    """Reads the session in the host's own record, unless the request names one."""

    is_in_request = False

    def __init__(self) -> None:
        super().__init__()

    def read(self, meta: dict[str, Json]) -> Caller | None:
        """Return the session that the request names, or the host's record of the moment."""
        return (super().read(meta) if meta else None) or self.read_record()

    def read_record(self) -> Caller | None:
        """Return the session that the host's record names now; None if none is certain."""
        raise NotImplementedError

"""Writes the caller's session into every call, with what else is known of it."""

from __future__ import annotations

from mcp_launch.broker.routing import UNNAMED
from mcp_launch.protocol import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.commands import Settings
    from mcp_launch.broker.request import Request
    from mcp_launch.broker.routing import Served
    from mcp_launch.protocol.message import Edit
    from mcp_launch.values import Found

# The member of a call's `_meta` that holds the context.
KEY = "mcp-launch/context"


class Stamp:
    """Makes the context of a call; it is the same as the last one's for most."""

    def __init__(self, settings: Settings) -> None:
        self._describe = settings.describe
        self._read_outer = settings.read_outer
        # Whether the calls of one connection may be of many sessions: then one that names none
        # may be any session's.
        self.carries_many = settings.carries == "many sessions"
        self._unnamed: tuple[Served, Served] | None = None  # the last one, and without a session
        self._served: Served | None = None
        self._place: Found | None = None
        self._context = self._member = b""  # describe these two

    def add(self, edits: list[Edit], request: Request) -> None:
        """Add the edits that put the context into a call."""
        message, served, place = request.message, request.served, request.place
        if served is None or not message.has_params:
            return
        if (request.caller is None or request.caller is UNNAMED) and self.carries_many:
            served, place = self._forget_session(served), None
        if served is not self._served or place is not self._place:
            self._served, self._place = served, place
            self._context = json_text.encode(self._describe(served, place)).encode()
            self._member = b'"%b":%b' % (KEY.encode(), self._context)
        if KEY in message.meta:
            # One that arrives from outside is never trusted. All are replaced: a reader that
            # takes the first of several must not get a foreign one.
            given = message.raw("params", "_meta", KEY)
            outer = given if isinstance(message.meta[KEY], dict) else b""
            context = self._nest(outer)
            edits += ((*span, context) for span in message.find_all(KEY, "params", "_meta"))
        elif self._read_outer is None:
            edits.append(message.add_to_meta(self._member))
        else:
            beyond = self._read_outer()
            outer = json_text.encode(beyond).encode() if beyond else b""
            edits.append(message.add_to_meta(b'"%b":%b' % (KEY.encode(), self._nest(outer))))

    def find_member(self, request: Request) -> bytes:
        """Return what was added to the `_meta` of a call, with a comma; empty if it may differ."""
        is_same = request.served is self._served and request.place is self._place
        return self._member + b"," if is_same else b""

    def _nest(self, outer: bytes) -> bytes:
        return self._context[:-1] + b',"outer":' + outer + b"}" if outer else self._context

    def _forget_session(self, served: Served) -> Served:
        if self._unnamed is None or self._unnamed[0] is not served:
            self._unnamed = (served, served.forget_session())
        return self._unnamed[1]

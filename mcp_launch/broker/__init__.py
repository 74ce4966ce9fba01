"""Pass messages between the host and the server, one at a time.

A line from the host is held until it is complete, because its session decides whether it
may pass. A line that is not a message passes unchanged, unless a server with another
parser might find a message in it.
"""

from __future__ import annotations

from mcp_launch import protocol, trace
from mcp_launch.broker.calls import ACTING, KEY, Refused
from mcp_launch.broker.replacement import Replacement
from mcp_launch.broker.server_messages import Roots, ServerMessages
from mcp_launch.protocol import json_edit
from mcp_launch.protocol.requests import Ledger, Opening
from mcp_launch.system import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker.calls import Calls
    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.plan import Plan
    from mcp_launch.protocol.json_text import Json, Message
    from mcp_launch.runtime.relay import Relay
    from mcp_launch.state.leases import Lease
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.spawn import Pipes

# How long to wait before writing the lease, so that one write covers several changes.
_SOON = 0.25

# The first byte of a line that may be a message. The last one starts a byte order mark.
_BEGINNINGS = {b"{", b"[", b"", b"\xef"}

# The members of a message. Go's JSON parser ignores their case.
_MEMBERS = {"jsonrpc", "id", "method", "params", "result", "error"}

# How many refused calls are remembered, in case the host cancels one.
_REFUSED_LIMIT = 64


class Connection:
    """The connection from the host: receives its data and relays the messages that may pass."""

    def __init__(
        self,
        relay: Relay,
        calls: Calls,
        lease: Lease,
        decide: Callable[[Context], Plan],
        start: Callable[[Plan], tuple[Guardian, Pipes]],
    ) -> None:
        self.relay = relay
        self.calls = calls
        self.opening = Opening()
        self.ledger = Ledger()
        self.roots = Roots(self)
        self.replacement = Replacement(self, decide, start)
        self.server_messages = ServerMessages(self)
        self._lease = lease
        self._asked = self.ledger.asked
        self._has_news = False
        self._parts: list[bytes] = []  # the beginning of a line from the host
        self._is_passing = False  # the beginning of a line that is not a message has passed
        self._refused: dict[bytes, None] = {}

    def recognise(self, data: bytes) -> bytes:
        """Return the bytes for the server if this is one complete call that needs no check.

        Return nothing for anything else, which `take_data` must handle.
        """
        start = protocol.find_usual_meta(data)
        if not start or self.replacement.is_away or self.roots.is_due:
            return b""
        if self._parts or self._is_passing:
            return b""  # the end of another line
        context = self.calls.recognise(data, start)
        if not context:
            return b""
        key = protocol.read_usual_id(data, start)
        self._asked[key] = ("tools/call", data)
        if not self._has_news:
            self.note_news()
        return b"".join((data[: start + 1], KEY.quoted, context, b",", data[start + 1 :]))

    def take_data(self, data: bytes) -> None:
        """Handle data from the host, however it is split into chunks."""
        if data.find(b"\n") == len(data) - 1 and not self._parts and not self._is_passing:
            self.take(data)
            return
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            self._parts.append(data[start:end])
            start = end
            self.take_rest()
        if start < len(data):
            self._hold(data[start:])

    def take_rest(self) -> None:
        """Handle the line held so far: it is complete, or the host has closed its end."""
        line, self._parts = b"".join(self._parts), []
        was_passing, self._is_passing = self._is_passing, False
        if was_passing and not protocol.may_hide_a_message(line):
            self._pass(line)
        elif line:
            if was_passing:
                self._pass(b"\n")  # end the part that has passed
            self.take(line)

    def take(self, line: bytes) -> None:
        """Handle one line."""
        if protocol.has_stray_return(line):
            joined = json_edit.join_line(line)
            line = joined if json_edit.list_values(joined) else line
        # Without the word "method" there is none, unless one of its letters is escaped.
        if protocol.has_no_method(line):
            self._take_answer(line)
            return
        said = protocol.look(line)
        if isinstance(said, dict) and _is_ambiguous(said):
            text = "[mcp-launch] not delivered: members of this message are capitalised wrongly"
            request_id = json_edit.read_raw(line, "id")
            self.relay.say(protocol.make_error(request_id, protocol.INVALID_REQUEST, text))
        elif not isinstance(said, dict) or not isinstance(said.get("method"), str):
            self._take_oddity(said, line)
        elif self.replacement.is_away:
            self.replacement.take(said, line)
        else:
            self._take_request(said, line)

    def _hold(self, part: bytes) -> None:
        """Keep the beginning of a line, unless the line cannot be a message."""
        if not self._parts and not self._is_passing:
            self._is_passing = part.lstrip(b" \t\r")[:1] not in _BEGINNINGS
        if self._is_passing and not self._parts and b"{" not in part:
            self._pass(part)
        else:
            self._parts.append(part)

    def _pass(self, data: bytes) -> None:
        if self.replacement.is_away:
            self.replacement.take(None, data)
        else:
            self.relay.deliver(data)

    def _take_oddity(self, said: Json, line: bytes) -> None:
        if isinstance(said, dict):
            self._take_answer(line)
            return
        # A batch (2025-03-26), or several messages in one line, which some servers accept.
        parts = json_edit.list_elements(line) if said is not None else json_edit.list_values(line)
        messages = [protocol.look(part) for part in parts]
        if not parts and protocol.may_hide_a_message(line):
            text = "[mcp-launch] not delivered: this line cannot be read as JSON"
            self.relay.say(protocol.make_error(b"null", protocol.PARSE_ERROR, text))
            return
        pairs = zip(messages, parts, strict=True)
        is_judged = any(_concerns_us(one) or _is_unreadable(one, part) for one, part in pairs)
        if is_judged or self.replacement.is_away:
            for part in parts:
                self.take(part)  # each call is checked, and waits if it must
            return
        for one, part in zip(messages, parts, strict=True):
            if isinstance(one, dict) and protocol.is_request(one):
                self.ledger.note_request(one, part)
        self._pass(line)

    def _take_request(self, said: Message, line: bytes) -> None:
        is_call = said["method"] == "tools/call"
        if is_call and self.roots.is_due and self.roots.hold_call(line):
            return
        verdict = self.calls.admit(said, line)
        if isinstance(verdict, bytes):
            if said.get("id") is None:
                self._take_notification(said, verdict)
                return
            self.ledger.note_request(said, line)
            if self.calls.has_changed:
                self._publish_change()  # first: a launch below this one may read it at once
            self.relay.deliver(verdict)
            if is_call:
                self.note_news()
            elif said["method"] == "tools/list":
                self.server_messages.wait_as_needed()
            if not self.opening.is_over or said["method"] == "initialize":
                self.opening.hear_host(said, line)
            return
        refused = verdict.reason if isinstance(verdict, Refused) else None
        if not isinstance(verdict, Refused):
            refused = self.replacement.replace(verdict, line)
        if refused is not None:
            self._refuse(said, line, refused)

    def _publish_change(self) -> None:
        self.calls.has_changed = False
        self._has_news = True
        self.write_lease()

    def _refuse(self, said: Message, line: bytes, reason: str) -> None:
        self.note_news()
        request_id = said.get("id")
        if request_id is None:
            return  # a notification has no answer
        self._refused[protocol.spell(request_id)] = None
        if len(self._refused) > _REFUSED_LIMIT:
            del self._refused[next(iter(self._refused))]
        self.relay.say(protocol.make_refusal(line, f"[mcp-launch] {reason}"))

    def _take_notification(self, said: Message, line: bytes) -> None:
        method = said["method"]
        if method == "notifications/cancelled":
            key = protocol.spell(protocol.get_member(said, "params", "requestId"))
            if key in self._refused:
                del self._refused[key]
                return
            was_asked = self.ledger.note_answer(key) is not None  # no answer will come
            self.server_messages.wait_as_needed()
            if self.replacement.generation and not was_asked:
                return  # the server that got the request has answered, or is gone
        self.relay.deliver(line)
        if method == "notifications/initialized":
            self.opening.initialized = line
            self.roots.expect()
        elif method == "notifications/roots/list_changed":
            self.roots.expect()

    def _take_answer(self, line: bytes) -> None:
        replacement = self.replacement
        if not (self.ledger.wanted or self.roots.is_asking or replacement.generation):
            self._pass(line)
            return
        said = protocol.look(line)
        if not isinstance(said, dict) or not protocol.is_answer(said):
            self._pass(line)
            return
        key = protocol.spell(said["id"])
        if self.roots.hear_own(key, said):
            return
        wanted = self.ledger.note_reply(key)
        if wanted is None and replacement.generation and key:
            trace.note("an answer to a server that is gone was dropped")
            return
        if wanted is not None:
            method, raw_id, own = wanted
            line = json_edit.replace(line, raw_id, "id") if own != key else line
            if method == "roots/list":
                self.roots.hear(said)
        if replacement.is_away:
            replacement.take(said, line)
        else:
            self.relay.deliver(line)

    def note_news(self) -> None:
        """Schedule a write of the lease; it covers everything that happens until then."""
        if not self._has_news:
            self._has_news = True
            kernel.wake_after(_SOON)

    def write_lease(self) -> None:
        """Write the lease if anything has changed."""
        if not self._has_news:
            return
        self._has_news = False
        self._lease.write(
            **self.calls.describe(),
            opened_with=self.opening.era,
            noise=self.relay.guard.noise_count,
            restarts=self.replacement.generation,
            roots=self.roots.paths,
        )

    def leave_to(self, error: LaunchError) -> None:
        """Store the unanswered requests and the beginning of a line in the error."""
        unfinished = [line for _, line in self.ledger.list_unfinished()]
        error.pending = unfinished + self.replacement.list_waiting()
        error.unfinished = b"".join(self._parts)


def _concerns_us(said: Json) -> bool:
    """Return whether a message has to be checked."""
    if not isinstance(said, dict):
        return False
    has_meta = protocol.get_member(said, "params", "_meta") is not None
    return str(said.get("method")) in ACTING or has_meta


def _is_ambiguous(said: Message) -> bool:
    """Return whether a server that ignores case may read a member that we do not."""
    if any(name not in _MEMBERS and name.casefold() in _MEMBERS for name in said):
        return True
    params = said.get("params")
    names = params if isinstance(params, dict) else ()
    return any(name != "_meta" and name.casefold() == "_meta" for name in names)


def _is_unreadable(said: Json, part: bytes) -> bool:
    """Return whether we cannot parse this, but another parser may find a message in it."""
    return said is None and protocol.may_hide_a_message(part)

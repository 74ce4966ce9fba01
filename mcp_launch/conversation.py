"""What host and server say to each other, message by message.

A line of the host's is held until it is whole: whose call it is decides whether it may
pass. Nothing else is held, and what is no message passes as it came.
"""

from __future__ import annotations

from mcp_launch import message, signals, spans, trace
from mcp_launch.calls import ACTING, KEY, Refused
from mcp_launch.hearing import Hearing
from mcp_launch.ledger import Ledger
from mcp_launch.opening import Opening
from mcp_launch.roots import Roots
from mcp_launch.succession import Succession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.calls import Calls
    from mcp_launch.context import Context
    from mcp_launch.errors import LaunchError
    from mcp_launch.guardian import Guardian
    from mcp_launch.jsontext import Json
    from mcp_launch.leases import Lease
    from mcp_launch.message import Message
    from mcp_launch.plan import Plan
    from mcp_launch.relay import Relay
    from mcp_launch.spawning import Pipes

# When the lease is written after there was news: a note is a file written.
_SOON = 0.25

# How a line begins that may be a message: the last is a byte order mark's.
_BEGINNINGS = {b"{", b"[", b"", b"\xef"}

# How many refused calls are remembered for the cancellation that may follow.
_REFUSED_LIMIT = 64


class Conversation:
    """Takes what the host says, and has the relay pass on what may pass."""

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
        self.succession = Succession(self, decide, start)
        self.hearing = Hearing(self)
        self._lease = lease
        self._asked = self.ledger.asked
        self._has_news = False
        self._parts: list[bytes] = []  # the beginning of a line of the host's
        self._is_passing = False  # a line of the host's that is no message
        self._refused: dict[bytes, None] = {}

    def recognise(self, data: bytes) -> bytes:
        """Return what the server gets if this is one call, whole, that needs no judgement.

        Nothing if it is anything else: then it has to be taken.
        """
        start = message.find_usual_meta(data)
        if not start or self.succession.is_away or self.roots.is_due:
            return b""
        if self._parts or self._is_passing:
            return b""  # the end of another line
        context = self.calls.recognise(data, start)
        if not context:
            return b""
        key = message.read_usual_id(data, start)
        self._asked[key] = (int(key), "tools/call", data)
        if not self._has_news:
            self.note_news()
        return b"".join((data[: start + 1], KEY.quoted, context, b",", data[start + 1 :]))

    def take_data(self, data: bytes) -> None:
        """Take what the host said, in whatever pieces it came."""
        if data.find(b"\n") == len(data) - 1 and not self._parts and not self._is_passing:
            self.take(data)
            return
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            part, start = data[start:end], end
            if self._is_passing:
                self._is_passing = False
                self._pass(part)
            else:
                parts, self._parts = [*self._parts, part], []
                self.take(b"".join(parts))
        if start < len(data):
            self._hold(data[start:])

    def take_rest(self) -> None:
        """Pass on the beginning of a line that will have no end."""
        parts, self._parts = self._parts, []
        if parts:
            self.take(b"".join(parts))

    def take(self, line: bytes) -> None:
        """Take a line."""
        # Without the word there can be no method, unless a letter of it is escaped.
        if b'"method"' not in line and b"\\" not in line:
            self._take_answer(line)
            return
        said = message.look(line)
        if not isinstance(said, dict) or not isinstance(said.get("method"), str):
            self._take_oddity(said, line)
        elif self.succession.is_away:
            self.succession.take(said, line)
        else:
            self._take_request(said, line)

    def _hold(self, part: bytes) -> None:
        if not self._parts and not self._is_passing:
            self._is_passing = part.lstrip(b" \t\r")[:1] not in _BEGINNINGS
        if self._is_passing:
            self._pass(part)
        else:
            self._parts.append(part)

    def _pass(self, data: bytes) -> None:
        if self.succession.is_away:
            self.succession.take(None, data)
        else:
            self.relay.deliver(data)

    def _take_oddity(self, said: Json, line: bytes) -> None:
        if isinstance(said, dict):
            self._take_answer(line)
            return
        # A batch (2025-03-26), or several messages in one line: some servers read them so.
        parts = spans.list_elements(line) if said is not None else spans.list_values(line)
        messages = [message.look(part) for part in parts]
        if any(_concerns_us(one) for one in messages):
            for part in parts:
                self.take(part)  # a call in it is a call
            return
        for one, part in zip(messages, parts, strict=True):
            if isinstance(one, dict) and message.is_request(one):
                self.ledger.note_request(one, part)
        self._pass(line)

    def _take_request(self, said: Message, line: bytes) -> None:
        is_call = said["method"] == "tools/call"
        if is_call and self.roots.is_due and self.roots.detain(line):
            return
        verdict = self.calls.admit(said, line)
        if isinstance(verdict, bytes):
            if said.get("id") is None:
                self._take_notification(said, verdict)
                return
            self.ledger.note_request(said, line)
            if self.calls.has_changed:
                self._tell_change()  # first: a launch below this one may ask in a moment
            self.relay.deliver(verdict)
            if is_call:
                self.note_news()
            elif said["method"] == "tools/list":
                self.hearing.wait_as_needed()
            if not self.opening.is_over or said["method"] == "initialize":
                self.opening.hear_host(said, line)
            return
        refused = verdict.reason if isinstance(verdict, Refused) else None
        if not isinstance(verdict, Refused):
            refused = self.succession.replace(verdict, line)
        if refused is not None:
            self._refuse(said, refused)

    def _tell_change(self) -> None:
        self.calls.has_changed = False
        self._has_news = True
        self.write_lease()

    def _refuse(self, said: Message, reason: str) -> None:
        self.note_news()
        request_id = said.get("id")
        if request_id is None:
            return  # a notification has no answer
        self._refused[message.spell(request_id)] = None
        if len(self._refused) > _REFUSED_LIMIT:
            del self._refused[next(iter(self._refused))]
        text = f"[mcp-launch] {reason}"
        self.relay.say(message.make_error(request_id, message.SERVER_ERROR, text))

    def _take_notification(self, said: Message, line: bytes) -> None:
        method = said["method"]
        if method == "notifications/cancelled":
            key = message.spell(message.get_member(said, "params", "requestId"))
            if key in self._refused:
                del self._refused[key]
                return
            self.ledger.note_answer(key)  # there will be none
            self.hearing.wait_as_needed()
        self.relay.deliver(line)
        if method == "notifications/initialized":
            self.opening.initialized = line
            self.roots.expect()
        elif method == "notifications/roots/list_changed":
            self.roots.expect()

    def _take_answer(self, line: bytes) -> None:
        succession = self.succession
        if not (self.ledger.wanted or self.roots.is_asking or succession.generation):
            self._pass(line)
            return
        said = message.look(line)
        if not isinstance(said, dict) or not message.is_answer(said):
            self._pass(line)
            return
        key = message.spell(said["id"])
        if self.roots.hear_own(key, said):
            return
        wanted = self.ledger.wanted.pop(key, None)
        if wanted is None and succession.generation:
            trace.note("an answer to a server that is gone was dropped")
            return
        if wanted is not None and wanted[1] == "roots/list":
            self.roots.hear(said)
        line = self.hearing.translate(key, line)
        if succession.is_away:
            succession.take(said, line)
        else:
            self.relay.deliver(line)

    def note_news(self) -> None:
        """Have the lease written soon, once for all that happens until then."""
        if not self._has_news:
            self._has_news = True
            signals.wake_after(_SOON)

    def write_lease(self) -> None:
        """Write what has been learned, if anything has."""
        if not self._has_news:
            return
        self._has_news = False
        self._lease.write(
            **self.calls.describe(),
            opened_with=self.opening.era,
            noise=self.relay.guard.noise_count,
            restarts=self.succession.generation,
            roots=self.roots.told,
        )

    def leave_to(self, error: LaunchError) -> None:
        """Note in an error what is still to be answered, and the beginning of a line."""
        waiting = [(asked[0], asked[1]) for asked in self.ledger.list_unfinished()]
        error.pending = waiting + self.succession.list_waiting()
        error.unfinished = b"".join(self._parts)


def _concerns_us(said: Json) -> bool:
    """Tell whether a message would have to be judged."""
    if not isinstance(said, dict):
        return False
    has_meta = message.get_member(said, "params", "_meta") is not None
    return str(said.get("method")) in ACTING or has_meta

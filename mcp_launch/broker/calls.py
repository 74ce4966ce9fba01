"""Decide for each host request whether the server may get it, and add its session to `_meta`.

What the host says about a single call outweighs all evidence from the start. The server
finds the session in the call's `_meta`, under a name of ours. A value that arrives under
that name comes from another launch or from the client itself, and is never trusted.
"""

from __future__ import annotations

from time import time as _now

from mcp_launch import protocol, trace
from mcp_launch.broker import routing
from mcp_launch.broker.routing import Binding
from mcp_launch.launch.context import is_inside
from mcp_launch.protocol import json_edit, json_text
from mcp_launch.state import leases
from mcp_launch.values import Found, Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.outer_launch import Outer
    from mcp_launch.hosts import Caller
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.plan import Plan
    from mcp_launch.launch.profile import Profile
    from mcp_launch.protocol.json_text import Json, Message

    Memory = tuple[Binding, Found | Missing, Found | Missing, Found, Found | None]

KEY = json_edit.Name("mcp-launch/context")

# Requests made for a session. Lists and settings concern the host as a whole, unless the
# request itself names a session.
ACTING = {
    "tools/call",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/get",
    "completion/complete",
}


class Refused:
    """A request that must not reach the server, with the reason."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Misplaced:
    """A request that needs a server started for its own session or directory."""

    __slots__ = ("claimed", "place")

    def __init__(self, claimed: Binding, place: Found | None) -> None:
        self.claimed = claimed
        self.place = place


class Calls:
    """Checks requests one by one, and remembers which session the server serves."""

    def __init__(
        self, profile: Profile, found: Context, decided: Plan, outer: Outer | None
    ) -> None:
        self.profile = profile
        self.found = found
        self.decided = decided
        self.bound = routing.bind_at_start(found.identity)
        self.count = 0
        self.refusals = 0
        self.last_call: float | None = None
        self.has_changed = False  # the session, since the lease was last written
        self.root: Found | None = None  # a directory that contradicts the server's own
        self._callers = found.follow_callers()
        self._is_shared = found.facts.carries == "many sessions"
        self._meta_pattern = MetaPattern()
        self._outer = outer
        self._known: Caller | None = None  # the caller whose calls have been checked
        self._place: Found | None = None  # the directory that the last call named
        self._count_at_start = 0  # calls before this server started
        self._context = b""  # for the next call; empty: must be written again
        self._is_simple = False  # the next call gets it unchanged
        self._unknown_context = json_text.encode(self._describe()).encode()

    def admit(self, said: Message, line: bytes) -> bytes | Refused | Misplaced:
        """Return the line for the server, or why the server must not get it."""
        params = said.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        if said["method"] != "tools/call":
            return self._judge_other(said, meta) or line
        caller = self._callers.read(meta if isinstance(meta, dict) else {})
        if (caller != self._known and caller is not None) or self.root is not None:
            verdict = self._judge(caller)
            if verdict is not None:
                return verdict
        self.count += 1
        self.last_call = _now()
        if self.profile.no_meta or not isinstance(params, dict):
            return line
        context = self._choose_context(caller, meta, line)
        return json_edit.put_meta(line, params, meta, KEY, context)

    def recognise(self, line: bytes, start: int) -> bytes:
        """Return what to put before the members of a usual call's `_meta`.

        Return nothing if the call may belong to a session that the server does not serve,
        or is unusual in another way: `admit` must check it.
        """
        if not self._is_simple or self.root is not None:
            return b""
        end = self._meta_pattern.match(line, start)
        if not end:
            end = self._read_usual(line, start)
        if not end or not protocol.is_settled(line, end):
            return b""
        self.count += 1
        self.last_call = _now()
        return self._context

    def _read_usual(self, line: bytes, start: int) -> int:
        read = protocol.read_usual_meta(line, start)
        if read is None or KEY.text in read[0]:
            return 0
        meta, end = read
        caller = self._callers.read(meta)
        # A call that names no caller belongs to the connection's, unless several share it.
        if caller != self._known and (caller is not None or self._is_shared):
            return 0
        if self._callers.is_in_request:
            self._meta_pattern.learn(line, start, meta, self._callers.telling)
        return end

    def note_server(self, decided: Plan) -> None:
        """Note that a fresh server runs."""
        self.decided = decided
        self._count_at_start = self.count
        self._forget_context()

    def bind(self, misplaced: Misplaced) -> None:
        """Make the session and directory of a request the server's own from now on."""
        self._bind(misplaced.claimed)
        self._known = None  # the next call must be checked
        if misplaced.place is not None:
            self.found.move(misplaced.place)
            self.root = None

    def remember(self) -> Memory:
        """Return everything that `bind` changes."""
        found = self.found
        return (self.bound, found.session, found.thread, found.place, self.root)

    def restore(self, memory: Memory) -> None:
        """Undo a `bind`."""
        self.bound, self.found.session, self.found.thread, place, self.root = memory
        self.found.move(place)
        self._forget_context()

    def refresh_session(self) -> None:
        """Read from the host's own record which session the next server will serve."""
        caller = None if self._callers.is_in_request else self._callers.read({})
        if caller is not None and caller[0] != self.bound.session:
            # Only tentative: no call has confirmed it.
            origin = self._callers.origins[0]
            self._bind(Binding("tentative", caller[0], self.bound.thread, origin))
            self._known = None

    def contradict(self, root: Found | None) -> None:
        """Note the directory the host works in, if it is not the server's."""
        self.root = root
        self._place = None
        self._known = None  # the next call must be checked again
        self._forget_context()

    def describe(self) -> dict[str, object]:
        """Return what the lease records about the calls."""
        bound = self.bound
        return {
            "context": _describe_facts(self.found, self.decided.cwd),
            "place_note": self.decided.place_note,
            "binding": {
                "state": bound.state,
                "session": bound.session,
                "thread": bound.thread,
                "evidence": bound.evidence,
            },
            "calls": self.count,
            "refusals": self.refusals,
            "last_call": self.last_call,
        }

    def _judge(self, caller: Caller | None) -> Refused | Misplaced | None:
        claimed = self._read_claim(caller)
        action = routing.judge(
            self.bound,
            claimed,
            carries=self.found.facts.carries,
            held=self.decided.held,
            is_fresh=self.count == self._count_at_start,
            on_change=self.profile.on_change,
        )
        if action == "refuse":
            return self._refuse(
                f"this call belongs to {claimed}, but this server serves {self.bound}"
            )
        place = self._find_place(caller)
        where = routing.judge_place(
            is_elsewhere=place is not None, on_change=self.profile.on_change
        )
        if where == "refuse" and place is not None:
            return self._refuse(
                f"this call belongs to {claimed} in {place.value} ({place.origin}), "
                f"but this server works in {self.decided.cwd.value}"
            )
        if "restart" in {action, where}:
            return Misplaced(claimed, place if where == "restart" else None)
        if caller is not None:
            self._known = caller
            self._bind(claimed)
        self._place = place
        return None

    def _read_claim(self, caller: Caller | None) -> Binding:
        if caller is None:
            return self.bound
        session_origin, thread_origin, _ = self._callers.origins
        return routing.bind_by_call(
            self.bound, caller, thread_origin if caller[1] else session_origin
        )

    def _refuse(self, problem: str) -> Refused:
        self.refusals += 1
        trace.note(f"refused: {problem}")
        return Refused(
            f"{problem}: it was not delivered — fix: call from the session that this "
            "server was started for, or allow calls from other sessions with --on-change follow "
            "or --on-change restart"
        )

    def _find_place(self, caller: Caller | None) -> Found | None:
        """Return the directory of a call's session, if it is not the server's."""
        place = caller[2] if caller else None
        if place is not None and not is_inside(self.found.place.value, [place]):
            return Found(place, self._callers.origins[2])
        return self.root

    def _bind(self, claimed: Binding) -> None:
        session_origin, thread_origin, _ = self._callers.origins
        found, bound = self.found, self.bound
        if claimed.session != bound.session:
            found.session = (
                Found(claimed.session, session_origin)
                if claimed.session
                else Missing(["the call names no session"])
            )
        if claimed.thread != bound.thread and claimed.thread:
            found.thread = Found(claimed.thread, thread_origin)
        if (claimed.session, claimed.thread) != (bound.session, bound.thread):
            trace.note(f"now serves {claimed}, according to {claimed.evidence}")
        before, after = ((one.state, one.session, one.thread) for one in (bound, claimed))
        self.has_changed = self.has_changed or before != after
        self.bound = claimed
        self._forget_context()

    def _forget_context(self) -> None:
        self._meta_pattern = MetaPattern()
        self._context = b""
        self._is_simple = False

    def _judge_other(self, said: Message, meta: Json) -> Refused | Misplaced | None:
        is_claimed = self._callers.is_in_request and isinstance(meta, dict)
        if not is_claimed and said["method"] not in ACTING:
            return None
        caller = self._callers.read(meta if isinstance(meta, dict) else {})
        if caller is None or (caller == self._known and self.root is None):
            return None
        return self._judge(caller)

    def _choose_context(self, caller: Caller | None, meta: Json, line: bytes) -> bytes:
        """Return the context for `_meta`, with an outer launch's context in it."""
        if caller is None and self._is_shared:
            context = self._unknown_context  # it may be any session's
        else:
            context = self._context or json_text.encode(self._describe()).encode()
        if caller == self._known or not self._is_shared:
            self._context = context
            self._is_simple = self._outer is None
        if isinstance(protocol.get_member(meta, KEY.text), dict):
            outer = json_edit.read_raw(line, "params", "_meta", KEY.text)  # as it was sent
        else:
            beyond = self._outer.read() if self._outer else None
            outer = json_text.encode(beyond).encode() if beyond else b""
        return context[:-1] + b',"outer":' + outer + b"}" if outer else context

    def _describe(self) -> dict[str, Json]:
        found, bound = self.found, self.bound
        facts = _describe_facts(found, self._place or self.decided.cwd)
        return leases.name_context(facts, found.launch.value, bound.state, bound.evidence)


class MetaPattern:
    """The text of a `_meta`, with gaps for strings and numbers that do not name the caller."""

    __slots__ = ("_beginning", "_gaps", "_misses")

    def __init__(self) -> None:
        self._beginning = b""  # up to the first gap; empty: no pattern yet
        self._gaps: list[tuple[bytes, bytes]] = []  # what ends each, and the text up to the next
        self._misses = 0

    def match(self, line: bytes, start: int) -> int:
        """Return where the `_meta` that begins at `start` ends, 0 if it does not match."""
        if not self._beginning or not line.startswith(self._beginning, start):
            return 0
        at = start + len(self._beginning)
        for sign, fixed in self._gaps:
            # A string ends with a quote, a number where the fixed text begins.
            end = line.find(sign, at)
            if not line.startswith(fixed, end) or not (sign == b'"' or line[at:end].isdigit()):
                return 0
            at = end + len(fixed)
        if line.find(b"\\", start, at) >= 0:
            return 0  # an escaped quote does not end a string
        self._misses = 0
        return at

    def learn(self, line: bytes, start: int, meta: Message, telling: tuple[str, ...]) -> None:
        """Take this `_meta` as the pattern; members in `telling` must keep their values."""
        self._misses += 1
        # If nothing ever matches, learn less and less often: after 1, 2, 4, 8 … misses.
        if self._misses & (self._misses - 1):
            return
        text = line.decode("ascii")
        end = json_edit.find_end(text, start)
        if "\\" in text[start:end]:
            return  # `match` would reject it
        fixed: list[str] = []
        kinds: list[bool] = []
        at = start
        for name, value_start, value_end in json_edit.list_members(text, start):
            value = meta[name]
            is_text = isinstance(value, str)
            if name in telling or not (is_text or text[value_start:value_end].isdigit()):
                continue
            fixed.append(text[at : value_start + is_text])
            kinds.append(is_text)
            at = value_end - is_text
        fixed.append(text[at:end])
        self._beginning = fixed[0].encode()
        parts = [part.encode() for part in fixed[1:]]
        self._gaps = [
            (b'"' if is_text else part[:1], part)
            for is_text, part in zip(kinds, parts, strict=True)
        ]


def _describe_facts(found: Context, cwd: Found) -> dict[str, Json]:
    return leases.describe_facts(
        host=found.host,
        session=found.session,
        thread=found.thread,
        project_root=found.project_root,
        cwd=cwd,
    )

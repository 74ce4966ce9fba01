"""Which session a request belongs to, which server gets it, and the identity it is stamped with.

Routing is a table over values that never change. The identity stamp is the first of the
policies that every call passes through.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.errors import LaunchError
from mcp_launch.protocol import json_edit, json_text
from mcp_launch.values import Found, Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal, Protocol, TypeVar

    from mcp_launch.hosts import Caller, Callers, Carries, Identity, State
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.plan import Plan
    from mcp_launch.protocol.json_text import Json, Message

    # What to do with a request: give it to a server, to a fresh one in its place, to another
    # one beside it, or to none.
    Action = Literal["deliver", "restart", "open", "refuse"]

    # Returns the context and the plan of a server, which may be in another directory.
    PlanFor = Callable[[Context, Found | None], tuple[Context, Plan]]
    IsInside = Callable[[str, list[str]], bool]
    Describe = Callable[["Served", Found | None], Message]
    ReadOuter = Callable[[], Json]

    class Candidate(Protocol):
        """A server that may get a request."""

        served: Served

        @property
        def was_never_called(self) -> bool:
            """Whether no call was delivered to it yet."""

    SomeCandidate = TypeVar("SomeCandidate", bound=Candidate)

    class Policy(Protocol):
        """Reviews every call on its way to a server, and may change it."""

        def review(self, call: Call) -> bytes:
            """Return the call's line for the server."""


class Rule:
    """What decides about a request if every server serves another session."""

    __slots__ = ("carries", "on_change", "server_limit")

    def __init__(self, carries: Carries, on_change: str, server_limit: int = 1) -> None:
        self.carries = carries
        self.on_change = on_change  # empty: decided by what the host's connections carry
        self.server_limit = server_limit


def route(
    claimed: Binding, backends: Sequence[SomeCandidate], rule: Rule
) -> tuple[Action, SomeCandidate]:
    """Return what to do with a request of the claimed session and thread, and at which backend.

    | the server is | a connection carries | wrong in its environment | `--on-change` | action |
    | --- | --- | --- | --- | --- |
    | unclaimed | any | nothing | any | deliver |
    | unclaimed | any | anything | any | restart |
    | the caller's, or not confirmed | any | nothing, or a default variable | any | deliver |
    | the caller's, or not confirmed | any | a requested variable | any | restart |
    | another caller's | any | any | follow · restart · refuse | deliver · restart · refuse |
    | another caller's | any | any | isolate | open, up to a limit; then restart |
    | another caller's | one thread | any | none | refuse |
    | another caller's | sessions | nothing, or a default variable | none | deliver |
    | another caller's | sessions | a requested variable | none | restart |

    The first row that matches counts. A server is unclaimed if it was never called and no
    session is certain to own it. Of several servers, the caller's own takes precedence, then an
    unclaimed one.
    """
    for backend in backends:
        is_confirmed = backend.served.bound.state == "confirmed"
        if is_confirmed and _is_same(backend, claimed, rule) and not _is_unclaimed(backend, rule):
            return _judge_environment(backend, claimed), backend
    for backend in backends:
        if _is_unclaimed(backend, rule):
            wrong = backend.served.plan.held.find_wrong(claimed.session, claimed.thread)
            return ("restart" if wrong else "deliver"), backend
    backend = backends[0]
    if backend.served.bound.state != "confirmed":
        return _judge_environment(backend, claimed), backend
    if rule.on_change == "isolate" and len(backends) < rule.server_limit:
        return "open", backend
    if rule.on_change:
        return _ACTIONS[rule.on_change], backend
    is_refused = rule.carries == "one thread"
    return ("refuse" if is_refused else _judge_environment(backend, claimed)), backend


def route_place(*, is_elsewhere: bool, on_change: str) -> Action:
    """Return what to do with a request whose session may work in another directory."""
    return _ACTIONS[on_change or "follow"] if is_elsewhere else "deliver"


_ACTIONS: dict[str, Action] = {"follow": "deliver", "refuse": "refuse"}
_ACTIONS |= {"restart": "restart", "isolate": "restart"}


def _judge_environment(backend: Candidate, claimed: Binding) -> Action:
    wrong = backend.served.plan.held.find_wrong(claimed.session, claimed.thread)
    return "restart" if wrong == "requested" else "deliver"


def _is_unclaimed(backend: Candidate, rule: Rule) -> bool:
    """Return whether a server was never called, and no session is certain to own it."""
    is_confirmed = backend.served.bound.state == "confirmed"
    is_settled = is_confirmed and (rule.carries == "one thread" or bool(rule.on_change))
    return backend.was_never_called and not is_settled


def _is_same(backend: Candidate, claimed: Binding, rule: Rule) -> bool:
    bound, is_thread = backend.served.bound, rule.carries == "one thread"
    return claimed.thread == bound.thread if is_thread else claimed.session == bound.session


class Binding:
    """The session and thread a server serves, with the evidence."""

    __slots__ = ("evidence", "session", "state", "thread")

    def __init__(
        self, state: State, session: str | None, thread: str | None, evidence: str
    ) -> None:
        self.state = state
        self.session = session
        self.thread = thread
        self.evidence = evidence

    def __str__(self) -> str:
        """Return the thread or session in words."""
        if self.thread:
            return f"thread {self.thread}"
        return f"session {self.session}" if self.session else "an unknown session"


class Served:
    """What a server serves, and the plan it was started with."""

    __slots__ = ("bound", "context", "plan")

    def __init__(self, context: Context, bound: Binding, plan: Plan) -> None:
        self.context = context
        self.bound = bound
        self.plan = plan

    def forget_session(self) -> Served:
        """Return the same for a call that may be any session's."""
        nobody = Missing(["the host has several sessions, and the call names none"])
        context = self.context.for_session(nobody, nobody) if self.bound.session else self.context
        return Served(context, Binding("unbound", None, None, ""), self.plan)


def bind_at_start(identity: Identity) -> Binding:
    """Return the binding that the evidence at the start allows."""
    session, thread = identity.session, identity.thread
    return Binding(
        identity.state,
        session.value if isinstance(session, Found) else None,
        thread.value if isinstance(thread, Found) else None,
        identity.evidence,
    )


def bind_by_call(bound: Binding, caller: Caller, evidence: str) -> Binding:
    """Return the binding a call names; the same thread keeps its session if none is named."""
    session, thread, _ = caller
    if session is None and thread == bound.thread:
        session = bound.session
    return Binding("confirmed", session, thread, evidence)


def rebind_context(
    context: Context, bound: Binding, claimed: Binding, origins: tuple[str, str, str]
) -> Context:
    """Return the context with the session and thread of another binding."""
    session, thread = context.session, context.thread
    if claimed.session != bound.session:
        missing = Missing(["the call names no session"])
        session = Found(claimed.session, origins[0]) if claimed.session else missing
    if claimed.thread != bound.thread and claimed.thread:
        thread = Found(claimed.thread, origins[1])
    return context.for_session(session, thread)


KEY = json_edit.Name("mcp-launch/context")


class Call:
    """One call, its caller, and the server that gets it."""

    __slots__ = ("_said", "_sent", "caller", "line", "meta", "meta_at", "place", "served")

    def __init__(  # noqa: PLR0913, PLR0917  # a record, made for every call
        self,
        line: bytes,
        said: Message,
        meta: Json,
        meta_at: int,
        caller: Caller | None,
        served: Served,
        place: Found | None,
    ) -> None:
        self.line = self._sent = line  # policies change the first of them
        self._said = said
        self.meta = meta
        self.meta_at = meta_at  # where the first member of `_meta` begins, if that is known
        self.caller = caller
        self.served = served
        self.place = place  # the directory of its session, if it is not the server's

    def parse(self) -> Message:
        """Return the call as the host sent it; one that matches a pattern is parsed only now."""
        return protocol.look(self._sent) if self.meta_at else self._said  # type: ignore[return-value]


class StampIdentity:
    """Writes the caller's session into every call, with what else is known of it."""

    def __init__(self, describe: Describe, shared: Served | None, outer: ReadOuter | None) -> None:
        self._describe = describe
        self._read_outer = outer
        self._shared = shared  # for a call that may be any session's; None: there is only one
        self._served: Served | None = None
        self._place: Found | None = None
        self._context = self._member = b""  # describe these two

    def review(self, call: Call) -> bytes:
        """Return the call's line with the context in it."""
        served, place = call.served, call.place
        if call.caller is None and self._shared is not None:
            served, place = self._shared, None
        if served is not self._served or place is not self._place:
            self._served, self._place = served, place
            self._context = json_text.encode(self._describe(served, place)).encode()
            self._member = KEY.quoted + self._context + b","
        line, at = call.line, call.meta_at
        if at and not self._read_outer:
            return b"".join((line[:at], self._member, line[at:]))
        context = self._context
        if isinstance(call.meta, dict) and isinstance(call.meta.get(KEY.text), dict):
            outer = json_edit.read_raw(line, "params", "_meta", KEY.text)  # as it was sent
        else:
            beyond = self._read_outer() if self._read_outer else None
            outer = json_text.encode(beyond).encode() if beyond else b""
        if outer:
            context = context[:-1] + b',"outer":' + outer + b"}"
        if at:  # not parsed, and perhaps not even JSON
            return b"".join((line[:at], KEY.quoted, context, b",", line[at:]))
        params = call.parse().get("params")
        return json_edit.put_meta(line, params, KEY, context) if isinstance(params, dict) else line


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


class NotAdmitted:
    """A request that must not reach a server, with the reason."""

    __slots__ = ("is_counted", "problem", "reason")

    def __init__(self, problem: str, fix: str, *, is_counted: bool) -> None:
        self.problem = problem
        self.reason = f"{problem} — fix: {fix}"
        self.is_counted = is_counted  # as a refusal; else no server can be started for it


class Admitted:
    """A request that may reach a server: the current one, or a fresh one for its session."""

    __slots__ = ("needs_restart", "served")

    def __init__(self, served: Served, *, needs_restart: bool) -> None:
        self.served = served
        self.needs_restart = needs_restart


class Admission:
    """Decides whether a server may get a request, by its session and that session's directory."""

    def __init__(
        self, rule: Rule, callers: Callers, plan_for: PlanFor, is_inside: IsInside
    ) -> None:
        self._rule = rule
        self._callers = callers
        self._plan_for = plan_for
        self._is_inside = is_inside
        self.identifying = callers.identifying
        self.known: Caller | None = None  # the caller whose calls have been checked
        self.root: Found | None = None  # a directory that contradicts the server's own
        self.place: Found | None = None  # the directory that the last call named, if elsewhere

    def read_caller(self, method: Json, meta: Json) -> Caller | None:
        """Return the caller that a request or the host's record names, if any."""
        callers = self._callers
        if method in ACTING or (callers.is_in_request and isinstance(meta, dict)):
            return callers.read(meta if isinstance(meta, dict) else {})
        return None

    def choose_backend(self, backends: Sequence[SomeCandidate], said: Message) -> SomeCandidate:
        """Return which of several backends a message is for."""
        caller = self.read_caller(said["method"], protocol.get_member(said, "params", "_meta"))
        if caller is None:
            return backends[0]
        return route(bind_by_call(backends[0].served.bound, caller, ""), backends, self._rule)[1]

    def contradict(self, root: Found | None) -> None:
        """Note the directory the host works in, if it is not the server's."""
        self.root = root
        self.place = None
        self.known = None  # the next call must be checked again

    def judge(self, backend: Candidate, caller: Caller | None) -> Admitted | NotAdmitted:
        """Decide about a request whose caller was not checked yet."""
        served, origins = backend.served, self._callers.origins
        claimed = served.bound
        if caller is not None:
            claimed = bind_by_call(claimed, caller, origins[1] if caller[1] else origins[0])
        action, _ = route(claimed, [backend], self._rule)
        place = self._find_place(served, caller)
        where = route_place(is_elsewhere=place is not None, on_change=self._rule.on_change)
        if action == "refuse":
            return _refuse(f"this call belongs to {claimed}, but this server serves {served.bound}")
        if where == "refuse" and place is not None:
            return _refuse(
                f"this call belongs to {claimed} in {place.value} ({place.origin}), "
                f"but this server works in {served.plan.cwd.value}"
            )
        context = rebind_context(served.context, served.bound, claimed, origins)
        if {"restart", "open"} & {action, where}:
            return self._restart(context, claimed, place if where == "restart" else None)
        if caller is not None:
            self.known = caller
        self.place = place
        return Admitted(Served(context, claimed, served.plan), needs_restart=False)

    def _restart(
        self, context: Context, claimed: Binding, place: Found | None
    ) -> Admitted | NotAdmitted:
        try:
            context, plan = self._plan_for(context, place)
        except LaunchError as error:
            return NotAdmitted(error.problem, error.fix, is_counted=False)
        self.known = None  # the next call must be checked
        if place is not None:
            self.root = None
        return Admitted(Served(context, claimed, plan), needs_restart=True)

    def _find_place(self, served: Served, caller: Caller | None) -> Found | None:
        """Return the directory of a call's session, if it is not the server's."""
        place = caller[2] if caller else None
        if place is not None and not self._is_inside(served.context.place.value, [place]):
            return Found(place, self._callers.origins[2])
        return self.root

    def plan_again(self, served: Served) -> tuple[Served, str]:
        """Return what a server like the last one would serve now, or the last with a problem."""
        callers, bound, context = self._callers, served.bound, served.context
        caller = None if callers.is_in_request else callers.read({})
        if caller is not None and caller[0] != bound.session:
            # Only tentative: no call has confirmed it.
            claimed = Binding("tentative", caller[0], bound.thread, callers.origins[0])
            context, bound = rebind_context(context, bound, claimed, callers.origins), claimed
        try:
            context, plan = self._plan_for(context, None)
        except LaunchError as error:
            return served, error.problem
        if bound is not served.bound:
            self.known = None
        return Served(context, bound, plan), ""


def _refuse(problem: str) -> NotAdmitted:
    return NotAdmitted(
        f"{problem}: it was not delivered",
        "call from the session that this server was started for, or allow calls from other "
        "sessions with --on-change follow or --on-change restart",
        is_counted=True,
    )

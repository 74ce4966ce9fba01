"""Which session a request belongs to, which server gets it, and the identity it is stamped with.

Routing is a table over values that never change. The identity stamp is the first of the
policies that every call passes through.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.protocol import json_edit, json_text
from mcp_launch.protocol.memory import LISTS
from mcp_launch.values import Found, Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal, Protocol, TypeVar

    from mcp_launch.hosts import Caller, Carries, Identity, State
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.plan import Plan, Wrong
    from mcp_launch.protocol.json_text import Json, Message

    # What to do with a request: give it to a server, to a fresh one in its place, to another
    # one beside it, or to none.
    Action = Literal["deliver", "restart", "open", "refuse"]

    # Returns the context and the plan of a server, which may be in another directory.
    PlanFor = Callable[[Context, Found | None], tuple[Context, Plan]]
    Describe = Callable[["Served", Found | None], Message]
    ReadOuter = Callable[[], Json]

    class Candidate(Protocol):
        """A server that may get a request."""

        served: Served
        is_sessions_own: bool  # opened for one session, so it works in that session's directory

        @property
        def is_ready(self) -> bool:
            """Whether it takes requests now."""

        @property
        def to_serve(self) -> Served:
            """What it serves, or will serve as soon as it is replaced."""

        @property
        def was_never_called(self) -> bool:
            """Whether no call was delivered to it yet."""

    SomeCandidate = TypeVar("SomeCandidate", bound=Candidate)

    class Policy(Protocol):
        """Reviews every call on its way to a server, and may change or refuse it."""

        def review(self, call: Call) -> bytes | NotAdmitted:
            """Return the call's line for the server, or why it gets none."""


class Rule:
    """What decides about a request if every server serves another session."""

    __slots__ = ("carries", "knows_unnamed", "may_stay", "on_change", "place_action")

    def __init__(
        self, carries: Carries, on_change: str, *, is_host_directory: bool = False
    ) -> None:
        self.carries = carries
        self.on_change = on_change
        # For a request whose session works in another directory. Where the host starts servers
        # in its own, the server's directory says nothing about any session.
        by_default = "restart" if is_host_directory else "follow"
        self.place_action = by_default if on_change == "auto" else on_change
        # Whether a server in the host's directory is better than none: it is what the host wanted.
        self.may_stay = is_host_directory and on_change == "auto"
        # Whether a call that names no session may have to be kept from the servers of named ones.
        self.knows_unnamed = carries == "many sessions" and on_change in {"auto", "isolate"}


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
    | another caller's | any | any | isolate | open |
    | another caller's | any | nothing, or a default variable | auto | deliver |
    | another caller's | one session at a time | a requested variable | auto | restart |
    | another caller's | threads, or many sessions | a requested variable | auto | open |

    The first row that matches counts. A server is unclaimed if it was never called and no
    session is certain to own it. Of several servers, the caller's own takes precedence, then an
    unclaimed one. `isolation` opens at most as many as the user allows. Where a connection
    carries one session at a time, the last one is over: the next needs no server beside its.
    """
    own = [one for one in backends if _is_confirmed(one) and _is_same(one, claimed, rule)]
    for backend in own:
        if not _is_unclaimed(backend, rule):
            return _judge_environment(backend, claimed), backend
    for backend in (*own, *backends):
        if _is_unclaimed(backend, rule):
            wrong = backend.to_serve.plan.held.find_wrong(claimed.session, claimed.thread)
            return ("restart" if wrong else "deliver"), backend
    backend = backends[0]
    if not _is_confirmed(backend):
        return _judge_environment(backend, claimed), backend
    wrong = backend.to_serve.plan.held.find_wrong(claimed.session, claimed.thread)
    if opens_another(rule.on_change, rule.carries, wrong):
        return "open", backend
    if rule.on_change == "auto":
        return _judge_environment(backend, claimed), backend
    return _ACTIONS[rule.on_change], backend


def opens_another(on_change: str, carries: Carries, wrong: Wrong) -> bool:
    """Return whether a session gets a server of its own beside that of another."""
    is_wrong = carries != "one session at a time" and wrong == "requested"
    return on_change == "isolate" or (on_change == "auto" and is_wrong)


def isolates(served: Served, rule: Rule) -> bool:
    """Return whether each session has a server of its own, instead of one for all."""
    wrong: Wrong = "requested" if served.plan.held.is_requested else None
    return opens_another(rule.on_change, rule.carries, wrong)


def route_place(*, is_elsewhere: bool, rule: Rule) -> Action:
    """Return what to do with a request whose session may work in another directory."""
    return _ACTIONS[rule.place_action] if is_elsewhere else "deliver"


_ACTIONS: dict[str, Action] = {"follow": "deliver", "refuse": "refuse"}
_ACTIONS |= {"restart": "restart", "isolate": "restart"}


def _judge_environment(backend: Candidate, claimed: Binding) -> Action:
    wrong = backend.to_serve.plan.held.find_wrong(claimed.session, claimed.thread)
    return "restart" if wrong == "requested" else "deliver"


def _is_confirmed(backend: Candidate) -> bool:
    return backend.to_serve.bound.state == "confirmed"


def _is_unclaimed(backend: Candidate, rule: Rule) -> bool:
    """Return whether a server was never called, and no session is certain to own it."""
    is_settled = _is_confirmed(backend) and rule.on_change != "auto"
    return backend.was_never_called and not is_settled


def _is_same(backend: Candidate, claimed: Binding, rule: Rule) -> bool:
    bound, is_thread = backend.to_serve.bound, rule.carries == "one thread"
    return claimed.thread == bound.thread if is_thread else claimed.session == bound.session


# The caller of a call that may be any session's: one more session, without an id.
UNNAMED: Caller = ("", None, None)


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

    def at(self, place: Found) -> Served:
        """Return the same, now that the host has named the directory."""
        return Served(self.context.at(place), self.bound, self.plan)

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


class NotAdmitted:
    """A request that must not reach a server, with the reason."""

    __slots__ = ("is_counted", "problem", "reason", "recorded")

    def __init__(self, problem: str, fix: str, *, is_counted: bool, recorded: str = "") -> None:
        self.problem = problem
        self.reason = f"{problem} — fix: {fix}"
        self.is_counted = is_counted  # as a refusal; else no server can be started for it
        self.recorded = recorded or problem  # has no value of an argument


class Call:
    """One call, its caller, and the server that gets it."""

    __slots__ = (
        "_said",
        "_sent",
        "caller",
        "changed",
        "line",
        "meta",
        "meta_at",
        "place",
        "served",
    )

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
        self.changed: tuple[str, ...] = ()  # the arguments that were changed

    def parse(self) -> Message:
        """Return the call as the host sent it; one that matches a pattern is parsed only now."""
        return protocol.look(self._sent) if self.meta_at else self._said  # type: ignore[return-value]


class FollowedCall:
    """A call from its arrival to its answer. What few calls need has a default here."""

    has_waited = False  # while a server was being started
    held_since: float | None = None  # while the server has to finish others first
    held = 0.0  # how long it was, in seconds
    said: Message | None = None  # what its line says, if it had to be parsed
    caller: Caller | None = None
    served: Served | None = None  # None: it was not judged yet
    place: Found | None = None  # the directory of its session, if it is not the server's
    pid = 0  # of the server that got it
    whole_length = 0  # of a line that is kept only in part …
    tool = ""  # … without its tool
    changed: tuple[str, ...] = ()  # the arguments that a policy has changed
    deadline = 0.0
    reason = ""  # why no server has answered it
    outcome = ""
    ended = 0.0
    number = answer_length = 0

    def __init__(self, key: bytes, line: bytes, began: float) -> None:
        self.key = key  # its id
        self.line = line  # as the host sent it
        self.began = began

    def parse(self) -> Json:
        """Return what its line says."""
        return self.said or protocol.look(self.line)

    def note_released(self, now: float) -> None:
        """Note that the call is not held back any more, if it was."""
        if self.held_since is not None:
            self.held += now - self.held_since
            self.held_since = None


class StampIdentity:
    """Writes the caller's session into every call, with what else is known of it."""

    def __init__(
        self, describe: Describe, outer: ReadOuter | None, carries_many: Callable[[], bool]
    ) -> None:
        self._describe = describe
        self._read_outer = outer
        self._carries_many = carries_many  # so that an unnamed call may be any session's
        self._unnamed: tuple[Served, Served] | None = None  # the last one, and without a session
        self._served: Served | None = None
        self._place: Found | None = None
        self._context = self._member = b""  # describe these two

    def review(self, call: Call) -> bytes:
        """Return the call's line with the context in it."""
        served, place = call.served, call.place
        if (call.caller is None or call.caller is UNNAMED) and self._carries_many():
            served, place = self._forget_session(served), None
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

    def _forget_session(self, served: Served) -> Served:
        if self._unnamed is None or self._unnamed[0] is not served:
            self._unnamed = (served, served.forget_session())
        return self._unnamed[1]


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

# Notifications that concern the host as a whole, or a request whose server is known. A session
# that one of them names is not a caller: no server is started or replaced for it.
OF_NO_SESSION = {
    "notifications/initialized",
    "notifications/roots/list_changed",
    "notifications/cancelled",
    "notifications/progress",
}

# Requests by which a host does not use its server: they neither wake it nor keep it awake.
CHATTER = {*LISTS, "ping", "initialize", "server/discover", "logging/setLevel"}

# How the requests begin that concern a task, which only the server that made it knows.
TASKS = "tasks/"

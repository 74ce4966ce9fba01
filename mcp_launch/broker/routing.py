"""Which server gets a request: by its caller, and by the directory in which that works.

`ROUTES` is the table for the caller: its session, its thread, and the tree in which it works. A
caller whose tree contradicts the server's directory is routed by `PLACES`. A request that has
waited is routed again, so no queue can misroute.
"""

from __future__ import annotations

from mcp_launch.errors import LaunchError
from mcp_launch.values import Found, Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal, Protocol, TypeVar

    from mcp_launch.broker.commands import Settings
    from mcp_launch.hosts import Caller, Carries, Identity, State
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.plan import Plan
    from mcp_launch.protocol.json_text import Json

    # What to do with a request: give it to a server, to a fresh one in its place, to another
    # one beside it, or to none.
    Action = Literal["deliver", "restart", "open", "refuse"]

    # Returns the context and the plan of a server, which may be in another directory.
    PlanFor = Callable[[Context, Found | None], tuple[Context, Plan]]

    class Candidate(Protocol):
        """A server that may get a request."""

        served: Served
        state: str

        @property
        def to_serve(self) -> Served:
            """What it serves, or will serve as soon as it is replaced."""

        @property
        def was_never_called(self) -> bool:
            """Whether no call was delivered to it yet."""

    SomeCandidate = TypeVar("SomeCandidate", bound=Candidate)

# (whose the server is, what is wrong for the caller in its environment): what to do. A server is
# nobody's if it was never called and no session is certain to own it; it is the caller's if a call
# has proven that, or if no call has proven anything yet.
ROUTES = {
    ("nobody's", "nothing"): "deliver",
    ("nobody's", "a default variable"): "restart",
    ("nobody's", "a requested variable"): "restart",
    ("the caller's", "nothing"): "deliver",
    ("the caller's", "a default variable"): "deliver",
    ("the caller's", "a requested variable"): "restart",
    ("another's", "nothing"): "by rule",
    ("another's", "a default variable"): "by rule",
    ("another's", "a requested variable"): "by rule",
}

# The rule: what to do with a request if every server is another caller's.
RULES: dict[str, Action] = {
    "follow": "deliver",
    "restart": "restart",
    "isolate": "open",
    "refuse": "refuse",
}

# The same for a request whose session works in another directory. A server that is the only one of
# its session can only be replaced.
PLACES: dict[str, Action] = RULES | {"isolate": "restart"}

_WRONG = {None: "nothing", "default": "a default variable", "requested": "a requested variable"}


class Rule:
    """What decides about a request if every server serves another session."""

    __slots__ = ("_carries", "_on_change", "is_automatic", "knows_unnamed", "may_stay", "place")

    def __init__(
        self, carries: Carries, on_change: str, *, is_host_directory: bool = False
    ) -> None:
        self._carries = carries
        self._on_change = on_change
        self.is_automatic = on_change == "auto"
        # Where the host starts servers in its own directory, that says nothing about any session.
        by_default = "restart" if is_host_directory else "follow"
        self.place = PLACES[by_default if self.is_automatic else on_change]
        # Whether a server in the host's directory is better than none: it is what the host wanted.
        self.may_stay = is_host_directory and self.is_automatic
        # Whether a call that names no session may have to be kept from the servers of named ones.
        self.knows_unnamed = carries == "many sessions" and on_change in {"auto", "isolate"}

    def choose(self, wrong: str) -> Action:
        """Return what to do if every server is another caller's.

        By default (`auto`) a server goes on, unless it has a variable that the user asked for.
        Where a connection carries one session at a time, the last one is over then: the next
        needs no server beside its.
        """
        if not self.is_automatic:
            return RULES[self._on_change]
        if wrong != "a requested variable":
            return RULES["follow"]
        is_one = self._carries == "one session at a time"
        return RULES["restart" if is_one else "isolate"]

    def is_same(self, bound: Binding, claimed: Binding) -> bool:
        """Return whether two bindings name the same caller."""
        if self._carries == "one thread":
            return claimed.thread == bound.thread
        return claimed.session == bound.session


def route(
    claimed: Binding, servers: Sequence[SomeCandidate], rule: Rule
) -> tuple[Action, SomeCandidate]:
    """Return what to do with a request of the claimed session and thread, and at which server.

    Of several servers, the caller's own takes precedence, then one that is nobody's.
    """
    own = [
        one for one in servers if is_confirmed(one) and rule.is_same(one.to_serve.bound, claimed)
    ]
    used = [one for one in own if not _is_nobodys(one, rule)]
    free = [one for one in (*own, *servers) if _is_nobodys(one, rule)]
    server = next(iter((*used, *free, *servers)))
    wrong = _WRONG[server.to_serve.plan.held.find_wrong(claimed.session, claimed.thread)]
    if used or not (free or is_confirmed(server)):
        whose = "the caller's"
    else:
        whose = "nobody's" if free else "another's"
    action = ROUTES[whose, wrong]
    return (rule.choose(wrong) if action == "by rule" else action), server  # type: ignore[return-value]


def is_confirmed(server: Candidate) -> bool:
    """Return whether a call has proven whose a server is."""
    return server.to_serve.bound.state == "confirmed"


def _is_nobodys(server: Candidate, rule: Rule) -> bool:
    is_settled = is_confirmed(server) and not rule.is_automatic
    return server.was_never_called and not is_settled


def isolates(served: Served, rule: Rule) -> bool:
    """Return whether each session has a server of its own, instead of one for all."""
    wrong = _WRONG["requested" if served.plan.held.is_requested else None]
    return rule.choose(wrong) == "open"


# The caller of a call that may be any session's: one more session, without an id.
UNNAMED: Caller = ("", None, None)

# Requests made for a session. Lists and settings concern the host as a whole, unless the
# request itself names a session.
_ACTING = {
    "tools/call",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/get",
    "completion/complete",
}


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


class NotAdmitted:
    """A request that must not reach a server, with the reason."""

    __slots__ = ("is_counted", "problem", "reason", "recorded")

    def __init__(self, problem: str, fix: str, *, is_counted: bool, recorded: str = "") -> None:
        self.problem = problem
        self.reason = f"{problem} — fix: {fix}"
        self.is_counted = is_counted  # as a refusal; else no server can be started for it
        self.recorded = recorded or problem  # has no value of an argument


class Router:
    """Decides whether a server may get a request, by its session and that session's directory."""

    def __init__(self, settings: Settings) -> None:
        self.rule = Rule(
            settings.carries, settings.on_change, is_host_directory=settings.is_host_directory
        )
        self.callers = settings.callers
        self.known: Caller | None = None  # the caller whose calls have been checked
        self.root: Found | None = None  # a directory that contradicts the server's own
        self.place: Found | None = None  # the directory that the last call named, if elsewhere
        self.moving: Candidate | None = None  # starts in its session's directory for the first time
        self._settings = settings
        self._in_hosts_directory: Served | None = None  # what was served there
        self._avoided: set[str] = set()  # directories in which the server cannot work

    def read_caller(self, method: str, meta: dict[str, Json]) -> Caller | None:
        """Return the caller that a request or the host's record names, if any."""
        callers, found = self.callers, None
        is_for_all = method == "logging/setLevel"  # even if it names a session
        if method in _ACTING or (callers.is_in_request and meta and not is_for_all):
            found = callers.read(meta)
        is_unnamed = found is None and method == "tools/call" and self.rule.knows_unnamed
        return UNNAMED if is_unnamed else found

    def pick(self, servers: Sequence[SomeCandidate], caller: Caller | None) -> SomeCandidate:
        """Return which of several servers a request is for; the first one if it names nobody."""
        if caller is None:
            return servers[0]
        claimed = bind_by_call(servers[0].served.bound, caller, "")
        action, server = route(claimed, servers, self.rule)
        if action == "open" and server.state != "ready":
            # Any other that would open one does: nobody has to wait for the server of another.
            ready = (one for one in servers if one.state == "ready")
            opening = (one for one in ready if route(claimed, [one], self.rule)[0] == "open")
            server = next(opening, server)
        return server

    def contradict(self, root: Found | None) -> None:
        """Note the directory the host works in, if it is not the server's."""
        self.root = root
        self.place = None
        self.known = None  # the next call must be checked again

    def judge(  # noqa: C901, PLR0911  # one for each verdict
        self,
        server: Candidate,
        caller: Caller | None,
        *,
        may_open: bool = True,
        is_sessions_own: bool = False,
    ) -> tuple[Action, Served] | NotAdmitted:
        """Decide about a request whose caller was not checked yet; return what is served then.

        `may_open`: if not, a server is restarted instead. `is_sessions_own`: it was opened for one
        session, so it works in that session's directory.
        """
        served, origins = server.served, self.callers.origins
        caller = self._name_nobody(served, caller)
        claimed = served.bound
        if caller is not None:
            claimed = bind_by_call(claimed, caller, origins[1] if caller[1] else origins[0])
        action, _ = route(claimed, [server], self.rule)
        place = self._find_place(served, caller)
        where = self.rule.place if place is not None else "deliver"
        if place is not None and is_sessions_own and server.was_never_called:
            where = "restart"
        if action == "refuse":
            return _refuse(f"this call belongs to {claimed}, but this server serves {served.bound}")
        if where == "refuse" and place is not None:
            return _refuse(
                f"this call belongs to {claimed} in {place.value} ({place.origin}), "
                f"but this server works in {served.plan.cwd.value}"
            )
        if action == "open" and may_open:
            return "open", served
        context = rebind_context(served.context, served.bound, claimed, origins)
        if where == "restart":
            self._note_move(server)
        if {"restart", "open"} & {action, where}:
            planned = self._plan(context, claimed, place if where == "restart" else None)
            if not isinstance(planned, NotAdmitted):
                return "restart", planned
            if place is None or self.moving is None:
                return planned
            self._avoid(place.value)
            return self.judge(server, caller, may_open=may_open, is_sessions_own=is_sessions_own)
        if caller is not None:
            self.known = caller
            context = self._confirm_place(context, caller)
        self.place = place
        return "deliver", Served(context, claimed, served.plan)

    def _name_nobody(self, served: Served, caller: Caller | None) -> Caller | None:
        """Return the caller; None for a call without a session if one server serves them all."""
        if caller is not UNNAMED or isolates(served, self.rule):
            return caller
        self.known = caller
        return None

    def _note_move(self, server: Candidate) -> None:
        """Note that a server is to be started in its session's directory instead of the host's."""
        self.moving = server if self.rule.may_stay else None
        if server.served.context.is_host_directory:
            self._in_hosts_directory = server.served

    def _confirm_place(self, context: Context, caller: Caller) -> Context:
        """Return the context without doubts about the directory, if a call names the same."""
        if not context.is_host_directory or not caller[2]:
            return context
        place = context.place.value
        is_same = self.is_at(place, [caller[2]])
        return context.at(Found(place, self.callers.origins[2])) if is_same else context

    def _avoid(self, directory: str) -> None:
        self.moving = None
        self._avoided.add(directory)
        if self.root is not None and self.root.value == directory:
            self.root = None

    def plan_in_hosts_directory(self, served: Served) -> Served | None:
        """Return what to serve in the host's directory, if the server cannot work elsewhere."""
        self.known = None  # the next call must be checked
        self._avoid(served.context.place.value)
        if self._in_hosts_directory is None:
            return None
        context = self._in_hosts_directory.context
        context = context.for_session(served.context.session, served.context.thread)
        try:
            context, plan = self._settings.plan_for(context, None)
        except LaunchError:
            return None
        return Served(context, served.bound, plan)

    def _plan(
        self, context: Context, claimed: Binding, place: Found | None
    ) -> Served | NotAdmitted:
        try:
            context, plan = self._settings.plan_for(context, place)
        except LaunchError as error:
            return NotAdmitted(error.problem, error.fix, is_counted=False)
        self.known = None  # the next call must be checked
        if place is not None:
            self.root = None
        return Served(context, claimed, plan)

    def _find_place(self, served: Served, caller: Caller | None) -> Found | None:
        """Return the directory of a call's session, if it is not the server's but could be."""
        place, found = caller[2] if caller else None, self.root
        if place is not None and not self.is_at(served.context.place.value, [place]):
            found = Found(place, self.callers.origins[2])
        elif found is not None and self.is_at(served.context.place.value, [found.value]):
            found = None  # it contradicts another server
        return None if found is None or self._is_unusable(found.value) else found

    def _is_unusable(self, directory: str) -> bool:
        """Return whether a server cannot work in a directory, so that it stays in the host's."""
        is_avoided = directory in self._avoided or not self._settings.is_directory(directory)
        return self.rule.may_stay and is_avoided

    def is_at(self, place: str, roots: list[str]) -> bool:
        """Return whether a server's directory is that of a session with these roots.

        A session may move within its roots. A host that starts servers in its own directory did
        not choose it for the session, so there only the root itself is right.
        """
        is_inside = self._settings.is_inside
        if not self._settings.is_host_directory:
            return is_inside(place, roots)
        return any(is_inside(place, [root]) and is_inside(root, [place]) for root in roots)

    def plan_again(self, served: Served) -> Served:
        """Return what a server like the last one would serve now.

        Raises:
            LaunchError: It cannot be started now.

        """
        callers, bound, context = self.callers, served.bound, served.context
        caller = None if callers.is_in_request else callers.read({})
        if caller is not None and caller[0] != bound.session:
            # Only tentative: no call has confirmed it.
            claimed = Binding("tentative", caller[0], bound.thread, callers.origins[0])
            context, bound = rebind_context(context, bound, claimed, callers.origins), claimed
        context, plan = self._settings.plan_for(context, None)
        self.known = None
        return Served(context, bound, plan)


def _refuse(problem: str) -> NotAdmitted:
    return NotAdmitted(
        f"{problem}: it was not delivered",
        "call from the session that this server was started for, or remove --on-change refuse",
        is_counted=True,
    )

"""Whether a server may get a request, by its session and the directory in which that works.

Roots are the directories in which a host says that it works. A host whose sessions move without
notice is asked for them, and so is one that starts servers in its own directory. If they
contradict the directory of a server, its calls are routed by `--on-change`; by default (`auto`) a
server in the host's own directory is replaced by one in the session's.

Deciding and asking are one module because every launch needs both, and each module delays it.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.calls import Calls
from mcp_launch.broker.commands import CancelTimer, SetTimer
from mcp_launch.broker.routing import (
    ACTING,
    CHATTER,
    OF_NO_SESSION,
    TASKS,
    UNNAMED,
    Binding,
    NotAdmitted,
    Rule,
    Served,
    bind_by_call,
    isolates,
    rebind_context,
    route,
    route_place,
)
from mcp_launch.broker.waiting import WaitingLine
from mcp_launch.errors import LaunchError
from mcp_launch.protocol import json_edit
from mcp_launch.values import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.commands import Settings
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.broker.routing import Candidate, SomeCandidate
    from mcp_launch.hosts import Caller
    from mcp_launch.launch.context import Context
    from mcp_launch.protocol.json_text import Json, Message

# How long to wait for the server to ask for the host's roots, or for a call, before we ask …
_ASK_AFTER = 0.1
# … and how long a call waits for the answer, if its routing depends on it.
_ANSWER_LIMIT = 2.0

_ORIGIN = "the host's roots/list"


class Admitted:
    """A request that may reach a server: the current one, or a fresh one for its session."""

    __slots__ = ("needs_another", "needs_restart", "served")

    def __init__(
        self, served: Served, *, needs_restart: bool = False, needs_another: bool = False
    ) -> None:
        self.served = served
        self.needs_restart = needs_restart  # in the place of the current one
        self.needs_another = needs_another  # beside the current one


class Admission:
    """Decides whether a server may get a request, by its session and that session's directory."""

    def __init__(self, rule: Rule, settings: Settings) -> None:
        self._rule = rule
        self._callers = callers = settings.callers
        self._plan_for = settings.plan_for
        self._is_inside = settings.is_inside
        self._is_directory = settings.is_directory
        self._is_host_directory = settings.is_host_directory
        self.identifying = callers.identifying
        self.known: Caller | None = None  # the caller whose calls have been checked
        self.root: Found | None = None  # a directory that contradicts the server's own
        self.place: Found | None = None  # the directory that the last call named, if elsewhere
        self.moving: Candidate | None = None  # starts in its session's directory for the first time
        self._in_hosts_directory: Served | None = None  # what was served there
        self._avoided: set[str] = set()  # directories in which the server cannot work

    def read_caller(self, method: Json, meta: Json) -> Caller | None:
        """Return the caller that a request or the host's record names, if any."""
        callers, found = self._callers, None
        # What concerns the host, or a request that was judged before, is nobody's call.
        if method not in OF_NO_SESSION and (
            method in ACTING or (callers.is_in_request and isinstance(meta, dict))
        ):
            found = callers.read(meta if isinstance(meta, dict) else {})
        is_unnamed = found is None and method == "tools/call" and self._rule.knows_unnamed
        return UNNAMED if is_unnamed else found

    def choose_backend(
        self, backends: Sequence[SomeCandidate], said: Message
    ) -> SomeCandidate | None:
        """Return which of several backends a message is for; None if it names no caller."""
        caller = self.read_caller(said["method"], protocol.get_member(said, "params", "_meta"))
        if caller is None:
            return None
        claimed = bind_by_call(backends[0].served.bound, caller, "")
        action, chosen = route(claimed, backends, self._rule)
        if action == "open" and not chosen.is_ready:
            # Any other that would open one does: nobody has to wait for the server of another.
            opening = (one for one in backends if one.is_ready and self._opens(one, claimed))
            chosen = next(opening, chosen)
        return chosen

    def _opens(self, backend: Candidate, claimed: Binding) -> bool:
        return route(claimed, [backend], self._rule)[0] == "open"

    def contradict(self, root: Found | None) -> None:
        """Note the directory the host works in, if it is not the server's."""
        self.root = root
        self.place = None
        self.known = None  # the next call must be checked again

    def judge(
        self, backend: Candidate, caller: Caller | None, *, is_only_choice: bool = False
    ) -> Admitted | NotAdmitted:
        """Decide about a request whose caller was not checked yet.

        `is_only_choice`: no other server can be opened, so this one is restarted instead.
        """
        served, origins = backend.served, self._callers.origins
        caller = self._name_nobody(served, caller)
        claimed = served.bound
        if caller is not None:
            claimed = bind_by_call(claimed, caller, origins[1] if caller[1] else origins[0])
        action, _ = route(claimed, [backend], self._rule)
        place = self._find_place(served, caller)
        where = route_place(is_elsewhere=place is not None, rule=self._rule)
        if place is not None and backend.is_sessions_own and backend.was_never_called:
            where = "restart"
        if action == "refuse":
            return _refuse(f"this call belongs to {claimed}, but this server serves {served.bound}")
        if where == "refuse" and place is not None:
            return _refuse(
                f"this call belongs to {claimed} in {place.value} ({place.origin}), "
                f"but this server works in {served.plan.cwd.value}"
            )
        if action == "open" and not is_only_choice:
            return Admitted(served, needs_another=True)
        context = rebind_context(served.context, served.bound, claimed, origins)
        if where == "restart":
            self._note_move(backend)
        if {"restart", "open"} & {action, where}:
            verdict = self._restart(context, claimed, place if where == "restart" else None)
            if not isinstance(verdict, NotAdmitted) or place is None or self.moving is None:
                return verdict
            self._avoid(place.value)
            return self.judge(backend, caller, is_only_choice=is_only_choice)
        if caller is not None:
            self.known = caller
            context = self._confirm_place(context, caller)
        self.place = place
        return Admitted(Served(context, claimed, served.plan))

    def _name_nobody(self, served: Served, caller: Caller | None) -> Caller | None:
        """Return the caller; None for a call without a session if one server serves them all."""
        if caller is not UNNAMED or isolates(served, self._rule):
            return caller
        self.known = caller
        return None

    def _note_move(self, backend: Candidate) -> None:
        """Note that a server is to be started in its session's directory instead of the host's."""
        self.moving = backend if self._rule.may_stay else None
        if backend.served.context.is_host_directory:
            self._in_hosts_directory = backend.served

    def _confirm_place(self, context: Context, caller: Caller) -> Context:
        """Return the context without doubts about the directory, if a call names the same."""
        if not context.is_host_directory or not caller[2]:
            return context
        place = context.place.value
        is_same = self.is_at(place, [caller[2]])
        return context.at(Found(place, self._callers.origins[2])) if is_same else context

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
            context, plan = self._plan_for(context, None)
        except LaunchError:
            return None
        return Served(context, served.bound, plan)

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
        """Return the directory of a call's session, if it is not the server's but could be."""
        place, found = caller[2] if caller else None, self.root
        if place is not None and not self.is_at(served.context.place.value, [place]):
            found = Found(place, self._callers.origins[2])
        elif found is not None and self.is_at(served.context.place.value, [found.value]):
            found = None  # it contradicts another server
        return None if found is None or self._is_unusable(found.value) else found

    def _is_unusable(self, directory: str) -> bool:
        """Return whether a server cannot work in a directory, so that it stays in the host's."""
        is_avoided = directory in self._avoided or not self._is_directory(directory)
        return self._rule.may_stay and is_avoided

    def is_at(self, place: str, roots: list[str]) -> bool:
        """Return whether a server's directory is that of a session with these roots.

        A session may move within its roots. A host that starts servers in its own directory did
        not choose it for the session, so there only the root itself is right.
        """
        is_inside = self._is_inside
        if not self._is_host_directory:
            return is_inside(place, roots)
        return any(is_inside(place, [root]) and is_inside(root, [place]) for root in roots)

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
        "call from the session that this server was started for, or remove --on-change refuse",
        is_counted=True,
    )


class Roots(Calls):
    """Asks hosts for their directories, and compares them with those of the servers."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        rule = Rule(
            settings.carries, settings.on_change, is_host_directory=settings.is_host_directory
        )
        self._decides_by_place = rule.place_action in {"restart", "refuse"}
        self._admission = Admission(rule, settings)

    def release(self, backend: Backend) -> None:
        """Deliver the messages that were held back."""
        raise NotImplementedError

    def _choose_backend(
        self, connection: HostConnection, said: Message, line: bytes
    ) -> tuple[Backend, bytes]:
        """Return the backend that a message is for, and the message with the ids it knows."""
        method = said["method"]
        mine = [one for one in self.backends.values() if connection.name in one.connections]
        if method == "notifications/cancelled":
            key = protocol.spell(protocol.get_member(said, "params", "requestId"))
            mine = [one for one in mine if one.has_request(connection.name, key)] or mine
        elif method == "notifications/progress":
            asker, token = connection.find_asker(said)
            if token:
                line = json_edit.replace(line, token, "params", "progressToken")
            mine = [one for one in mine if one.name == asker] or mine
        elif len(mine) > 1 and method not in CHATTER:
            chosen = self._admission.choose_backend(mine, said)
            if chosen is None and str(method).startswith(TASKS):
                task = protocol.get_member(said, "params", "taskId")
                mine = [one for one in mine if task in one.task_hosts] or mine
            mine = mine if chosen is None else [chosen]
        return (mine[0] if mine else self._find_backend(connection)), line

    def _expect_roots(self, connection: HostConnection) -> None:
        """Have the roots asked for soon: the host is ready, or its roots have changed."""
        settings = self.settings
        may_be_elsewhere = settings.moves_unannounced or settings.is_host_directory
        is_relevant = may_be_elsewhere and settings.cwd in {"session", "project_root"}
        if is_relevant and connection.supports_roots:
            connection.roots_are_due = True
            connection.roots_were_asked = False
            self.out.append(SetTimer(f"roots {connection.name}", _ASK_AFTER))

    def _ask_for_roots(self, connection: HostConnection) -> None:
        if not connection.roots_were_asked:
            connection.roots_were_asked = True
            request_id = self.make_id()
            connection.roots_key = protocol.spell(request_id)
            self.send_own(connection, protocol.make_request(request_id, "roots/list"))

    def _hold_call(self, connection: HostConnection, backend: Backend, line: bytes) -> bool:
        """Return whether a call has to wait for the roots; if so, keep it."""
        self._ask_for_roots(connection)
        connection.roots_are_due = bool(connection.roots_key)
        if not connection.roots_are_due or not self._decides_by_place:
            return False
        backend.queue.insert(0, WaitingLine(connection.name, line))
        backend.state = "holding"
        self.out.append(SetTimer(f"roots {connection.name}", _ANSWER_LIMIT))
        return True

    def handle_roots_timer(self, connection: HostConnection) -> None:
        """Ask for the roots or, if a call waits for them already, go on without them."""
        if any(backend.state == "holding" for backend in self.backends.values()):
            self._stop_waiting_for_roots(connection)
        else:
            self._ask_for_roots(connection)

    def _note_roots(self, connection: HostConnection, answer: Message) -> None:
        connection.read_roots(answer)
        backend = self._find_backend(connection)
        place, roots = backend.served.context.place, connection.roots
        if self.settings.is_host_directory:
            roots = list(filter(self.settings.is_directory, roots))
        is_elsewhere = bool(roots) and not self._admission.is_at(place.value, roots)
        root = Found(roots[0], _ORIGIN) if is_elsewhere else None
        self._admission.contradict(root)
        if backend.served.context.is_host_directory and roots and not is_elsewhere:
            backend.served = backend.served.at(Found(place.value, _ORIGIN))
        if is_elsewhere:
            self.note(f"the host works in {roots[0]}, the server in {place.value}")
        self.schedule_lease_write()
        self._stop_waiting_for_roots(connection)

    def _stop_waiting_for_roots(self, connection: HostConnection) -> None:
        connection.roots_are_due = False
        self.out.append(CancelTimer(f"roots {connection.name}"))
        for backend in [*self.backends.values()]:
            self.release(backend)

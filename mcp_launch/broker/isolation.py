"""Several servers behind one host: each session that calls gets its own (`--on-change isolate`).

The first server is the host's: it answers what concerns no session, such as lists, and the host
keeps its lists even if those of another server differ. Every other server is opened by the first
request of a session, greeted as a replacement would be, and kept for that session. If there are
as many as the user allows, the one that has been idle longest is ended to make room for the next
session's. One that is at work is never taken away: then the request is refused.
"""

from __future__ import annotations

from mcp_launch.broker.backend import Backend
from mcp_launch.broker.commands import EndServer
from mcp_launch.broker.replacement import DEATHS_LIMIT, DEATHS_SPAN, Restart
from mcp_launch.broker.routing import NotAdmitted, Served, bind_at_start, opens_another
from mcp_launch.protocol import get_member, look, read_key
from mcp_launch.protocol.framing import StdoutGuard
from mcp_launch.values import DECISION, FAILURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.broker.routing import Binding
    from mcp_launch.hosts import Caller
    from mcp_launch.protocol.json_text import Message


class Isolation(Restart):
    """Opens another server for another session, and goes on with the others if one ends."""

    _first_served: Served | None = None  # what the launch began with

    def open_backend(self, name: str, served: Served) -> Backend:
        """Add a backend, in which a server can run."""
        self._first_served = self._first_served or served
        backend = self.backends[name] = Backend(name, served, self.out)
        backend.learns = self.settings.handshakes is not None
        backend.lines = StdoutGuard(
            backend,
            self._divert,
            self._note_message,
            self._note_long_message,
        )
        has_neighbours = len(self.backends) > 1
        for each in self.backends.values():
            each.has_neighbours = has_neighbours
            each.notes_use = has_neighbours or bool(self.settings.rests_after)
            each.wait_as_needed()
        return backend

    # Another session

    def open_another(
        self, connection: HostConnection, caller: Caller | None, said: Message, line: bytes
    ) -> None:
        """Have a server beside the others handle a request."""
        first = self._find_backend(connection)
        if not connection.handshake.is_ready:
            # Nobody could greet another server yet.
            self._give_to(connection, first, caller, said, line)
            return
        if len(self.backends) < self.settings.server_limit:
            backend = self._open_beside(first)
        else:
            free = self._find_idle_longest()
            if free is None:
                self.refuse(connection, read_key(line), line, self._explain_full())
                return
            backend = free
            limit = self.settings.server_limit
            why = f"of {backend.served.bound} was ended, because --max-servers is {limit}"
            backend.why_replaced = why
        self.add_connection(backend, connection)
        if backend.state == "absent":
            backend.serve_nobody(self._forget_session(backend))
            self.take_line(connection, line)
        else:
            self._give_to(connection, backend, caller, said, line)
            if not backend.is_replacing:
                backend.why_replaced = ""  # the request was refused

    def _give_to(
        self,
        connection: HostConnection,
        backend: Backend,
        caller: Caller | None,
        said: Message,
        line: bytes,
    ) -> None:
        """Have a server that runs handle a request: this one, or the one that replaces it."""
        if self._admit(connection, backend, caller, said, line, is_only_choice=True):
            self.take_line(connection, line)  # it is now the server of this caller

    def _open_beside(self, first: Backend) -> Backend:
        for each in self.backends.values():  # the next line may be another server's
            self._end_unfinished_line(each)
        served = self._first_served or first.served
        backend = self.open_backend(f"server-{len(self.backends) + 1}", served)
        backend.is_sessions_own = True
        # One host, so what it has and what it set is the same for all servers.
        backend.requests.level = first.requests.level
        backend.requests.lists = first.requests.lists
        return backend

    def _forget_session(self, backend: Backend) -> Served:
        """Return what a server serves that is nobody's."""
        served = self._first_served or backend.served
        bound = bind_at_start(served.context.identity)
        if bound.state == "unbound":
            return Served(served.context, bound, served.plan)
        return served.forget_session()

    def _find_idle_longest(self) -> Backend | None:
        """Return the server that may be given to another session; None if all are at work."""
        idle = [
            one
            for one in self.backends.values()
            if not next(self._list_kept(one) if one.state == "absent" else self._list_open(one), "")
        ]
        return min(idle, key=lambda one: (one.state != "absent", one.last_active), default=None)

    def _explain_full(self) -> NotAdmitted:
        return NotAdmitted(
            f"{self.settings.server} already has {self.settings.server_limit} servers for other "
            "sessions, and each is at work or has a subscriber",
            "call again later, or allow more servers with --max-servers",
            is_counted=False,
        )

    def _send_beside_others(self, backend: Backend, data: bytes) -> None:
        """Send the host a server's lines, but not in the middle of another server's.

        A server that has others beside it sends only whole lines. One that began a long line
        before there was another still sends that in pieces.
        """
        others = [one for one in self.backends.values() if one is not backend]
        if any(one.lines.is_within_a_line for one in others):
            self.send_own(self._first(backend), data)
        else:
            self.send_to_host(self._first(backend), data)

    # The end of one of several servers

    def _lose_one_of_many(
        self, backend: Backend, state: str, what_happened: str, unread: bytes
    ) -> bool:
        """Go on with the other servers if one has ended; False if there is no other."""
        if not backend.has_neighbours:
            return False
        if self.phase != "serving":
            others = [one for one in self.backends.values() if one is not backend]
            is_last = all(one.state in {"absent", "failed"} for one in others)
            if is_last or self.failure is not None:
                return False
            self._answer_for_the_last_time(backend, what_happened, unread)
            return True
        if state in {"draining", "ending"}:
            return False  # another one takes its place
        is_over = self.has_no_more_input(backend)
        if not is_over:
            backend.exit_code = None  # not our own: we go on
        self.note(f"the server {what_happened}", DECISION if is_over else FAILURE)
        self._admission.known = None  # the next call must be checked
        backend.requeue(unread)
        self._close_open_requests(backend, what_happened)
        self._start_again_for_waiting(backend, what_happened)
        self.resume_hosts(backend)
        self.schedule_lease_write()
        self._leave_if_absent()
        return True

    def _start_again_for_waiting(self, backend: Backend, what_happened: str) -> None:
        """Give what waits for a server that has ended to another, unless they all end."""
        recent = [one for one in backend.deaths if self.now - one < DEATHS_SPAN]
        backend.deaths = (*recent, self.now)
        if len(backend.deaths) > DEATHS_LIMIT:
            times = f"{len(backend.deaths)} times within a minute"
            self._answer_waiting(backend, f"{what_happened}, {times}", "ask again later")
        waiting, backend.queue = backend.queue, []
        for one in waiting:
            self.take_line(self.connections[one.connection], one.line)

    def _start_next(self, backend: Backend) -> None:
        self._admission.known = None  # another server of this host may be its caller's
        if backend.has_neighbours and self._first(backend).handshake.is_ready:
            backend.is_waking = backend.keeps_order = True  # if this fails, the others go on …
            backend.exit_code = None  # … and we do not end with the code of this one
            self._expect_comparison(backend)
        self._forget_other_session(backend, backend.to_serve)
        super()._start_next(backend)

    def _start(self, backend: Backend, served: Served) -> None:
        self._forget_other_session(backend, served)
        super()._start(backend, served)

    def _forget_other_session(self, backend: Backend, served: Served) -> None:
        """Forget what a session has subscribed to, if the next server is only another session's."""
        bound, settings = served.bound, self.settings
        wrong = backend.served.plan.held.find_wrong(bound.session, bound.thread)
        if opens_another(settings.on_change, settings.carries, wrong):
            before = backend.served.bound
            is_others = (before.session, before.thread) != (bound.session, bound.thread)
            if before.state == "confirmed" and is_others:
                backend.calls_of_others = backend.calls
            subscriptions = backend.requests.subscriptions
            for uri in [uri for uri, line in subscriptions.items() if self._is_others(line, bound)]:
                del subscriptions[uri]

    def _is_others(self, line: bytes, bound: Binding) -> bool:
        """Return whether a request names another session; most name none."""
        meta = get_member(look(line), "params", "_meta")
        caller = self._admission.read_caller("resources/subscribe", meta) if meta else None
        return caller is not None and caller[0] not in {None, bound.session}

    def _end_one_of_many(self, backend: Backend) -> bool:
        """End a server that no longer reads or writes, if there are others for its host."""
        if not backend.has_neighbours:
            return False
        self.out.append(EndServer(backend.name, "replaced"))
        return True

"""When a server may rest: it is ended after some time without a call, and started for the next.

Nothing may be open, in either direction. A server that was called may also have state in its
memory. No sign tells every such server, so it is the user who lets a server rest (`--rest`); a
sign only keeps one awake: another program as its child, a socket it listens on, a notification
that no request has led to, an unfinished task. A server that was never called has nothing to
lose.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.absence import Absence
from mcp_launch.broker.commands import SetTimer
from mcp_launch.broker.routing import CHATTER, TASKS
from mcp_launch.protocol.memory import ANNOUNCED_BY
from mcp_launch.values import REST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.broker.backend import Backend
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.protocol.requests import Ticket

# What keeps a server awake for a moment, and is not worth a line in the log.
_BUSY = "a request is open"

# How long after its start a server may send notifications that are no sign of state: some
# announce their lists once they have loaded them.
BOOT_TIME = 1.0

# The states of a task that will not change any more.
_FINISHED = {"completed", "failed", "cancelled"}

# Streams of these keep no server awake: a new server gets them again, and its lists are compared.
_LIST_CHANGES = {f"{what}ListChanged" for what in ANNOUNCED_BY.values()}


# How many tasks of a server are remembered, finished or not.
_TASKS_LIMIT = 10_000

# How long to wait if a server that was started only to compare its lists cannot be ended yet.
_CHECK_AGAIN = 10.0


class Rest(Absence):
    """Ends servers that nobody calls."""

    def expect_rest(self, backend: Backend) -> None:
        """Look after some time whether the server may rest."""
        if self.settings.rests_after:
            backend.last_active = backend.ready_since = self.now
            self.out.append(SetTimer(f"rest {backend.name}", self.settings.rests_after))

    def rest_if_unused(self, backend: Backend) -> None:
        """End a server that was started only to compare its lists, as soon as nothing is open."""
        if next(self._list_open(backend), ""):
            self.out.append(SetTimer(f"rest {backend.name}", self._wait))
        else:
            self.rest(backend)

    @property
    def _wait(self) -> float:
        return self.settings.rests_after or _CHECK_AGAIN

    def consider_rest(self, backend: Backend) -> None:
        """End a server that was not called for long enough, unless something keeps it awake."""
        wait = backend.last_active + self._wait - self.now
        if not self.settings.rests_after and not backend.is_unused:
            return  # it was started only to compare its lists, and is needed now
        if wait <= 0:
            wait = self._wait
            reason = self._find_reason_to_stay(backend)
            if not reason:
                self.rest(backend)
                return
            if reason not in {_BUSY, backend.why_awake}:
                backend.why_awake = reason
                self.note(f"the server does not rest: {reason}")
        self.out.append(SetTimer(f"rest {backend.name}", wait))

    def rest(self, backend: Backend) -> None:
        """End a server that nobody needs now."""
        backend.why_awake = ""
        self.note("the server is ended: nobody calls it; the next call starts it again", REST)
        backend.rest()
        self.schedule_lease_write()

    def _find_reason_to_stay(self, backend: Backend) -> str:
        """Return why a server must not be ended; empty if it may."""
        reason = next(self._list_open(backend), "")
        if reason or backend.is_unused or self.settings.rest_anyway:
            return reason
        if backend.unasked:
            return f"it has sent {backend.unasked} unasked, so it may keep state"
        sign = self.settings.find_state(backend.name)
        return f"{sign}, so it may keep state" if sign else ""

    def _list_open(self, backend: Backend) -> Iterator[str]:
        """Yield what goes on between the hosts and a server."""
        names = backend.connections or self.connections
        connections = [self.connections[name] for name in names]
        requests = backend.requests
        if backend.state != "ready" or not all(one.handshake.is_ready for one in connections):
            yield _BUSY
        if self.phase != "serving" or self.has_no_more_input(backend):
            yield _BUSY
        is_awaited = bool(requests.list_unfinished() or backend.queue or backend.held)
        if is_awaited or backend.own_requests or backend.lines.is_midway:
            yield _BUSY
        for connection in connections:
            if any(one.backend == backend.name for one in connection.server_requests.values()):
                yield _BUSY
        yield from self._list_kept(backend)
        for task in backend.tasks:
            yield f"its task {task} is not finished"

    @staticmethod
    def _list_kept(backend: Backend) -> Iterator[str]:
        """Yield what a later server of the same session has to go on with."""
        requests = backend.requests
        for uri in requests.subscriptions:
            yield f"the host has subscribed to {uri}"
        for line in requests.listening.values():
            wanted = protocol.get_member(protocol.look(line), "params", "notifications")
            if not isinstance(wanted, dict) or not wanted.keys() <= _LIST_CHANGES:
                yield "the host listens to it"

    # Signs of state in what a server sends

    def note_notification(self, backend: Backend, method: Json) -> None:
        """Note a notification that is a sign of state."""
        is_answering = bool(backend.requests.list_unfinished())
        # A list that changes after a call is state: a new server starts with the old one.
        is_list = isinstance(method, str) and method.endswith("/list_changed")
        is_booting = self.now < backend.ready_since + BOOT_TIME
        if backend.is_unused or is_booting or (is_answering and not is_list):
            return
        if method not in {"notifications/cancelled", "notifications/progress"}:
            backend.unasked = str(method)

    def note_use(self, backend: Backend, ticket: Ticket, line: bytes) -> None:
        """Note an answer of a server that may rest."""
        if ticket.method in CHATTER:
            return
        backend.last_active = self.now
        if ticket.method == f"{TASKS}result":
            finished = protocol.get_member(protocol.look(ticket.line), "params", "taskId")
            backend.tasks.discard(str(finished))
        elif b'"taskId"' in line:
            self._note_task(backend, ticket.connection, protocol.look(line))

    def _note_task(self, backend: Backend, connection: str, answer: Json) -> None:
        result = protocol.get_member(answer, "result")
        told = protocol.get_member(result, "task")
        task = told if isinstance(told, dict) else result
        name, state = (protocol.get_member(task, one) for one in ("taskId", "status"))
        if not isinstance(name, str):
            return
        backend.task_hosts.setdefault(name, self._name_owner(connection))
        if state in _FINISHED:
            backend.tasks.discard(name)
        else:
            backend.tasks.add(name)
        if len(backend.task_hosts) > _TASKS_LIMIT:
            finished = (one for one in backend.task_hosts if one not in backend.tasks)
            oldest = next(finished, next(iter(backend.task_hosts)))
            del backend.task_hosts[oldest]
            backend.tasks.discard(oldest)

    def _name_owner(self, connection: str) -> str:
        """Return whose a task is that this connection has made."""
        return connection

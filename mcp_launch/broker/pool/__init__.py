"""Several hosts at one server (`--share project`): a broker whose connections come and go.

Each connection is a launch of its own, which has stamped its calls already. Here ids, progress
tokens and streams get names that no other connection uses, and what belongs to one connection is
kept from the others:

| what | who gets it |
| --- | --- |
| answers, progress, notifications of a stream | the connection that asked, if it is still there |
| a request of the server, its cancellation | the one connection at work; else it is refused |
| `ping`, `roots/list` of the server | answered here: all connections work in one directory |
| a task's status | the connection that the task was made for |
| `resources/updated` | the subscribers |
| log messages | the connections at work, else all, each from its own level on |
| changed lists, and everything else | all |

A server is greeted once, and its answer serves all clients of the same kind (the same protocol
version and capabilities). Clients of another kind get a server of their own. A server that dies
is not replaced here: its connections end with what it has not read, and each launch decides.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker import commands as do
from mcp_launch.broker.pool.client_lines import ClientLines
from mcp_launch.broker.pool.members import ALIVE, Member
from mcp_launch.broker.waiting import WaitingLine
from mcp_launch.protocol import json_edit
from mcp_launch.protocol.framing import CutLine
from mcp_launch.protocol.memory import name_client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.broker.pool.members import SharedServer
    from mcp_launch.errors import LaunchError
    from mcp_launch.protocol.json_text import Message
    from mcp_launch.protocol.requests import Ticket

# The exit code of a server that was killed is larger than this.
_KILLED = 128


class Pool(ClientLines):
    """Has connections join and leave, and ends them with their server."""

    def join(self, name: str, owner: str) -> None:
        """Add a connection."""
        self.connect(name)
        self._members[name] = Member(owner)
        alive = (one for one in self.backends.values() if one.state in ALIVE)
        self.add_connection(next(alive, None) or self.open(), self.connections[name])

    def leave_pool(self, name: str) -> None:
        """Remove a connection, and cancel what the server does for it."""
        connection = self.connections.pop(name)
        owner = self._members.pop(name).owner
        # Not only its own: it may have used another one before it said what it is.
        for backend in [*self.backends.values()]:
            if name in backend.connections:
                backend.connections.remove(name)
            self._cancel_all(backend, name, owner)
            self._refuse_questions(backend, connection)
            self._unsubscribe_all(backend, name)
            self._cancel_tasks(backend, owner)
            self._renew_level(backend)
            self._end_if_unused(backend)

    def _cancel_all(self, backend: Backend, name: str, owner: str) -> None:
        backend.queue = [one for one in backend.queue if one.connection != name]
        greeting = self._greetings[backend.name]
        greeting.waiting = [one for one in greeting.waiting if one.connection != name]
        for known in [key for key, one in backend.requests.open.items() if one.connection == name]:
            backend.requests.close(known)
            self._note_orphan(backend, known, owner)
            reason: Message = {"reason": "the session has ended"}
            cancelled = protocol.make_notification("notifications/cancelled", reason)
            self._send(backend, json_edit.put(cancelled, known, "params", "requestId"))

    def _refuse_questions(self, backend: Backend, connection: HostConnection) -> None:
        for request in connection.server_requests.values():
            if request.backend == backend.name:
                text = "[mcp-launch] the session that was asked has ended"
                error = protocol.make_error(request.raw_id, protocol.NOT_SERVED, text)
                self._send(backend, error)

    def host_closed(self, name: str) -> None:
        """Note that a connection sends nothing more; it may still wait for answers."""
        connection = self.connections[name]
        for is_judged, part in connection.lines.close():
            # The server reads on, so the line needs an end.
            line = part if part.__class__ is CutLine else part + b"\n"
            self._take_part(connection, line, is_judged=is_judged)
        connection.input_has_ended = True
        self._end_if_finished(name)

    def _end_if_finished(self, name: str) -> None:
        """End a connection that sends nothing more and awaits nothing."""
        connection = self.connections.get(name)
        if connection is None or not connection.input_has_ended:
            return
        awaited = [one for one in self.backends.values() if self._is_awaited(one, name)]
        if not awaited and not self._members[name].waiting:
            self._dismiss(name)

    def _is_awaited(self, backend: Backend, name: str) -> bool:
        """Return whether a connection still waits for answers of a server."""
        waiting = (*backend.queue, *self._greetings[backend.name].waiting)
        unfinished = backend.requests.list_unfinished()
        is_waiting = any(one.connection == name for one in waiting)
        return is_waiting or any(ticket.connection == name for ticket in unfinished)

    def reader_lost(self, name: str) -> None:
        """Note that a connection can read nothing more."""
        self._dismiss(name)

    def set_behind(self, name: str, *, is_behind: bool) -> None:
        """Note that a connection has not read what it was sent, or that it has by now."""
        if (member := self._members.get(name)) is None:
            return
        member.is_behind, member.unasked_size = is_behind, 0
        if not is_behind:
            self._note_answered(name)

    def _dismiss(self, name: str, code: int = 0) -> None:
        """Remove a connection, and end it."""
        self.leave_pool(name)
        self.out.append(do.EndConnection(name, code))

    def server_started(self, name: str, pid: int = 0) -> None:
        """Note that a server runs."""
        if self.backends[name].state == "ending":
            return  # nobody needs it any more
        super().server_started(name, pid)
        self._greet(self.backends[name])
        for host in [*self.backends[name].connections]:
            self._end_if_finished(host)  # what has waited may have been refused

    def server_closed_output(self, name: str) -> None:
        """Note that a server has closed its stdout; its last line may have no end."""
        if self.backends[name].lines.is_midway:
            self.server_said(name, b"\n")
        super().server_closed_output(name)

    def _end_one_of_many(self, backend: Backend) -> bool:
        self.out.append(do.EndServer(backend.name, "replaced"))
        return True

    def server_start_failed(self, name: str, error: LaunchError) -> None:
        """Note that a server could not be started."""
        del error  # the runtime reports it to the connections
        self._lose(name, b"")

    def server_gone(self, name: str, unread: bytes, stderr_end: bytes) -> None:
        """Note that all processes of a server are gone, and end its connections."""
        del stderr_end  # each launch has read it
        backend = self.backends[name]
        for ticket in backend.requests.open.values():
            if ticket.method == "server/discover":
                refused = protocol.make_error(b"0", protocol.METHOD_NOT_FOUND, "Method not found")
                kind = name_client(protocol.look_message(ticket.line))
                self._discoveries.setdefault(kind, refused)  # it may have died of it
        self._lose(name, unread)

    def _lose(self, name: str, unread: bytes) -> None:
        backend = self.backends[name]
        backend.note_gone()
        backend.requeue(unread)
        greeting = self._greetings[name]
        # It may have died of the first greeting, unless it was killed.
        was_read = greeting.is_asked and (backend.exit_code or 0) <= _KILLED
        reader = greeting.asker if was_read else ""
        waiting = [one for one in greeting.waiting if one.connection != reader] + backend.queue
        for host in backend.connections:
            waiting += [WaitingLine(host, line) for line in self._members[host].waiting]
        for one in waiting:
            if one.connection in backend.connections:
                line = one.line
                whole = line.restore(line) if isinstance(line, protocol.LongLine) else line
                self.out.append(do.ReturnUnread(one.connection, whole))
        del self.backends[name], self._greetings[name]
        for host in backend.connections:
            if backend.why_ended:
                self.out.append(do.Remark(host, f"the shared server {backend.why_ended}"))
            self._dismiss(host, backend.exit_code or 0)
        self._answer_those_who_moved(backend, greeting)

    def _answer_those_who_moved(self, backend: Backend, greeting: SharedServer) -> None:
        """Answer what a lost server has left open for connections that now use another."""
        for one in greeting.waiting:
            if one.connection in self._members:
                self._members[one.connection].is_greeting = False
        asked: list[Ticket | WaitingLine] = [*backend.requests.open.values(), *greeting.waiting]
        for each in asked:
            if connection := self.connections.get(each.connection):
                text = "[mcp-launch] the server that was asked has ended — fix: ask again"
                refusal = protocol.make_refusal(each.line, text)
                self.answer(connection, each.key or b"", refusal)
        for one in backend.queue:
            if connection := self.connections.get(one.connection):
                self.take_line(connection, one.line)  # it was not read
        self._cancel_server_requests(backend)
        for host in [*self.connections]:
            self._note_answered(host)

"""Messages from a server: which connection gets each one."""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker import commands as do
from mcp_launch.broker.pool.tasks import Tasks
from mcp_launch.broker.server_messages import BATCH_WAS_DROPPED, is_batch
from mcp_launch.protocol import ID_AT, USUAL_BEGINNING, json_edit
from mcp_launch.protocol.requests import SUBSCRIPTION_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.backend import Backend
    from mcp_launch.protocol.json_text import Message

# How long a server may work on a request that was given up, and how many of these are known.
_ORPHANED_FOR = 60.0
_ORPHANS_LIMIT = 1000

# How many bytes that it has not asked for wait for a connection that does not read. What it has
# asked for is limited by itself: meanwhile the server gets none of its requests.
_UNASKED_LIMIT = 32 << 20

_RELATED_TASK = "io.modelcontextprotocol/related-task"


class ServerLines(Tasks):
    """Passes a server's messages on to the connections that they belong to."""

    def pass_answer(self, name: str, data: bytes) -> tuple[str, bytes] | None:
        """Return the connection and the line for one simple answer, which is not parsed.

        None for everything else, which `server_said` handles.
        """
        backend = self.backends[name]
        if backend.lines.is_midway or data.find(b"\n") != len(data) - 1:
            return None
        answered = protocol.read_answered(data)
        ticket = backend.requests.open.get(answered) if answered else None
        if ticket is None or ticket.is_noted or data.rfind(b'"taskId"') >= 0:
            return None
        connection = ticket.connection
        is_leaving = self.connections[connection].input_has_ended or not backend.connections
        if is_leaving or self._members[connection].waiting or not data.startswith(USUAL_BEGINNING):
            return None
        backend.requests.close(answered)
        return connection, b"".join((USUAL_BEGINNING, ticket.id, data[ID_AT + len(answered) :]))

    def _note_message(self, backend: Backend, line: bytes, answered: bytes = b"") -> bytes:
        ticket = backend.requests.open.get(answered) if answered else None
        is_simple = ticket is not None and not (ticket.is_noted or ticket.token)
        if ticket is None or not is_simple or not line.startswith(USUAL_BEGINNING):
            if super()._note_message(backend, line, answered):
                self.note("a line that cannot be read was dropped: whose it is is unknown")
            return b""
        del backend.requests.open[answered]
        name = ticket.connection
        if line.rfind(b'"taskId"') >= 0:
            self.note_use(backend, ticket, line)
        rest = line[ID_AT + len(answered) :]
        self.out.append(do.SendToHost(name, b"".join((USUAL_BEGINNING, ticket.id, rest))))
        self._note_answered(name)
        if not backend.connections:
            self._end_if_unused(backend)
        return b""

    def _note_answer(self, backend: Backend, said: Message, line: bytes) -> bytes:
        key = protocol.spell(said["id"])
        ticket = backend.requests.open.get(key)
        if ticket is None and key not in backend.own_requests:
            # The connection that asked has left, or has cancelled it; a task of it is nobody's.
            self._greetings[backend.name].orphans.pop(key, None)
            self._note_task(backend, "", said)
            self._cancel_tasks(backend, "")
            return b""
        passed = super()._note_answer(backend, said, line)
        if ticket is not None:
            if "error" in said:
                self._forget_refused(backend, ticket)
            self._note_answered(ticket.connection)
        self._end_if_unused(backend)
        return passed

    def _forward_request(self, backend: Backend, said: Message, line: bytes) -> bytes:
        own = {"roots/list": self._roots, "ping": {}}.get(str(said["method"]))
        if own is not None:
            backend.send(protocol.make_result(json_edit.read_raw(line, "id"), own))
            return b""
        task = protocol.get_member(said, "params", "_meta", _RELATED_TASK, "taskId")
        owner = self._find_owner(backend, task)
        is_known = isinstance(task, str) and task in backend.task_hosts
        has_left = bool(owner) and self.connections[owner].input_has_ended
        if not backend.connections or has_left or (is_known and not owner):
            return self._refuse_question(backend, line, "the session that this is for has ended")
        if not owner and self._has_orphans(backend):
            why = "this may be for a session that has ended or cancelled its request"
            return self._refuse_question(backend, line, why)
        at_work = {one.connection for one in backend.requests.list_unfinished()}
        asked = owner or (at_work.pop() if len(at_work) == 1 else "")
        if asked and not self._may_send_unasked(asked, line):
            why = "the session that this is for does not read what it is sent"
            return self._refuse_question(backend, line, why)
        if not owner:
            return super()._forward_request(backend, said, line)
        key = protocol.spell(self.make_id())
        connection = self.connections[owner]
        connection.note_server_request(backend.name, said, json_edit.read_raw(line, "id"), key)
        self.send_to_host(connection, json_edit.replace(line, key, "id"))
        return b""

    def _note_orphan(self, backend: Backend, known: bytes, owner: str) -> None:
        """Note a request whose session does not wait for its answer any more."""
        orphans = self._greetings[backend.name].orphans
        orphans[known] = (owner, self.now)
        if len(orphans) > _ORPHANS_LIMIT:
            del orphans[next(iter(orphans))]

    def _has_orphans(self, backend: Backend) -> bool:
        """Return whether a server may still work for another session than those that it serves."""
        at_work = {one.connection for one in backend.requests.list_unfinished()}
        owners = {self._members[name].owner for name in at_work or backend.connections}
        fresh = self.now - _ORPHANED_FOR
        orphans = self._greetings[backend.name].orphans.values()
        return any(since > fresh and owner not in owners for owner, since in orphans)

    def _pass_to_all(self, backend: Backend, said: Message, line: bytes) -> bytes:
        for name in self._list_recipients(backend, said):
            self._notify_host(backend, name, line)
        return b""

    def _notify_host(self, backend: Backend, connection: str, line: bytes) -> bytes:
        del backend
        if self._may_send_unasked(connection, line):
            self.send_to_host(self.connections[connection], line)
        return b""

    def _may_send_unasked(self, name: str, line: bytes) -> bool:
        """Return whether a connection gets what it has not asked for: it may have to read first."""
        member = self._members[name]
        was_within = member.unasked_size <= _UNASKED_LIMIT
        if member.is_behind:
            member.unasked_size += len(line)
        is_within = member.unasked_size <= _UNASKED_LIMIT
        if was_within and not is_within:
            text = f"this session has {_UNASKED_LIMIT >> 20} MB of notifications to read: "
            text += "further notifications are dropped until it has read these"
            self.out.append(do.Remark(name, text))
        return is_within

    def _list_recipients(self, backend: Backend, said: Message) -> list[str]:
        """Return the connections that get a notification which belongs to no request."""
        method, params = str(said["method"]), said.get("params")
        is_of_stream = protocol.get_member(params, "_meta", SUBSCRIPTION_ID) is not None
        if is_of_stream or method in {"notifications/progress", "notifications/cancelled"}:
            return []  # its request is no longer open
        if method == "notifications/message":
            return self._list_listeners(backend, params)
        if method == "notifications/resources/updated":
            return self._list_subscribers(backend, protocol.get_member(params, "uri"))
        task = protocol.get_member(params, "taskId")
        if task is not None and method.startswith("notifications/tasks"):
            return [owner] if (owner := self._find_owner(backend, task)) else []
        return self._list_greeted(backend)

    def _divert(self, backend: Backend, line: bytes) -> None:
        # Each launch has its own way with a line that is not a message. But the beginning of one
        # is what a dying server has left of an answer to somebody, and so may be an array.
        if line.lstrip().startswith((b"{", b"[")):
            text = "a part of a message was dropped: whose it is is unknown"
            self.note(BATCH_WAS_DROPPED if is_batch(line) else text)
            return
        whole = line if line.endswith(b"\n") else line + b"\n"
        for name in backend.connections:
            self._notify_host(backend, name, whole)

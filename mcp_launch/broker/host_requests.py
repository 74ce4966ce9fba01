"""Lines from a host: which session each belongs to, whether it passes, and which server gets it.

What a single call names takes precedence over everything that was found at the start. A line
that is not a message passes unchanged, unless another reader may find a message in it.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.admission import Roots
from mcp_launch.broker.commands import SendToServer, WriteLease
from mcp_launch.broker.routing import CHATTER, KEY, Call, NotAdmitted
from mcp_launch.broker.waiting import WaitingLine
from mcp_launch.protocol import json_edit
from mcp_launch.protocol.framing import TOO_LONG, read_cut_request
from mcp_launch.protocol.memory import LISTS
from mcp_launch.protocol.requests import Ticket, rename_cancelled
from mcp_launch.values import REFUSAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.commands import Settings
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.broker.routing import Binding
    from mcp_launch.hosts import Caller
    from mcp_launch.protocol.framing import CutLine
    from mcp_launch.protocol.json_text import Json, Message

# Requests that are repeated for a replacement server, or whose answers are read.
_NOTEWORTHY = {
    *LISTS,
    "subscriptions/listen",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
}

_BATCH = (
    "not delivered: this line is an array (a JSON-RPC batch), which MCP removed in 2025-06-18 "
    "— fix: send each message on a line of its own"
)

# Stands for a call that matches the pattern of an earlier one, and need not be parsed.
CALL: Message = {"method": "tools/call"}


class HostRequests(Roots):
    """Checks what hosts send, and delivers it to their servers."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._binding_has_changed = False  # since the lease was written

    def end_if_drained(self, backend: Backend) -> None:
        """End a server that will be replaced, if it has finished its requests."""
        raise NotImplementedError

    def take_unready(
        self, connection: HostConnection, backend: Backend, said: Message, line: bytes
    ) -> bool:
        """Handle a message while no server is ready; False if it has to wait for one."""
        raise NotImplementedError

    def open_another(
        self, connection: HostConnection, caller: Caller | None, said: Message, line: bytes
    ) -> None:
        """Have a server beside the others handle a request."""
        raise NotImplementedError

    def expect_greeting(
        self, connection: HostConnection, backend: Backend, said: Message, line: bytes
    ) -> None:
        """Have the host answered from memory if the server takes long to answer its greeting."""
        raise NotImplementedError

    # A line

    def take_line(self, connection: HostConnection, line: bytes) -> None:
        """Handle a complete line from a host."""
        if line.__class__ is not protocol.LongLine:  # else it has waited, and was prepared before
            is_split = line.find(b"\r") >= 0 and protocol.has_stray_return(line)
            if is_split and protocol.may_hide_a_message(line):
                line = json_edit.join_line(line)
            if len(line) > protocol.LONG_LINE:
                line = protocol.shorten(line)
        said = protocol.look(line)
        if isinstance(said, list):
            self.send_own(connection, self.refuse_batch())
        # Without this word there is no method, unless a letter of it is escaped.
        elif line.find(b'"method"') < 0 and protocol.has_no_method(line):
            self._take_answer(connection, said, line)
        elif not isinstance(said, dict):
            self._take_unreadable(connection, line)
        elif fault := self._find_fault(said, line):
            text = f"[mcp-launch] not delivered: members of this message are {fault}"
            raw_id = json_edit.read_raw(line, "id")
            error = protocol.make_error(raw_id, protocol.INVALID_REQUEST, text)
            self.answer(connection, protocol.spell(said.get("id")), error)
        elif isinstance(said.get("method"), str):
            self._take_request(connection, said, line)
        else:
            self._take_answer(connection, said, line)

    def refuse_batch(self) -> bytes:
        """Return the answer to an array, which only protocol version 2025-03-26 allowed."""
        self.note(f"refused: {_BATCH}", REFUSAL)
        return protocol.make_error(b"null", protocol.INVALID_REQUEST, f"[mcp-launch] {_BATCH}")

    def _take_unreadable(self, connection: HostConnection, line: bytes) -> None:
        if protocol.may_hide_a_message(line):
            text = "[mcp-launch] not delivered: this line cannot be read as JSON"
            self.send_own(connection, protocol.make_error(b"null", protocol.PARSE_ERROR, text))
        else:
            self.pass_on(connection, line)

    def refuse_cut_line(self, connection: HostConnection, line: CutLine) -> None:
        """Refuse a line that was too long to be kept."""
        shown = read_cut_request(line)
        problem = f"not delivered: this message is longer than {TOO_LONG}"
        fix = "send it in parts, or pass the path of a file"
        if "id" in shown:
            asked = protocol.encode({"jsonrpc": "2.0", **shown})
            verdict = NotAdmitted(problem, fix, is_counted=True)
            self.refuse(connection, protocol.spell(shown["id"]), asked, verdict)
        else:
            self.note(f"refused: {problem}", REFUSAL)
            text = f"[mcp-launch] {problem} — fix: {fix}"
            error = protocol.make_error(b"null", protocol.INVALID_REQUEST, text)
            self.send_own(connection, error)

    def _find_fault(self, said: Message, line: bytes) -> str:
        """Return what may make a server read a message in another way than we do."""
        if protocol.is_ambiguous(said):
            return "capitalised wrongly"
        # A call is refused in a way that the model can read.
        tools = self._tools if said.get("method") != "tools/call" else None
        return "repeated" if tools is not None and tools.is_doubtful(line) else ""

    def pass_on(self, connection: HostConnection, data: bytes) -> None:
        """Send a server data that is not a message, unchanged."""
        backend = self._find_backend(connection)
        if not connection.backend:
            self.add_connection(backend, connection)
        if backend.is_ready:
            backend.send(data)
        elif backend.state == "absent":
            self.note("a line that is not a message was dropped: there is no server")
        else:
            backend.keep(connection.name, None, data)

    def _take_answer(self, connection: HostConnection, said: Json, line: bytes) -> None:
        backend = self._find_backend(connection)
        is_awaited = connection.server_requests or connection.roots_key or backend.is_one_of_many
        # It may answer a request of ours that is no longer open.
        is_awaited = is_awaited or b'"mcp-launch/' in line
        if not is_awaited or not isinstance(said, dict) or not protocol.is_answer(said):
            self.pass_on(connection, line)
            return
        key = protocol.spell(said["id"])
        if connection.roots_key and key == connection.roots_key:
            connection.roots_key = b""
            self._note_roots(connection, said)
            return
        request = connection.server_requests.pop(key, None)
        if request is None and key and (backend.is_one_of_many or key.startswith(self.own_ids)):
            self.note("an answer that nobody is waiting for was dropped")
            return
        if request is not None:
            backend = self.backends[request.backend]
            line = json_edit.replace(line, request.raw_id, "id") if request.key != key else line
            if request.method == "roots/list":
                self._note_roots(connection, said)
        if backend.is_ready:
            backend.send(line)
        else:
            backend.keep(connection.name, said, line)

    # A request or a notification

    def _take_request(  # noqa: C901, PLR0912  # on the path of every request
        self, connection: HostConnection, said: Message, line: bytes, meta_at: int = 0
    ) -> None:
        """Handle a message with a method; with `meta_at`, a call that matches the pattern."""
        is_call = said["method"] == "tools/call"
        pattern, followed = connection.pattern, None
        key = pattern.key if meta_at else protocol.read_id(said)
        if is_call and key is not None and self.follows_calls:
            followed = self.follow_call(connection, key, line)
            followed.said = None if meta_at else said
        if is_call and self._tools is not None and not self._may_call(connection, said, line):
            return
        if connection.backend and len(self.backends) == 1:
            backend = self.backends[connection.backend]
        else:
            backend, line = self._choose_backend(connection, said, line)
            self.add_connection(backend, connection)
        if backend.state != "ready":
            self._keep(connection, backend, said, line)
            return
        is_doubtful = is_call and (connection.roots_are_due or backend.gone_tools)
        if is_doubtful and self._stop_call(connection, backend, line):
            return
        admission = self._admission
        if meta_at:
            meta, caller = pattern.meta, pattern.caller
        else:
            params = said.get("params")
            meta = params.get("_meta") if isinstance(params, dict) else None
            caller = admission.read_caller(said["method"], meta)
        # A request from the same caller as the last one need not be judged again.
        is_new = caller is not None and caller != admission.known
        is_away = admission.root is not None and (is_call or caller is not None)
        if followed is not None:
            followed.caller, followed.served = caller, backend.served
        if (is_new or is_away) and not self._admit(connection, backend, caller, said, line):
            return
        delivered = line
        if is_call:
            call = Call(line, said, meta, meta_at, caller, backend.served, admission.place)
            if not self._review(connection, backend, key, call, followed):
                return
            delivered = call.line
            if not meta_at and admission.identifying is not None and isinstance(meta, dict):
                pattern.learn(line, meta, caller, admission.identifying, KEY.text)
        if key is None:
            self._take_notification(connection, backend, said, delivered)
        else:
            self._deliver(connection, backend, key, said, line, delivered)

    def _stop_call(self, connection: HostConnection, backend: Backend, line: bytes) -> bool:
        """Return whether a call is not delivered now: its tool is gone, or it has to wait."""
        said = protocol.look(line) if backend.gone_tools else None
        tool = protocol.get_member(said, "params", "name")
        if isinstance(tool, str) and tool in backend.gone_tools:
            memory = connection.memories[connection.client]
            problem = f"{self.settings.server} no longer has a tool {tool}: its tools have changed"
            fix = "start a new session, or use a tool that it has now: "
            names = memory.list_names("tools/list")
            fix += ", ".join(names if self._tools is None else filter(self._tools.allows, names))
            key = protocol.read_key(line)
            self.refuse(connection, key, line, NotAdmitted(problem, fix, is_counted=False))
            return True
        return connection.roots_are_due and self._hold_call(connection, backend, line)

    def _deliver(  # noqa: C901, PLR0913, PLR0917  # on the path of every request
        self,
        connection: HostConnection,
        backend: Backend,
        key: bytes,
        said: Message,
        line: bytes,
        delivered: bytes,
    ) -> None:
        method: str = said["method"]  # type: ignore[assignment]  # checked in `take_line`
        handshake = connection.handshake
        is_greeting = not handshake.is_over or method == "initialize"
        is_noted = is_greeting or method in _NOTEWORTHY
        ticket = Ticket(connection.name, key, method, line, is_noted=is_noted)
        is_shared = backend.is_shared
        if is_shared or is_noted or key in backend.requests.open:
            sent = backend.requests.send(ticket, said, delivered, is_shared=is_shared)
        else:
            backend.requests.open[key] = ticket
            sent = delivered
        if self._binding_has_changed:
            # Before the request: a launch below this server may read the lease at once.
            self._binding_has_changed = False
            self.out.append(WriteLease(is_urgent=True))
        if line.__class__ is protocol.LongLine:
            sent = line.restore(sent)
            ticket.line = bytes(line)
        if len(line) > protocol.LONG_LINE and "id" in said:
            ticket.line = protocol.condense(line, said)  # saves memory while it is open
        if ticket.line is not line and (followed := connection.calls.get(key)):
            followed.whole_length = getattr(line, "whole_length", len(line))
            followed.line = ticket.line
            followed.tool = str(protocol.get_member(said, "params", "name") or "")
        self.out.append(SendToServer(backend.name, sent))
        if not self.lease_is_due and method == "tools/call":
            self.schedule_lease_write()
        if is_noted or ticket.id:
            backend.wait_as_needed()
        if backend.has_neighbours and method == "logging/setLevel":
            self._set_level_of_others(connection, backend, line)
        if (backend.notes_use or backend.is_unused) and method not in CHATTER:
            backend.last_active = self.now
            # Claude Code opens its stream of list changes before it asks for the first list.
            backend.is_unused &= method == "subscriptions/listen"
        if is_greeting:
            handshake.note_request(said, line)
            self.expect_greeting(connection, backend, said, line)

    def _keep(
        self, connection: HostConnection, backend: Backend, said: Message, line: bytes
    ) -> None:
        """Keep a message for the next server, or for the time when this one is ready."""
        if self.take_unready(connection, backend, said, line):
            return
        if said["method"] == "notifications/progress" and self._is_late(connection, backend, said):
            return
        backend.keep(connection.name, said, line)
        if said["method"] == "tools/call" and backend.state in {"starting", "greeting"}:
            self.note_awaited_start(backend.queue[-1:])
        if said["method"] == "notifications/cancelled":
            key = protocol.spell(protocol.get_member(said, "params", "requestId"))
            self.answer(connection, key, b"")
        self.end_if_drained(backend)

    def _take_notification(
        self, connection: HostConnection, backend: Backend, said: Message, line: bytes
    ) -> None:
        method = said["method"]
        if method == "notifications/cancelled":
            key = protocol.spell(protocol.get_member(said, "params", "requestId"))
            if connection.forget_refusal(key) or backend.drop(connection.name, key):
                self.answer(connection, key, b"")
                return
            known = backend.requests.find(connection.name, key)
            was_open = backend.requests.close(known) is not None  # no answer will come
            self.answer(connection, key, b"")
            backend.wait_as_needed()
            if not was_open and (backend.is_successor or backend.is_one_of_many):
                return  # the server that got the request has answered it, or is gone
            line = rename_cancelled(line, key, known or key)
        if method == "notifications/progress" and self._is_late(connection, backend, said):
            return
        is_repeated = method == "notifications/initialized" and connection.handshake.initialized
        if not is_repeated or not backend.is_shared:
            backend.send(line)
        if backend.has_neighbours and method == "notifications/roots/list_changed":
            self._announce_roots_to_others(connection, backend, line)
        self.note_state_of_host(connection, method, line)

    @staticmethod
    def _is_late(connection: HostConnection, backend: Backend, progress: Message) -> bool:
        """Return whether the server that wanted to know of progress is gone, or was answered."""
        return backend.is_one_of_many and connection.find_asker(progress)[0] != backend.name

    def note_state_of_host(self, connection: HostConnection, method: Json, line: bytes) -> None:
        """Note what a host says of itself."""
        if method == "notifications/initialized":
            connection.handshake.initialized = line
        if method in {"notifications/initialized", "notifications/roots/list_changed"}:
            self._expect_roots(connection)

    # Sessions

    def _admit(  # noqa: PLR0913  # everything that decides about a request
        self,
        connection: HostConnection,
        backend: Backend,
        caller: Caller | None,
        said: Message,
        line: bytes,
        *,
        is_only_choice: bool = False,
    ) -> bool:
        """Return whether the server may get a request; if not, refuse it or keep it for later."""
        is_only_choice = is_only_choice or self.settings.server_limit == 1
        verdict = self._admission.judge(backend, caller, is_only_choice=is_only_choice)
        if isinstance(verdict, NotAdmitted):
            self.refuse(connection, protocol.read_key(line), line, verdict)
            return False
        if verdict.needs_another:
            if said["method"] in CHATTER:
                return True  # lists and settings concern the host as a whole
            self.open_another(connection, caller, said, line)
            return False
        self._note_binding(backend.served.bound, verdict.served.bound)
        if verdict.needs_restart:
            self.note(f"a fresh server is needed for {verdict.served.bound}")
            # `backend.served` does not change yet: it describes the old server until that is gone.
            backend.next_served = verdict.served
            backend.queue.insert(0, WaitingLine(connection.name, line))  # the new one gets it first
            backend.drain()
            self.end_if_drained(backend)
            return False
        backend.served = verdict.served
        return True

    def _note_binding(self, bound: Binding, claimed: Binding) -> None:
        if (claimed.session, claimed.thread) != (bound.session, bound.thread):
            self.note(f"now serves {claimed}, according to {claimed.evidence}")
            # Codex may have all threads of a project speak over one connection.
            is_other = bound.state == "confirmed" and claimed.thread not in {None, bound.thread}
            self.carries_many |= is_other and self.settings.carries == "one thread"
        before, after = ((one.state, one.session, one.thread) for one in (bound, claimed))
        self._binding_has_changed = self._binding_has_changed or before != after

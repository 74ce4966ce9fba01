"""While no server runs: answer the host from memory, start a server for the first real request.

A backend is absent before its first start (`--start`), and while it rests (`--rest`). Memory is
what servers have answered before: to this host, or to another of the same kind. If a server
turns out to have other lists, memory is corrected and the host is notified.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.commands import Forget, Remember, SetTimer
from mcp_launch.broker.host_requests import CALL
from mcp_launch.broker.routing import CHATTER, NotAdmitted, Served
from mcp_launch.broker.server_messages import ServerMessages
from mcp_launch.broker.waiting import WaitingLine
from mcp_launch.errors import LaunchError
from mcp_launch.protocol import json_edit
from mcp_launch.protocol.memory import ANNOUNCED_BY, GREETINGS, LISTS, Remembered, name_client
from mcp_launch.protocol.requests import SUBSCRIPTION_ID, Ticket
from mcp_launch.values import FAILURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.protocol.json_text import Message

# How long a server that was started at once may take to answer the greeting before its host is
# answered from memory: Codex leaves out the tools of a server that is not ready within a second.
PATIENCE = 0.4

# How long to collect answers before they are written to disk. What was never written is not
# collected: Codex 0.125 kills its servers at the end of a session, which may come sooner.
REMEMBER_AFTER = 1.0

# How long to wait before the next attempt after a server could not be started. Each failure
# doubles it, up to the limit.
_RETRY_AFTER = 1.0
_RETRY_LIMIT = 60.0
_DOUBLINGS_LIMIT = 6

# Notifications that mean nothing to a server which is started later.
_FOR_THE_PRESENT = {
    "notifications/initialized",  # repeated to it anyway
    "notifications/roots/list_changed",
    "notifications/progress",
    "notifications/cancelled",
}

_INITIALIZED = "notifications/initialized"

# Requests that a server gets, too, even if we have answered them.
_FOR_THE_SERVER = {"logging/setLevel", "subscriptions/listen"}


class Absence(ServerMessages):
    """Handles what a host sends while no server is there to answer it."""

    def take_unready(
        self, connection: HostConnection, backend: Backend, said: Message, line: bytes
    ) -> bool:
        """Handle a message while no server is ready; False if it has to wait for one."""
        is_absent = backend.state == "absent" and self.phase == "serving"
        if not is_absent and not (backend.is_away and self.phase == "serving"):
            return False
        if said is CALL:
            said = protocol.look_message(line)
            if not said:  # it only begins like a call
                self.take_line(connection, line)
                return True
        method = said["method"]
        if said.get("id") is not None and self._answer_from_memory(connection, backend, said, line):
            return True
        if method == _INITIALIZED and not is_absent:
            # A server that has answered the greeting already still waits for it.
            if backend.is_restored:
                backend.send(line)
            self.note_state_of_host(connection, method, line)
            return True
        if not is_absent:
            return False
        if method in _FOR_THE_PRESENT:
            self.note_state_of_host(connection, method, line)
            self._note_cancellation(connection, backend, said)
            if method == "notifications/roots/list_changed":
                self._announce_roots_to_others(connection, backend, line)
        else:
            self._wake(connection, backend, said, line)
        return True

    def _note_cancellation(
        self, connection: HostConnection, backend: Backend, said: Message
    ) -> None:
        if said["method"] == "notifications/cancelled":
            key = protocol.spell(protocol.get_member(said, "params", "requestId"))
            backend.requests.close(backend.requests.find(connection.name, key))  # a stream
            self.answer(connection, key, b"")

    # Memory

    def _find_memory(self, connection: HostConnection, said: Message) -> Remembered | None:
        """Return the memory for the client that sends a request; a new one is empty."""
        handshakes, client = self.settings.handshakes, name_client(said) or connection.client
        if not client or handshakes is None:
            return None
        if client not in connection.memories:
            kept = handshakes.read(client, self.now)
            connection.memories[client] = kept or Remembered(client, self.now)
        return connection.memories[client]

    def _recall(self, connection: HostConnection, said: Message, line: bytes) -> bytes:
        """Return the answer to a request from memory; empty if it is not known."""
        memory = self._find_memory(connection, said)
        return memory.answer(said, line, self.now) if memory is not None else b""

    def _answer_from_memory(
        self, connection: HostConnection, backend: Backend, said: Message, line: bytes
    ) -> bool:
        """Answer a request without a server; False if that is not possible."""
        method, handshake = str(said["method"]), connection.handshake
        if method in GREETINGS and not self._may_greet(connection, backend, method):
            return False
        if backend.is_restored and method in _FOR_THE_SERVER:
            return False
        if method == "subscriptions/listen":
            return self._hold_stream(connection, backend, said, line)
        answer = self._recall(connection, said, line)
        if not answer and handshake.is_ready and self._is_ours(connection, method):
            answer = protocol.make_result(json_edit.read_raw(line, "id"), {})
            backend.requests.remember(said, b"", line)
            if method == "logging/setLevel":
                self._set_level_of_others(connection, backend, line)
        if not answer:
            return False
        self._note_answer_from_memory(connection, backend, said, line, answer)
        key = protocol.spell(said["id"])
        connection.remember_refusal(key)  # no server knows it
        if method == "tools/list" and self._tools is not None:
            answer = self._tools.filter(answer)
        self.answer(connection, key, answer)
        return True

    def _may_greet(self, connection: HostConnection, backend: Backend, method: str) -> bool:
        """Return whether a greeting may be answered from memory."""
        if connection.handshake.is_over:
            # Claude Code asks for a discovery again whose time to live is over.
            return method == "server/discover" and connection.handshake.era != "initialize"
        return backend.state == "absent"

    def _is_ours(self, connection: HostConnection, method: str) -> bool:
        """Return whether we answer a request in place of any server; its answer says nothing."""
        path = ("result", "capabilities", "logging")
        has_levels = protocol.get_member(connection.handshake.answer, *path) is not None
        return method == "ping" or (method == "logging/setLevel" and has_levels)

    def _note_answer_from_memory(
        self,
        connection: HostConnection,
        backend: Backend,
        said: Message,
        line: bytes,
        answer: bytes,
    ) -> None:
        """Note an answer from memory as if a server had given it."""
        method, given = str(said["method"]), protocol.look_message(answer)
        if method in LISTS:
            backend.requests.remember(said, b"", line)
            backend.requests.note_list(method, given, answer)
        if connection.handshake.is_over:
            return
        connection.handshake.note_request(said, line)
        connection.handshake.note_answer(given)
        self.schedule_lease_write()
        memory = self._find_memory(connection, said)
        if "result" not in given or memory is None:
            return
        connection.client = memory.client
        count = len(memory.list_names("tools/list"))
        known = f"{count} tool{'' if count == 1 else 's'}"
        age = _tell_age(self.now - memory.written)
        self.note(f"the host is answered from memory ({known}, remembered {age} ago)")
        may_start = backend.state == "absent" and self.now >= backend.retry_at
        if may_start and memory.is_due and self.settings.ignores_changes:
            self._check(backend, memory)

    def _check(self, backend: Backend, memory: Remembered) -> None:
        """Start a server only to compare its lists with an old memory."""
        memory.is_due = False
        if self.settings.handshakes is not None:
            self.settings.handshakes.claim_check(memory.client)
        served, problem = self._admission.plan_again(backend.served)
        if not problem:
            self.note("this memory is old: a server is started to compare it")
            backend.is_checking = True
            self._start(backend, served)

    def _hold_stream(
        self, connection: HostConnection, backend: Backend, said: Message, line: bytes
    ) -> bool:
        """Keep a stream of list changes open without a server; False for any other stream."""
        wanted = protocol.get_member(said, "params", "notifications")
        changes = {f"{what}ListChanged": what for what in ANNOUNCED_BY.values()}
        if not connection.handshake.is_ready or not isinstance(wanted, dict):
            return False
        if not wanted.keys() <= changes.keys():
            return False
        key = protocol.spell(said["id"])
        ticket = Ticket(connection.name, key, str(said["method"]), line, is_noted=True)
        backend.requests.send(ticket, said, line, is_shared=False)
        backend.acknowledge(key)
        path = ("result", "capabilities")
        capabilities = protocol.get_member(connection.handshake.answer, *path)
        granted = [
            name
            for name, is_wanted in wanted.items()
            if is_wanted and protocol.get_member(capabilities, changes[name], "listChanged")
        ]
        confirmed = protocol.make_notification(
            "notifications/subscriptions/acknowledged",
            {"_meta": {SUBSCRIPTION_ID: said["id"]}, "notifications": dict.fromkeys(granted, True)},
        )
        self.send_own(connection, confirmed)
        return True

    def learn(
        self,
        connection: HostConnection,
        asked: Message,
        question: tuple[str, bytes],
        said: Message,
        line: bytes,
    ) -> None:
        """Remember a server's answer, to give it when there is no server."""
        if "result" in said:
            connection.client = name_client(asked) or connection.client
        memory = self._find_memory(connection, asked)
        if memory is None:
            return
        memory.renew(self.now)
        memory.learn(question, said, line)
        if memory.has_changed or memory.is_due or not memory.size_of_server:
            memory.is_due, memory.has_changed = False, True
            wait = 0.0 if memory.is_new and memory.is_worth_keeping else REMEMBER_AFTER
            self.out.append(SetTimer(f"remember {connection.name}", wait))

    def remember(self, connection: HostConnection) -> None:
        """Have what was learned written to disk."""
        for memory in connection.memories.values():
            if memory.has_changed and memory.is_worth_keeping:
                memory.has_changed = memory.is_new = False
                self.out.append(Remember(memory))

    # A server that takes long to answer its greeting

    def expect_greeting(
        self, connection: HostConnection, backend: Backend, said: Message, line: bytes
    ) -> None:
        """Have the host answered from memory if the server takes long to answer its greeting."""
        is_greeting = said["method"] in GREETINGS and not connection.handshake.is_over
        is_only = len(backend.connections) == 1
        if not self.settings.answers_from_memory or not is_greeting or not is_only:
            return
        if not backend.is_successor and self._recall(connection, said, line):
            connection.greeting_key = protocol.spell(said["id"])
            wait = 0.0 if backend.is_late else PATIENCE
            self.out.append(SetTimer(f"patience {connection.name}", wait))

    def answer_late_greeting(self, connection: HostConnection) -> None:
        """Answer a greeting from memory, if the server still has not."""
        backend = self._find_backend(connection)
        known = backend.requests.find(connection.name, connection.greeting_key)
        ticket = backend.requests.open.get(known)
        if ticket is None or backend.state != "ready" or self.phase != "serving":
            return
        said = protocol.look_message(ticket.line)
        answer = self._recall(connection, said, ticket.line)
        if not answer:
            return
        backend.requests.close(known)
        backend.is_late = True
        is_accepted = "result" in protocol.look_message(answer)
        # The server's own answer is still to come, under the host's id.
        backend.own_requests[known] = ("greeting" if is_accepted else "state", b"")
        if is_accepted:
            backend.is_waking = True
            backend.await_greeting(has_limit=True)
        connection.discovery_was_refused = not is_accepted
        self._note_answer_from_memory(connection, backend, said, ticket.line, answer)
        if is_accepted:
            self._expect_comparison(backend)
        backend.wait_as_needed()
        self.answer(connection, ticket.key, answer)

    # The start

    def _wake(
        self, connection: HostConnection, backend: Backend, said: Message, line: bytes
    ) -> None:
        """Start a server for a request that memory cannot answer."""
        key = protocol.spell(said["id"]) if said.get("id") is not None else None
        if self.now < backend.retry_at:
            self._refuse_wake(connection, backend, key, line)
            return
        meta = protocol.get_member(said, "params", "_meta")
        caller = self._admission.read_caller(said["method"], meta)
        is_only_choice = self.settings.server_limit == 1 or not connection.handshake.is_ready
        verdict = self._admission.judge(backend, caller, is_only_choice=is_only_choice)
        if isinstance(verdict, NotAdmitted):
            self.refuse(connection, key, line, verdict)
            return
        if verdict.needs_another and said["method"] not in CHATTER:
            self.open_another(connection, caller, said, line)
            return
        served = verdict.served
        try:
            if not verdict.needs_restart:
                context, plan = self.settings.plan_for(served.context, None)
                served = Served(context, served.bound, plan)
        except LaunchError as error:
            self._note_failed_wake(backend, error)
            self._refuse_wake(connection, backend, key, line)
            return
        self._note_binding(backend.served.bound, served.bound)
        self._admission.known = None  # it is checked again when the server is ready
        backend.queue.append(WaitingLine(connection.name, line))
        self.note(f"a server is started for {served.bound}: it is needed for {said['method']}")
        self._start(backend, served)

    def _start(self, backend: Backend, served: Served) -> None:
        backend.generation += backend.has_run
        backend.wakes += backend.is_resting
        backend.is_successor = backend.is_waking = self._first(backend).handshake.is_over
        if backend.is_successor:
            self._expect_comparison(backend)
        backend.is_resting = backend.keeps_order = False
        backend.wake_error = None
        self.note_awaited_start(backend.queue)
        backend.start(served)
        self.schedule_lease_write()

    def _expect_comparison(self, backend: Backend) -> None:
        """Note which tools the host knows, before the server is asked for its own."""
        connection = self._first(backend)
        if memory := connection.memories.get(connection.client):
            backend.is_unverified = True
            backend.remembered_tools = set(memory.list_names("tools/list"))

    def _note_failed_wake(self, backend: Backend, error: LaunchError) -> None:
        backend.wake_error = error
        doublings = min(backend.failed_wakes, _DOUBLINGS_LIMIT)
        backend.retry_at = self.now + min(_RETRY_LIMIT, _RETRY_AFTER * 2**doublings)
        backend.failed_wakes += 1
        backend.is_waking = backend.is_checking = False
        self.note(f"the server could not be started: {error.problem}", FAILURE)
        for connection in self.connections.values():
            # The next host must learn what is wrong.
            for client, memory in connection.memories.items():
                memory.has_changed = False
                self.out.append(Forget(client))

    def _refuse_wake(
        self, connection: HostConnection, backend: Backend, key: bytes | None, line: bytes
    ) -> None:
        error = backend.wake_error
        if key is None or error is None:
            return
        wait = max(1.0, backend.retry_at - self.now)
        text = f"[mcp-launch] {error.problem} — fix: {error.fix}; after that, call again"
        text += f" (a call in {wait:.0f} s or later starts it again)"
        connection.remember_refusal(key)
        self.answer(connection, key, protocol.make_refusal(line, text), reason=error.problem)

    def fail_to_wake(self, backend: Backend, error: LaunchError) -> None:
        """Answer what waits for a server that could not be started; a later call tries again."""
        self._note_failed_wake(backend, error)
        backend.state = "absent"
        waiting, backend.queue = backend.list_waiting(), []
        self._close_open_requests(backend, "could not be started")
        for one in waiting:
            self._refuse_wake(self.connections[one.connection], backend, one.key, one.line)
        self.resume_hosts(backend)
        self.schedule_lease_write()


def _tell_age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, int(seconds))} s"

"""Replace a server that died, or that serves another session.

The host keeps its connection and need not notice. The old server may finish its requests.
When all its processes are gone (one may hold a file or a port), the next server starts. It
gets the host's own `initialize`, its settings and subscriptions, then the waiting requests.
"""

from __future__ import annotations

import time

from mcp_launch import protocol, trace
from mcp_launch.broker.server_messages import Handover
from mcp_launch.errors import LaunchError, ServerFailed
from mcp_launch.protocol import json_edit
from mcp_launch.runtime.loop import explain_early_end
from mcp_launch.system import guardian_process
from mcp_launch.system.spawn import check_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from mcp_launch.broker import Connection
    from mcp_launch.broker.calls import Misplaced
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.plan import Plan
    from mcp_launch.protocol.json_text import Json, Message
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.spawn import Pipes

    # holding: the server works, but a call waits for something else; draining: it will be
    # replaced, and finishes its requests; ending: it is being ended; lost: it has closed
    # its stdin; greeting: the next one was started and has not answered `initialize` yet.
    Stage = Literal["", "holding", "draining", "ending", "lost", "greeting"]

# How long a server that will be replaced may take to finish its requests.
DRAIN_LIMIT = 10.0

# How much longer, if it is writing an answer at that moment.
_LINE_LIMIT = 2.0

# How long a new server may take to answer `initialize`: Codex's own limit for a start.
GREETING_LIMIT = 30.0

# A server that dies more often than this within the span is not restarted.
DEATHS_LIMIT = 3
DEATHS_SPAN = 60.0

# How many bytes are kept for the next server before we stop reading from the host.
_QUEUE_LIMIT = 1 << 20


class Replacement:
    """Replaces the server, and keeps requests until the next server is ready."""

    def __init__(
        self,
        connection: Connection,
        decide: Callable[[Context], Plan],
        start: Callable[[Plan], tuple[Guardian, Pipes]],
    ) -> None:
        self.is_away = False  # no server takes requests now
        self.generation = 0
        self.handover = Handover(connection)
        self._connection = connection
        self._relay = connection.relay
        self._decide = decide
        self._start = start
        self._plan: Plan | None = None  # of the next server, if it differs from the last one
        self._is_overdue = False  # the old server's time is up, but it is writing a line
        self._stage: Stage = ""
        self._queue: list[bytes] = []  # what waits for the next server
        self._deaths: list[float] = []

    def replace(self, misplaced: Misplaced, line: bytes) -> str | None:
        """Start a server for this request's session, and keep the request for it.

        Returns the reason if that is impossible.
        """
        calls = self._connection.calls
        before = calls.remember()
        calls.bind(misplaced)
        try:
            self._plan = self._decide(calls.found)
            check_environment(self._plan)
        except LaunchError as error:
            calls.restore(before)
            return f"{error.problem} — fix: {error.fix}"
        trace.note(f"a fresh server is needed for {misplaced.claimed}")
        self._queue.insert(0, line)
        self._go_away("draining")
        self._is_overdue = False
        self._relay.set_alarm("drain", DRAIN_LIMIT, self._end_drain)
        self.note_answer()
        return None

    @property
    def is_replacing(self) -> bool:
        """Whether the server is being replaced on purpose."""
        return self._stage in {"draining", "ending"}

    @property
    def is_ending(self) -> bool:
        """Whether the server is being ended, with all its requests answered."""
        return self._stage == "ending"

    def hold(self, line: bytes) -> None:
        """Keep a request, and everything after it, until `release`."""
        self._queue.insert(0, line)
        self._go_away("holding")

    def release(self) -> None:
        """Deliver what `hold` kept."""
        if self._stage == "holding":
            self._come_back()

    def lose(self) -> None:
        """Keep what the host sends: the server has closed its stdin and is probably dead."""
        if self._stage in {"", "holding"}:
            self._go_away("lost")

    def take(self, said: Json, line: bytes) -> None:
        """Keep a message for the next server, unless it concerns only the old one."""
        if isinstance(said, dict) and "method" not in said:
            if self._stage in {"draining", "holding"}:
                self._relay.deliver(line)
        elif isinstance(said, dict) and said["method"] == "notifications/cancelled":
            self._cancel(protocol.spell(protocol.get_member(said, "params", "requestId")), line)
        else:
            self._queue.append(line)
            if sum(map(len, self._queue)) > _QUEUE_LIMIT:
                self._relay.unwatch(0)

    def note_answer(self) -> None:
        """End the old server if it has answered everything."""
        is_done = self._is_overdue or not self._connection.ledger.list_unfinished()
        if self._stage == "draining" and is_done:
            self._end_old()

    def follow_up(self) -> bool:
        """Start the next server, now that the last one is gone; False if none is started."""
        relay = self._relay
        if relay.is_ending:
            return False
        if relay.input_is_lost:
            self._answer_everything(self._explain_end())
            return False  # the host's messages could not reach another server
        is_planned = self.is_replacing
        if not self._connection.opening.is_ready:
            if not is_planned:
                return self._fall_back_to_initialize() and self._start_next()
            if self._connection.ledger.list_unfinished():
                return False
        what_happened = self._explain_end()
        trace.note(f"the server {what_happened}")
        self._requeue_unread()
        self._close_open_requests(what_happened)
        has_ended_well = relay.input_ended and not self._queue
        if not is_planned and (has_ended_well or not self._may_go_on()):
            return False
        return self._start_next()

    def _fall_back_to_initialize(self) -> bool:
        """Refuse `server/discover` for a server that died of it; False if it did not."""
        relay, connection = self._relay, self._connection
        if self.generation or relay.input_ended or connection.calls.profile.restart == "off":
            return False
        self._requeue_unread()  # what it has not read cannot have killed it
        # Notifications mean nothing before `initialize`.
        self._queue = self.list_waiting()
        refusals = connection.opening.refuse_news({_read_key(line) or b"" for line in self._queue})
        if refusals:
            trace.note(f"the server {self._explain_end()}: another one gets `initialize`")
            connection.ledger.take_unfinished()
            relay.say(b"".join(refusals))
        return bool(refusals)

    def list_waiting(self) -> list[bytes]:
        """Return the requests that wait for a server."""
        return [line for line in self._queue if _read_key(line) is not None]

    def _go_away(self, stage: Stage) -> None:
        self.is_away = True
        self._stage = stage

    def _come_back(self) -> None:
        self.is_away = False
        self._stage = ""
        while self._queue and not self.is_away:
            self._connection.take(self._queue.pop(0))
        self._relay.resume_host()
        if self._relay.input_ended and not self.is_away:
            self._relay.end_server()
            self._relay.extend_grace()

    def _cancel(self, key: bytes, line: bytes) -> None:
        for waiting in self._queue:
            if _read_key(waiting) == key:
                self._queue.remove(waiting)
                return
        # No answer will come. If the old server has not read the request, no server gets it.
        was_asked = self._connection.ledger.note_answer(key) is not None
        if was_asked and self._stage in {"draining", "holding"}:
            self._relay.deliver(line)
            self.note_answer()

    def _end_drain(self) -> None:
        # The host has the beginning of an answer. We must not write before its end, and with
        # its end the request is answered.
        if self._relay.guard.is_within_a_line and not self._is_overdue:
            self._is_overdue = True
            trace.note("the old server has had its time; it may finish the answer it is writing")
            self._relay.set_alarm("drain", _LINE_LIMIT, self._end_old)
        else:
            self._end_old()

    def _end_old(self) -> None:
        self._stage = "ending"
        self._relay.drop_alarm("drain")
        self._relay.cut_line()
        self._close_open_requests(self._explain_end())
        self._relay.end_server()
        self._relay.guardian.send(guardian_process.REPLACED)

    def _explain_end(self) -> str:
        if self._stage == "ending":
            return "was replaced, because its session has changed"
        relay = self._relay
        return relay.stderr_relay.describe_end(
            relay.guardian.exit_code or 0, is_over=relay.input_ended
        )

    def _requeue_unread(self) -> None:
        """Keep unread requests for the next server: the last one cannot have acted on them."""
        kept = []
        for line in self._relay.recover_unread().splitlines(keepends=True):
            # Otherwise it is the rest of a line that the server had begun to read.
            if line.endswith(b"\n"):
                kept += self._connection.ledger.take_back(protocol.look(line), line)
        self._queue[:0] = kept

    def _close_open_requests(self, what_happened: str) -> None:
        relay, ledger = self._relay, self._connection.ledger
        for method, line in ledger.take_unfinished():
            problem = f"[mcp-launch] {relay.server} {what_happened}; {method} was not answered"
            text = f"{problem} — fix: ask again; it may already have taken effect"
            relay.unanswered.add(method)
            relay.say(protocol.make_refusal(line, text))
        for request_id in ledger.take_wanted():
            gone: Message = {"reason": "the server that asked is gone"}
            cancelled = protocol.make_notification("notifications/cancelled", gone)
            relay.say(json_edit.put(cancelled, request_id, "params", "requestId"))
        self._connection.server_messages.wait_as_needed()

    def _answer_everything(self, what_happened: str) -> None:
        """Answer all open and waiting requests: there will be no other server."""
        self._requeue_unread()
        self._close_open_requests(what_happened)
        for line in self.list_waiting():
            request = protocol.read_request(line)
            self._relay.unanswered |= {request[1]} if request else set()
            text = f"[mcp-launch] {self._relay.server} {what_happened}; it did not read this"
            self._relay.say(protocol.make_refusal(line, f"{text} — fix: ask again"))
        self._queue.clear()

    def _may_go_on(self) -> bool:
        relay = self._relay
        now = time.monotonic()
        self._deaths = [death for death in self._deaths if now - death < DEATHS_SPAN]
        self._deaths.append(now)
        is_on = self._connection.calls.profile.restart == "on"
        if is_on and len(self._deaths) <= DEATHS_LIMIT:
            return True
        if is_on:
            times = f"{len(self._deaths)} times within a minute"
            relay.stderr_relay.report(f"{relay.server} died {times}: it is not started again")
        if self._queue:
            code = relay.guardian.exit_code or 0
            relay.failure = explain_early_end(relay.server, code, relay.stderr_relay.stderr_end)
        return False

    def _start_next(self) -> bool:
        relay, opening = self._relay, self._connection.opening
        plan = self._plan or self._decide_again()
        self._plan = None
        relay.drop_alarm("drain")
        self.handover.forget()
        try:
            guardian, pipes = self._start(plan)
        except LaunchError as error:
            relay.failure = error
            return False
        self.generation += 1
        trace.note(f"server {self.generation + 1} of this launch, process {guardian.server}")
        self._connection.calls.note_server(plan)
        relay.connect(guardian, pipes)
        self._connection.note_news()
        self._go_away("greeting")
        if relay.input_ended:
            relay.extend_grace()
        if opening.greeting:
            relay.set_alarm("greeting", GREETING_LIMIT, self._give_up)
            self.handover.ask(opening.greeting, self._hear_greeting)
        else:
            self._hear_greeting({}, b"")
        return True

    def _decide_again(self) -> Plan:
        """Return the plan of a server like the last one, for the host's current session."""
        calls = self._connection.calls
        before = calls.remember()
        calls.refresh_session()
        try:
            return self._decide(calls.found)
        except LaunchError as error:
            calls.restore(before)
            trace.note(f"started as the last one was: {error.problem}")
            return calls.decided

    def _hear_greeting(self, answer: Message, _line: bytes) -> None:
        self._relay.drop_alarm("greeting")
        if "error" in answer:
            self._give_up()
            return
        self.handover.restore_state()
        self._come_back()

    def _give_up(self) -> None:
        relay = self._relay
        relay.failure = ServerFailed(
            f"{relay.server} was started again, but did not complete the handshake",
            fix="check its stderr, and whether it can be started twice in this directory; "
            "with --restart off it is not restarted",
            exit_code=1,
        )
        relay.guardian.send(guardian_process.INPUT_ENDED)


def _read_key(line: bytes) -> bytes | None:
    """Return the id of a request, as `spell` writes it; None for anything else."""
    request = protocol.read_request(line)
    return protocol.spell(request[0]) if request is not None else None

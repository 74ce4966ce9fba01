"""What becomes of each call: it is reviewed, refused, held back, answered, or ended.

Every call is followed from its arrival to its one answer, of a server or our own. The runtime
takes what has finished and records it.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.commands import CancelTimer, SetTimer
from mcp_launch.broker.connection import Parties
from mcp_launch.broker.routing import FollowedCall, NotAdmitted, StampIdentity
from mcp_launch.broker.waiting import WaitingLine
from mcp_launch.values import (
    CANCELLED,
    DIED,
    OK,
    PROTOCOL_ERROR,
    REFUSAL,
    REFUSED,
    TIMED_OUT,
    TOOL_ERROR,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.commands import Settings
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.broker.limits import CallLimiter
    from mcp_launch.broker.routing import Call, Policy
    from mcp_launch.protocol.json_text import Message
    from mcp_launch.protocol.requests import Ticket

# How many open calls of one host are followed: it may send what no server ever answers.
_CALLS_LIMIT = 10_000

# When to look again whether the server goes on with a line that it is writing when the time of a
# call is over.
_LINE_TIME = 5.0

# The servers that still answer what they were asked.
_AT_WORK = {"ready", "holding", "draining"}

# How much of the beginning of a long answer shows whether it is an error.
_EDGE = 512


class Calls(Parties):
    """Reviews calls, answers those that no server gets, and notes how each of them ends."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.refusals = 0
        self.last_call: float | None = None
        self._records_calls, self._limits = settings.records_calls, settings.limits
        self.follows_calls = self._records_calls or self._limits is not None
        self.finished_calls: list[FollowedCall] = []  # until the runtime takes them
        self._finished = 0  # how many calls have finished
        # Whether a call that names no session may be any session's.
        self.carries_many = settings.carries == "many sessions"
        stamp = StampIdentity(settings.describe, settings.read_outer, lambda: self.carries_many)
        own: tuple[Policy, ...] = () if settings.no_meta else (stamp,)
        self._policies = own + settings.policies
        self._tools = settings.tools

    # On the way to a server

    def _may_call(self, connection: HostConnection, said: Message, line: bytes) -> bool:
        """Return whether the host may call a tool; refuse the call if not."""
        tools = self._tools
        verdict = tools.judge(said, line, self.settings.server) if tools is not None else None
        if verdict is not None:
            self.refuse(connection, protocol.read_key(line), line, verdict)
        return verdict is None

    def _review(
        self,
        connection: HostConnection,
        backend: Backend,
        key: bytes | None,
        call: Call,
        followed: FollowedCall | None,
    ) -> bool:
        """Have all policies review a call; return whether the server gets it now."""
        limits, line = self._limits, call.line
        if limits is not None and key is not None and limits.is_busy(backend.list_calls()):
            self._hold_back(limits, connection, backend, key, call)
            return False
        for policy in self._policies:
            reviewed = policy.review(call)
            if isinstance(reviewed, NotAdmitted):
                self.refuse(connection, key, line, reviewed)
                return False
            call.line = reviewed
        backend.calls += 1
        self.last_call = self.now
        if followed is not None:
            followed.served, followed.place, followed.pid = call.served, call.place, backend.pid
            if call.changed:
                followed.changed = call.changed
            if limits is not None:
                limits.give_time(followed, self.now)
                self._look_again(backend, followed.deadline)
        return True

    def refuse(
        self, connection: HostConnection, key: bytes | None, line: bytes, verdict: NotAdmitted
    ) -> None:
        """Answer a request that no server may get."""
        if verdict.is_counted:
            self.refusals += 1
            self.note(f"refused: {verdict.problem}", REFUSAL)
        self.schedule_lease_write()
        if key is None:
            return  # a notification has no answer
        connection.remember_refusal(key)
        refusal = protocol.make_refusal(line, f"[mcp-launch] {verdict.reason}")
        self.answer(connection, key, refusal, REFUSED, verdict.recorded)

    def answer(
        self,
        connection: HostConnection,
        key: bytes,
        line: bytes,
        outcome: str = DIED,
        reason: str = "",
    ) -> None:
        """Answer a request ourselves; an empty line: it gets no answer, as it was cancelled."""
        if key in connection.calls:
            outcome = outcome if line else CANCELLED
            self.finish_call(connection, key, outcome, len(line), reason)
        self.send_own(connection, line)

    # From arrival to answer

    def follow_call(self, connection: HostConnection, key: bytes, line: bytes) -> FollowedCall:
        """Return what is noted of a call; one that has waited is known already."""
        calls = connection.calls
        call = calls.get(key)
        if call is None:
            call = calls[key] = FollowedCall(key, line, self.now)
            if len(calls) > _CALLS_LIMIT:
                del calls[next(iter(calls))]
        return call

    def note_awaited_start(self, waiting: Iterable[WaitingLine]) -> None:
        """Note that what waits for a server has to wait until one is started."""
        for one in waiting if self.follows_calls else ():
            if (call := self._find_call(one)) is not None:
                call.has_waited = True

    def _find_call(self, waiting: WaitingLine) -> FollowedCall | None:
        return self.connections[waiting.connection].calls.get(waiting.key or b"")

    def note_answer_to_call(self, name: str, key: bytes, line: bytes) -> None:
        """Note a server's answer to a call."""
        call = self.connections[name].calls.pop(key, None)
        if call is not None:
            # Most results have neither word. One that has may still be a success.
            is_plain = line.rfind(b'rror"') < 0  # faster than `find`
            self._finish(call, OK if is_plain else judge_answer(line), len(line))

    def finish_call(
        self, connection: HostConnection, key: bytes, outcome: str, length: int, reason: str = ""
    ) -> None:
        """Note that a call was answered, or that it never will be."""
        call = connection.calls.pop(key, None)
        if call is not None:
            call.reason = reason
            self._finish(call, outcome, length)

    def _finish(self, call: FollowedCall, outcome: str, length: int) -> None:
        call.outcome = outcome
        call.answer_length = length
        call.ended = self.now
        self._finished = call.number = self._finished + 1
        if self._records_calls:
            self.finished_calls.append(call)
        if self._limits is not None:
            call.note_released(self.now)
            self.note_server_is_free()

    def finish_calls(self, reason: str) -> None:
        """Note that nobody will read the answers to the calls that are still open."""
        for connection in self.connections.values():
            for key in [*connection.calls]:
                self.finish_call(connection, key, CANCELLED, 0, reason)

    # Calls that have to wait until the server has finished others

    def _hold_back(
        self,
        limits: CallLimiter,
        connection: HostConnection,
        backend: Backend,
        key: bytes,
        call: Call,
    ) -> None:
        """Hold a call back, or refuse it because too many wait already."""
        waiting = sum(map(len, backend.held.values()))
        refusal = limits.refuse(waiting, self.settings.server)
        if refusal is not None:
            self.refuse(connection, key, call.line, refusal)
            return
        session = (call.caller[1] or call.caller[0] or "") if call.caller else ""
        backend.hold(session, WaitingLine(connection.name, call.line, key))
        if key in connection.calls:
            connection.calls[key].held_since = self.now

    def take_held(self, backend: Backend) -> WaitingLine | None:
        """Return the call that is next of those that were held back, if there is any."""
        taken = backend.take_held()
        call = self._find_call(taken) if taken is not None else None
        if call is not None:
            call.note_released(self.now)
        return taken

    def queue_held(self, backend: Backend) -> None:
        """Have the next server get what was held back from this one."""
        while waiting := self.take_held(backend):
            backend.queue.append(waiting)

    def note_server_is_free(self) -> None:
        """Have others delivered, now that a call has ended; forget its time if it was the last."""
        for backend in self.backends.values():
            if backend.held:
                self.out.append(SetTimer(f"next {backend.name}", 0.0))
            is_busy = bool(backend.expired) or any(True for _ in backend.list_calls())
            if backend.next_deadline and not is_busy:
                backend.next_deadline = 0.0
                self.out.append(CancelTimer(f"deadline {backend.name}"))

    # Calls that take too long

    def _look_again(self, backend: Backend, moment: float) -> None:
        """Look for overdue calls at a moment, unless that is done earlier anyway; 0: never."""
        if moment and (not backend.next_deadline or moment < backend.next_deadline):
            backend.next_deadline = moment
            self.out.append(SetTimer(f"deadline {backend.name}", max(0.0, moment - self.now)))

    def note_progress(self, backend: Backend, said: Message) -> None:
        """Give a call that makes progress its whole time again."""
        ticket = backend.requests.find_progress(said)
        call = self._find_asked(ticket) if ticket is not None else None
        if call is not None and self._limits is not None:
            self._limits.give_time(call, self.now)

    def _find_asked(self, ticket: Ticket) -> FollowedCall | None:
        return self.connections[ticket.connection].calls.get(ticket.key)

    def end_overdue_calls(self, backend: Backend) -> None:
        """Answer the calls whose time is over in their server's place."""
        backend.next_deadline = 0.0
        if self._limits is None or backend.state not in _AT_WORK:
            return  # all its calls are answered, or will be
        moments, overdue = [], []
        for known, ticket in backend.list_calls():
            call = self._find_asked(ticket)
            if call is not None and call.deadline > self.now:
                moments.append(call.deadline)
            elif call is not None and call.deadline:
                overdue.append((known, ticket))
        if overdue and not self._end_line(backend):
            self._look_again(backend, self.now + _LINE_TIME)
            return
        for known, ticket in overdue:
            self._end_overdue(self._limits, backend, known, ticket)
        backend.expired = {key: end for key, end in backend.expired.items() if end > self.now}
        backend.wait_as_needed()
        self._look_again(backend, min((*moments, *backend.expired.values()), default=0.0))

    def _end_line(self, backend: Backend) -> bool:
        """Return whether a host can get a line of ours; cut off one that its server has left."""
        length = backend.lines.line_length if backend.lines.is_within_a_line else 0
        is_going_on, backend.last_length = length != backend.last_length, length
        if not length:
            return True
        if not is_going_on:
            # It has stopped in the middle of the line, and nothing else would ever arrive.
            self.note("a line that the server does not finish is cut off")
            self.send_to_host(self._first(backend), backend.lines.cut())
            self._send_unsent(backend)
            backend.last_length = 0
        return not is_going_on

    def _end_overdue(
        self, limits: CallLimiter, backend: Backend, known: bytes, ticket: Ticket
    ) -> None:
        backend.requests.close(known)
        backend.expired[known] = limits.expect_late_answer(self.now)
        backend.send(limits.cancel(known))
        self.note(f"a call was ended: {limits.reason}")
        connection = self.connections[ticket.connection]
        connection.remember_refusal(ticket.key)  # the host may still cancel it
        answer = limits.answer(ticket.line, self.settings.server)
        self.answer(connection, ticket.key, answer, TIMED_OUT, limits.reason)


def judge_answer(line: bytes) -> str:
    """Return the outcome of a call by its server's answer."""
    said = protocol.look(line)
    if protocol.get_member(said, "error") is not None:
        return PROTOCOL_ERROR
    return TOOL_ERROR if protocol.get_member(said, "result", "isError") is True else OK


def judge_long_answer(head: bytes, tail: bytes) -> str:
    """Return the outcome of a call by both ends of an answer that was too long to hold."""
    if b'"error":' in head[:_EDGE] and b'"result":' not in head[:_EDGE]:
        return PROTOCOL_ERROR
    ends = (head + tail).replace(b" ", b"")
    return TOOL_ERROR if b'"isError":true' in ends else OK

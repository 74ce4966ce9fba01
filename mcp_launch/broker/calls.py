"""What becomes of each call: it is reviewed, refused, answered, cancelled, or its server dies.

Every call is followed from its arrival to its one answer, of a server or our own. The runtime
takes what has finished and records it.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.commands import WriteRecords
from mcp_launch.broker.connection import Parties
from mcp_launch.broker.routing import FollowedCall, NotAdmitted, StampIdentity
from mcp_launch.values import (
    CANCELLED,
    DIED,
    OK,
    PROTOCOL_ERROR,
    REFUSAL,
    REFUSED,
    TOOL_ERROR,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.commands import Settings
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.broker.routing import Call, Policy
    from mcp_launch.broker.waiting import WaitingLine
    from mcp_launch.protocol.json_text import Message

# How many open calls of one host are followed: it may send what no server ever answers.
_CALLS_LIMIT = 10_000

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
        is_shared = settings.carries == "many sessions"
        stamp = StampIdentity(settings.describe, settings.read_outer, is_shared=is_shared)
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
        if limits is not None and limits.hold(self, connection, backend, key, call.caller, line):
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
                limits.note_delivery(self, backend, followed)
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
        self.send_own(connection, connection.collect(key, line))

    # From arrival to answer

    def follow_call(self, connection: HostConnection, key: bytes, line: bytes) -> FollowedCall:
        """Return what is noted of a call; one that has waited is known already."""
        calls = connection.calls
        call = calls.get(key)
        if call is None:
            call = calls[key] = FollowedCall(line, self.now)
            if len(calls) > _CALLS_LIMIT:
                del calls[next(iter(calls))]
        return call

    def note_awaited_start(self, waiting: Iterable[WaitingLine]) -> None:
        """Note that what waits for a server has to wait until one is started."""
        for one in waiting if self.follows_calls else ():
            if (call := self._find_call(one)) is not None:
                call.has_waited = True

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
            if not self.finished_calls:
                self.out.append(WriteRecords())
            self.finished_calls.append(call)
        if self._limits is not None:
            call.note_released(self.now)
            self._limits.note_end(self)

    def finish_calls(self, reason: str) -> None:
        """Note that nobody will read the answers to the calls that are still open."""
        for connection in self.connections.values():
            for key in [*connection.calls]:
                self.finish_call(connection, key, CANCELLED, 0, reason)


def judge_answer(line: bytes) -> str:
    """Return the outcome of a call by its server's answer."""
    said = protocol.look(line)
    if isinstance(said, list) or said is None:
        return OK
    if protocol.get_member(said, "error") is not None:
        return PROTOCOL_ERROR
    return TOOL_ERROR if protocol.get_member(said, "result", "isError") is True else OK


def judge_long_answer(head: bytes, tail: bytes) -> str:
    """Return the outcome of a call by both ends of an answer that was too long to hold."""
    if b'"error":' in head[:_EDGE] and b'"result":' not in head[:_EDGE]:
        return PROTOCOL_ERROR
    ends = (head + tail).replace(b" ", b"")
    return TOOL_ERROR if b'"isError":true' in ends else OK

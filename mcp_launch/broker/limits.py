"""Limits of a server's calls: how many at the same time, and how long each may take.

Only a launch whose profile sets a limit imports this module.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.commands import CancelTimer, SetTimer
from mcp_launch.broker.routing import NotAdmitted
from mcp_launch.broker.waiting import WaitingLine
from mcp_launch.protocol import json_edit
from mcp_launch.values import TIMED_OUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.broker import Broker
    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.broker.routing import FollowedCall
    from mcp_launch.hosts import Caller
    from mcp_launch.protocol.json_text import Message
    from mcp_launch.protocol.requests import Ticket

# How many calls may wait for their turn. Beyond that they are refused: to stop reading from the
# host would keep its other messages from a server that may wait for one of them.
_HELD_LIMIT = 1000

# How long to wait for the end of an answer that the server is writing when its time is over.
_LINE_TIME = 1.0

# How long a late answer is expected at least, so that its host does not get it: few servers answer
# a call that was cancelled, and until then every long line is held, because it may be the answer.
_LATE_TIME = 60.0

# The servers that still answer what they were asked.
_AT_WORK = {"ready", "holding", "draining"}


class CallLimiter:
    """Holds calls back while a server is busy, and ends those that take too long."""

    def __init__(self, *, call_timeout: float = 0.0, max_concurrent: int = 0) -> None:
        self._call_timeout = call_timeout  # in seconds; 0: no limit
        self._max_concurrent = max_concurrent  # 0: no limit

    # How many at the same time

    def hold(  # noqa: PLR0913, PLR0917  # everything that tells a call
        self,
        broker: Broker,
        connection: HostConnection,
        backend: Backend,
        key: bytes | None,
        caller: Caller | None,
        line: bytes,
    ) -> bool:
        """Return whether a call has to wait for others, or is refused because too many wait."""
        if key is None or not self._is_busy(backend):
            return False
        if sum(map(len, backend.held.values())) < _HELD_LIMIT:
            session = (caller[1] or caller[0] or "") if caller else ""
            backend.hold(session, WaitingLine(connection.name, line, key))
            if key in connection.calls:
                connection.calls[key].held_since = broker.now
        else:
            count = f"{_HELD_LIMIT:,} calls already wait for {broker.settings.server}"
            broker.refuse(
                connection,
                key,
                line,
                NotAdmitted(
                    f"{count}, which works on {self._max_concurrent} at a time (max_concurrent)",
                    "call again when some of them are finished",
                    is_counted=True,
                ),
            )
        return True

    def _is_busy(self, backend: Backend) -> bool:
        count = sum(1 for _ in _list_calls(backend)) if self._max_concurrent else 0
        return bool(self._max_concurrent) and count >= self._max_concurrent

    @staticmethod
    def note_end(broker: Broker) -> None:
        """Note that a call has ended, so that another may follow, and perhaps nothing is due."""
        for backend in broker.backends.values():
            if backend.held:
                broker.out.append(SetTimer(f"next {backend.name}", 0.0))
            is_busy = bool(backend.expired) or any(True for _ in _list_calls(backend))
            if backend.next_deadline and not is_busy:
                backend.next_deadline = 0.0
                broker.out.append(CancelTimer(f"deadline {backend.name}"))

    def release(self, broker: Broker, backend: Backend) -> None:
        """Deliver calls that were held back, as many as the server may get now."""
        while not self._is_busy(backend) and (waiting := broker.take_held(backend)):
            broker.take_line(broker.connections[waiting.connection], waiting.line)

    def release_all(self, broker: Broker) -> None:
        """Deliver everything that was held back: the server's input is about to end."""
        self._max_concurrent = 0
        for backend in broker.backends.values():
            self.release(broker, backend)

    # How long

    def note_delivery(self, broker: Broker, backend: Backend, call: FollowedCall) -> None:
        """Note when a call has to be answered that a server gets now."""
        if self._call_timeout:
            call.deadline = broker.now + self._call_timeout
            self._look_again(broker, backend, call.deadline)

    @staticmethod
    def _look_again(broker: Broker, backend: Backend, moment: float) -> None:
        """Set the timer, unless it is set for an earlier moment."""
        if not backend.next_deadline or moment < backend.next_deadline:
            backend.next_deadline = moment
            broker.out.append(SetTimer(f"deadline {backend.name}", max(0.0, moment - broker.now)))

    def note_progress(self, broker: Broker, backend: Backend, said: Message) -> None:
        """Give a call that makes progress its whole time again."""
        ticket = backend.requests.find_progress(said) if self._call_timeout else None
        if ticket is not None:
            call = broker.connections[ticket.connection].calls.get(ticket.key)
            if call is not None and call.deadline:
                call.deadline = broker.now + self._call_timeout

    def end_overdue(self, broker: Broker, backend: Backend) -> None:
        """Answer the calls whose time is over in their server's place."""
        backend.next_deadline = 0.0
        if backend.state not in _AT_WORK:
            return  # all its calls are answered, or will be
        if backend.lines.is_within_a_line:
            self._look_again(broker, backend, broker.now + _LINE_TIME)
            return
        later = []
        for known, ticket in [*_list_calls(backend)]:
            call = broker.connections[ticket.connection].calls.get(ticket.key)
            if call is None or not call.deadline:
                continue
            if call.deadline <= broker.now:
                self._expire(broker, backend, known, ticket)
            else:
                later.append(call.deadline)
        backend.expired = {key: end for key, end in backend.expired.items() if end > broker.now}
        backend.wait_as_needed()
        if moments := (*later, *backend.expired.values()):
            self._look_again(broker, backend, min(moments))
        broker.end_if_drained(backend)

    def _expire(self, broker: Broker, backend: Backend, known: bytes, ticket: Ticket) -> None:
        server, time = broker.settings.server, tell_time(self._call_timeout)
        backend.requests.close(known)
        backend.expired[known] = broker.now + max(self._call_timeout, _LATE_TIME)
        why: Message = {"reason": f"no answer and no progress within {time} (call_timeout)"}
        cancelled = protocol.make_notification("notifications/cancelled", why)
        backend.send(json_edit.put(cancelled, known, "params", "requestId"))
        problem = f"{server} neither answered this call nor reported progress within {time}"
        fix = "ask for less at once, or allow more time with call_timeout in its profile"
        text = f"[mcp-launch] {problem} — fix: {fix}; it may already have taken effect"
        connection = broker.connections[ticket.connection]
        broker.note(f"a call was ended: no answer within {time}")
        connection.remember_refusal(ticket.key)  # the host may still cancel it
        broker.answer(
            connection,
            ticket.key,
            protocol.make_refusal(ticket.line, text),
            TIMED_OUT,
            f"no answer and no progress within {time}",
        )


def _list_calls(backend: Backend) -> Iterator[tuple[bytes, Ticket]]:
    for known, ticket in backend.requests.open.items():
        if ticket.method == "tools/call":
            yield known, ticket


def tell_time(seconds: float) -> str:
    """Return a time as a user would write it."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size and not seconds % size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"

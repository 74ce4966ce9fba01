"""How much a server gets at once, and how long a call may take.

Only a launch whose profile sets a limit, and a pool, have a `Flow`. It only decides: the core asks
it before it sends a request, and after each answer for what may be sent now.
"""

from __future__ import annotations

from mcp_launch.broker.routing import NotAdmitted
from mcp_launch.values import NO_ANSWER_WITHIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.client import Client
    from mcp_launch.broker.commands import Settings
    from mcp_launch.broker.request import Request
    from mcp_launch.broker.server import Server

# How many calls may wait for their turn. Beyond that they are refused: to stop reading from the
# client would keep its other messages from a server that may wait for one of them.
_HELD_LIMIT = 1000


class Flow:
    """Decides which requests have to wait while a server is busy, and which take too long."""

    def __init__(self, settings: Settings) -> None:
        self._server = settings.server
        self._in_flight = settings.in_flight
        self._max_concurrent = settings.max_concurrent
        self._call_timeout = settings.call_timeout

    def queue(
        self, server: Server, request: Request, client: Client, now: float
    ) -> bool | NotAdmitted:
        """Return whether a request has to wait, and have it wait if so; or why it may not."""
        if request.method == "tools/call" and self._is_busy(server):
            return self._hold(server, request, now) or True
        limit = self._in_flight
        # A ping asks whether the server is alive, however much it has to do.
        limit *= 2 if request.method == "ping" else 1
        if client.is_behind or (limit and count_open(server, client) >= limit):
            request.answerer = server
            client.queue.append(request)
            return True
        return False

    def release(self, server: Server, client: Client | None, now: float) -> list[Request]:
        """Return the requests that may be sent now, each of which then counts."""
        free: list[Request] = []
        if client is not None and client.queue and not client.is_behind:
            limit = self._in_flight or len(client.queue) + count_open(server, client)
            room = max(0, limit - count_open(server, client))
            free, client.queue = client.queue[:room], client.queue[room:]
        if server.held and not self._is_busy(server):
            session = next(iter(server.held))  # the sessions take turns
            taken, *rest = server.held.pop(session)
            if rest:
                server.held[session] = rest
            taken.end_hold(now)
            free.append(taken)
        return free

    def drop(self, server: Server, request: Request) -> bool:
        """Drop a request that waits here and was given up; return whether there was one."""
        for session, kept in server.held.items():
            if request in kept:
                server.held[session] = [one for one in kept if one is not request]
                if not server.held[session]:
                    del server.held[session]
                return True
        client = request.asker
        queue = getattr(client, "queue", [])
        if request in queue:
            queue.remove(request)
            return True
        return False

    def _is_busy(self, server: Server) -> bool:
        limit = self._max_concurrent
        return bool(limit) and len(list_calls(server)) >= limit

    def _hold(self, server: Server, request: Request, now: float) -> NotAdmitted | None:
        waiting = sum(map(len, server.held.values()))
        if waiting >= _HELD_LIMIT:
            count = f"{_HELD_LIMIT:,} calls already wait for {self._server}"
            problem = f"{count}, which works on {self._max_concurrent} at a time (max_concurrent)"
            fix = "call again when some of them are finished"
            return NotAdmitted(problem, fix, is_counted=True)
        session = (request.caller[1] or request.caller[0] or "") if request.caller else ""
        request.answerer, request.held_since = server, now
        server.held.setdefault(session, []).append(request)
        return None

    def stop_holding(self) -> None:
        """Let a server get any number of calls from now on: its input is about to end."""
        self._max_concurrent = 0

    # How long

    def give_time(self, request: Request, now: float) -> float:
        """Note when a call has to be answered that was sent now, or that makes progress."""
        if self._call_timeout and request.method == "tools/call":
            request.deadline = now + self._call_timeout
        return request.deadline

    @property
    def reason(self) -> str:
        """Why a call is ended, for the record and for its server."""
        return f"{NO_ANSWER_WITHIN}{_name_time(self._call_timeout)}"

    def explain(self) -> tuple[str, str]:
        """Return what is wrong with a call that has taken too long, and what helps."""
        time = _name_time(self._call_timeout)
        problem = f"{self._server} neither answered this call nor reported progress within {time}; "
        fix = "check before you repeat it; then ask for less at once, or allow more time with "
        return problem + "it may have taken effect", fix + "call_timeout in the profile"


def list_calls(server: Server) -> list[Request]:
    """Return the calls that a server has not answered yet."""
    return [one for one in server.owes.values() if one.method == "tools/call"]


def count_open(server: Server, client: Client) -> int:
    """Return how many requests of a client a server has."""
    return sum(one.asker is client for one in server.owes.values())


def _name_time(seconds: float) -> str:
    """Return a time as a user would write it."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size and not seconds % size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"

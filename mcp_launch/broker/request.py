"""A request from its arrival to its record, in either direction."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker.client import Client
    from mcp_launch.broker.routing import Served
    from mcp_launch.broker.server import Server
    from mcp_launch.hosts import Caller
    from mcp_launch.protocol.message import Message
    from mcp_launch.values import Found

    Then = Callable[[Message], None]


class Request:
    """A request: it waits, is owed by a peer, or is over. What few have has a default here."""

    token = b""  # its progress token, as the asker wrote it
    caller: Caller | None = None  # (session, thread, tree)
    served: Served | None = None  # what its server served when it was sent
    place: Found | None = None  # the directory of its session, if it is not the server's
    answerer: Server | Client | None = None  # who has to answer it, or is waited for
    pid = 0  # of the server that got it
    then: Then | None = None  # what becomes of the answer, if the question is our own
    sent = b""  # the line as a server got it, but has not read it
    changed: tuple[str, ...] = ()  # the arguments that a policy has changed
    is_acknowledged = False  # a stream that its client knows to be open
    has_waited = False  # until a server was started
    held_since: float | None = None  # while its server has to finish others first
    held = 0.0  # how long that was, in seconds
    deadline = 0.0  # when it has taken too long; 0: never
    outcome = reason = ""  # how it ended; why no server has answered it
    ended = 0.0
    length = 0  # of the answer

    def __init__(
        self, number: bytes, asker: Client | Server | None, message: Message, began: float
    ) -> None:
        self.number = number  # our own id for it, which is its progress token, too
        self.asker = asker  # None: we ask ourselves
        self.message = message
        self.began = began
        self.method = message.method
        self.size = len(message.line)

    def end_hold(self, now: float) -> None:
        """Note that it does not wait for other requests any more."""
        if self.held_since is not None:
            self.held += now - self.held_since
            self.held_since = None

    @property
    def is_stream(self) -> bool:
        """Whether it stays open: it is answered only when its stream ends."""
        return self.message.method == "subscriptions/listen"

    @property
    def id(self) -> bytes:
        """Its id as the asker wrote it."""
        return self.message.id

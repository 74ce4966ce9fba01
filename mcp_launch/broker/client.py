"""A client: a host's connection, or a session's connection to a pool; and clients of one kind."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.place import Roots
    from mcp_launch.broker.request import Request
    from mcp_launch.broker.routing import Served
    from mcp_launch.broker.server import Server
    from mcp_launch.hosts import Caller
    from mcp_launch.protocol.frames import Frame
    from mcp_launch.protocol.json_text import Object
    from mcp_launch.protocol.memory import KnownList, Remembered
    from mcp_launch.protocol.message import Message
    from mcp_launch.values import Found

# The kind of a client that does not say `initialize`; in the 2026 era each request says who asks.
MODERN = "2026"


class Kind:
    """The clients that greet alike, and the servers that were greeted for them.

    A server may make its answers depend on what its client says of itself. A client that has not
    said anything yet is in the lobby, whose kind has no name.
    """

    __slots__ = ("answer", "clients", "greeting", "lists", "memory", "name", "servers")

    def __init__(self, name: str) -> None:
        self.name = name
        self.clients: list[Client] = []
        self.servers: list[Server] = []  # the first one gets what names no session
        self.greeting: Message | None = None  # the last `initialize`
        self.answer: Message | None = None  # a server's answer to it
        self.memory: Remembered | None = None  # what servers have answered such clients
        self.lists: dict[str, KnownList] = {}  # what the clients have of each list, by method

    @property
    def is_opened(self) -> bool:
        """Whether one of the clients was answered yet, by a server or from memory."""
        return any(client.opened for client in self.clients)


class Habit:
    """What calls that look alike have in common: whose they are, and the server that gets them."""

    __slots__ = ("caller", "member", "place", "served", "server")

    def __init__(
        self,
        server: Server,
        served: Served,
        place: Found | None,
        caller: Caller | None,
        member: bytes,
    ) -> None:
        self.server = server
        self.served = served
        self.place = place
        self.caller = caller
        self.member = member  # what `_meta` gets


class Client:
    """One client. Both sides of us are peers: each has asked, and owes answers."""

    __slots__ = (
        "answer",
        "asked",
        "frame",
        "habit",
        "has_left_input",
        "is_behind",
        "is_reading",
        "kind",
        "level",
        "misses",
        "name",
        "opened",
        "owes",
        "owner",
        "queue",
        "roots",
        "streams",
    )

    def __init__(self, name: str, owner: str, kind: Kind, roots: Roots) -> None:
        self.name = name
        self.owner = owner  # the launch, which may connect again
        self.kind = kind
        self.roots = roots
        self.asked: dict[object, Request] = {}  # its open requests, by its own ids
        self.owes: dict[bytes, Request] = {}  # what it has to answer, by our numbers
        self.level: Message | None = None  # its `logging/setLevel` in force
        self.streams: dict[bytes, Request] = {}  # `subscriptions/listen`, which stays open
        self.queue: list[Request] = []  # that wait because it has too many at its server
        self.opened = ""  # the first method that was answered; until then it knows no server
        self.answer: Object = {}  # the answer to that
        self.has_left_input = False  # it sends nothing more
        self.is_reading = True
        self.frame: Frame | None = None  # the layout of its calls …
        self.habit: Habit  # … and what those have in common
        self.misses = 0  # calls that did not look like the last
        self.is_behind = False  # it has not read what it was sent

    @property
    def is_ready(self) -> bool:
        """Whether it has opened the connection, and its server did not refuse that."""
        return bool(self.opened) and (self.opened != "initialize" or "result" in self.answer)

    @property
    def may_be_asked(self) -> bool:
        """Whether it is there to answer a question."""
        return not self.has_left_input and self.is_reading

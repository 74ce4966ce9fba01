"""A place where a server runs, or could: one server after the other, and what outlives it."""

from __future__ import annotations

from mcp_launch.protocol.memory import Comparison

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.client import Client, Kind
    from mcp_launch.broker.ending import StandIn
    from mcp_launch.broker.request import Request
    from mcp_launch.broker.routing import Served


class Process:
    """What is true only of the server that runs now, or ran last."""

    __slots__ = (
        "comparison",
        "elicited",
        "exit_code",
        "has_changed_lists",
        "has_closed_input",
        "has_spoken_up",
        "is_checked_only",
        "is_used",
        "pid",
        "ready_since",
        "tasks",
        "unasked",
        "why_awake",
        "why_ended",
    )

    def __init__(self) -> None:
        self.pid = 0
        self.exit_code: int | None = None
        self.why_ended = ""  # in words, if we have ended it
        self.has_closed_input = False  # it reads no more, or gets no more
        self.is_checked_only = False  # it was started only to compare its lists with memory
        self.is_used = False  # more than chatter has reached it: it may have state to lose
        self.has_changed_lists = False  # since then
        self.has_spoken_up = False  # it has asked its clients something, or announced a change
        self.unasked = ""  # the method of a notification that no request has led to
        self.why_awake = ""  # why it does not rest, as it was last logged
        self.ready_since = 0.0
        self.comparison = Comparison()  # of its lists with those that its clients have
        self.tasks: dict[str, tuple[str, bool]] = {}  # the owner of each, and whether it goes on
        self.elicited: dict[object, Client] = {}  # whom it has asked to open a URL


class History:
    """What is counted of a place for a server."""

    __slots__ = (
        "calls",
        "calls_at_start",
        "calls_of_others",
        "deaths",
        "last_active",
        "restarts",
        "starts",
        "wakes",
    )

    def __init__(self) -> None:
        self.starts = self.wakes = 0  # how often one was started; of these, after a rest
        # In all; before the current start; before it was given to another session.
        self.calls = self.calls_at_start = self.calls_of_others = 0
        self.last_active = 0.0
        self.deaths: list[float] = []
        self.restarts = 0  # that a user has asked for, and that were carried out


class Server:
    """A place for a server. It is absent as a rule, with a reason."""

    __slots__ = (
        "asked",
        "held",
        "history",
        "kind",
        "name",
        "next_served",
        "orphans",
        "owes",
        "process",
        "restart_from",
        "served",
        "stand_in",
        "state",
        "subscriptions",
        "waiting",
        "why_absent",
    )

    def __init__(self, name: str, kind: Kind, served: Served) -> None:
        self.name = name
        self.kind = kind
        self.state = "absent"  # see `life`
        self.why_absent = NOT_STARTED
        self.served = served
        self.next_served: Served | None = None  # of the next server, if that is decided
        self.process = Process()
        self.history = History()
        self.stand_in: StandIn | None = None  # answers while no server can be started
        # How many had been started when a user asked for a fresh one; None: nobody has.
        self.restart_from: int | None = None
        self.asked: dict[object, Request] = {}  # its questions, by its own ids
        self.owes: dict[bytes, Request] = {}  # the requests that it has, by our numbers
        self.waiting: dict[bytes, Request] = {}  # what waits until it is ready
        self.held: dict[str, list[Request]] = {}  # calls that wait until it is less busy
        # What each new server has to be told: who has subscribed to which URI.
        self.subscriptions: dict[tuple[Client, str], Request] = {}
        # Requests that it may still work on for nobody: whose they were, and when that ended.
        self.orphans: dict[bytes, tuple[str, float]] = {}

    @property
    def to_serve(self) -> Served:
        """What it serves, or the next server will."""
        return self.next_served or self.served

    @property
    def was_never_called(self) -> bool:
        """Whether no call was delivered to this server yet."""
        return self.history.calls == self.history.calls_at_start

    @property
    def own_calls(self) -> int:
        """How many calls the session has made that it serves."""
        return self.history.calls - self.history.calls_of_others

    def list_unfinished(self) -> list[Request]:
        """Return the requests that it still has to answer, without endless streams."""
        return [one for one in self.owes.values() if not one.is_stream]


# Why there is no server: the reasons of `why_absent`.
NOT_STARTED, RESTING, FAILED, ENDED = "not started", "resting", "failed", "ended"

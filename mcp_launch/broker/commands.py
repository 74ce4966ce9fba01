"""The broker's commands, which the runtime carries out in order, and the broker's settings.

Each command is one action on the outside world. Commands compare by value, so that a test
can write down what it expects.
"""

from __future__ import annotations

from mcp_launch.values import DECISION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from mcp_launch.broker.limits import CallLimiter
    from mcp_launch.broker.policies import ToolPolicy
    from mcp_launch.broker.routing import PlanFor
    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.plan import Plan

    # Why a server is ended: it did not exit after the end of its input, or another replaces it.
    # Or nobody has called it for some time.
    EndReason = Literal["input ended", "replaced", "rest"]
    from collections.abc import Callable
    from typing import Protocol

    from mcp_launch.broker.routing import Policy, Served
    from mcp_launch.hosts import Callers, Carries
    from mcp_launch.protocol.json_text import Json, Message
    from mcp_launch.protocol.memory import Remembered
    from mcp_launch.values import Found

    class HandshakeStore(Protocol):
        """Where the answers of earlier servers are kept."""

        def read(self, client: str, now: float) -> Remembered | None:
            """Return what is known for a kind of client."""

        def claim_check(self, client: str) -> None:
            """Note that a memory is being compared with its server."""


class Command:
    """One action for the runtime."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        """Compare by value."""
        return type(self) is type(other) and self._list_values() == other._list_values()

    def __hash__(self) -> int:
        """Return the same hash for the same values."""
        return hash((type(self), *self._list_values()))

    def __repr__(self) -> str:
        """Return the command as a test would write it."""
        return f"{type(self).__name__}({', '.join(map(repr, self._list_values()))})"

    def _list_values(self) -> list[object]:
        return [getattr(self, name) for name in self.__slots__]


class SendToHost(Command):
    """Write data to a host."""

    __slots__ = ("connection", "data")

    def __init__(self, connection: str, data: bytes) -> None:
        self.connection = connection
        self.data = data


class SendToServer(Command):
    """Write data to a server's stdin."""

    __slots__ = ("backend", "data")

    def __init__(self, backend: str, data: bytes) -> None:
        self.backend = backend
        self.data = data


class _BackendCommand(Command):
    __slots__ = ("backend",)

    def __init__(self, backend: str) -> None:
        self.backend = backend


class _ConnectionCommand(Command):
    __slots__ = ("connection",)

    def __init__(self, connection: str) -> None:
        self.connection = connection


class CloseInput(_BackendCommand):
    """Close a server's stdin after everything that was sent before."""

    __slots__ = ()


class CutInput(_BackendCommand):
    """Close a server's stdin at once, and drop what it has not read."""

    __slots__ = ()


class CloseOutput(_BackendCommand):
    """Close our stdout and our end of a server's: its next write fails, as it would without us."""

    __slots__ = ()


class PauseHost(_ConnectionCommand):
    """Stop reading from a host."""

    __slots__ = ()


class ResumeHost(_ConnectionCommand):
    """Read from a host again."""

    __slots__ = ()


class CloseHostInput(_ConnectionCommand):
    """Close our stdin, so that the host sees that nobody reads it."""

    __slots__ = ()


class CloseHostOutput(_ConnectionCommand):
    """Close our stdout, after everything that was sent before."""

    __slots__ = ()


class ReturnUnread(Command):
    """Give a host back a line that its server has not read, so that another can get it."""

    __slots__ = ("connection", "line")

    def __init__(self, connection: str, line: bytes) -> None:
        self.connection = connection
        self.line = line


class EndConnection(Command):
    """Close the connection to a host, after everything that was sent before."""

    __slots__ = ("connection", "exit_code")

    def __init__(self, connection: str, exit_code: int) -> None:
        self.connection = connection
        self.exit_code = exit_code  # of its server, or 0 if the host has left it


class StartServer(Command):
    """Start a server; the runtime answers `server_started` or `server_start_failed`."""

    __slots__ = ("backend", "plan")

    def __init__(self, backend: str, plan: Plan) -> None:
        self.backend = backend
        self.plan = plan


class EndServer(Command):
    """Have the guardian end a server and all processes below it."""

    __slots__ = ("backend", "reason")

    def __init__(self, backend: str, reason: EndReason) -> None:
        self.backend = backend
        self.reason = reason


class SignalServer(Command):
    """Have the guardian pass a signal on, and soon after end the processes that are left."""

    __slots__ = ("backend", "number")

    def __init__(self, backend: str, number: int) -> None:
        self.backend = backend
        self.number = number


class SetTimer(Command):
    """Call `Broker.timer` with this name after some seconds; replaces a timer of the same name."""

    __slots__ = ("name", "seconds")

    def __init__(self, name: str, seconds: float) -> None:
        self.name = name
        self.seconds = seconds


class CancelTimer(Command):
    """Cancel a timer, if it is set."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class _TextCommand(Command):
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Note(Command):
    """Log a decision, or an event; `values` has the kinds."""

    __slots__ = ("kind", "text")

    def __init__(self, text: str, kind: str = DECISION) -> None:
        self.text = text
        self.kind = kind


class WriteStderr(_TextCommand):
    """Print a message on our own stderr."""

    __slots__ = ()


class Remark(_ConnectionCommand):
    """Print a message on one host's stderr, among the lines of the server that it shares."""

    __slots__ = ("text",)

    def __init__(self, connection: str, text: str) -> None:
        super().__init__(connection)
        self.text = text


class Divert(Command):
    """Print a line from a server's stdout on stderr, because it is not a message."""

    __slots__ = ("backend", "line")

    def __init__(self, backend: str, line: bytes) -> None:
        self.backend = backend
        self.line = line


class WriteLease(Command):
    """Write the lease: at once if urgent, else soon, so that one write covers several changes."""

    __slots__ = ("is_urgent",)

    def __init__(self, *, is_urgent: bool = False) -> None:
        self.is_urgent = is_urgent


class Remember(Command):
    """Write what servers answer to one kind of client to disk."""

    __slots__ = ("memory",)

    def __init__(self, memory: Remembered) -> None:
        self.memory = memory


class Forget(Command):
    """Remove from disk what is known for one kind of client."""

    __slots__ = ("client",)

    def __init__(self, client: str) -> None:
        self.client = client


class Fail(Command):
    """Report why there is no server; the broker goes on answering requests with the reason."""

    __slots__ = ("error",)

    def __init__(self, error: LaunchError) -> None:
        self.error = error


class Finish(Command):
    """Exit, after everything that was sent to the hosts."""

    __slots__ = ("exit_code",)

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code


class Settings:
    """What the profile and the host decide, and callables for everything that is not pure."""

    def __init__(  # noqa: PLR0913  # a record, always built by keyword
        self,
        *,
        server: str,
        launch: str,
        carries: Carries,
        callers: Callers,
        plan_for: PlanFor,
        is_inside: Callable[[str, list[str]], bool],
        is_directory: Callable[[str], bool] = bool,
        describe: Callable[[Served, Found | None], Message],
        explain_end: Callable[[int, str, bytes], str],
        explain_early_end: Callable[[int, bytes], LaunchError],
        read_outer: Callable[[], Json] | None = None,
        on_change: str = "auto",
        server_limit: int = 8,
        on_failure: str = "error",
        mask: Callable[[str], str] = str,
        restart: str = "on",
        is_shared: bool = False,
        cwd: str = "session",
        moves_unannounced: bool = False,
        is_host_directory: bool = False,
        no_meta: bool = False,
        policies: tuple[Policy, ...] = (),
        tools: ToolPolicy | None = None,
        limits: CallLimiter | None = None,
        records_calls: bool = False,
        handshakes: HandshakeStore | None = None,
        answers_from_memory: bool = False,
        ignores_changes: bool = False,
        starts_when_called: bool = False,
        rests_after: float = 0.0,
        rest_anyway: bool = False,
        find_state: Callable[[str], str] = lambda _: "",
        is_used_by_others: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.server = server
        self.launch = launch
        self.carries = carries
        self.callers = callers
        self.plan_for = plan_for
        self.is_inside = is_inside
        self.is_directory = is_directory
        self.describe = describe
        self.explain_end = explain_end
        self.explain_early_end = explain_early_end
        self.read_outer = read_outer
        self.on_change = on_change
        self.server_limit = server_limit  # if each session gets a server of its own
        # What a host gets that has no server yet: an "error", a server with one "tool", or one
        # that only answers each "call".
        self.on_failure = on_failure
        self.mask = mask  # hides secrets in a text
        self.restart = restart
        self.is_shared = is_shared  # other launches use the same servers
        self.cwd = cwd
        self.moves_unannounced = moves_unannounced
        self.is_host_directory = is_host_directory  # a server starts where its host runs
        self.no_meta = no_meta
        self.policies = policies  # applied after the identity stamp
        self.tools = tools  # None: the host sees all of them
        self.limits = limits
        self.records_calls = records_calls
        self.handshakes = handshakes  # None: nothing is remembered
        self.answers_from_memory = answers_from_memory  # also a host whose server is started
        self.ignores_changes = ignores_changes  # the host does, if a list is announced as changed
        self.starts_when_called = starts_when_called
        self.rests_after = rests_after  # seconds without a call; 0: never
        self.rest_anyway = rest_anyway  # even if a server shows signs of state
        self.find_state = find_state  # returns such a sign of a backend's processes, or nothing
        self.is_used_by_others = is_used_by_others  # returns whether another launch has called it

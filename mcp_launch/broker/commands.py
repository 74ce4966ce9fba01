"""What the core tells the runtime, and what it is told of a launch.

A command is a tuple: a verb, the name of a client or server, and what the verb needs. They are
carried out in order:

| command | means |
| --- | --- |
| send, NAME, LINE | write a line to a client or to a server |
| inform, CLIENT, LINE | the same, unless it does not read, and has not asked for this |
| start, SERVER, PLAN | start it; then `server_started` or `server_failed` |
| end, SERVER, REASON | have its guardian end it and all below: one of `END_REASONS` |
| signal, SERVER, NUMBER | have its guardian pass a signal on, and end what is left soon after |
| close, SERVER, None | close its stdin after everything that was sent |
| cut, SERVER, None | close its stdin at once, and drop what it has not read |
| mute, SERVER, None | close our end of its stdout: its next write fails, as it would without us |
| close, CLIENT, None | close our end of what it reads, after everything that was sent |
| deafen, CLIENT, None | close our end of what it writes, so that it sees that nobody reads it |
| pause, CLIENT, BOOL | stop reading from it, or go on |
| return, CLIENT, LINE | give back a line that its server has not read |
| leave, CLIENT, CODE | end the connection, after everything that was sent |
| noise, SERVER, LINE | it has printed something that is not a message |
| tell, CLIENT, TEXT | print a message on its stderr |
| note, KIND, TEXT | log a decision or an event |
| lease, "", BOOL | write the lease: at once (True), or soon |
| keep, "", MEMORY | write what servers answer to one kind of client to disk |
| forget, "", CLIENT | remove from disk what is known for one kind of client |
| fail, "", ERROR | report why there is no server; the core goes on answering with the reason |
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from mcp_launch.broker.policies import PinnedArguments, ToolPolicy
    from mcp_launch.broker.routing import PlanFor, Served
    from mcp_launch.errors import LaunchError
    from mcp_launch.hosts import Callers, Carries
    from mcp_launch.protocol.json_text import Json, Object
    from mcp_launch.protocol.memory import Remembered
    from mcp_launch.values import Found

    Command = tuple[str, str, Any]

    class HandshakeStore(Protocol):
        """Where the answers of earlier servers are kept."""

        def read(self, client: str, now: float) -> Remembered | None:
            """Return what is known for a kind of client."""

        def claim_check(self, client: str) -> None:
            """Note that a memory is being compared with its server."""


# Why a server is ended: its input has ended and it has not, another takes its place, a user wants
# a fresh one, nobody has called it for some time.
INPUT_ENDED, REPLACED, RESTARTED, RESTED = END_REASONS = (
    "input ended",
    "replaced",
    "restarted",
    "rest",
)


class Settings:
    """What the profile and the host decide, and callables for everything that is not pure."""

    server = ""
    launch = ""
    carries: Carries = "one session at a time"
    callers: Callers
    plan_for: PlanFor
    is_inside: Callable[[str, list[str]], bool]
    is_directory: Callable[[str], bool] = bool
    # Describes what a server serves, for the context of a call; `place` is its directory, if it is
    # another than the server's.
    describe: Callable[[Served, Found | None], Object]
    explain_end: Callable[[int, str, bytes], str]
    explain_early_end: Callable[[int, bytes], LaunchError]
    read_outer: Callable[[], Json] | None = None
    mask: Callable[[str], str] = str  # hides secrets in a text
    # Returns a sign of state in a server's processes; whether another launch has called it.
    find_state: Callable[[str], str] = staticmethod(lambda _: "")
    is_used_by_others: Callable[[str], bool] = staticmethod(lambda _: False)
    on_change = "auto"
    server_limit = 8  # if each session gets a server of its own
    # What a client gets that has no server yet: an "error", a server with one "tool", or one that
    # only answers each "call".
    on_failure = "error"
    restarts = True  # a server that dies is followed by another; else its clients leave
    is_shared = False  # other launches use the same servers, by way of a pool
    returns_unread = False  # clients get back what their server has not read, and stay for others
    in_flight = 0  # how many requests of one client a server has at once; 0: any number
    roots: Object | None = None  # the answer to `roots/list`, if it is ours to give
    cwd = "session"
    moves_unannounced = False
    is_host_directory = False  # a server starts where its host runs
    no_meta = False
    tools: ToolPolicy | None = None  # None: the client sees all of them
    arguments: PinnedArguments | None = None  # checks and sets arguments
    call_timeout = 0.0  # seconds; 0: no limit
    max_concurrent = 0  # calls at a server; 0: any number
    records_calls = False
    handshakes: HandshakeStore | None = None  # None: nothing is kept on disk
    answers_from_memory = False  # also a client whose server is being started for the first time
    ignores_changes = False  # the host does, if a list is announced as changed
    starts_when_called = False
    rests_after = 0.0  # seconds without a call; 0: never
    rest_anyway = False  # even if a server shows signs of state

    def __init__(self, **given: Any) -> None:  # noqa: ANN401  # the attributes above
        unknown = given.keys() - Settings.__annotations__.keys() - vars(Settings).keys()
        if unknown:
            raise TypeError(*sorted(unknown))
        for name, value in given.items():
            setattr(self, name, value)

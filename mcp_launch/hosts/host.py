"""What we know about a host: how many sessions a connection carries, and where their ids are.

A host with nothing special about it is an instance with three words in it.
"""

from __future__ import annotations

from mcp_launch.values import Found, Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal

    from mcp_launch.protocol.json_text import Json
    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Process

    # How many sessions one connection of the host carries.
    Carries = Literal["one thread", "one session at a time", "many sessions"]
    State = Literal["unbound", "tentative", "confirmed"]

    # The session, thread and directory that a request comes from, if the host names them.
    Caller = tuple[str | None, str | None, str | None]


class Sighting:
    """The host's process and our own environment: all that a host's methods may use."""

    __slots__ = ("cwd", "environ", "is_starter", "list_confirmed_threads", "process", "table")

    def __init__(  # noqa: PLR0913  # a record, always built by keyword
        self,
        *,
        table: ProcessTable,
        process: Process | None,
        environ: Mapping[str, str],
        cwd: str,
        is_starter: bool,
        list_confirmed_threads: Callable[[], set[str]] = set,
    ) -> None:
        self.table = table
        self.process = process
        self.environ = environ
        self.cwd = cwd
        # Whether this process itself started us, or holds the other end of our stdin.
        self.is_starter = is_starter
        # The threads that other launches of the same server are confirmed to serve.
        self.list_confirmed_threads = list_confirmed_threads


class Identity:
    """The session and thread that a server is started for, how sure that is, and why."""

    __slots__ = ("evidence", "is_guess", "session", "state", "thread")

    def __init__(
        self,
        session: Found | Missing,
        thread: Found | Missing,
        state: State = "unbound",
        evidence: str = "",
        *,
        is_guess: bool = False,
    ) -> None:
        self.session = session
        self.thread = thread
        self.state = state
        self.evidence = evidence
        self.is_guess = is_guess  # several threads would fit


class Callers:
    """Finds the session that a request comes from; this one is for hosts that do not name it."""

    # Where the session, thread and directory of a request come from.
    origins: tuple[str, str, str] = ("", "", "")

    # The text members of `_meta` that name them.
    telling: tuple[str, ...] = ()

    # Whether the request itself names them, or the host's record of its current session.
    is_in_request = True

    def read(self, meta: dict[str, Json]) -> Caller | None:  # noqa: ARG002  # for others to use
        """Return the caller of a request with this `_meta`; None if unknown."""
        return None


class Thread:
    """A thread that the host's process has open now."""

    __slots__ = ("cwd", "id", "session")

    def __init__(self, thread_id: str, session: str | None, cwd: str | None) -> None:
        self.id = thread_id
        self.session = session
        self.cwd = cwd  # None: not recorded yet


class HostIdentity:
    """What a launch needs to know about a host; the defaults are for one that reveals nothing."""

    # Whether this is a known host.
    is_known = True

    # The sources that may become known with a call if they are unknown at the start.
    told_later: tuple[str, ...] = ()

    # The variables in which a server gets its session and its thread.
    session_variable = ""
    thread_variable = ""

    # Whether its session may move to another directory without notifying the servers, so that
    # only `roots/list` shows it.
    moves_unannounced = False

    # Whether it sets its identity variables only for its shells: a server that has them
    # inherited them from an outer session.
    keeps_variables_from_servers = False

    def __init__(
        self,
        name: str,
        title: str,
        carries: Carries,
        *,
        adds_variables: bool = False,
        session_variable: str = "",
    ) -> None:
        self.name = name
        self.title = title
        self.carries = carries
        # Whether it adds variables that its process was not started with: from the user's
        # shell, or from a file that we do not know.
        self.adds_variables = adds_variables
        self.session_variable = session_variable or self.session_variable

    def identify(self, sighting: Sighting) -> Identity:  # noqa: ARG002  # for others to use
        """Return the session and thread at the start."""
        return Identity(Missing([f"{self.title} gives no session id"]), self._no_thread())

    def find_place(self, sighting: Sighting) -> Found:
        """Return the session's own directory."""
        return Found(sighting.cwd, "inherited")

    def find_homes(self, sighting: Sighting) -> list[str]:  # noqa: ARG002  # for others to use
        """Return the host's own directories, which are never a session's directory."""
        return []

    def read_environ(self, sighting: Sighting) -> Mapping[str, str]:
        """Return the host's own environment; empty if it is not known for certain."""
        if sighting.process is None or self.adds_variables:
            return {}
        return sighting.table.read_environ(sighting.process.identity.pid)

    def find_contradiction(
        self,
        sighting: Sighting,  # noqa: ARG002  # for others to use
        place: Found,  # noqa: ARG002
    ) -> Found | None:
        """Return the directory that the host's own record has for the session instead.

        Called only for a home or `/`. Return None without proof: a host may well have been
        started there, and a refused server would have worked without us.
        """
        return None

    def default_variables(
        self,
        session: Found | Missing,  # noqa: ARG002  # for others to use
        thread: Found | Missing,  # noqa: ARG002
    ) -> dict[str, Found]:
        """Return the variables that every server of this host gets by default."""
        return {}

    def follow_callers(self, sighting: Sighting) -> Callers:  # noqa: ARG002  # for others to use
        """Return an object that finds the caller of each request."""
        return Callers()

    def is_daemon(self, table: ProcessTable, pid: int) -> bool:  # noqa: ARG002  # for others to use
        """Return whether a process of the host serves sessions in all directories."""
        return False

    def list_open_threads(
        self,
        table: ProcessTable,  # noqa: ARG002  # for others to use
        pid: int,  # noqa: ARG002
    ) -> list[Thread]:
        """Return the threads that a process of the host has open."""
        return []

    def _no_thread(self) -> Missing:
        return Missing([f"{self.title} has no threads"])


def pick_text(meta: dict[str, Json], name: str) -> str | None:
    """Return a member that is a non-empty text; None otherwise."""
    value = meta.get(name)
    return value if isinstance(value, str) and value else None

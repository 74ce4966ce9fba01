"""What a host is to us: how many sessions a connection carries, and where its identity stands.

A host with nothing special to know is an instance with three words in it.
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

    # Whom a request is for: session, thread, directory, as far as the host tells.
    Caller = tuple[str | None, str | None, str | None]


class Sighting:
    """The host's process and what we were started with: all that a host's facts may use."""

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
        # Whether this very process started us, or holds the other end of our stdin.
        self.is_starter = is_starter
        # The threads that other launches of the same server know to be theirs.
        self.list_confirmed_threads = list_confirmed_threads


class Identity:
    """Whom a server is started for, how sure that is, and why."""

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
        self.is_guess = is_guess  # several would fit


class Callers:
    """Tells whom a request is for; of a host that says nothing, nobody."""

    # Where session, thread and directory of a request stand.
    origins: tuple[str, str, str] = ("", "", "")

    # The members of `_meta` that are texts and tell it.
    telling: tuple[str, ...] = ()

    # Whether the request itself tells, or the host's record of what it does at present.
    is_in_request = True

    def read(self, meta: dict[str, Json]) -> Caller | None:  # noqa: ARG002  # for others to use
        """Return whom a request with this `_meta` is for."""
        return None


class Thread:
    """A thread the host's process has open right now."""

    __slots__ = ("cwd", "id", "session")

    def __init__(self, thread_id: str, session: str | None, cwd: str | None) -> None:
        self.id = thread_id
        self.session = session
        self.cwd = cwd  # None: nothing is recorded yet


class HostIdentity:
    """What a launch asks a host; these are the answers of one that tells its servers nothing."""

    # Whether this is a host that we know.
    is_known = True

    # The sources that a call can tell where they were not known at the start.
    told_later: tuple[str, ...] = ()

    # The variables in which a server is told its session and its thread.
    session_variable = ""
    thread_variable = ""

    # Whether its session may move to another directory without a word to the servers, and
    # `roots/list` is how to learn of it.
    moves_unannounced = False

    # Whether its identity variables are for its shells only: a server that has them got them
    # from an outer session.
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
        # Whether it has variables that its process was not started with: from the user's
        # shell, or from a file that is not known here.
        self.adds_variables = adds_variables
        self.session_variable = session_variable or self.session_variable

    def identify(self, sighting: Sighting) -> Identity:  # noqa: ARG002  # for others to use
        """Find session and thread at the start."""
        return Identity(Missing([f"{self.title} tells no session id"]), self._no_thread())

    def find_place(self, sighting: Sighting) -> Found:
        """Return the session's own directory."""
        return Found(sighting.cwd, "inherited")

    def find_homes(self, sighting: Sighting) -> list[str]:  # noqa: ARG002  # for others to use
        """Return the directories that are the host's own and no session's place."""
        return []

    def read_environ(self, sighting: Sighting) -> Mapping[str, str]:
        """Return the host's own environment; empty when that is not known for certain."""
        if sighting.process is None or self.adds_variables:
            return {}
        return sighting.table.read_environ(sighting.process.identity.pid)

    def find_contradiction(
        self,
        sighting: Sighting,  # noqa: ARG002  # for others to use
        place: Found,  # noqa: ARG002
    ) -> Found | None:
        """Return the directory that the host's own record names for the session instead.

        Asked only about a home or `/`, and answered only on proof: a host may well have been
        started there, and a server that is refused worked before.
        """
        return None

    def default_variables(
        self,
        session: Found | Missing,  # noqa: ARG002  # for others to use
        thread: Found | Missing,  # noqa: ARG002
    ) -> dict[str, Found]:
        """Return what every server of this host gets without asking."""
        return {}

    def follow_callers(self, sighting: Sighting) -> Callers:  # noqa: ARG002  # for others to use
        """Return what tells whom each request is for."""
        return Callers()

    def is_daemon(self, table: ProcessTable, pid: int) -> bool:  # noqa: ARG002  # for others to use
        """Tell whether a process of the host serves the sessions of all directories."""
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
    """Return a member that is a text with something in it."""
    value = meta.get(name)
    return value if isinstance(value, str) and value else None

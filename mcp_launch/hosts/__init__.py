"""The hosts we know: what a launch asks of one, which program is which, a package for each.

Only the package of the detected host is imported. A host with nothing special to know is an
entry in a table.
"""

from __future__ import annotations

from itertools import pairwise

from mcp_launch.values import SHELLS, Found, Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
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

    @property
    def is_certain(self) -> bool:
        """Whether no call is expected to name another session or thread than this."""
        return self.state != "unbound" and not self.is_guess


class Callers:
    """Finds the session that a request comes from; this one finds none."""

    # Where the session, thread and directory of a request come from.
    origins: tuple[str, str, str] = ("", "", "")

    # The members of `_meta` that are read for that; None: any may be.
    names: tuple[str, ...] | None = None

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

    # The words of its command line, any of which makes it start servers where it runs itself,
    # not where its sessions work: an editor has started it, as an agent for all its projects.
    agent_words: tuple[str, ...] = ()

    # Whether it names its session's directory when it is asked for its roots.
    answers_roots = False

    # Whether it ignores a server's notification that one of its lists has changed.
    ignores_changed_lists = False

    # Whether it shows a user only that a server is not connected: neither an error answer to
    # `initialize`, nor stderr. And whether it keeps a server's list of tools for the next session.
    swallows_errors = False
    keeps_tool_lists = False

    # Commands of the host that start servers only to see whether they work.
    looking_commands: tuple[tuple[str, str], ...] = (("mcp", "list"),)

    def __init__(
        self,
        name: str,
        title: str,
        carries: Carries,
        *,
        adds_variables: bool = False,
        session_key: str = "",
    ) -> None:
        self.name = name
        self.title = title
        self.carries = carries
        # Whether it adds variables that its process was not started with: from the user's
        # shell, or from a file that we do not know.
        self.adds_variables = adds_variables
        # The member of a call's `_meta` that names the session, if only this host uses it so.
        self._session_key = session_key

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
        self, session: Found | Missing, thread: Found | Missing
    ) -> dict[str, Found]:
        """Return the variables that every server of this host gets by default.

        They replace those that the host set for its first server, which may be out of date.
        """
        known = {self.session_variable: session, self.thread_variable: thread}
        return {name: found for name, found in known.items() if name and isinstance(found, Found)}

    def list_untrue_variables(
        self,
        session: Found | Missing,  # noqa: ARG002  # for others to use
    ) -> tuple[str, ...]:
        """Return the host's variables that name another session than the server's, or may."""
        return ()

    def follow_callers(self, sighting: Sighting) -> Callers:  # noqa: ARG002  # for others to use
        """Return an object that finds the caller of each request."""
        callers: Callers = _import("callers").NamedCallers(self._session_key)
        return callers

    def only_looks(self, sighting: Sighting) -> bool:
        """Return whether the host starts us to see whether we work, not to call us."""
        if sighting.process is None:
            return False
        words = sighting.table.read_argv(sighting.process.identity.pid)
        return any(two in self.looking_commands for two in pairwise(words))

    def find_patience(
        self,
        sighting: Sighting,  # noqa: ARG002  # for others to use
        server: str,  # noqa: ARG002
    ) -> float | None:
        """Return how many seconds the host waits for a server of this name to be ready.

        None if that is not certain: a user may have given a slow server more time, and an error
        before that time would end a start that would have succeeded.
        """
        return None

    def is_daemon(self, table: ProcessTable, pid: int) -> bool:  # noqa: ARG002  # for others to use
        """Return whether a process of the host serves sessions in all directories."""
        return False

    def starts_in_own_directory(self, table: ProcessTable, pid: int) -> bool:
        """Return whether a process of the host starts servers where it runs, not its sessions."""
        if not self.agent_words:
            return False
        words = {word.rpartition("/")[2] for word in table.read_argv(pid)}
        return not words.isdisjoint(self.agent_words)

    def list_open_threads(
        self,
        table: ProcessTable,  # noqa: ARG002  # for others to use
        pid: int,  # noqa: ARG002
    ) -> list[Thread]:
        """Return the threads that a process of the host has open."""
        return []

    def _identify_by(self, session: Found | Missing) -> Identity:
        """Return the identity for a host without threads; a call may still name another session."""
        if isinstance(session, Missing):
            return Identity(session, self._no_thread())
        return Identity(session, self._no_thread(), "tentative", session.origin)

    def _no_thread(self) -> Missing:
        return Missing([f"{self.title} has no threads"])


def pick_text(meta: dict[str, Json], name: str) -> str | None:
    """Return a member that is a non-empty text; None otherwise."""
    value = meta.get(name)
    return value if isinstance(value, str) and value else None


# Program names, as in the kernel's process table, the command line or the executable's path.
# The kernel cuts them at 15 characters.
_PROGRAMS = {
    "codex": "codex",
    "claude": "claude",
    "goose": "goose",
    "goosed": "goose",
    "gemini": "gemini",
    "cursor": "cursor",
    "Cursor": "cursor",
    "cursor-agent": "cursor",
    "Cursor Helper (Plugin)": "cursor",
    "code": "vscode",
    "code-insiders": "vscode",
    "codium": "vscode",
    "Code Helper (Plugin)": "vscode",
    "opencode": "opencode",
    "zed": "zed",
    "zed-editor": "zed",
    "windsurf": "windsurf",
    "Windsurf Helper (Plugin)": "windsurf",
    "copilot": "copilot",
    "qwen": "qwen",
    "kilo": "kilo",
    ".kilo": "kilo",
    "cline": "cline",
    "kimi": "kimi",
    "kimi-code": "kimi",
    "vibe": "vibe",
    "vibe-acp": "vibe",
    "vibe-app-server": "vibe",
    "droid": "droid",
    "openhands": "openhands",
    "Claude": "claude-desktop",
    "claude-desktop": "claude-desktop",
}

# The variables in which a host gives its servers their session. Everything that is started
# from a host's shell inherits them, so under any other host they are leaked.
IDENTITY_VARIABLES = {
    "codex": ("CODEX_THREAD_ID", "CODEX_SESSION_ID"),
    "claude": (
        *("CLAUDE_CODE_SESSION_ID", "CLAUDE_PROJECT_DIR"),
        *("CLAUDE_CODE_LAUNCHED_BY_SESSION_IDS", "CLAUDE_CODE_CHILD_NOTES_DIR"),
    ),
    "goose": ("AGENT_SESSION_ID",),
    "copilot": ("COPILOT_AGENT_SESSION_ID", "COPILOT_LOADER_PID"),
    "qwen": (
        *("QWEN_CODE_SESSION_ID", "QWEN_CODE_PROJECT_DIR"),
        *("QWEN_CODE_PROMPT_ID", "QWEN_CODE_LAUNCHER_PID"),
    ),
    "opencode": ("OPENCODE_PID",),
    "kilo": ("KILO_RUN_ID", "KILO_PID", "KILO_PARENT_PID"),
}

# Hosts that may not be recognised: the parent may be one of them if it is unknown, and then
# these variables are its own.
_MAY_BE_UNKNOWN = ("copilot", "qwen", "kilo")


class _Unknown(HostIdentity):
    """An unknown host, or a shell."""

    is_known = False

    def read_environ(self, sighting: Sighting) -> Mapping[str, str]:
        """Return the environment of the process; empty for a shell, whose exports it lacks."""
        is_shell = sighting.process is not None and sighting.process.name in SHELLS
        return {} if is_shell else super().read_environ(sighting)


# Hosts about which we know only how many sessions one server serves, and by what name a call
# may name its session.
_PLAIN = {
    "cursor": HostIdentity("cursor", "Cursor", "many sessions"),
    # Its first version names no session.
    "opencode": HostIdentity("opencode", "opencode", "many sessions", session_key="sessionID"),
    "zed": HostIdentity("zed", "Zed", "many sessions", adds_variables=True),
    "windsurf": HostIdentity("windsurf", "Windsurf", "many sessions"),
    "kilo": HostIdentity("kilo", "Kilo Code", "many sessions", session_key="sessionID"),
    "droid": HostIdentity("droid", "Factory Droid", "many sessions"),
    "continue": HostIdentity("continue", "Continue", "one session at a time"),
    "openhands": HostIdentity("openhands", "OpenHands", "one session at a time"),
    "claude-desktop": HostIdentity("claude-desktop", "Claude Desktop", "many sessions"),
}
# Hosts with an identity of their own, each in a package of its name.
_OWN_PACKAGE = {
    *("codex", "claude", "goose", "vscode"),
    *("cline", "copilot", "gemini", "kimi", "qwen", "vibe"),
}

UNKNOWN = _Unknown("unknown", "this host", "many sessions")


def list_foreign_variables(host: str) -> list[str]:
    """Return the identity variables that a server of this host can only have from another host."""
    foreign: list[str] = []
    are_for_servers = not load(host).keeps_variables_from_servers
    for owner, names in IDENTITY_VARIABLES.items():
        is_own = owner == host and are_for_servers
        is_possible = host == UNKNOWN.name and owner in _MAY_BE_UNKNOWN
        foreign += [] if is_own or is_possible else names
    return foreign


def recognise(table: ProcessTable, process: Process) -> HostIdentity | None:
    """Return the host that a process is; None if it is not a known host."""
    name = _PROGRAMS.get(process.name)
    if name is None:
        from mcp_launch.hosts import named, recognition

        programs = {**named.PROGRAMS, **_PROGRAMS}
        name = programs.get(process.name) or recognition.look_closer(table, process, programs)
    return load(name) if name else None


def load(name: str) -> HostIdentity:
    """Return one host by name; `UNKNOWN` for an unknown name."""
    if name in _OWN_PACKAGE:
        host: HostIdentity = _import(name).HOST
        return host
    if name in _PLAIN:
        return _PLAIN[name]
    title = _import("named").TITLES.get(name)
    return HostIdentity(name, title, "many sessions") if title else UNKNOWN


def name_in_sentence(name: str) -> str:
    """Return the title of a host by its name; "the host" if it is unknown."""
    known = load(name)
    return "the host" if known is UNKNOWN else known.title


def _import(name: str) -> ModuleType:
    # By name: these modules import this one, which must not depend on them in turn.
    return __import__(f"{__name__}.{name}", fromlist=["HOST"])

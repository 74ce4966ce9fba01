"""What is special about a host, apart from its files: one answer to each question asked of it.

Every question has an answer for a host of which nothing special is known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Literal

    from mcp_launch.config_files.site import Site

    # What a host makes of `cwd` in an entry. "absolute": a relative one is taken from wherever
    # its daemon was started.
    Cwd = Literal["unknown", "honoured", "absolute", "ignored"]

    # What a host makes of one name in several of its files.
    SameName = Literal["unknown", "merged", "nearest"]

    # How many processes of one server a host's process has.
    Processes = Literal["unknown", "one", "one for each thread"]


# What the protocol's own library passes on where its user adds nothing.
LIBRARY_PASSES = frozenset({"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"})

# What a shell replaces. Small letters behind a bare dollar are more often in a password.
BRACED_VARIABLE = r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}"
BARE_VARIABLE = r"(?<![\w$\\])\$[A-Z_][A-Z0-9_]*(?!\w)"
TILDE = r"(?:^|(?<==))~/"

# How editors borrow a variable.
BORROWING_OF_EDITORS = re.compile(r"\$\{env:(\w+)\}")

# When hosts give a server up, if nothing else is set: so do Codex and Claude Code.
GIVEN_UP_AFTER = 30.0

FASTER = "install the server instead of downloading it at each start"


class HostProgram(NamedTuple):
    """How a host is installed."""

    command: str = ""  # empty: it has no program of its own
    tells_version: bool = False  # with --version; others open a window
    package: str = ""  # what npm calls it
    bundle: str = ""  # what macOS calls it
    tried: tuple[str, ...] = ()  # the releases that our own tests run against
    litters: str = ""  # the variable for the directory in which it leaves files even then
    calming: str = ""  # the variable that keeps it from updating itself


class Environment(NamedTuple):
    """What a server gets of its host's environment, and what the host has in it."""

    # Whether it is known to hand on all that is not stripped.
    hands_all_on: bool = False
    # The names that it hands on, given its own environment; None: all but what is stripped.
    list_passed: Callable[[Mapping[str, str]], frozenset[str] | None] = lambda _: None
    # Whether the entry's `env_vars` name others.
    has_env_vars: bool = False
    strips: re.Pattern[str] | None = None
    strips_secret_values: bool = False  # whatever their names
    strips_secrets_if: str = ""  # the variable that makes it strip all secret names
    keeps: re.Pattern[str] | None = None  # whatever the others say
    kept_in: tuple[str, ...] = ()  # where its file lists what else is kept
    # What it sets for every server, besides the session; and where it says the project.
    added: tuple[tuple[str, str], ...] = ()
    project_variable: str = ""
    # An editor, which runs the user's shell at its start to learn what that would have given it.
    asks_the_shell: bool = False
    # The PATH that it makes for itself; empty: it has that of its start.
    find_path: Callable[[Site], str] = lambda _: ""
    # The files whose `env` it takes into its own environment, the later before the earlier …
    list_settings: Callable[[Site], list[str]] = lambda _: []
    # … and those of a project, for its servers.
    list_project_settings: Callable[[str], list[str]] = lambda _: []
    # Whether PATH in an entry is added to the one that is there.
    extends_path: bool = False


class Texts(NamedTuple):
    """What a host makes of the texts of an entry."""

    # What it replaces by a variable: its name, and perhaps a default.
    borrowing: re.Pattern[str] | None = None
    borrow: str = ""  # how to write that; {} is the variable's name
    replaces_nothing: bool = False
    expands_tilde: bool = False
    # What it is known to leave as it is, although somebody meant it to be replaced.
    left_alone: re.Pattern[str] | None = None
    # Whether it is known to leave a variable that is not set as it is written.
    leaves_unset: bool = False
    fills_in: re.Pattern[str] | None = None  # what nobody else can
    question: str = ""  # how to have it ask for a secret
    table: str = "env"  # what an entry calls its variables
    keyring: str = ""  # the key that names variables from the system's keyring


class Wait(NamedTuple):
    """How long a host waits for a server's tools."""

    seconds: float
    consequence: str
    fix: str


class ToolCount(NamedTuple):
    """How many tools a host takes, of all its servers together."""

    limit: int
    consequence: str


class NameLength(NamedTuple):
    """How long a tool's name may be, together with what a host puts before it."""

    limit: int
    before: str  # {} is the server's name


class AnswerTimeout(NamedTuple):
    """The key of an entry that says how long an answer may take."""

    key: str
    in_second: int  # how many of its units
    default: int | None = None  # None: nothing is known of entries without it


class Limits(NamedTuple):
    """What a host does not put up with."""

    # How long it waits for an entry's tools, given its own environment; longest first.
    list_waits: Callable[[Mapping[str, Any], Mapping[str, str]], list[Wait]] = lambda _, __: []
    tools: ToolCount | None = None
    tool_name: NameLength | None = None
    answer: AnswerTimeout | None = None
    server_name: re.Pattern[str] | None = None
    name_rule: str = ""  # the same for a person
    reserved_names: frozenset[str] = frozenset()


class Greeting(NamedTuple):
    """How a host meets a server."""

    begins_with: str = ""  # the method; empty: it is not known
    newer_variable: str = ""  # which, in an entry, makes it begin with `server/discover`
    refuses_incomplete: bool = False  # answers to `initialize`
    versions: frozenset[str] = frozenset()  # of the protocol that it takes; empty: any


class EntryKeys(NamedTuple):
    """What a host makes of an entry that does not say what it wants."""

    # The keys that it ignores, and what may be meant.
    list_ignored: Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]] = lambda _: ()
    # Whether it refuses a whole file for one entry: the keys, why, and what to do, given the
    # entry, its name, and whether it may complete another.
    refuses_files: bool = False
    list_refusing: Callable[[object, str, bool], Iterable[tuple[str, str, str]]] = lambda *_: ()
    # The keys for which it skips the entry, why, and what to do.
    list_skipping: Callable[[object], Iterable[tuple[str, str, str]]] = lambda _: ()
    # Whether it skips a whole file, given its scope and its content.
    is_file_skipped: Callable[[str, object], bool] = lambda *_: False


class HostQuirks(NamedTuple):
    """All that is asked of a host besides its files and its identity."""

    program: HostProgram = HostProgram()
    home_variable: str = ""  # which moves the directory of its own files
    lives_in: str = ""  # the host in whose process this one runs
    environment: Environment = Environment()
    texts: Texts = Texts()
    limits: Limits = Limits()
    greeting: Greeting = Greeting()
    cwd: Cwd = "unknown"
    same_name: SameName = "unknown"
    processes: Processes = "unknown"
    # So that a script needs a `#!`; the launcher, and hosts written for Node, hand one without
    # it to the shell. Seen on Codex 0.125 and 0.166, Claude Code 2.1.325.
    starts_without_shell: bool = False
    is_strict_about_json: bool = False
    ignores_unknown_tables: bool = True  # False: it is not known
    # The files that allow servers by their exact command, with the commands; None: it does not
    # compare commands, neither for that nor with those of plugins.
    list_allowed_commands: Callable[[Site], dict[str, list[Any]]] | None = None
    # What is lost with a file that it cannot read, by the file's scope.
    losses: tuple[tuple[str, str], ...] = ()
    keys: EntryKeys = EntryKeys()

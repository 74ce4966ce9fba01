"""What is special about a host, apart from its files: one field for each such fact.

The defaults are for a host about which nothing special is known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal

    from mcp_launch.config_files.site import Site

    # How a host treats `cwd` in an entry. "absolute": it resolves a relative one against the
    # directory in which its daemon was started.
    Cwd = Literal["unknown", "honoured", "absolute", "ignored"]

    # What a host allows in JSON beyond the standard.
    JsonExtras = Literal["nothing", "comments", "comments and trailing commas"]

    # What a host does with one name in several of its files.
    SameName = Literal["unknown", "merged", "nearest"]

    # How many processes of one server a host's process starts.
    Processes = Literal["unknown", "one", "one for each thread"]


# The variables that the MCP SDK passes on by default.
LIBRARY_PASSES = frozenset({"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"})

# What a shell expands. Lower-case letters after a bare dollar are more often part of a password.
BRACED_VARIABLE = r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}"
BARE_VARIABLE = r"(?<![\w$\\])\$[A-Z_][A-Z0-9_]*(?!\w)"
TILDE = r"(?:^|(?<==))~/"

# How editors refer to an environment variable.
BORROWING_OF_EDITORS = re.compile(r"\$\{env:(\w+)\}")

# After how many seconds hosts give up on a server by default, as Codex and Claude Code do.
GIVEN_UP_AFTER = 30.0

FASTER = "install the server instead of downloading it at each start"


class HostProgram(NamedTuple):
    """How a host is installed."""

    command: str = ""  # empty: it does not have its own program
    bundle: str = ""  # its name on macOS


class Environment(NamedTuple):
    """What a server inherits from its host's environment, and what the host sets in it."""

    # Whether it is known to pass on everything that it does not strip.
    hands_all_on: bool = False
    # The names that it passes on, given its own environment; None: all that it does not strip.
    list_passed: Callable[[Mapping[str, str]], frozenset[str] | None] = lambda _: None
    # Whether `env_vars` in an entry names further variables to pass on.
    has_env_vars: bool = False
    strips: re.Pattern[str] | None = None
    strips_secret_values: bool = False  # whatever the names
    strips_secrets_if: str = ""  # the variable that makes it strip all secret names
    keeps: re.Pattern[str] | None = None  # takes precedence over the other fields
    kept_in: tuple[str, ...] = ()  # where its file lists further names to keep
    # What it sets for every server, besides the session; and the variable for the project.
    added: tuple[tuple[str, str], ...] = ()
    project_variable: str = ""
    # An editor that runs the user's shell at startup to get its environment.
    asks_the_shell: bool = False
    # The PATH that it builds for itself; empty: the one it was started with.
    find_path: Callable[[Site], str] = lambda _: ""
    # The files whose `env` it adds to its own environment; later files take precedence …
    list_settings: Callable[[Site], list[str]] = lambda _: []
    # … and those of a project, for its servers.
    list_project_settings: Callable[[str], list[str]] = lambda _: []
    # Whether PATH in an entry is added to the existing one.
    extends_path: bool = False


class Texts(NamedTuple):
    """How a host expands the texts of an entry."""

    # What it replaces with a variable's value: the name, and perhaps a default.
    borrowing: re.Pattern[str] | None = None
    borrow: str = ""  # how to write such a reference; {} is the variable's name
    replaces_nothing: bool = False
    expands_tilde: bool = False
    # What it is known not to expand, although it looks as if it should.
    unexpanded: re.Pattern[str] | None = None
    # Whether it is known to leave a reference to an unset variable as it is written.
    leaves_unset: bool = False
    fills_in: re.Pattern[str] | None = None  # what only the host can fill in
    table: str = "env"  # the key of the variables in an entry
    keyring: str = ""  # the key that names variables from the system's keyring


class Wait(NamedTuple):
    """How long a host waits for a server's tools."""

    seconds: float
    consequence: str
    fix: str


class Greeting(NamedTuple):
    """How a host opens a connection to a server."""

    begins_with: str = ""  # the method; empty: unknown
    capabilities: tuple[str, ...] = ("roots", "elicitation")  # that it offers to servers
    newer_variable: str = ""  # if an entry sets it, the host begins with `server/discover`
    refuses_incomplete: bool = False  # it refuses incomplete answers to `initialize`
    versions: frozenset[str] = frozenset()  # protocol versions that it accepts; empty: any


class HostQuirks(NamedTuple):
    """All facts about a host besides its files and its identity."""

    program: HostProgram = HostProgram()
    home_variable: str = ""  # moves the directory of its own files
    lives_in: str = ""  # the host in whose process it runs, unless it is its own program
    environment: Environment = Environment()
    own_environment: Environment | None = None  # of its program, if it also lives in a host
    texts: Texts = Texts()
    # How long it waits for an entry's tools, given its own environment; longest first.
    list_waits: Callable[[Mapping[str, Any], Mapping[str, str]], list[Wait]] = lambda _, __: []
    greeting: Greeting = Greeting()
    cwd: Cwd = "unknown"
    cwd_key: str = "cwd"  # the key of an entry
    same_name: SameName = "unknown"
    processes: Processes = "unknown"
    # It needs a `#!` in a script; the launcher, and hosts written for Node, give a script without
    # one to the shell. Seen with Codex 0.125 and 0.166, Claude Code 2.1.325.
    starts_without_shell: bool = False
    json_extras: JsonExtras = "comments and trailing commas"
    # The files with an allowlist of exact commands.
    list_allowlists: Callable[[Site], list[str]] = lambda _: []
    # What the user loses when it cannot read a file, by the file's scope.
    losses: tuple[tuple[str, str], ...] = ()

"""A host's configuration: its files, where the servers are in them, and what is skipped."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mcp_launch.config_files.host_quirks import HostQuirks
from mcp_launch.config_files.knowledge import Knowledge
from mcp_launch.config_files.session_records import SessionRecords
from mcp_launch.config_files.wrap import Shape
from mcp_launch.errors import FileRefused
from mcp_launch.values import walk_upward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Literal

    from mcp_launch.config_files.site import Site
    from mcp_launch.documents.document import Document, Kind
    from mcp_launch.documents.positions import Path

    # What the user must approve before a host starts a project's server.
    Asks = Literal["unknown", "of the project", "of each server"]
    State = Literal["unknown", "approved", "pending", "rejected"]

# In a path: matches every key.
ANY = "*"

REMOTE_KEYS = ("url", "serverUrl", "httpUrl", "uri")
# Not a set: a value from a file may not be hashable.
_REMOTE_TYPES = (
    *("http", "sse", "streamable_http", "streamable-http", "streamableHttp"),
    *("remote", "ws"),
)


class File(NamedTuple):
    """One file of a host."""

    path: str
    scope: str  # as the host calls it
    kind: Kind = "json"
    servers: tuple[Path, ...] = (("mcpServers",),)  # the tables in which each key is a server
    why_not: str = ""  # why it is never changed
    lock: str = ""  # the directory that the host creates while it writes
    is_outside: bool = False  # above the project's repository, so not part of this project
    has_lists: bool = False  # the servers may be a list, each with its `name`
    lives_in: str = ""  # the host in whose process its servers run; empty: the file's own host


class Source(Protocol):
    """Where files are read, each once."""

    @property
    def site(self) -> Site:
        """Return the user and the project."""

    def read(self, file: File) -> Document:
        """Return one file.

        Raises:
            FileRefused: It cannot be read.

        """


class Approval:
    """Which of a project's servers a host starts; the answers of one that is not known to ask."""

    asks: Asks = "unknown"

    def find_state(self, source: Source, file: File, name: str) -> State:  # noqa: ARG002  # for others to use
        """Return what the user has answered for a server of a project's file."""
        return "unknown"

    def tell_why_not(self, source: Source, file: File, name: str) -> str:  # noqa: ARG002
        """Return in short why a server of a project's file is not started; "" if it is."""
        return ""

    def explain(
        self,
        source: Source,  # noqa: ARG002
        file: File,  # noqa: ARG002
        names: list[str],  # noqa: ARG002
    ) -> tuple[str, str] | None:
        """Return why servers of a project's file are not started, and what to do."""
        return None

    def tell_why_off(
        self,
        source: Source,  # noqa: ARG002
        path: Path,  # noqa: ARG002
        words: list[str],  # noqa: ARG002
        *,
        is_of_project: bool,  # noqa: ARG002
    ) -> str:
        """Return why the user's settings switch an entry off; "" if they do not."""
        return ""


class HostConfig(NamedTuple):
    """The facts about a host's configuration."""

    name: str
    title: str
    list_files: Callable[[Site], list[File]]
    shapes: tuple[Shape, ...] = (Shape(),)
    why_not: Callable[[dict[str, Any]], str] = lambda _: ""
    starts_anywhere: bool = False  # it starts servers in `/` or the home, whatever the project
    approval: Approval = Approval()
    quirks: HostQuirks = HostQuirks()
    sessions: SessionRecords = SessionRecords()
    knowledge: Knowledge = Knowledge()

    @property
    def processes(self) -> tuple[str, ...]:
        """Return the names of the hosts whose processes start its servers."""
        known = self.quirks
        has_own = bool(known.program.command) or not known.lives_in
        return (*([self.name] if has_own else []), *([known.lives_in] if known.lives_in else []))


# For a file of an unknown host: every way to write a server's command.
ANY_HOST = HostConfig(
    "file",
    "a file",
    lambda _: [],
    (Shape(), Shape(is_one_list=True), Shape(("command", "path"), ("command", "args"))),
)


def list_entries(document: Document, file: File) -> Iterator[Path]:
    """Return the paths of a file's entries."""
    for pattern in file.servers:
        for table in _follow(document, (), pattern):
            for key in _list_keys(document.get(table), file):
                if (*table, key) not in file.servers:
                    yield (*table, key)


def _list_keys(servers: object, file: File) -> Iterable[str | int]:
    if isinstance(servers, list) and file.has_lists:
        return range(len(servers))
    return servers if isinstance(servers, dict) else ()


def _follow(document: Document, path: Path, pattern: Path) -> Iterator[Path]:
    if not pattern:
        yield path
    elif pattern[0] == ANY:
        found = document.get(path)
        for key in found if isinstance(found, dict) else ():
            yield from _follow(document, (*path, key), pattern[1:])
    else:
        yield from _follow(document, (*path, pattern[0]), pattern[1:])


def tell_why_not(host: HostConfig, entry: object) -> str:
    """Return why an entry is skipped; "" if it is not."""
    if not isinstance(entry, dict):
        return NOT_A_TABLE
    if any(key in entry for key in REMOTE_KEYS) or entry.get("type") in _REMOTE_TYPES:
        return REMOTE
    if entry.get("enabled") is False or entry.get("disabled") is True:
        return OFF
    return host.why_not(entry)


NOT_A_TABLE = "it is not a table"
REMOTE = "it is a remote server"
OFF = "it is disabled"
MANAGED = "it is managed by your organisation"
PLUGIN = "it comes with a plugin"
TRACKED = "Git tracks its file"
PERHAPS_TRACKED = "Git may track its file, but could not be asked"
ONE_TEXT = "its command has several words; move all but the first to args"

# How deep to search for a plugin's file: below a marketplace, a plugin, a version.
_PLUGIN_DEPTH = 5


def find_plugin_files(directory: str, name: str) -> list[str]:
    """Return the files in which plugins define servers."""
    found = []
    for here, directories, files in os.walk(directory):
        if here.removeprefix(directory).count(os.sep) >= _PLUGIN_DEPTH:
            directories.clear()
        if name in files:
            found.append(os.path.join(here, name))
    return sorted(found)


def in_home(site: Site, *names: str) -> str:
    """Return a path below the home directory."""
    return os.path.join(site.home, *names)


def in_project(site: Site, *names: str) -> str:
    """Return a path below the project."""
    return os.path.join(site.project, *names)


def list_upward(site: Site, *names: str) -> list[str]:
    """Return a path below the project and below each directory above it, the nearest first."""
    return [os.path.join(directory, *names) for directory in walk_upward(site.project)]


def count_inside(site: Site) -> int:
    """Return how many of these directories belong to the project: up to the repository's root."""
    marks = [os.path.exists(path) for path in list_upward(site, ".git")]
    return marks.index(True) + 1 if True in marks else 1


# Stands between a repository and what it knows of its worktrees.
_WORKTREES = "/.git/worktrees/"


def list_roots(project: str) -> list[str]:
    """Return the directories by which a host may know a project, the nearest first."""
    directory = os.path.realpath(project)
    roots = [directory]
    while not os.path.exists(os.path.join(directory, ".git")):
        above = os.path.dirname(directory)
        if above == directory:
            return roots
        directory = above
    roots.append(directory)
    try:
        with open(os.path.join(directory, ".git"), encoding="utf-8") as file:
            repository, mark, _ = file.read().removeprefix("gitdir: ").partition(_WORKTREES)
    except (OSError, ValueError):
        return roots  # a directory: it is the repository itself
    return [*roots, repository] if mark else roots


def read_of_project(source: Source, own: File, project: str) -> dict[str, Any]:
    """Return what the user's own file of a host says of a project."""
    try:
        found = source.read(own).get(("projects", project))
    except FileRefused:
        return {}  # it does not exist, or it is invalid, which ML101 reports
    return found if isinstance(found, dict) else {}

"""Everything that is known of a server in a host's file: its state, profile and processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from mcp_launch import masking
from mcp_launch.config_files import git_tracking
from mcp_launch.config_files.host_config import (
    MANAGED,
    NOT_A_TABLE,
    OFF,
    ONE_TEXT,
    PLUGIN,
    REMOTE,
    REMOTE_KEYS,
)
from mcp_launch.config_files.wrap import find_missing_run
from mcp_launch.errors import ProfileRefused
from mcp_launch.launch import profile_tables
from mcp_launch.machine.recognize_server import is_same_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import Session
    from mcp_launch.machine.survey import Item, Survey

    Kind = Literal[
        "wrapped",
        "not wrapped",
        "remote",
        "disabled",
        "managed",
        "plugin",
        "invalid",
        "not used",
    ]

# The kinds, by the reason why a host does not start an entry, or we do not change it.
_BY_REASON: dict[str, Kind] = {
    REMOTE: "remote",
    OFF: "disabled",
    MANAGED: "managed",
    PLUGIN: "plugin",
    NOT_A_TABLE: "invalid",
    ONE_TEXT: "not wrapped",
}

_NO_COMMAND = "its command is missing or malformed"
_NO_RUN = "the word run is missing after mcp-launch"


class EntryState(NamedTuple):
    """The state of one entry."""

    kind: Kind
    why_not: str = ""  # why its host does not start it; empty: it does
    address: str = ""  # the host and port of a remote server's URL


def classify(item: Item) -> EntryState:
    """Return the state of an entry; every entry has exactly one kind."""
    kind = _find_kind(item)
    why_invalid = _NO_RUN if item.words else _NO_COMMAND
    why_not = item.why_not or (why_invalid if kind == "invalid" else "")
    return EntryState(kind, why_not, _find_address(item) if kind == "remote" else "")


def _find_kind(item: Item) -> Kind:
    if item.why_not in _BY_REASON:
        return _BY_REASON[item.why_not]
    if not item.words:
        return "invalid"
    if item.why_not:
        return "not used"
    if find_missing_run(item.words) is not None:
        return "invalid"
    return "wrapped" if item.is_wrapped else "not wrapped"


def _find_address(item: Item) -> str:
    """Return where a remote server is: no path or query, which may hold secrets."""
    urls = (item.entry.get(key) for key in REMOTE_KEYS)
    for url in urls:
        try:
            parts = urlsplit(url) if isinstance(url, str) else None
            if parts is not None and parts.hostname:
                return parts.hostname + (f":{parts.port}" if parts.port else "")
        except ValueError:
            continue  # not a URL
    return ""


class EntryProfile(NamedTuple):
    """The profile of one name."""

    name: str
    is_refused: bool  # it is invalid, or the whole file is
    is_used: bool  # the entry's launch uses it, or would if it were wrapped by that name

    def __str__(self) -> str:
        """Return it as shown to a person."""
        text = "invalid" if self.is_refused else "yes"
        return text if self.is_used else f"{text} (not used)"


def find_profile(survey: Survey, item: Item) -> EntryProfile | None:
    """Return the profile for an entry: that of its `--server`, or of its own name."""
    given = item.options.get("--server", [])
    name = given[-1] if given else item.name
    is_used = bool(given) or not item.is_wrapped
    try:
        file = profile_tables.read(survey.environ)
    except ProfileRefused:
        return EntryProfile(name, is_refused=True, is_used=is_used)
    if name not in file.list_names():
        return None
    return EntryProfile(name, name in file.refused, is_used)


class Listed(NamedTuple):
    """One server in one file, with everything that is said about it."""

    item: Item
    state: EntryState
    profile: EntryProfile | None
    running: list[tuple[Session, Server]]
    is_tracked: bool  # Git tracks its file

    @property
    def command(self) -> list[str]:
        """Its own command, without secrets."""
        return masking.mask(self.item.command)

    @property
    def project(self) -> str:
        """The project that its file names for it, if there is one."""
        return self.item.scope.partition(": ")[2]

    @property
    def scope(self) -> str:
        """Its scope without that project."""
        return self.item.scope.partition(": ")[0]


def look_up(survey: Survey, item: Item) -> Listed:
    """Return everything about an entry."""
    return Listed(
        item,
        classify(item),
        find_profile(survey, item),
        list(_find_running(survey, item)),
        git_tracking.judge(item.file.path) == "yes",
    )


def _find_running(survey: Survey, item: Item) -> Iterator[tuple[Session, Server]]:
    """Return the servers of an entry that run now, each with its session."""
    names = {item.name, *item.options.get("--server", [])}
    project = item.scope.partition(": ")[2]
    same = [one for one in survey.items if (one.host, one.name) == (item.host, item.name)]
    for host in survey.census.hosts:
        if host.name != item.running_as:
            continue
        for session in host.sessions:
            for server in session.servers:
                is_here = not project or server.project == project
                if server.name in names and is_here and _is_of(server, item, same):
                    yield session, server


def _is_of(server: Server, item: Item, same: list[Item]) -> bool:
    """Return whether a server is this entry's, of those with the same name.

    Where no command tells, as without a runner such as npx, it may be any that its host starts.
    """
    matching = [one for one in same if _has_command(server, one)]
    return item in (matching or [one for one in same if not one.why_not] or same)


def _has_command(server: Server, item: Item) -> bool:
    words = tuple(masking.mask(item.command))
    return bool(server.command) and is_same_command(list(server.command), words)

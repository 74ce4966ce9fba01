"""Everything that is known of a server in a host's file: its state, profile and processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import masking
from mcp_launch.config_files import git_tracking
from mcp_launch.errors import ProfileRefused
from mcp_launch.launch import profile_tables
from mcp_launch.machine.entry_state import EntryState, classify
from mcp_launch.machine.recognize_server import is_same_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import Session
    from mcp_launch.machine.survey import Item, Survey


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

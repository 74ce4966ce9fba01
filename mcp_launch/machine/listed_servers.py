"""Everything that is known of a server in a host's file: its state, profile and processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import masking
from mcp_launch.config_files import git_tracking
from mcp_launch.machine.entry_profile import EntryProfile, find_profile
from mcp_launch.machine.entry_state import EntryState, classify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import Session
    from mcp_launch.machine.survey import Item, Survey


class Listed(NamedTuple):
    """One server in one file, with everything that is said about it."""

    item: Item
    state: EntryState
    profile: EntryProfile
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
    for host in survey.census.hosts:
        if host.name != item.host.running_as:
            continue
        for session in host.sessions:
            for server in session.servers:
                is_here = not project or server.project == project
                if server.name in names and is_here and not item.why_not:
                    yield session, server

"""Options of `run` that would save the memory of running servers, and how to apply them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.errors import LaunchError
from mcp_launch.launch import profile, profile_tables
from mcp_launch.machine.preview import predict
from mcp_launch.machine.wrap_hint import find_reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_launch.launch.profile import Profile
    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.survey import Item, Survey


class Remedy(NamedTuple):
    """An option that would save the memory of some servers."""

    option: str
    value: str
    what: str  # for a person
    warning: str = ""


class Target(NamedTuple):
    """A running server, and where its options can be written."""

    server: Server
    item: Item | None  # its entry, if it is in a file of this user or this project


def find_target(survey: Survey, host: str, server: Server) -> Target:
    """Return a server of a host with its entry."""
    for item in survey.servers:
        if item.is_wrapped and (item.running_as, item.name) == (host, server.name):
            return Target(server, item)
    return Target(server, None)


def find_wanted(survey: Survey, target: Target) -> Profile | None:
    """Return what the next launch of a server would want; None if that is not known."""
    if target.item is not None:
        return predict(survey, target.item).profile
    try:
        # Its entry is elsewhere, so only the user's own file is known.
        words = [f"--server={target.server.name}", "--", "its command"]
        return profile.load(words, survey.environ)
    except LaunchError:
        return None  # it is invalid, which other checks report


def list_fixes(survey: Survey, remedy: Remedy, targets: Iterable[Target]) -> Iterator[str]:
    """Return what applies a remedy: a command, or a profile in the user's file."""
    commands: dict[str, list[str]] = {}
    left: list[str] = []
    for server, item in targets:
        names = commands.setdefault(_choose_command(item), []) if item else left
        if server.name not in names:
            names.append(server.name)
    for command, names in commands.items():
        yield (
            f"{remedy.what}: {command}{shlex.join(names)} -- {remedy.option} {remedy.value}"
            f"{f' ({remedy.warning})' if remedy.warning else ''}"
        )
    if left:
        key, tables = remedy.option.removeprefix("--"), map(profile_tables.name_table, left)
        path = profile_tables.locate(survey.environ)
        yield (
            f'{remedy.what}: write {key} = "{remedy.value}" under {", ".join(tables)} in '
            f"{path}{f' ({remedy.warning})' if remedy.warning else ''}"
        )


def _choose_command(item: Item) -> str:
    """Return the beginning of the command that changes an entry."""
    if find_reach(item) == "file":
        return f"mcp-launch wrap --file {shlex.quote(item.file.path)} "
    return "mcp-launch wrap "

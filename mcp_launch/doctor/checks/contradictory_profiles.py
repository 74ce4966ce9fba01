"""Profiles whose own keys contradict each other (ML013).

A launch stops for them, whatever its entry says, so the finding is about the file and not about
any entry. It is there even if no entry uses the profile yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch.doctor import profile_files
from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import Contradiction, LaunchError
from mcp_launch.launch import options, profile, sharing
from mcp_launch.launch.profile_tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.doctor.profile_files import ProfileFile
    from mcp_launch.documents.positions import Path
    from mcp_launch.machine.preview import Preview
    from mcp_launch.machine.survey import Survey

# Which policies need the calls to be read, which `direct` rules out.
_POLICIES = ("tools", "arguments")


class _PlacedTable(NamedTuple):
    """One table of a profile file, and where it is."""

    file: ProfileFile
    where: Path
    facts: dict[str, Any]

    def has(self, key: str) -> bool:
        """Return whether the file has this key in this table."""
        return (*self.where, key) in self.file.spots

    def __str__(self) -> str:
        """Return the name of the table."""
        return f"[{'.'.join(map(str, self.where))}]"


def check(survey: Survey) -> Iterator[Finding]:
    """Find tables with keys that contradict each other, or those of `[defaults]` (ML013)."""
    file = profile_files.read(survey)
    if file is None:
        return
    defaults: list[_PlacedTable] = []
    if file.defaults is not None:
        defaults = [_PlacedTable(file, ("defaults",), file.defaults)]
        yield from _judge(defaults, "")
    for name, facts in file.servers.items():
        yield from _judge([*defaults, _PlacedTable(file, ("servers", name), facts)], name)


def _judge(tables: list[_PlacedTable], server: str) -> Iterator[Finding]:
    """Report what the last of some tables contradicts, in itself or in those before it."""
    facts = [Table(one.facts) for one in tables]
    try:
        wanted = profile.read_options([], facts)
    except LaunchError:
        return  # another finding
    found = _find_clash(wanted, facts)
    if found is None:
        return
    first, second, why = found
    own = tables[-1]
    places = {key: _find_table(tables, key) for key in (first, second)}
    if own not in places.values():
        return  # reported for the tables that have it
    key = second if places[second] is own else first
    names = " and ".join(f"`{one}` of {place}" for one, place in places.items())
    fix = f'remove `{second}`, or write share = "off"'
    yield Finding(
        "ML013",
        own.file.point(server, (*own.where, key)),
        f"{names} contradict each other: {why}; a server with both does not start",
        fix if first == "share" else f"remove `{first}`, or `{second}`",
    )


def _find_clash(wanted: profile.Profile, facts: list[Table]) -> tuple[str, str, str] | None:
    """Return two keys that contradict each other, and why; None: there are none."""
    if clash := sharing.find_clash(wanted):
        return "share", *clash
    policies = {key for one in facts for key, value in one.policies.items() if value}
    if wanted.direct and policies:
        key = "arguments" if policies == {"arguments"} else "tools"
        return "direct", key, "with `direct` nobody reads the calls"
    return None


def _find_table(tables: list[_PlacedTable], key: str) -> _PlacedTable:
    """Return the table whose key is in force."""
    return next((one for one in reversed(tables) if one.has(key)), tables[-1])


def is_of_profile(launch: Preview) -> bool:
    """Return whether the profiles of a launch contradict each other alone, as `check` reports."""
    environ = launch.situation.environ
    around = {name: text for name, text in environ.items() if not options.is_own_variable(name)}
    words = ["--server", launch.server, "--", "x"]
    try:
        sharing.check(profile.load(words, around))
    except Contradiction:
        return bool(launch.server)
    except LaunchError:
        return False
    return False

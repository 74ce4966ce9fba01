"""The inputs of a launch preview: for a launch from here, or by the host that has the server.

Nothing is started. For a host we use what its file says and what its process shows, and
assume that it works in the current directory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import hosts, launch, state
from mcp_launch.config_files import run_options, wrap
from mcp_launch.errors import ProfileRefused, UsageError, suggest
from mcp_launch.launch import context, options, profile, profile_tables
from mcp_launch.launch.context import Lineage
from mcp_launch.machine import host_environment, nearby_session
from mcp_launch.machine.survey import Survey, check_hosts, make_site
from mcp_launch.values import expand_home

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mcp_launch.machine.survey import Item
    from mcp_launch.system import ProcessTable

# A placeholder for the server's command where none was given.
NO_COMMAND = "COMMAND"

# Of several entries with one name, a host uses the one with the narrowest scope (the last here).
_SCOPES = ("plugin", "user", "workspace", "project", "local", "managed")


class Situation(NamedTuple):
    """Everything that a launch would find."""

    table: ProcessTable
    arguments: list[str]  # the words after `run`
    environ: dict[str, str]
    line: Lineage
    cwd: str
    item: Item | None = None  # the entry, if a host would start it
    origins: Mapping[str, str] = {}  # of variables that are not simply inherited
    withheld: Mapping[str, str] = {}  # variables of the host that it does not pass on, and why
    around: Mapping[str, str] = {}  # the host's own environment
    places: tuple[str, ...] = ()  # directories where the host may start it; empty: unknown
    notes: tuple[str, ...] = ()

    @property
    def is_launched(self) -> bool:
        """Return whether the launcher is used: an entry may not be wrapped."""
        return self.item is None or wrap.find_run(self.item.words) is not None


def look_here(words: list[str], environ: Mapping[str, str], table: ProcessTable) -> Situation:
    """Return the inputs of a launch from this process."""
    own = dict(environ)
    launch.restore_variables(table, own)
    line = context.trace_back(table, os.getpid())
    return Situation(table, _complete(words, own), own, line, context.read_cwd(own))


def look_at_server(
    server: str, only: list[str], words: list[str], here: Situation
) -> list[Situation]:
    """Return the inputs of a launch of a server, for each host that has it, or for its profile.

    Raises:
        UsageError: No host or profile has it, or it has no command.

    """
    check_hosts(only)
    directory = state.find_directory(here.environ)
    survey = Survey(make_site(here.environ), here.table, directory, only, here=here.cwd)
    found = [item for item in survey.items if item.name == server]
    if found:
        return [look_at_entry(survey, one, words) for one in _choose(server, found, here.cwd)]
    in_profiles, is_unreadable = ([], False) if only else _list_profiles(here.environ)
    if server in in_profiles or is_unreadable:
        return [here._replace(arguments=["--server", server, *words])]
    known = [*(item.name for item in survey.items), *in_profiles]
    where = f"the files of {', '.join(only)}" if only else "any host's files or a profile"
    problem = f'no server named "{server}" in {where}'
    near = suggest(server, known)
    if survey.refusals and not near:  # it may well be in there
        refused = survey.refusals[0].error
        raise UsageError(f"{problem}; {refused.problem}", fix=refused.fix)
    raise UsageError(problem, fix=f"{near}mcp-launch list shows all servers")


def _complete(words: list[str], environ: Mapping[str, str]) -> list[str]:
    """Return the words with a placeholder command, unless they or a profile may have one."""
    given, command = split(words)
    if command or profile.name_server(given, environ):
        return words
    return [*(word for word in words if word != "--"), "--", NO_COMMAND]


def split(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return options and command; both empty if the words are invalid."""
    try:
        return options.split(words)
    except UsageError:
        return {}, []  # the error is reported where the words are used


def _list_profiles(environ: Mapping[str, str]) -> tuple[list[str], bool]:
    """Return the servers that have a profile, and whether the file cannot be read."""
    try:
        return profile_tables.read(environ).list_names(), False
    except ProfileRefused:
        return [], True


def _choose(server: str, found: list[Item], here: str) -> list[Item]:
    """Return the entry that each host uses; those without a command only if there is no other."""
    of_hosts: dict[str, list[Item]] = {}
    for item in found:
        of_hosts.setdefault(item.host.name, []).append(item)
    chosen = [choose_nearest(items, here) for items in of_hosts.values()]
    if usable := [item for item in chosen if item.words]:
        return usable
    raise UsageError(
        f"{server} in {chosen[0].file.path} has no command: "
        + (chosen[0].why_not or "the entry is invalid"),
        fix="name a server that has a command",
    )


def choose_nearest(found: list[Item], here: str) -> Item:
    """Return the entry that a host uses of several with one name."""
    return max(found, key=lambda item: _rank(item, here))


def _rank(item: Item, here: str) -> int:
    scope = item.scope.partition(":")[0]
    if scope == "local" and not context.is_inside(here, [str(item.path[1])]):
        return -1  # another project's
    return _SCOPES.index(scope) if scope in _SCOPES else 0


def look_at_entry(survey: Survey, item: Item, words: Sequence[str] = ()) -> Situation:
    """Return the inputs of a launch of an entry by its host, with extra options for `run`."""
    places = list_places(survey, item)
    cwd = _choose_place(survey, item, places)
    line = _imagine_lineage(survey, item)
    table = nearby_session.hide_threads(survey.table, line, survey.here)
    given = host_environment.give(survey, item, cwd)
    return Situation(
        table,
        _join([*words], survey, item),
        given.environ,
        line,
        cwd,
        item,
        given.origins,
        given.withheld,
        given.around,
        tuple(places),
        (
            *_list_notes(survey, item, cwd, places),
            *nearby_session.list_notes(table, line, item.host.title),
        ),
    )


def has_cwd(item: Item) -> bool:
    """Return whether the host honours a `cwd` in the entry."""
    return item.host.quirks.cwd in {"honoured", "absolute"}


def list_places(survey: Survey, item: Item) -> list[str]:
    """Return the directories where a host may start an entry's command."""
    site = survey.site
    project = host_environment.find_project(survey, item)
    cwd = item.cwd
    if has_cwd(item) and isinstance(cwd, str) and cwd:
        cwd = host_environment.expand(survey, item, cwd)
        if item.host.quirks.cwd == "absolute" and not os.path.isabs(cwd):
            return []  # relative to the directory of its daemon, which is unknown
        if item.host.quirks.texts.expands_tilde:
            cwd = expand_home(cwd, site.home)
        return [os.path.join(project, cwd)]
    # Some hosts start all servers in one directory, but do not document which.
    return ["/", site.home, project] if item.starts_anywhere else [project]


def _choose_place(survey: Survey, item: Item, places: list[str]) -> str:
    """Return where the host starts it; a host that starts servers where it runs is run here."""
    if item.starts_anywhere and survey.site.home in places:
        return survey.site.home  # as ML408 notes; the home is what users report most
    *_, place = (survey.here, *places)
    return survey.here if place == survey.site.project else place


def _imagine_lineage(survey: Survey, item: Item) -> Lineage:
    near = host_environment.find_processes(survey, item.host)
    pids = [pid for pid in near if survey.near_hosts[pid] == item.running_as]
    process = survey.table.look(pids[0]) if pids else None
    line = Lineage([process] if process else [], hosts.load(item.running_as), process)
    line.evidence = "nothing is started, so there is no stdin to check"
    return line


def _join(words: list[str], survey: Survey, item: Item) -> list[str]:
    """Return the words after `run`: the given ones, then the entry's own."""
    spelled = host_environment.spell_out(survey, item, item.words)
    at = wrap.find_run(item.words)
    # An unwrapped entry is treated as if it were wrapped.
    own = [*run_options.name_server(item.name), "--", *spelled] if at is None else spelled[at:]
    return words if split(words)[1] else [*(word for word in words if word != "--"), *own]


def _list_notes(survey: Survey, item: Item, cwd: str, places: list[str]) -> Iterator[str]:
    for refusal in survey.refusals:
        yield f"{refusal.error.problem}: {refusal.error.fix}"
    if item.why_not:
        yield f"{item.host.title} does not start {item.name}: {item.why_not}"
    if wrap.find_run(item.words) is None:
        yield (
            f"{item.name} is not wrapped: mcp-launch changes nothing in its environment until "
            f"you run: mcp-launch wrap {item.name} --host {item.host.name}"
        )
    others = [place for place in places if place != cwd]
    doubt = f"; it may also be {' or '.join(others)}" if others and len(places) > 1 else ""
    yield f"assuming that {item.host.title} starts it in {cwd}{doubt}"

"""`mcp-launch list`: every server in every host's files, wrapped or not, running or not."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from mcp_launch import masking
from mcp_launch.commands.columns import Column, Layout, make_text, see_paper, shorten_home
from mcp_launch.commands.json_output import print_json
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import suggest, tell
from mcp_launch.machine import units
from mcp_launch.machine.entry_profile import EntryProfile, find_profile
from mcp_launch.machine.entry_state import EntryState, classify
from mcp_launch.machine.survey import check_hosts, open_survey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import Session
    from mcp_launch.machine.survey import Item, Survey
    from mcp_launch.system import ProcessTable

VERSION = 1

_COLUMNS = (
    Column("SERVER", can_be_cut=True),
    Column("SCOPE", spare=2),
    Column("HOW"),
    Column("PROFILE", spare=1),
    Column("RUNS", is_right=True, spare=3),
    Column("COMMAND", can_be_cut=True),
)
_INDENT = 2
_STYLES = {"wrapped": "green", "not wrapped": "yellow", "invalid": "red"}


class ListRequest(NamedTuple):
    """What the user asked for."""

    names: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    is_json: bool = False
    is_verbose: bool = False


class Listed(NamedTuple):
    """One server in one file, with everything that is said about it."""

    item: Item
    state: EntryState
    profile: EntryProfile
    running: list[tuple[Session, Server]]

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


def run(request: ListRequest, environ: Mapping[str, str], table: ProcessTable | None = None) -> int:
    """Show the servers; return 1 if a file could not be read."""
    check_hosts([*request.hosts])
    survey = open_survey(environ, table, request.hosts)
    listed = [_look_up(survey, item) for item in survey.items if _is_wanted(item, request)]
    if request.is_json:
        print_json(describe(survey, listed))
    else:
        console = Screen()
        for refusal in survey.refusals:
            tell(refusal.error, sys.stderr)
        show(console, survey, listed, request)
    return 1 if survey.refusals or survey.failures else 0


def _is_wanted(item: Item, request: ListRequest) -> bool:
    return not request.names or item.name in request.names


def _look_up(survey: Survey, item: Item) -> Listed:
    return Listed(
        item, classify(item), find_profile(survey, item), list(_find_running(survey, item))
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


def show(console: Console, survey: Survey, listed: list[Listed], request: ListRequest) -> None:
    """Print the table, or where servers were looked for."""
    paper, home = see_paper(console), survey.site.home
    if not listed:
        _show_nothing(console, survey, request)
        return
    rows = [_make_row(one, is_verbose=request.is_verbose) for one in listed]
    columns = _COLUMNS[:-1] if request.is_verbose else _COLUMNS
    layout = Layout(columns, rows, paper, indent=_INDENT)
    console.print(layout.draw_header(), soft_wrap=True)
    group = ""
    for one, row in zip(listed, rows, strict=True):
        heading = _name_group(one, home)
        if heading.plain != group:
            console.print(heading, soft_wrap=True)
            group = heading.plain
        for line in layout.draw(row):
            console.print(line, soft_wrap=True)
        if request.is_verbose:
            for detail in _list_details(one, home):
                console.print(make_text(f"{' ' * 2 * _INDENT}{detail}", "dim"), soft_wrap=True)
    console.print(_sum_up(listed), soft_wrap=True)


def _make_row(one: Listed, *, is_verbose: bool) -> list[Text]:
    how = make_text(str(one.state), _STYLES.get(one.state.kind, "dim"))
    cells = [
        make_text(one.item.name, "bold"),
        make_text(one.scope),
        how,
        make_text(str(one.profile) or "-", "" if str(one.profile) else "dim"),
        make_text(_tell_running(one) or "-", "" if one.running else "dim"),
        make_text(_tell_command(one)),
    ]
    return cells[:-1] if is_verbose else cells


def _tell_running(one: Listed) -> str:
    sessions = {id(session) for session, _ in one.running}
    number = len(one.running)
    if not number:
        return ""
    return str(number) if len(sessions) == number else f"{number} for {len(sessions)}"


def _tell_command(one: Listed) -> str:
    if one.state.address:
        return one.state.address
    if one.item.is_wrapped and not one.command:
        return "(from its profile)"
    return shlex.join(one.command)


def _name_group(one: Listed, home: str) -> Text:
    """Return the line above the servers of a file: host, file, and project if it names one."""
    title = make_text(one.item.host.title, "bold")
    title.append_text(make_text(f"  {shorten_home(one.item.file.path, home)}", "not bold cyan"))
    if one.project:
        title.append_text(make_text(f"  in {shorten_home(one.project, home)}", "not bold"))
    return title


def _list_details(one: Listed, home: str) -> Iterator[str]:
    place = one.item.point()
    yield f"{shorten_home(place.file, home)}:{place.line}:{place.column}"
    if one.item.why_not:
        yield f"not started: {one.item.why_not}"
    if command := _tell_command(one):
        yield f"{'at' if one.state.address else 'command'}: {command}"
    if one.item.options:
        words = [word for name, texts in one.item.options.items() for word in (name, *texts)]
        yield f"options of run: {shlex.join(masking.mask(words))}"
    for session, server in one.running:
        whose = f"for {session.id}" if session.id else "for an unknown session"
        yield f"runs as process {server.pid} {whose}"


def _sum_up(listed: list[Listed]) -> Text:
    hosts = {one.item.host.name for one in listed}
    kinds = Counter(one.state.kind for one in listed)
    parts = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    servers, of = units.count(len(listed), "server"), units.count(len(hosts), "host")
    return Text(f"{servers} of {of}: {parts}", "bold")


def _show_nothing(console: Console, survey: Survey, request: ListRequest) -> None:
    home = survey.site.home
    if request.names and survey.items:
        names = " or ".join(request.names)
        known = sorted({item.name for item in survey.items})
        hint = suggest(request.names[0], known)
        console.print(make_text(f"No host's file has a server called {names}. {hint}".rstrip()))
        return
    console.print("No MCP servers are configured. These files were looked for:")
    rows = []
    for host in survey.hosts:
        paths = [file.path for file in host.list_files(survey.site) if not file.is_outside]
        for at, path in enumerate(dict.fromkeys(paths)):
            title = make_text("" if at else host.title, "bold")
            rows.append([title, make_text(shorten_home(path, home))])
    layout = Layout((Column(""), Column("")), rows, see_paper(console), indent=_INDENT)
    for row in rows:
        for line in layout.draw(row):
            console.print(line, soft_wrap=True)


def describe(survey: Survey, listed: list[Listed]) -> dict[str, Any]:
    """Return everything as data; `schemas/list.json` describes it."""
    return {
        "version": VERSION,
        "servers": [_describe_listed(one) for one in listed],
        "unreadable": [
            {
                "host": refusal.host.name,
                "file": refusal.file.path,
                "line": refusal.error.line or None,
                "column": refusal.error.column or None,
                "problem": masking.mask_text(refusal.error.without_place),
                "fix": refusal.error.fix,
            }
            for refusal in survey.refusals
        ],
    }


def _describe_listed(one: Listed) -> dict[str, Any]:
    item, place = one.item, one.item.point()
    return {
        "host": item.host.name,
        "server": item.name,
        "scope": one.scope,
        "project": one.project or None,
        "file": place.file,
        "line": place.line or None,
        "column": place.column or None,
        "kind": one.state.kind,
        "is_wrapped": item.is_wrapped,
        "is_disabled": one.state.kind == "disabled",
        "is_remote": one.state.kind == "remote",
        "is_tracked": one.state.is_tracked,
        "address": one.state.address or None,
        "why_not": item.why_not or None,
        "command": one.command,
        "options": {name: masking.mask(texts) for name, texts in item.options.items()},
        "profile": one.profile._asdict() if str(one.profile) else None,
        "running": [
            {
                "pid": server.pid,
                "session": session.session or None,
                "thread": session.thread or None,
            }
            for session, server in one.running
        ],
    }

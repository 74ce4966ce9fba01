"""`mcp-launch list`: every server in every host's files, wrapped or not, running or not."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.text import Text

from mcp_launch.commands.app import Hosts, Json, Names, Verbose, app
from mcp_launch.commands.output import Column, Layout, cut, make_text, print_json, wrap
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import tell
from mcp_launch.machine import units
from mcp_launch.machine.process_titles import find_telling_word
from mcp_launch.values import shorten_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.listed_servers import Listed
    from mcp_launch.machine.survey import Survey

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
_NARROWEST_PATH = 12
_STYLES = {"wrapped": "green", "not wrapped": "yellow", "invalid": "red"}


@app.command("list")
def list_servers(
    servers: Names = None,
    *,
    hosts: Hosts = None,
    profiles: Annotated[
        bool, typer.Option("--profiles", help="List your profiles instead, and what each sets.")
    ] = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> int:
    """Show every server in the hosts' files: wrapped or not, running or not.

    These are the files of this user and of the current project. With -v, the file and line of
    each entry are shown, and its whole command.

    Exit code: 1 if a file could not be read, else 0.

    \b
    Examples:
      mcp-launch list                all servers of all hosts
      mcp-launch list docs           the servers called docs
      mcp-launch list --host codex   the servers of one host
      mcp-launch list --profiles     your profiles, and what each sets
    """  # noqa: D301  # keeps the line breaks of what follows
    if profiles:
        from mcp_launch.commands import list_profiles

        return list_profiles.run(os.environ, is_json=as_json)
    from mcp_launch.machine.listed_servers import look_up
    from mcp_launch.machine.survey import check_hosts, check_servers, open_survey

    names = servers or []
    check_hosts(hosts or [])
    survey = open_survey(os.environ, None, hosts or [])
    if survey.items and not survey.refusals:  # otherwise it may be in one that cannot be read
        check_servers(survey, names)
    listed = [look_up(survey, item) for item in survey.items if not names or item.name in names]
    if as_json:
        print_json(_describe(survey, listed))
    else:
        for refusal in survey.refusals:
            tell(refusal.error, sys.stderr)
        _show(Screen(), survey, listed, is_verbose=verbose)
    return 1 if survey.refusals or survey.failures else 0


def _show(screen: Screen, survey: Survey, listed: list[Listed], *, is_verbose: bool) -> None:
    """Print the table, or where servers were looked for."""
    home = survey.site.home
    if not survey.items:
        _show_nothing(screen, survey)
    if not listed:
        return
    rows = [_make_row(one) for one in listed]
    columns: tuple[Column, ...] = _COLUMNS
    if is_verbose:
        columns = _COLUMNS[:-1]
        rows = [row[:-1] for row in rows]
    else:
        table = Layout(screen, columns, rows, indent=_INDENT)
        _shorten_commands(listed, rows, table.find_end_room(), screen.mark)
    table = Layout(screen, columns, rows, indent=_INDENT)
    lines = [table.draw_header()]
    group = ""
    for one, row in zip(listed, rows, strict=True):
        heading = _name_group(one, home, screen)
        if heading.plain != group:
            lines.append(heading)
            group = heading.plain
        lines += table.draw(row)
        for detail in _list_details(one, home) if is_verbose else ():
            lines += wrap(screen, detail, "dim", indent=2 * _INDENT)
    lines += wrap(screen, _sum_up(listed, len(survey.refusals)), "bold")
    for line in lines:
        screen.print(line, soft_wrap=True)


def _shorten_commands(listed: list[Listed], rows: list[list[Text]], room: int, mark: str) -> None:
    """Shorten the commands that do not fit."""
    for one, row in zip(listed, rows, strict=True):
        if row[-1].cell_len > room:
            row[-1] = make_text(_tell_command(one, mark))


def _make_row(one: Listed) -> list[Text]:
    return [
        make_text(one.item.name, "bold"),
        make_text(one.scope),
        make_text(one.state.kind, _STYLES.get(one.state.kind, "dim")),
        make_text(str(one.profile or "-"), "" if one.profile else "dim"),
        make_text(_tell_running(one) or "-", "" if one.running else "dim"),
        make_text(_tell_command(one)),
    ]


def _tell_running(one: Listed) -> str:
    sessions = {id(session) for session, _ in one.running}
    number = len(one.running)
    if not number:
        return ""
    return str(number) if len(sessions) == number else f"{number} for {len(sessions)}"


def _tell_command(one: Listed, mark: str = "") -> str:
    """Return an entry's command; if there is a mark, shortened, and marked where it is."""
    from mcp_launch import masking

    if one.state.address:
        return one.state.address
    if one.item.is_wrapped and not one.command:
        return "(from its profile)"
    return _shorten(one.command, mark) if mark else masking.join(one.command)


def _shorten(words: list[str], mark: str) -> str:
    """Return a command in which the telling word comes soon: no directories, scopes and `-y`.

    What is left is cut at its end, and two commands often differ only in their package's name.
    """
    from mcp_launch import masking

    if not words:
        return ""
    telling = find_telling_word(words)
    at = words.index(telling)
    shown = _shorten_path(telling, mark)
    before = [_shorten_path(words[0], mark)] if at else []
    # One mark is enough for all that is left out between two words.
    between = [mark] if at > 1 and not shown.startswith(mark) else []
    rest = [masking.join(words[at + 1 :])] if words[at + 1 :] else []
    return " ".join([*before, *between, shown, *rest])


def _shorten_path(word: str, mark: str) -> str:
    name = os.path.basename(word)
    return f"{mark}/{shlex.quote(name)}" if name not in {"", word} else shlex.quote(word)


def _name_group(one: Listed, home: str, screen: Screen) -> Text:
    """Return the line above the servers of a file: host, file, and project if it names one."""
    title = make_text(f"{one.item.host.title}  ", "bold")
    note = "  in Git" if one.is_tracked else ""
    note += f"  for {shorten_home(one.project, home)}" if one.project else ""
    path = make_text(shorten_home(one.item.file.path, home)).plain
    room = screen.width - title.cell_len - cell_len(note)
    shown = cut(screen, path, max(room, _NARROWEST_PATH), keeps_end=True)
    return Text().append_text(title).append(shown, "cyan").append_text(make_text(note))


def _list_details(one: Listed, home: str) -> Iterator[str]:
    place = one.item.point()
    yield f"{shorten_home(place.file, home)}:{place.line}:{place.column}"
    if one.state.why_not:
        yield f"not started: {one.state.why_not}"
    if command := _tell_command(one):
        yield f"{'at' if one.state.address else 'command'}: {command}"
    if one.item.options:
        words: list[str] = []
        for name, texts in _mask_options(one).items():
            words += [word for text in texts for word in (name, text)] or [name]
        yield f"options of run: {shlex.join(words)}"
    for session, server in one.running:
        whose = f"for {session.id}" if session.id else "for an unknown session"
        yield f"runs as process {server.pid} {whose}"


def _mask_options(one: Listed) -> dict[str, list[str]]:
    """Return the options of `run`; whether a value is a secret depends on its option."""
    from mcp_launch import masking

    return {
        name: [masking.mask([name, text])[1] for text in texts]
        for name, texts in one.item.options.items()
    }


def _sum_up(listed: list[Listed], refused: int) -> str:
    hosts = {one.item.host.name for one in listed}
    kinds = Counter(one.state.kind for one in listed)
    parts = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    servers, of = units.count(len(listed), "server"), units.count(len(hosts), "host")
    rest = f"; {units.count(refused, 'file')} could not be read" if refused else ""
    return f"{servers} of {of}: {parts}{rest}"


def _show_nothing(screen: Screen, survey: Survey) -> None:
    home = survey.site.home
    screen.print("No MCP servers are configured. These files were looked for:")
    rows = []
    for host in survey.hosts:
        paths = [file.path for file in host.list_files(survey.site) if not file.is_outside]
        for at, path in enumerate(dict.fromkeys(paths)):
            title = make_text("" if at else host.title, "bold")
            rows.append([title, make_text(shorten_home(path, home))])
    table = Layout(screen, (Column(""), Column("")), rows, indent=_INDENT)
    for row in rows:
        for line in table.draw(row):
            screen.print(line, soft_wrap=True)


def _describe(survey: Survey, listed: list[Listed]) -> dict[str, Any]:
    """Return everything as data."""
    from mcp_launch import masking

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
        "is_tracked": one.is_tracked,
        "address": one.state.address or None,
        "why_not": one.state.why_not or None,
        "command": one.command,
        "options": _mask_options(one),
        "profile": one.profile and one.profile._asdict(),
        "running": [
            {
                "pid": server.pid,
                "session": session.session or None,
                "thread": session.thread or None,
            }
            for session, server in one.running
        ],
    }

"""`mcp-launch ps`: the servers with the host, session and memory of each, running or not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from mcp_launch.commands import status_line
from mcp_launch.commands.output import print_json, watch
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine import running
from mcp_launch.machine.recent_calls import RecentRecords
from mcp_launch.machine.survey import check_hosts, check_servers, open_survey
from mcp_launch.state.calls import find_calls
from mcp_launch.values import find_home_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.machine.process_snapshot import KnownPool, Server
    from mcp_launch.machine.running import Census, HostProcess, Session
    from mcp_launch.machine.survey import Survey
    from mcp_launch.system import ProcessTable


VERSION = 1


class PsRequest(NamedTuple):
    """What the user asked for."""

    names: tuple[str, ...] = ()  # servers, hosts, or the beginnings of session ids
    hosts: tuple[str, ...] = ()
    is_json: bool = False
    is_watching: bool = False
    is_short: bool = False
    is_verbose: bool = False


def run(request: PsRequest, environ: Mapping[str, str], table: ProcessTable | None = None) -> int:
    """Show the running servers, once or until the user quits."""
    ways = {
        "--watch": request.is_watching,
        "--json": request.is_json,
        "--short": request.is_short,
    }
    chosen = [name for name, is_chosen in ways.items() if is_chosen]
    if len(chosen) > 1:
        names = " and ".join(chosen[:2])
        raise UsageError(f"{names} cannot be combined", fix="leave out one of them")
    check_hosts([*request.hosts])
    survey = open_survey(environ, table)
    if request.names:
        _check_names(survey, request.names)
    if request.is_short:
        status_line.show(_take(survey, request))
    elif request.is_json:
        print_json(describe(_take_whole(survey, request, _open_records(environ))))
    elif request.is_watching:
        _watch(survey, request)
    else:
        census = _take_whole(survey, request, _open_records(environ))
        show(census, Screen(), request, find_home_directory(environ))
    return 0


def _check_names(survey: Survey, names: tuple[str, ...]) -> None:
    """Check that each names a host, a server that runs or could, or a session."""
    census = survey.take_census()
    known = [name for name in names if not running.is_empty(running.select(census, [name], []))]
    check_servers(survey, names, *known, *HOSTS)


def _take(survey: Survey, request: PsRequest) -> Census:
    return running.select(survey.take_census(), request.names, request.hosts)


def _take_whole(survey: Survey, request: PsRequest, records: RecentRecords) -> Census:
    """Return the census with titles of sessions and recent calls."""
    census = running.add_titles(_take(survey, request), survey.table)
    return records.add_to(census)


def _open_records(environ: Mapping[str, str]) -> RecentRecords:
    return RecentRecords(find_calls(environ))


def show(census: Census, screen: Screen, request: PsRequest | None = None, home: str = "") -> None:
    """Print the table."""
    for line in _draw(census, screen, request or PsRequest(), home):
        screen.print(line, soft_wrap=True)


def _draw(census: Census, screen: Screen, request: PsRequest, home: str) -> list[Text]:
    from mcp_launch.commands import running_table

    asked = running_table.TableRequest(screen, home, is_verbose=request.is_verbose)
    is_narrowed = bool(request.names or request.hosts)
    if is_narrowed and census.sees_all and running.is_empty(census):
        return running_table.draw_nothing(asked, [*request.names, *request.hosts])
    return running_table.draw(census, asked)


def _watch(survey: Survey, request: PsRequest) -> None:
    home = find_home_directory(survey.environ)
    records = _open_records(survey.environ)

    def draw(screen: Screen) -> list[Text]:
        census = _take_whole(survey, request, records)
        title = f"{time.strftime('%H:%M:%S')}  {status_line.sum_up(census)}  (q quits)"
        return [Text(title, "dim"), Text(), *_draw(census, screen, request, home)]

    watch(draw)


def describe(census: Census) -> dict[str, Any]:
    """Return everything as data; keys may be added, but never change their meaning."""
    return {
        "version": VERSION,
        "sees_all": census.sees_all,
        "hosts": [_describe_host(host) for host in census.hosts],
        "ownerless": [_describe_server(server) for server in census.ownerless],
    }


def _describe_host(host: HostProcess) -> dict[str, Any]:
    return {
        "host": host.name,
        "title": host.title,
        "role": host.role or None,
        "pid": host.pid,
        "age": host.age,
        "memory": _describe_memory(host),
        "not_running": len(host.absent),
        "saved": host.saved,
        "sessions": [_describe_session(session) for session in host.sessions],
    }


def _describe_session(session: Session) -> dict[str, Any]:
    return {
        "session": session.session or None,
        "thread": session.thread or None,
        "title": session.title or None,
        "project": session.project or None,
        "memory": _describe_memory(session),
        "servers": [_describe_server(server) for server in session.servers],
    }


def _describe_memory(what: HostProcess | Session | Server) -> dict[str, object]:
    return {"bytes": what.memory.amount, "kind": what.memory.kind}


def _describe_pool(pool: KnownPool) -> dict[str, object]:
    return {"pool": pool.pid or None, "sessions": pool.sessions}


def _describe_server(server: Server) -> dict[str, object]:
    return {
        "server": server.name,
        "pid": server.pid,
        "launcher": server.launcher or None,
        "pids": list(server.processes),
        "command": list(server.command),
        "project": server.project or None,
        "age": server.age,
        "memory": _describe_memory(server),
        "stdin": server.stdin._asdict(),
        "stdout": server.stdout._asdict(),
        "earlier_session": server.earlier or None,
        "is_unrecorded": server.is_unrecorded,
        "launch": server.launch._asdict() if server.launch else None,
        "calls_last_minute": server.recent.in_minute if server.recent else None,
        "failures_last_hour": server.recent.failed_in_hour if server.recent else None,
        "shared": _describe_pool(server.pool) if server.pool else None,
        "why_ownerless": server.why_ownerless or None,
    }

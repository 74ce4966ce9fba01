"""`mcp-launch ps`: the servers with the host, session and memory of each, running or not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from mcp_launch.commands import status_line
from mcp_launch.commands.output import print_json, watch
from mcp_launch.commands.running_data import describe
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine import census_filter, session_titles
from mcp_launch.machine.recent_calls import RecentRecords
from mcp_launch.machine.survey import check_hosts, check_servers, open_survey
from mcp_launch.state.calls import find_calls
from mcp_launch.values import find_home_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.machine.running import Census
    from mcp_launch.machine.survey import Survey
    from mcp_launch.system import ProcessTable


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
    census = survey.take_census()
    running = [
        name
        for name in request.names
        if not census_filter.is_empty(census_filter.select(census, [name], []))
    ]
    check_servers(survey, request.names, *running, *HOSTS)
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


def _take(survey: Survey, request: PsRequest) -> Census:
    return census_filter.select(survey.take_census(), request.names, request.hosts)


def _take_whole(survey: Survey, request: PsRequest, records: RecentRecords) -> Census:
    """Return the census with titles of sessions and recent calls."""
    census = session_titles.add_titles(_take(survey, request), survey.table)
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
    if is_narrowed and census.sees_all and census_filter.is_empty(census):
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

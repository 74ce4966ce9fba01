"""Start every server in a temporary session, and check how it behaves."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcp_launch.doctor.entries import explain_not_started
from mcp_launch.doctor.live import conversation, judge, prepare
from mcp_launch.doctor.live.conversation import DISCOVER, INITIALIZE
from mcp_launch.doctor.live.judge import ProbedServer
from mcp_launch.doctor.live.prepare import LaunchPool
from mcp_launch.machine import known_secrets, remembered_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_launch.doctor.check import Finding
    from mcp_launch.doctor.live.conversation import Opening, Talk
    from mcp_launch.machine.survey import Survey
    from mcp_launch.masking import Scrubber

# More at once would slow each of them down, so that they seem slow.
_AT_ONCE = min(4, os.cpu_count() or 1)

_OTHER = {DISCOVER: INITIALIZE, INITIALIZE: DISCOVER}


def check_servers(survey: Survey, show: Callable[[str], None]) -> list[Finding]:
    """Return what is wrong with the started servers; `show` gets a line when one is done."""
    scrubber = known_secrets.make_scrubber(survey)
    # A guardian may still be cleaning up in it when everything else is over.
    place = tempfile.TemporaryDirectory("-doctor", ignore_cleanup_errors=True)
    with _cleaning_up_on_signals(), place as home:
        launches = LaunchPool(home)
        servers = _list_servers(survey, home, scrubber, show)
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            probes = {pool.submit(_probe, server, launches): server for server in servers}
            for done, probe in enumerate(as_completed(probes), 1):
                probe.result()
                server = probes[probe]
                show(f"{done} of {len(servers)}  {server.label}  {server.describe()}")
            for server in servers:
                if server.deserves_another_look():
                    first = server.describe()
                    _probe_again(server, launches)
                    result = f"{server.describe()} (its second start; the first: {first})"
                    show(f"again  {server.label}  {result}")
        finally:
            launches.close()
            pool.shutdown(cancel_futures=True)
        # These launches have kept what the servers have told them, as all do.
        survey.remembered = remembered_tools.read([survey.state, home])
    return judge.judge(servers)


@contextmanager
def _cleaning_up_on_signals() -> Iterator[None]:
    """Let a signal that ends us first end what we started, and remove our files."""

    def leave(number: int, _: object) -> None:
        for one in before:
            signal.signal(one, signal.SIG_IGN)  # once is enough
        sys.exit(128 + number)

    is_possible = threading.current_thread() is threading.main_thread()
    before = {
        number: signal.signal(number, leave)
        for number in ((signal.SIGTERM, signal.SIGHUP) if is_possible else ())
        if signal.getsignal(number) is not signal.SIG_IGN  # as with `nohup`
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _list_servers(
    survey: Survey, home: str, scrubber: Scrubber, show: Callable[[str], None]
) -> list[ProbedServer]:
    """Return the servers to start; one that several hosts start in the same way, only once."""
    found: dict[prepare.Start, ProbedServer] = {}
    for item in survey.servers:
        # If a host needs the user's consent to start a server, so do we.
        why = explain_not_started(survey, item)
        why = why or prepare.explain_not_startable(survey, item)
        if why:
            show(scrubber.clean(f"not started  {item.host.title}: {item.name}  {why}"))
            continue
        start = prepare.prepare(survey, item, home)
        if item.words and os.path.isdir(start.project):
            found.setdefault(start, ProbedServer(start, scrubber)).items.append(item)
    return list(found.values())


def _probe(server: ProbedServer, launches: LaunchPool) -> None:
    """Talk to a server as each of its hosts does, and if that fails in the other way."""
    for opening in server.list_openings():
        server.talks[opening] = _talk(server, opening, launches)
    for opening, talk in list(server.talks.items()):
        other = opening._replace(method=_OTHER[opening.method])
        if talk.failure and other not in server.talks:
            server.talks[other] = _talk(server, other, launches)


def _talk(server: ProbedServer, opening: Opening, launches: LaunchPool) -> Talk:
    limit = conversation.SECOND_LIMIT if server.was_silent else conversation.ANSWER_LIMIT
    return conversation.converse(server.start, opening, launches, clean=server.clean, limit=limit)


def _probe_again(server: ProbedServer, launches: LaunchPool) -> None:
    """Start a server again, alone: the first time it may have been downloading or starved."""
    for opening in server.list_openings():
        before, again = server.talks[opening], _talk(server, opening, launches)
        if not again.failure and (before.failure or again.seconds < before.seconds):
            server.talks[opening] = again

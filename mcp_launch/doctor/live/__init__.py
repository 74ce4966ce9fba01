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

from mcp_launch.doctor.checks import not_approved
from mcp_launch.doctor.live import client, evaluate, prepare
from mcp_launch.doctor.live.client import DISCOVER, INITIALIZE
from mcp_launch.doctor.live.evaluate import ProbedServer
from mcp_launch.doctor.live.prepare import LaunchPool
from mcp_launch.machine import known_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_launch.doctor.finding import Finding
    from mcp_launch.doctor.live.client import Talk
    from mcp_launch.machine.survey import Survey
    from mcp_launch.masking import Scrubber

# More at once would slow each of them down, so that they seem slow.
_AT_ONCE = min(4, os.cpu_count() or 1)

_OTHER = {DISCOVER: INITIALIZE, INITIALIZE: DISCOVER}


def check(survey: Survey, show: Callable[[str], None]) -> list[Finding]:
    """Return what is wrong with the started servers; `show` gets a line as each is done."""
    scrubber = known_secrets.make_scrubber(survey)

    def say(text: str) -> None:
        show(scrubber.clean(text))

    # A guardian may still be cleaning up in it when everything else is over.
    place = tempfile.TemporaryDirectory("-doctor", ignore_cleanup_errors=True)
    with _cleaning_up_on_signals(), place as home:
        launches = LaunchPool(home)
        prepare.copy_trust(survey.state, home)
        servers = _list_servers(survey, home, scrubber, say)
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            probes = {pool.submit(_probe, server, launches): server for server in servers}
            for probe in as_completed(probes):
                probe.result()
                say(probes[probe].describe())
            for server in servers:
                if server.deserves_another_look():
                    _probe_again(server, launches)
                    say(f"{server.describe()}, when it was started again")
        finally:
            launches.close()
            pool.shutdown(cancel_futures=True)
    return evaluate.judge(servers)


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
    survey: Survey, home: str, scrubber: Scrubber, say: Callable[[str], None]
) -> list[ProbedServer]:
    """Return the servers to start; one that several hosts start in the same way, only once."""
    found: dict[prepare.Start, ProbedServer] = {}
    for item in survey.servers:
        # If a host needs the user's consent to start a server, so do we.
        why = not_approved.explain_not_started(survey, item)
        why = why or prepare.explain_not_startable(survey, item)
        if why:
            say(f"{item.name}: not started: {why}")
            continue
        start = prepare.prepare(survey, item, home)
        if item.words and os.path.isdir(start.project):
            found.setdefault(start, ProbedServer(start, scrubber)).items.append(item)
    return list(found.values())


def _probe(server: ProbedServer, launches: LaunchPool) -> None:
    """Talk to a server as each of its hosts does, and if that fails in the other way."""
    for first in server.list_greetings():
        server.talks[first] = _talk(server, first, launches)
    for first, talk in list(server.talks.items()):
        if talk.failure and _OTHER[first] not in server.talks:
            server.talks[_OTHER[first]] = _talk(server, _OTHER[first], launches)


def _talk(server: ProbedServer, first: str, launches: LaunchPool) -> Talk:
    limit = client.SECOND_LIMIT if server.was_silent else client.ANSWER_LIMIT
    return client.converse(server.start, first, launches, clean=server.clean, limit=limit)


def _probe_again(server: ProbedServer, launches: LaunchPool) -> None:
    """Start a server again, alone: the first time it may have been downloading or starved."""
    for first in server.list_greetings():
        before, again = server.talks[first], _talk(server, first, launches)
        if not again.failure and (before.failure or again.seconds < before.seconds):
            server.talks[first] = again

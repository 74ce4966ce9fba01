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

# How many of the servers that are being started the status line names.
_NAMED = 2


class Progress:
    """Counts the servers that are done. Servers are started by several threads."""

    def __init__(
        self, show: Callable[[str], None], update: Callable[[str], None] = lambda _: None
    ) -> None:
        self._show = show  # gets a line when a server is done
        self._update = update  # gets what is being done now
        self._total = 0
        self._done = 0
        self._running: list[str] = []
        self._lock = threading.Lock()

    def expect(self, count: int) -> None:
        """Note how many servers will be started."""
        self._total = count

    def begin(self, label: str) -> None:
        """Note that a server is being started."""
        with self._lock:
            self._running.append(label)
            self._update_status()

    def finish(self, label: str, result: str) -> None:
        """Show the result of a server."""
        with self._lock:
            self._done += 1
            self._leave(label)
            self._show(f"{self._done} of {self._total}  {label}  {result}")

    def finish_again(self, label: str, result: str) -> None:
        """Show the result of a server that was started once more."""
        with self._lock:
            self._leave(label)
            self._show(f"again  {label}  {result}")

    def skip(self, label: str, why: str) -> None:
        """Show that a server is not started."""
        self._show(f"not started  {label}  {why}")

    def _leave(self, label: str) -> None:
        if label in self._running:
            self._running.remove(label)
        self._update_status()

    def _update_status(self) -> None:
        done = f"{self._done} of {self._total} done"
        names = ", ".join(self._running[:_NAMED])
        more = len(self._running) - _NAMED
        others = f" and {more} more" if more > 0 else ""
        self._update(f"{done}, starting {names}{others}" if names else done)


def check_servers(survey: Survey, progress: Progress) -> list[Finding]:
    """Return what is wrong with the started servers."""
    scrubber = known_secrets.make_scrubber(survey)
    # A guardian may still be cleaning up in it when everything else is over.
    place = tempfile.TemporaryDirectory("-doctor", ignore_cleanup_errors=True)
    with _cleaning_up_on_signals(), place as home:
        launches = LaunchPool(home)
        servers = _list_servers(survey, home, scrubber, progress)
        progress.expect(len(servers))
        pool = ThreadPoolExecutor(_AT_ONCE)

        def probe_one(server: ProbedServer) -> None:
            progress.begin(server.label)
            _probe(server, launches)

        try:
            probes = {pool.submit(probe_one, server): server for server in servers}
            for probe in as_completed(probes):
                probe.result()
                progress.finish(probes[probe].label, probes[probe].describe())
            for server in servers:
                if server.deserves_another_look():
                    first = server.describe()
                    progress.begin(server.label)
                    _probe_again(server, launches)
                    result = f"{server.describe()} (its second start; the first: {first})"
                    progress.finish_again(server.label, result)
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
    survey: Survey, home: str, scrubber: Scrubber, progress: Progress
) -> list[ProbedServer]:
    """Return the servers to start; one that several hosts start in the same way, only once."""
    found: dict[prepare.Start, ProbedServer] = {}
    for item in survey.servers:
        # If a host needs the user's consent to start a server, so do we.
        why = explain_not_started(survey, item)
        why = why or prepare.explain_not_startable(survey, item)
        if why:
            label = f"{item.host.title}: {item.name}"
            progress.skip(scrubber.clean(label), scrubber.clean(why))
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

"""`mcp-launch export`: the records of calls as OpenTelemetry spans and metrics, to a collector."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.commands.export.destination import read_destination
from mcp_launch.commands.json_output import print_json, print_json_line
from mcp_launch.commands.moments import read_moment
from mcp_launch.commands.screen import say
from mcp_launch.errors import LaunchError, UsageError, tell
from mcp_launch.machine import units
from mcp_launch.machine.survey import open_survey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_launch.commands.export.destination import Destination
    from mcp_launch.commands.export.exporter import Exported, Exporter

VERSION = 1

# The exit code of a program that ^C has ended.
_INTERRUPTED = 130

# The longest time between two attempts to reach a collector, in seconds.
_LONGEST_WAIT = 300.0


class ExportRequest(NamedTuple):
    """What to export, where to and how."""

    address: str = ""
    headers: tuple[str, ...] = ()
    since: str = ""
    interval: str = "15s"
    is_following: bool = False
    is_json: bool = False


def run(request: ExportRequest, environ: Mapping[str, str]) -> int:
    """Export what is new, once or until the process is ended."""
    destination = read_destination(request.address, request.headers, environ)
    since = read_moment(request.since, time.time()) if request.since else 0.0
    interval = units.read_age(request.interval)
    if not interval:
        raise UsageError("--interval 0 leaves no time to wait", fix="write at least 1s")
    _check_libraries()
    from mcp_launch.commands.export.exporter import Exporter
    from mcp_launch.commands.export.progress import ProgressFile

    survey = open_survey(environ)
    file = ProgressFile(survey.state, destination.shown)
    with file.lock():
        exporter = Exporter(file, destination, survey, environ, since)
        reporter = _Reporter(destination, is_json=request.is_json)
        if request.is_following:
            _follow(exporter, reporter, interval)
            return 0
        return _export_once(exporter, reporter)


def _check_libraries() -> None:
    """Check that what OTLP needs is installed; most users do not need it.

    Raises:
        LaunchError: It is not.

    """
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.proto") is None:
        raise LaunchError(
            "exporting needs opentelemetry-proto, which is not installed with mcp-launch",
            fix="in the clone of its repository: uv tool install --reinstall '.[otel]' "
            "(or: pipx install --force '.[otel]'; in a virtual environment: pip install '.[otel]')",
        )


def _export_once(exporter: Exporter, reporter: _Reporter) -> int:
    from mcp_launch.commands.export.sending import CollectorFailed

    try:
        exporter.export_all()
    except CollectorFailed as error:
        reporter.report(exporter.take(), error)
        tell(error, sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED  # what was accepted is remembered, and the rest is for the next time
    reporter.report(exporter.take(), None)
    return 0


def _follow(exporter: Exporter, reporter: _Reporter, interval: float) -> None:
    from mcp_launch.commands.export.sending import CollectorFailed

    reporter.begin()
    failed = 0
    with _ends_quietly():
        while True:
            wait = interval
            try:
                exporter.export_all()
                failed = 0
                reporter.report_round(exporter.take(), None)
            except CollectorFailed as error:
                failed += 1
                # Twice as long each time, so that a collector that comes back is not overrun.
                wait = max(error.wait, min(interval * 2 ** min(failed - 1, 20), _LONGEST_WAIT))
                reporter.report_round(exporter.take(), error)
            time.sleep(wait)


@contextmanager
def _ends_quietly() -> Iterator[None]:
    """End on SIGTERM and ^C without an error; nothing that was not remembered is lost."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass  # the normal way to quit
    finally:
        signal.signal(signal.SIGTERM, before)


class _Reporter:
    """Says what was exported, for a person, a journal or a program."""

    def __init__(self, destination: Destination, *, is_json: bool) -> None:
        self._where = destination.shown
        self._is_json = is_json
        self._problem = ""  # what was last reported as one

    def report(self, done: Exported, error: LaunchError | None) -> None:
        """Report a single export."""
        if self._is_json:
            print_json(self._describe(done, error))
            return
        if done.calls:
            which = "a failed call" if done.failures == 1 else "failed calls"
            failed = f" ({done.failures} of them {which})"
            say(
                f"Exported {units.count(done.calls, 'call')}{failed * bool(done.failures)} "
                f"to {self._where}"
            )
        elif not error:
            say(f"Nothing new for {self._where}")
        self._warn(done)

    def begin(self) -> None:
        """Report that an export begins that will go on."""
        if not self._is_json:
            say(f"Exporting to {self._where}")
            sys.stdout.flush()

    def report_round(self, done: Exported, error: LaunchError | None) -> None:
        """Report a round of an export that goes on: as JSON what it did, else only problems."""
        problem = error.problem if error else ""
        has_changed = problem != self._problem
        self._problem = problem
        if self._is_json:
            if any(done) or has_changed:
                print_json_line(self._describe(done, error))
            return
        if has_changed:
            say(f"{error.problem}; trying again" if error else "The collector accepts calls again")
        self._warn(done)
        sys.stdout.flush()

    def _warn(self, done: Exported) -> None:
        if done.rejected:
            why = f": {done.message}" if done.message else ""
            say(f"The collector did not take {units.count(done.rejected, 'span')}{why}")
        if done.missed:
            say(
                f"Lost: {units.count(done.missed, 'part')} of the records, deleted for their age "
                "or size before the collector had them"
            )
        if done.torn:
            say(f"Skipped {units.count(done.torn, 'line')} that cannot be read")

    def _describe(self, done: Exported, error: LaunchError | None) -> dict[str, object]:
        return {
            "version": VERSION,
            "destination": self._where,
            "calls": done.calls,
            "failures": done.failures,
            "rejected": done.rejected,
            "skipped_lines": done.torn,
            "missed_parts": done.missed,
            "problem": error.problem if error else None,
            "fix": error.fix if error else None,
        }

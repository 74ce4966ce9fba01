"""Start every server in a session that is thrown away, and see what it does."""

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
from mcp_launch.doctor.live.evaluate import Patient
from mcp_launch.doctor.live.prepare import Ward
from mcp_launch.machine import known_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_launch.doctor.finding import Finding
    from mcp_launch.doctor.live.client import Talk
    from mcp_launch.machine.survey import Survey
    from mcp_launch.masking import Scrubber

# More at once would make each of them slow, and seem so.
_AT_ONCE = min(4, os.cpu_count() or 1)

_OTHER = {DISCOVER: INITIALIZE, INITIALIZE: DISCOVER}


def check(survey: Survey, tell: Callable[[str], None]) -> list[Finding]:
    """Return what is wrong with servers that run; `tell` hears of each as it is done."""
    scrubber = known_secrets.make_scrubber(survey)

    def say(text: str) -> None:
        tell(scrubber.clean(text))

    # A guardian may still clear up in it when all else is over.
    place = tempfile.TemporaryDirectory("-doctor", ignore_cleanup_errors=True)
    with _ending_in_order(), place as home:
        ward = Ward(home)
        prepare.bring_trust(survey.state, home)
        patients = _admit(survey, home, scrubber, say)
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            visits = {pool.submit(_visit, patient, ward): patient for patient in patients}
            for visit in as_completed(visits):
                visit.result()
                say(visits[visit].describe())
            for patient in patients:
                if patient.deserves_another_look():
                    _visit_again(patient, ward)
                    say(f"{patient.describe()}, when it was started again")
        finally:
            ward.close()
            pool.shutdown(cancel_futures=True)
    return evaluate.judge(patients)


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Let what ends us end what we started first, and clear up."""

    def leave(number: int, _: object) -> None:
        for one in before:
            signal.signal(one, signal.SIG_IGN)  # once is enough
        sys.exit(128 + number)

    is_possible = threading.current_thread() is threading.main_thread()
    before = {
        number: signal.signal(number, leave)
        for number in ((signal.SIGTERM, signal.SIGHUP) if is_possible else ())
        if signal.getsignal(number) is not signal.SIG_IGN  # as `nohup` has it
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _admit(
    survey: Survey, home: str, scrubber: Scrubber, say: Callable[[str], None]
) -> list[Patient]:
    """Return what is to be started: what several hosts start in the same way, once."""
    found: dict[prepare.Start, Patient] = {}
    for item in survey.servers:
        # What a host does not start without its user's consent, nobody else does.
        why = not_approved.tell_why_not_started(survey, item) or prepare.tell_why_not_tried(
            survey, item
        )
        if why:
            say(f"{item.name}: not started: {why}")
            continue
        start = prepare.prepare(survey, item, home)
        if item.words and os.path.isdir(start.project):
            found.setdefault(start, Patient(start, scrubber)).items.append(item)
    return list(found.values())


def _visit(patient: Patient, ward: Ward) -> None:
    """Greet a server in the way of each of its hosts, and in the other if that fails."""
    for first in patient.list_greetings():
        patient.talks[first] = _greet(patient, first, ward)
    for first, talk in list(patient.talks.items()):
        if talk.failure and _OTHER[first] not in patient.talks:
            patient.talks[_OTHER[first]] = _greet(patient, _OTHER[first], ward)


def _greet(patient: Patient, first: str, ward: Ward) -> Talk:
    limit = client.SECOND_LIMIT if patient.was_silent else client.ANSWER_LIMIT
    return client.converse(patient.start, first, ward, clean=patient.clean, limit=limit)


def _visit_again(patient: Patient, ward: Ward) -> None:
    """Start a server again, alone: the first time it was downloaded, or the machine busy."""
    for first in patient.list_greetings():
        before, again = patient.talks[first], _greet(patient, first, ward)
        if not again.failure and (before.failure or again.seconds < before.seconds):
            patient.talks[first] = again

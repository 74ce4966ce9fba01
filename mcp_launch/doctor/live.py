"""Start every server in a session that is thrown away, and see what it does."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

from mcp_launch.doctor import judging, rehearsing
from mcp_launch.doctor.judging import Patient
from mcp_launch.doctor.probing import DISCOVER, INITIALIZE, converse
from mcp_launch.doctor.rehearsing import Ward

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.doctor.finding import Finding
    from mcp_launch.doctor.survey import Survey

# More at once would make each of them slow, and seem so.
_AT_ONCE = min(4, os.cpu_count() or 1)

_OTHER = {DISCOVER: INITIALIZE, INITIALIZE: DISCOVER}


def check(survey: Survey, tell: Callable[[str], None]) -> list[Finding]:
    """Return what is wrong with servers that run; `tell` hears of each as it is done."""
    ward = Ward()
    # A guardian may still clear up in it when all else is over.
    with tempfile.TemporaryDirectory("-doctor", ignore_cleanup_errors=True) as home:
        rehearsing.bring_trust(survey.state, home)
        patients = _admit(survey, home, tell)
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            visits = {pool.submit(_visit, patient, ward): patient for patient in patients}
            for visit in as_completed(visits):
                visit.result()
                tell(visits[visit].describe())
            for patient in patients:
                if patient.deserves_another_look():
                    _visit_again(patient, ward)
                    tell(f"{patient.describe()}, when it was started again")
        finally:
            ward.close()
            pool.shutdown(cancel_futures=True)
    return judging.judge(patients)


def _admit(survey: Survey, home: str, tell: Callable[[str], None]) -> list[Patient]:
    """Return what is to be started: what several hosts start in the same way, once."""
    found: dict[rehearsing.Start, Patient] = {}
    for item in survey.servers:
        start = rehearsing.prepare(survey, item, home)
        question = rehearsing.find_question(item)
        if question:
            tell(f"{item.name}: not started, {item.host.title} would ask for {question}")
        elif item.words and os.path.isdir(start.project):
            found.setdefault(start, Patient(start)).items.append(item)
    return list(found.values())


def _visit(patient: Patient, ward: Ward) -> None:
    """Greet a server in the way of each of its hosts, and in the other if that fails."""
    for first in patient.list_greetings():
        patient.talks[first] = converse(patient.start, first, ward)
    for first, talk in list(patient.talks.items()):
        if talk.failure and _OTHER[first] not in patient.talks:
            patient.talks[_OTHER[first]] = converse(patient.start, _OTHER[first], ward)


def _visit_again(patient: Patient, ward: Ward) -> None:
    """Start a server again, alone: the first time it was downloaded, or the machine busy."""
    for first in patient.list_greetings():
        before, again = patient.talks[first], converse(patient.start, first, ward)
        if not again.failure and (before.failure or again.seconds < before.seconds):
            patient.talks[first] = again

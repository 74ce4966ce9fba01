"""Turn the recordings of a run into playbooks that are worth keeping, and count them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import playbooks
from record_playbooks.recorder import GIVEN_UP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

REPOSITORY = Path(__file__).parents[3]

# How much data a playbook may hold: as text, and once products are multiplied out.
TEXT_LIMIT = 1 << 16
DATA_LIMIT = 1 << 20

# Times are rounded to so many milliseconds.
_TICK = 10

# What is recorded and says nothing about the core, by the beginning of the test's name.
LEFT_OUT = {
    "test_any_bytes_in_any_chunks": "its data is random",
    "test_a_host_that_does_not_read_costs_no_memory": "about memory alone",
    "test_200_mb_both_ways": "about memory alone",
    "test_many_replacements_leave_no_descriptor_open": "about descriptors alone",
    "test_the_server_gets_no_descriptor_of_ours": "about descriptors alone",
    "test_a_descriptor_the_host_passes_on_arrives": "about descriptors alone",
    "test_the_server_has_the_default_signals": "about the start of a process alone",
    "test_the_server_has_the_hosts_locale": "about the start of a process alone",
    "test_the_launchers_stay_out_of_the_projects_directory": "about directories alone",
}

_PLACE = "/tmp/test"  # noqa: S108  # nothing is written there
_TEST_DIRECTORY = re.compile(r"/tmp/pytest-of-\w+/pytest-\d+/(?:popen-gw\d+/)?[\w.-]+")  # noqa: S108
_OF_PYTEST = re.compile(r'"PYTEST_\w+": "(?:[^"\\]|\\.)*"(?:, )?')
_LAUNCH_ID = re.compile(r"(?<![0-9a-f])01[0-9a-f]{20}(?![0-9a-f-])")
# What a server shows that reads its launch's lease.
_OF_LEASE = {
    re.compile(r'("(?:started|last_call)": )\d+\.\d+'): r"\g<1>1000.5",
    re.compile(r'("boot": )"[0-9a-f-]{36}"'): r'\1"boot-1"',
    re.compile(r'("namespace": )"pid:\[\d+\]"'): r'\1"pid:[1]"',
    re.compile(r'"ticks:\d+"'): '"ticks:1"',
    re.compile(r'("keeper": {"pid": )\d+'): r"\g<1>4001",
}
_RECORDED = re.compile(r'"[^"]*/record_playbooks/launcher.py", "[^"]*", "[^"]*"')


def keep(recordings: Path, target: Path) -> tuple[int, dict[str, list[str]]]:
    """Write the playbooks of a run; return how many, and which were left out for which reason."""
    left_out: dict[str, list[str]] = {}
    numbers: Counter[str] = Counter()
    for path in sorted(recordings.glob("*/*.raw"), key=_read_moment):
        name = path.name.rsplit(".", 2)[0]
        text = path.read_text(encoding="ascii")
        reason = _find_reason(name, text)
        key = f"{path.parent.name}/{name}"
        if reason:
            left_out.setdefault(reason, []).append(key)
            continue
        numbers[key] += 1
        ending = f"-{numbers[key]}" if numbers[key] > 1 else ""
        file = target / f"{key}{ending}.playbook"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(normalise(text), encoding="ascii")
    return numbers.total(), left_out


def normalise(text: str) -> str:
    """Replace what differs from run to run."""
    playbook = playbooks.parse(text)
    replace = _make_replacement(playbook)
    head = {name: value for name, value in playbook.head.items() if name != "pids"}
    lines = [replace(line) for line in playbooks.format_head(head).splitlines(keepends=True)]
    for step in playbook.steps:
        moment = step.time // _TICK * _TICK
        _, arrow, rest = playbooks.format_step(step).partition(" >> " if step.is_input else " << ")
        lines.append(f"{moment:7}{arrow}{replace(rest)}")
    # A product may be longer or shorter now.
    return playbooks.format_playbook(playbooks.parse("".join(lines)))


def _find_reason(name: str, text: str) -> str:
    """Return why a recording is not kept; nothing if it is."""
    for beginning, reason in LEFT_OUT.items():
        if name.startswith(beginning):
            return reason
    if text.endswith(GIVEN_UP):
        return "too long"
    steps = [step for step in playbooks.parse(text).steps if isinstance(step.value, bytes)]
    written = sum(len(playbooks.format_step(step)) for step in steps if step.is_input)
    is_long = written > TEXT_LIMIT or sum(len(step.value) for step in steps) > DATA_LIMIT
    return "too long" if is_long else ""


def _make_replacement(playbook: playbooks.Playbook) -> Callable[[str], str]:
    launches = {playbook.head["context"]["launch"][0]: "launch-1"}
    pids = {str(pid): number for pid, number in _number_processes(playbook)}
    pid = re.compile(rf"(?<![\w.-])(?:{'|'.join(pids)})(?![\w-]|\.\d)")

    def number_launch(match: re.Match[str]) -> str:
        return launches.setdefault(match[0], f"launch-{len(launches) + 1}")

    def replace(text: str) -> str:
        text = _RECORDED.sub('"-m", "mcp_launch"', text)
        text = _OF_PYTEST.sub("", _TEST_DIRECTORY.sub(_PLACE, text))
        text = text.replace(str(REPOSITORY), "/repo").replace(sys.base_prefix + "/", "/python/")
        text = _replace_in_lease(_LAUNCH_ID.sub(number_launch, text))
        return pid.sub(lambda match: str(pids[match[0]]), text)

    return replace


def _replace_in_lease(text: str) -> str:
    """Replace times and processes where a lease is shown."""
    for pattern, replacement in _OF_LEASE.items():
        text = pattern.sub(replacement, text)
    return text


def _number_processes(playbook: playbooks.Playbook) -> Iterable[tuple[int, int]]:
    known = playbook.head["pids"]
    yield known["host"], 1003
    yield known["parent"], 1002
    yield known["launcher"], 1001
    for step in playbook.steps:
        if step.verb == "started":
            number = int(step.party.removeprefix("server-"))
            yield step.value["server"], 2000 + number
            yield step.value["guardian"], 3000 + number


def _read_moment(path: Path) -> int:
    return int(path.suffixes[-2].strip(".").partition("-")[0])

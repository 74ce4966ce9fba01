"""Recorded launches: every one can be read, and is written as it was read."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import playbooks
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launches import RUN
from playbooks import Playbook, Step
from record_playbooks import keep
from record_playbooks.inject import inject, name_recording

RECORDED = Path(__file__).parents[1] / "playbooks" / "recorded"
RECORDINGS = sorted(RECORDED.glob("*/*.playbook"))

# The values that a step may have; no value is another thing than a value that is null.
runs = st.builds(bytes.__mul__, st.binary(min_size=1, max_size=1), st.integers(1, 600))
data = st.lists(st.binary(max_size=20) | runs, max_size=4).map(b"".join)
json_values = st.recursive(
    st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner | st.none()) | st.dictionaries(st.text(), inner | st.none()),
    max_leaves=5,
)
words = st.from_regex(r"[a-z]+(-[a-z0-9]+)?", fullmatch=True)
steps = st.builds(
    Step, st.integers(0, 10**7), st.booleans(), words, words, st.none() | data | json_values
)
heads = st.dictionaries(words, json_values, max_size=3)


@given(playbook=st.builds(Playbook, heads, st.lists(steps, max_size=5)))
def test_a_playbook_is_read_as_it_was_written(playbook: Playbook) -> None:
    assert playbooks.parse(playbooks.format_playbook(playbook)) == playbook


def test_one_byte_many_times_takes_little_room() -> None:
    step = Step(0, is_input=True, party="host", verb="data", value=b"<" + b"y" * 100_000 + b"'>\n")

    line = playbooks.format_step(step)

    assert line == "      0 >> host data b'<' + b'y' * 100000 + b\"'>\\n\"\n"
    assert playbooks.parse_step(line) == step


@pytest.mark.parametrize(
    "text",
    ["", "playbook 2\n\n", "playbook 1\n\n  0 == host end\n", "playbook 1\n\n  0 >> a b b'' - b''"],
    ids=["nothing", "another version", "neither in nor out", "a value that is not bytes"],
)
def test_what_is_not_a_playbook_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a playbook|neither in nor out|not bytes"):
        playbooks.parse(text)


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) > 150


@pytest.mark.parametrize("file", sorted({path.parent.name for path in RECORDINGS}))
def test_every_recording_can_be_read(file: str) -> None:
    described = set(re.findall(r"[a-z]+(?:-[a-z]+)*", playbooks.__doc__ or ""))
    timers = {
        "drain",
        "greeting",
        "grace",
        "guardian",
        "hosts",
        "input",
        "lease",
        "output",
        "roots",
    }
    for path in sorted((RECORDED / file).iterdir()):
        playbook = playbooks.read(path)

        assert playbooks.format_playbook(playbook) == path.read_text(encoding="ascii"), path
        assert playbook.head["test"].startswith(f"tests/processes/{file}.py::"), path
        first = next(step for step in playbook.steps if step.party == "server-1")
        assert (first.is_input, first.verb) == (False, "start"), path
        verbs = {step.verb for step in playbook.steps if step.party != "signal"}
        assert verbs <= described | timers, path


def test_no_recording_shows_where_it_was_made() -> None:
    for path in RECORDINGS:
        text = path.read_text(encoding="ascii")

        assert not re.search(r"pytest-of-|PYTEST_|record_playbooks|popen-gw", text), path
        assert str(keep.REPOSITORY) not in text, path


def test_what_differs_from_run_to_run_is_replaced() -> None:
    launch, place = "0199a0b1c2d3e4f5a6b7c8", "/tmp/pytest-of-me/pytest-7/popen-gw1/test_x0"  # noqa: S108
    head = {
        "context": {"launch": [launch, "made"], "place": [f"{place}/project", "inherited"]},
        "pids": {"launcher": 500, "parent": 600, "host": 600},
    }
    said = json.dumps({"id": f"mcp-launch/{launch}/1", "pid": 700, "n": 7000, "x": 1.500})
    recorded = Playbook(
        head,
        [
            Step(504, True, "server-1", "started", {"server": 700, "guardian": 701}),  # noqa: FBT003
            Step(519, True, "server-1", "data", said.encode()),  # noqa: FBT003
        ],
    )

    assert keep.normalise(playbooks.format_playbook(recorded)) == (
        "playbook 1\n"
        'context: {"launch": ["launch-1", "made"], "place": ["/tmp/test/project", "inherited"]}\n'
        "\n"
        '    500 >> server-1 started {"server": 2001, "guardian": 3001}\n'
        "    510 >> server-1 data "
        'b\'{"id": "mcp-launch/launch-1/1", "pid": 2001, "n": 7000, "x": 1.5}\'\n'
    )


def test_every_launcher_in_a_command_is_recorded(tmp_path: Path) -> None:
    limits = "import mcp_launch.__main__ as entry; entry.main()"
    command = ["host", "--", *RUN, "--", sys.executable, "-c", limits, "--", "python", "-c", "pass"]

    injected = inject(command, str(tmp_path))

    recorded = next(word for word in injected if word.endswith("launcher.py"))
    at = injected.index(recorded)
    assert injected[at + 1].endswith("test_every_launcher_in_a_command_is_recorded")
    assert injected[at + 3] == "run"
    assert injected[at + 7].endswith(limits)
    assert injected[at + 7] != limits
    assert injected[-3:] == ["python", "-c", "pass"]


def test_a_recording_has_the_name_of_its_test() -> None:
    name = name_recording("tests/processes/test_relay.py::test_a_message[no end of line]", "/r")

    assert name == Path("/r/test_relay/test_a_message-no-end-of-line")


def test_two_tests_have_two_recordings_however_alike_their_names_are() -> None:
    names = {name_recording(f"test_relay.py::test_a_message[{odd}]", "/r") for odd in ("{}", "[]")}

    assert len(names) == 2

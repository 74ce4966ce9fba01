"""Recorded launches: every one can be read, and is written as it was read."""

from __future__ import annotations

import re
from pathlib import Path

import playbooks
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playbooks import Playbook, Step

REPOSITORY = Path(__file__).parents[2]
RECORDED = REPOSITORY / "tests" / "playbooks" / "recorded"
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
        assert str(REPOSITORY) not in text, path

"""What our own programs know of one another: facts, never the wording of a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_launch.errors import LaunchError, ProfileRefused, ServerFailed
from mcp_launch.state import outcome
from mcp_launch.state.outcome import Failure, Outcome


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "outcome.jsonl")


def test_what_a_launch_notes_is_read_as_it_was_written(path: str) -> None:
    outcome.append(path, {"noise": 2, "first_noise": ["a\tb", "c"], "left_behind": 1})
    outcome.append(path, {"outlasted_input": True, "unanswered": ["tools/list"]})
    outcome.append_failure(path, ServerFailed("it died", fix="look", exit_code=3))

    assert outcome.read(path) == Outcome(
        noise=2,
        first_noise=("a\tb", "c"),
        left_behind=1,
        outlasted_input=True,
        unanswered=("tools/list",),
        failure=Failure("it died", "look", exit_code=3, is_servers=True),
    )


def test_a_failure_of_the_launch_is_not_the_servers(path: str) -> None:
    outcome.append_failure(path, LaunchError("no", fix="yes"))

    assert outcome.read(path).failure == Failure("no", "yes", exit_code=125, is_servers=False)


@pytest.mark.parametrize(
    ("content", "noise"),
    [(None, 0), (b"", 0), (b'{"noise":2}\n{"left_be', 2)],
    ids=["no file", "an empty file", "half a line"],
)
def test_a_launcher_that_was_killed_leaves_what_it_had_written(
    path: str, content: bytes | None, noise: int
) -> None:
    if content is not None:
        Path(path).write_bytes(content)

    assert outcome.read(path) == Outcome(noise=noise)


def test_a_launch_goes_on_where_its_outcome_cannot_be_written(tmp_path: Path) -> None:
    outcome.append(str(tmp_path / "nowhere" / "outcome.jsonl"), {"noise": 1})


@pytest.mark.parametrize(
    ("line", "column", "problem"),
    [(0, 0, "b: c"), (3, 0, "/a:1: x:3: b: c"), (3, 4, "/a:1: x:3:4: b: c")],
    ids=["no place", "a line", "a column"],
)
def test_the_place_of_an_error_is_apart_from_its_sentence(
    line: int, column: int, problem: str
) -> None:
    error = ProfileRefused("b: c", fix="d", path="/a:1: x", line=line, column=column)

    assert error.problem == problem
    assert error.without_place == "b: c"
    assert (error.path, error.line, error.column) == ("/a:1: x", line, column)

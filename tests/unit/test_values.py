"""The small functions that every package uses."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable, make_sighting

from mcp_launch import state, values
from mcp_launch.hosts import load
from mcp_launch.runtime import outer_launch
from mcp_launch.values import expand_home, walk_upward

if TYPE_CHECKING:
    from pathlib import Path

# a path, and what it is for a user whose home is /home/me
IN_HOME = {
    "the home itself": ("~", "/home/me"),
    "something in it": ("~/app/.env", "/home/me/app/.env"),
    "another user's home": ("~you/app", "~you/app"),
    "a tilde elsewhere": ("/srv/~/app", "/srv/~/app"),
    "a backup": ("file~", "file~"),
    "a relative path": ("app", "app"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("path", "expanded"), IN_HOME.values(), ids=IN_HOME)
def test_a_leading_tilde_is_the_home(path: str, expanded: str) -> None:
    assert expand_home(path, "/home/me") == expanded


def test_the_home_may_be_the_root() -> None:
    assert [expand_home(path, "/") for path in ("~", "~/app")] == ["/", "/app"]


def test_our_state_may_be_moved_to_the_home_and_below() -> None:
    def find(moved: str) -> str:
        return state.find_directory({"HOME": "/home/me", "MCP_LAUNCH_HOME": moved})

    assert find("~") == "/home/me"
    assert find("~/state") == find("state") == "/home/me/state"
    assert find("/s") == "/s"


# where it begins, and every directory that is looked at
UPWARD = {
    "an absolute path": ("/a/b/c", ["/a/b/c", "/a/b", "/a", "/"]),
    "the root": ("/", ["/"]),
    "a relative path": ("a/b", ["a/b", "a"]),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("start", "directories"), UPWARD.values(), ids=UPWARD)
def test_walking_upward_ends_at_the_root(start: str, directories: list[str]) -> None:
    assert list(walk_upward(start)) == directories


# A whole second, long before whenever this is run.
SECOND = 1_700_000_000 * 10**9


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return our own clock, which stands still until a test sets it."""
    hands = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: hands[0])
    return hands


def write(path: Path, text: str, stamp: int) -> None:
    """Write over a file on a file system whose clock shows this."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(stamp, stamp))


@pytest.mark.parametrize(
    ("stamp", "step"),
    [(SECOND, 2.0), (SECOND + 4_000_000, 0.049)],
    ids=["whole seconds", "finer than that"],
)
def test_a_file_is_known_again_once_its_clock_has_moved_on(
    stamp: int, step: float, tmp_path: Path, clock: list[float]
) -> None:
    path = tmp_path / "file"
    write(path, "1", stamp)
    known = values.Stamp()

    assert known.may_have_changed(os.stat(path))
    clock[0] += step  # until now it may have been written under the same stamp
    assert known.may_have_changed(os.stat(path))
    clock[0] += step / 10
    assert known.may_have_changed(os.stat(path))
    assert not known.may_have_changed(os.stat(path))

    write(path, "2", stamp + 2 * 10**9)
    assert known.may_have_changed(os.stat(path))


def test_a_session_that_changes_within_a_second_of_the_last_look_is_noticed(
    tmp_path: Path, clock: list[float]
) -> None:
    """As after `/clear`: written over in place, and as long as it was."""
    table = FakeProcessTable()
    table.add(20, "claude", start="ticks:777")
    record = tmp_path / "sessions" / "20.json"
    sighting = make_sighting(table, 20, environ={"CLAUDE_CONFIG_DIR": str(tmp_path)})
    callers = load("claude").follow_callers(sighting)

    seen = []
    for session in ("s-1", "s-2", "s-3"):
        write(record, json.dumps({"sessionId": session, "procStart": "777"}), SECOND)
        clock[0] += 0.3
        seen.append(callers.read({}))

    assert seen == [(session, None, None) for session in ("s-1", "s-2", "s-3")]


def test_a_lease_around_this_one_that_changes_within_a_second_is_noticed(
    tmp_path: Path, clock: list[float]
) -> None:
    """One lease replaces another, and may get the file number of the one before that."""
    path = tmp_path / "launch-0.json"
    around = outer_launch.Outer(str(path))

    seen = []
    for session in ("s-1", "s-2"):
        binding = {"state": "confirmed", "evidence": ""}
        context = {"session": {"value": session}}
        write(path, json.dumps({"launch": "0", "binding": binding, "context": context}), SECOND)
        clock[0] += 0.3
        seen.append(json.dumps(around.read()))

    assert "s-1" in seen[0]
    assert "s-2" in seen[1]

"""Sessions that a host shows by what it holds open: Copilot CLI and Mistral Vibe."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeProcessTable, make_sighting

from mcp_launch.hosts import load
from mcp_launch.hosts.copilot import HOST as COPILOT
from mcp_launch.hosts.vibe import HOST as VIBE
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.hosts import Sighting

VARIABLE = "COPILOT_AGENT_SESSION_ID"


def value(fact: Found | Missing) -> str | None:
    return fact.value if isinstance(fact, Found) else None


def hold(session: str, pid: int = 30, above: str = "/h/.copilot/session-state") -> str:
    return f"{above}/{session}/inuse.{pid}.hold"


def see_copilot(files: list[str], told: str | None, above: str | None = None) -> Sighting:
    table = FakeProcessTable()
    table.add(30, "copilot")
    table.files[30] = files
    table.variables[30] = {VARIABLE: above} if above else {}
    environ = {"HOME": "/h", **({VARIABLE: told} if told else {})}
    return make_sighting(table, 30, environ=environ)


ELSEWHERE = hold("1.0.102", above="/h/.cache/copilot/pkg/linux-x64")

# the files that are open, our variable, the host's own, the session at the start and at a call
COPILOT_SESSIONS: dict[str, tuple[list[str], str | None, str | None, str | None, str | None]] = {
    "the variable and the file": ([hold("s1")], "s1", None, "s1", "s1"),
    "the file alone": ([hold("s1")], None, None, "s1", "s1"),
    "the variable alone": ([], "s1", None, "s1", "s1"),
    "the variable among several files": ([hold("s1"), hold("s2")], "s2", None, "s2", "s2"),
    "the file that the variable contradicts": ([hold("s2")], "s1", None, "s1", "s2"),
    "the file, not an outer Copilot's variable": ([hold("s2")], "s1", "s1", "s2", "s2"),
    "not an outer Copilot's variable alone": ([], "s1", "s1", None, None),
    "nothing where several files are open": ([hold("s1"), hold("s2")], None, None, None, None),
    "not a variable that is none of several files": (
        [hold("s1"), hold("s2")],
        "s3",
        None,
        "s3",
        None,
    ),
    "not another process's file": ([hold("s1", 31)], None, None, None, None),
    "not a file about something else": ([ELSEWHERE], None, None, None, None),
    "nothing where there is nothing": ([], None, None, None, None),
}


@pytest.mark.parametrize(
    ("files", "told", "above", "at_start", "at_call"),
    COPILOT_SESSIONS.values(),
    ids=list(COPILOT_SESSIONS),
)
def test_copilot_is_believed_by(
    files: list[str],
    told: str | None,
    above: str | None,
    at_start: str | None,
    at_call: str | None,
) -> None:
    sighting = see_copilot(files, told, above)

    found = COPILOT.identify(sighting)
    caller = COPILOT.follow_callers(sighting).read({})

    assert (value(found.session), caller[0] if caller else None) == (at_start, at_call)
    assert (found.state == "tentative") == (at_start is not None)


@pytest.fixture
def holds(tmp_path: Path) -> tuple[Path, Path]:
    """Return the files of two sessions of Copilot."""
    own, other = (tmp_path / "session-state" / name / "inuse.30.hold" for name in ("s1", "s2"))
    for path in (own, other):
        path.parent.mkdir(parents=True)
        path.touch()
    return own, other


def test_copilots_files_are_listed_again_only_when_the_sessions_own_is_gone(
    holds: tuple[Path, Path],
) -> None:
    own, other = holds
    sighting = see_copilot([str(own)], None)
    callers = COPILOT.follow_callers(sighting)
    assert callers.read({}) == ("s1", None, None)
    table: Any = sighting.table

    table.files[30] = [str(other)]
    assert callers.read({}) == ("s1", None, None)
    own.unlink()

    assert callers.read({}) == ("s2", None, None)
    assert str(other) in callers.origins[0]


def test_copilots_variable_counts_again_once_its_file_is_open(
    holds: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = holds
    sighting = see_copilot([str(other)], "s1")
    table: Any = sighting.table
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    callers = COPILOT.follow_callers(sighting)
    assert callers.read({}) == ("s2", None, None)

    table.files[30].append(str(own))
    now[0] += 60

    assert callers.read({}) == ("s1", None, None)


def test_a_server_of_copilot_gets_the_right_variable_or_none() -> None:
    session, nothing = Found("s1", "a file"), Missing(["several"])

    assert COPILOT.default_variables(session, nothing) == {VARIABLE: session}
    assert COPILOT.list_untrue_variables(session) == ()
    assert COPILOT.default_variables(nothing, nothing) == {}
    assert COPILOT.list_untrue_variables(nothing) == (VARIABLE,)


def lock(home: Path, session: str, **record: Any) -> str:
    directory = home / "logs" / "session" / "active"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{session}.lock"
    path.touch()
    record = {"process_id": 40, "session_id": session, **record}
    (directory / f"{session}.lock.json").write_text(json.dumps(record), encoding="utf-8")
    return str(path)


def see_vibe(files: list[str], name: str = "vibe-app-server") -> Sighting:
    table = FakeProcessTable()
    table.add(40, name)
    table.files[40] = files
    return make_sighting(table, 40)


def identify_vibe(sighting: Sighting) -> tuple[str | None, str | None]:
    caller = VIBE.follow_callers(sighting).read({})
    return value(VIBE.identify(sighting).session), caller[0] if caller else None


def test_an_editors_vibe_may_get_more_sessions_after_the_start(tmp_path: Path) -> None:
    by_name = see_vibe([lock(tmp_path, "v1")], "vibe-acp")
    by_script = see_vibe([lock(tmp_path, "v1")], "python3.12")
    table: Any = by_script.table
    table.argv[40] = ["python3.12", "/v/bin/vibe-acp"]

    assert identify_vibe(by_name) == identify_vibe(by_script) == (None, "v1")


def test_vibe_is_believed_by_its_only_lock_until_it_has_another(tmp_path: Path) -> None:
    sighting = see_vibe([lock(tmp_path, "v1"), "/h/x.lock"])
    assert identify_vibe(sighting) == ("v1", "v1")
    callers = VIBE.follow_callers(sighting)
    assert callers.read({}) == ("v1", None, None)
    table: Any = sighting.table

    table.files[40].append(lock(tmp_path, "v2"))

    assert callers.read({}) is None
    assert identify_vibe(sighting) == identify_vibe(see_vibe([])) == (None, None)


@pytest.mark.parametrize(
    "record",
    [
        *({"process_id": 41}, {"process_id": None}, {"session_id": "v2"}),
        *(None, '{"process_id": 4', "[]"),
    ],
    ids=["another process's", "no process's", "another session's", "missing", "torn", "a list"],
)
def test_vibes_lock_is_not_believed_if_its_record_is(
    record: dict[str, Any] | str | None, tmp_path: Path
) -> None:
    path = lock(tmp_path, "v1", **(record if isinstance(record, dict) else {}))
    beside = tmp_path / "logs" / "session" / "active" / "v1.lock.json"
    if record is None:
        beside.unlink()
    elif isinstance(record, str):
        beside.write_text(record, encoding="utf-8")

    assert identify_vibe(see_vibe([path])) == (None, None)


class Clock:
    """A clock that stands still, except while open files are listed."""

    def __init__(self, table: Any) -> None:
        self.now = 100.0
        self.looks = 0
        self._list = table.list_open_files
        table.list_open_files = self._look

    def _look(self, pid: int) -> list[str]:
        self.looks += 1
        self.now += 0.1
        listed: list[str] = self._list(pid)
        return listed


@pytest.mark.parametrize("host", ["copilot", "vibe"])
def test_a_host_with_very_many_open_files_and_no_session_is_searched_rarely(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sighting = see_copilot([], None) if host == "copilot" else see_vibe([])
    table: Any = sighting.table
    clock = Clock(table)
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    callers = load(host).follow_callers(sighting)

    assert [callers.read({}) for _ in range(100)] == [None] * 100
    assert clock.looks == 1
    hold = tmp_path / "session-state" / "s1" / "inuse.30.hold"
    hold.parent.mkdir(parents=True)
    hold.touch()
    table.files = {30: [str(hold)], 40: [lock(tmp_path, "s1")]}
    clock.now += 5.1

    assert [callers.read({}) for _ in range(100)] == [("s1", None, None)] * 100

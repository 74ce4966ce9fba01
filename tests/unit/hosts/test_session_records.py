"""Sessions that a host records: Qwen Code and Kimi Code."""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeProcessTable, make_sighting

from mcp_launch.hosts.kimi import HOST as KIMI
from mcp_launch.hosts.qwen import HOST as QWEN
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.hosts import Sighting

VARIABLE = "QWEN_CODE_SESSION_ID"
FILES_VARIABLE = "QWEN_CODE_PROJECT_DIR"

TERMINAL = ["node", "/u/node_modules/@qwen-code/qwen-code/cli.js"]
AGENT = [*TERMINAL, "--acp"]


def value(fact: Found | Missing) -> str | None:
    return fact.value if isinstance(fact, Found) else None


def record(home: Path, name: str, session: str, **more: Any) -> None:
    """Write a record as Qwen Code does: beside, and then renamed."""
    directory = home / ".qwen" / "sessions"
    directory.mkdir(parents=True, exist_ok=True)
    said = {"pid": 50, "procStart": "boot-1:777", "sessionId": session, "cwd": "/work/app", **more}
    beside = directory / f"{name}.tmp"
    beside.write_text(json.dumps(said), encoding="utf-8")
    beside.replace(directory / f"{name}.json")


def see_qwen(
    home: Path, argv: list[str], told: str | None = "from-env", start: str = "ticks:777"
) -> Sighting:
    table = FakeProcessTable()
    table.add(50, "MainThread", start=start)
    table.argv[50] = argv
    environ = {"HOME": str(home), **({VARIABLE: told} if told else {})}
    return make_sighting(table, 50, environ=environ)


def ask_qwen(sighting: Sighting) -> tuple[str | None, str | None]:
    """Return the session at the start and at a call."""
    caller = QWEN.follow_callers(sighting).read({})
    return value(QWEN.identify(sighting).session), caller[0] if caller else None


# the records by file name, the command line, the session at the start and at a call
QWEN_RECORDS: dict[str, tuple[dict[str, dict[str, Any]], list[str], str | None]] = {
    "its record": ({"50": {}}, TERMINAL, "s1"),
    "its variable without a record": ({}, TERMINAL, "from-env"),
    "not a record of an earlier process": (
        {"50": {"procStart": "boot-1:776"}},
        TERMINAL,
        "from-env",
    ),
    "not a record of an earlier boot": ({"50": {"procStart": "boot-0:777"}}, TERMINAL, "from-env"),
    "not a record without a start": ({"50": {"procStart": None}}, TERMINAL, "from-env"),
    "not a record of another process": ({"501": {}}, TERMINAL, "from-env"),
    "not a record that names another pid": ({"50": {"pid": 51}}, TERMINAL, "from-env"),
    "not the variable of an editor's agent": ({}, AGENT, None),
    "not the variable of a process without a command line": ({}, [], None),
    # Another session's may not be written yet.
    "not an agent's only record": ({"50-a1": {}}, AGENT, None),
    "nothing where there are two records": (
        {"50-a1": {}, "50-b2": {"sessionId": "s2"}},
        TERMINAL,
        None,
    ),
}


@pytest.mark.parametrize(
    ("records", "argv", "session"), QWEN_RECORDS.values(), ids=list(QWEN_RECORDS)
)
def test_qwen_code_is_believed_by(
    records: dict[str, dict[str, Any]], argv: list[str], session: str | None, tmp_path: Path
) -> None:
    for name, said in records.items():
        record(tmp_path, name, "s1", **said)

    assert ask_qwen(see_qwen(tmp_path, argv)) == (session, session)


def test_a_record_is_not_believed_where_starts_are_not_in_ticks(tmp_path: Path) -> None:
    record(tmp_path, "50", "s1", procStart=None)

    sighting = see_qwen(tmp_path, TERMINAL, told=None, start="time:777.00")
    assert ask_qwen(sighting) == (None, None)


@pytest.mark.parametrize("text", ['{"pid": 50, "proc', "[]", "[" * 100_000])
def test_a_record_that_is_not_qwen_codes_is_skipped(text: str, tmp_path: Path) -> None:
    record(tmp_path, "50", "s1")
    (tmp_path / ".qwen" / "sessions" / "50-x.json").write_text(text, encoding="utf-8")

    assert ask_qwen(see_qwen(tmp_path, TERMINAL)) == ("s1", "s1")


def test_a_cleared_session_of_qwen_code_is_noticed_at_the_next_call(tmp_path: Path) -> None:
    record(tmp_path, "50", "s1")
    sighting = see_qwen(tmp_path / "nowhere", TERMINAL)
    sighting.environ = {**sighting.environ, "QWEN_HOME": str(tmp_path / ".qwen")}  # it was moved
    callers = QWEN.follow_callers(sighting)
    assert callers.read({}) == ("s1", None, None)

    record(tmp_path, "50", "s2")

    assert callers.read({}) == ("s2", None, None)


def test_a_call_of_qwen_code_may_name_its_session(tmp_path: Path) -> None:
    record(tmp_path, "50", "s1")
    callers = QWEN.follow_callers(see_qwen(tmp_path, AGENT))
    invocation: Any = {"version": 1, "sessionId": "s9", "promptId": "p"}

    assert callers.read({"qwen-code/invocation": invocation}) == ("s9", None, None)
    assert callers.origins[0] == 'the call\'s _meta["qwen-code/invocation"]'
    assert callers.read({"progressToken": 1}) is None


def test_a_server_of_qwen_code_gets_the_right_variable_or_none() -> None:
    session, nothing = Found("s1", "a record"), Missing(["several"])

    assert QWEN.default_variables(session, nothing) == {VARIABLE: session}
    assert QWEN.list_untrue_variables(session) == ()
    assert QWEN.default_variables(nothing, nothing) == {}
    assert QWEN.list_untrue_variables(nothing) == (VARIABLE, FILES_VARIABLE)


def test_qwen_codes_directory_of_files_is_not_the_sessions_place(tmp_path: Path) -> None:
    sighting = see_qwen(tmp_path, TERMINAL)
    sighting.environ = {**sighting.environ, FILES_VARIABLE: "/h/.qwen/projects/-work-app"}

    assert QWEN.find_place(sighting).value == "/work/app"


def write_wire(home: Path, session: str, age: float = 0.0, cwd: str = "/work/app") -> None:
    digest = hashlib.sha256(cwd.encode()).hexdigest()[:12]
    directory = home / "sessions" / f"wd_app_{digest}" / session / "agents" / "main"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "wire.jsonl"
    path.touch()
    os.utime(path, (time.time() - age, time.time() - age))


def see_kimi(home: Path, age: float | None = 60.0) -> Sighting:
    table = FakeProcessTable()
    table.add(60, "kimi-code")
    table.age = age
    return make_sighting(table, 60, environ={"HOME": "/none", "KIMI_CODE_HOME": str(home)})


def ask_kimi(sighting: Sighting) -> str | None:
    assert isinstance(KIMI.identify(sighting).session, Missing)
    caller = KIMI.follow_callers(sighting).read({})
    return caller[0] if caller else None


def test_kimi_code_is_believed_by_its_only_session_since_its_start(tmp_path: Path) -> None:
    write_wire(tmp_path, "session_1")
    write_wire(tmp_path, "session_0", age=3600)
    write_wire(tmp_path, "session_2", cwd="/work/other")
    (tmp_path / "sessions" / ".index-dirty").mkdir()

    assert ask_kimi(see_kimi(tmp_path)) == "session_1"


@pytest.mark.parametrize(
    ("sessions", "age"),
    [
        ({"session_1": 0, "session_2": 0}, 60.0),
        ({"session_1": 0, "session_2": 60.5}, 60.0),
        ({"session_1": 3600}, 60.0),
        ({}, 60.0),
        ({"session_1": 0}, None),
    ],
    ids=[
        "several sessions",
        "one written to when it started",
        "only older sessions",
        "no session",
        "a start that cannot be read",
    ],
)
def test_kimi_code_is_unknown_with(
    sessions: dict[str, float], age: float | None, tmp_path: Path
) -> None:
    for session, seconds in sessions.items():
        write_wire(tmp_path, session, age=seconds)

    assert ask_kimi(see_kimi(tmp_path, age)) is None


def test_kimi_code_is_unknown_without_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_wire(tmp_path, "session_1", cwd=str(tmp_path))
    sighting = see_kimi(tmp_path)
    sighting.cwd = ""

    assert ask_kimi(sighting) is None


@pytest.mark.parametrize("second", ["session_2", "session_0"], ids=["another", "a resumed one"])
def test_a_second_session_of_kimi_code_makes_the_caller_unknown(
    second: str, tmp_path: Path
) -> None:
    write_wire(tmp_path, "session_0", age=3600)
    write_wire(tmp_path, "session_1")
    callers = KIMI.follow_callers(see_kimi(tmp_path))
    assert callers.read({}) == ("session_1", None, None)

    write_wire(tmp_path, second)

    assert callers.read({}) is None
    assert callers.read({}) is None


def test_a_project_with_very_many_sessions_of_kimi_code_is_not_searched(tmp_path: Path) -> None:
    for number in range(501):
        write_wire(tmp_path, f"session_{number}", age=3600 if number else 0)

    assert ask_kimi(see_kimi(tmp_path)) is None

"""Whatever lies where a host's record should be, a launch goes on without it, and at once."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeProcessTable, make_sighting

from mcp_launch.hosts import load, records
from mcp_launch.values import Found

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp_launch.hosts import Sighting


# the host, its program, its record below the home, and what is in it
RECORDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "claude": ("claude", ".claude/sessions/50.json", {"procStart": "777", "sessionId": "s1"}),
    "qwen": (
        "qwen",
        ".qwen/sessions/50.json",
        {"pid": 50, "procStart": "boot-1:777", "sessionId": "s1"},
    ),
    "vibe": (
        "vibe",
        ".vibe/logs/session/active/s1.lock.json",
        {"process_id": 50, "session_id": "s1"},
    ),
}


def see(home: Path, program: str) -> Sighting:
    table = FakeProcessTable()
    table.add(50, program, start="ticks:777")
    table.argv[50] = [program]
    table.files[50] = [f"{home}/.vibe/logs/session/active/s1.lock"]
    return make_sighting(table, 50, environ={"HOME": str(home)})


def ask(host: str, sighting: Sighting) -> tuple[str | None, str | None]:
    """Return the session at the start and at a call."""
    facts = load(host)
    session = facts.identify(sighting).session
    caller = facts.follow_callers(sighting).read({})
    return session.value if isinstance(session, Found) else None, caller[0] if caller else None


def write_huge(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps({**record, "more": "x" * (2 << 20)}), encoding="utf-8")


def write_deep(path: Path, record: dict[str, Any]) -> None:
    text = json.dumps(record)[:-1] + ', "more": ' + "[" * 100_000 + "]" * 100_000 + "}"
    path.write_text(text, encoding="utf-8")


def link_endless(path: Path, _record: dict[str, Any]) -> None:
    path.symlink_to("/dev/zero")


STRANGE: dict[str, Callable[[Path, dict[str, Any]], object]] = {
    "a named pipe": lambda path, _: os.mkfifo(path),
    "a directory": lambda path, _: path.mkdir(),
    "a link to itself": lambda path, _: path.symlink_to(path),
    "a device": link_endless,
    "a huge file": write_huge,
    "a deep file": write_deep,
    "half a file": lambda path, record: path.write_text(json.dumps(record)[:-5], encoding="utf-8"),
    "a list": lambda path, record: path.write_text(json.dumps([record]), encoding="utf-8"),
    "no text": lambda path, _: path.write_bytes(b"\xff\x00\xfe" * 100),
}


@pytest.mark.parametrize("host", list(RECORDS))
@pytest.mark.parametrize("strange", list(STRANGE.values()), ids=list(STRANGE))
def test_a_strange_record_is_none(
    host: str, strange: Callable[[Path, dict[str, Any]], object], tmp_path: Path
) -> None:
    program, name, record = RECORDS[host]
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record), encoding="utf-8")
    assert ask(host, see(tmp_path, program)) == ("s1", "s1")
    path.unlink()

    strange(path, record)

    assert ask(host, see(tmp_path, program)) == (None, None)


NO_IDS: dict[str, object] = {
    "a list": ["s1"],
    "a number": 5,
    "true": True,
    "nothing": "",
    "a NUL": "s\0",
    "an escape sequence": "\x1b[31m",
    "a second line": "s1\ns2",
    "half a character": "\ud800",
    "very long": "s" * 10_000,
}


@pytest.mark.parametrize("host", ["claude", "qwen"])
@pytest.mark.parametrize("session", list(NO_IDS.values()), ids=list(NO_IDS))
def test_what_is_no_id_is_not_told(host: str, session: object, tmp_path: Path) -> None:
    program, name, record = RECORDS[host]
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**record, "sessionId": session}), encoding="utf-8")

    assert ask(host, see(tmp_path, program)) == (None, None)


@pytest.mark.parametrize("session", list(NO_IDS.values()), ids=list(NO_IDS))
def test_a_call_that_names_no_id_names_nobody(session: Any) -> None:
    callers = load("vscode").follow_callers(make_sighting(FakeProcessTable(), 50))

    assert callers.read({"vscode.conversationId": session}) is None


def test_a_file_may_be_as_large_as_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")

    assert records.read(str(path), 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4"):
        records.read(str(path), 4)


def test_a_variable_that_qwen_only_passed_on_is_not_its_own(tmp_path: Path) -> None:
    sighting = see(tmp_path, "qwen")
    sighting.environ = {"HOME": str(tmp_path), "QWEN_CODE_SESSION_ID": "outer"}
    assert ask("qwen", sighting) == ("outer", "outer")

    sighting.table.variables[50] = {"QWEN_CODE_SESSION_ID": "outer"}  # type: ignore[attr-defined]

    assert ask("qwen", sighting) == (None, None)


def test_an_open_lock_of_something_else_does_not_hide_the_session(tmp_path: Path) -> None:
    program, name, record = RECORDS["vibe"]
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record), encoding="utf-8")
    sighting = see(tmp_path, program)
    sighting.table.files[50].append("/work/active/app/uv.lock")  # type: ignore[attr-defined]

    assert ask("vibe", sighting) == ("s1", "s1")

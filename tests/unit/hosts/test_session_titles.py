"""What a session is called, from the records of its host."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from mcp_launch.config_files.session_records import SeenHost
from mcp_launch.hosts.configured import HOSTS

if TYPE_CHECKING:
    from pathlib import Path

THREAD = "01a1ebf6-14a1-7fd0-8b12-02ae8e0b4675"
SESSION = "4306dfd8-1d3a-4149-94d5-2d1179c74c8f"

CODEX, CLAUDE = (HOSTS[name].sessions for name in ("codex", "claude"))


def write_lines(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


# Codex

PROMPT = {
    "type": "event_msg",
    "payload": {
        "type": "item_completed",
        "item": {"type": "UserMessage", "content": [{"type": "text", "text": "Fix the login"}]},
    },
}
OLD_PROMPT = {"type": "event_msg", "payload": {"type": "user_message", "message": "Fix the login"}}
ADDED = {
    "type": "response_item",
    "payload": {"role": "user", "content": [{"text": "<environment_context>"}]},
}


@pytest.fixture
def codex_home(own_home: Path) -> Path:
    return own_home / ".codex"


def see_codex(codex_home: Path, *rollouts: Path) -> SeenHost:
    lock = codex_home / "thread-writer-locks" / f"{THREAD}.lock"
    return SeenHost(7, ["codex"], os.environ, [str(lock), *map(str, rollouts)])


@pytest.mark.parametrize("prompt", [PROMPT, OLD_PROMPT], ids=["0.166", "0.125"])
def test_a_thread_is_called_after_its_first_prompt(prompt: Any, codex_home: Path) -> None:
    meta = {"type": "session_meta", "payload": {"instructions": "x" * 100_000}}
    later = json.loads(json.dumps(prompt).replace("Fix", "Break"))
    path = codex_home / "sessions" / f"rollout-{THREAD}.jsonl"
    rollout = write_lines(path, meta, ADDED, prompt, later)

    assert CODEX.read_title(see_codex(codex_home, rollout), THREAD, THREAD) == "Fix the login"


def test_the_last_name_that_a_user_gave_a_thread_counts(codex_home: Path) -> None:
    rollout = write_lines(codex_home / f"rollout-{THREAD}.jsonl", PROMPT)
    names = ({"id": THREAD, "thread_name": name} for name in ("first", "second"))
    write_lines(codex_home / "session_index.jsonl", *names, {"id": "x", "thread_name": "other"})

    assert CODEX.read_title(see_codex(codex_home, rollout), THREAD, THREAD) == "second"


@pytest.mark.parametrize(
    "content",
    [None, b"", b'{"type": "event_msg"', b"\xff\xfe\n[]\nnull\n", b'{"payload": 3}\n'],
    ids=["no rollout", "empty", "torn", "no records", "another record"],
)
def test_a_rollout_that_says_nothing_gives_no_title(
    content: bytes | None, codex_home: Path
) -> None:
    codex_home.mkdir()
    rollout = codex_home / f"rollout-{THREAD}.jsonl"
    if content is not None:
        rollout.write_bytes(content)
    os.mkfifo(codex_home / "session_index.jsonl")  # does not block

    assert CODEX.read_title(see_codex(codex_home, rollout), THREAD, THREAD) == ""
    assert CODEX.read_title(see_codex(codex_home), "", "") == ""


def test_a_name_that_is_not_a_text_is_not_shown(codex_home: Path, claude_home: Path) -> None:
    write_lines(codex_home / "session_index.jsonl", {"id": THREAD, "thread_name": {"a": 1}})
    named = {"sessionId": SESSION, "name": {"a": 1}, "nameSource": "user"}
    write_lines(claude_home / "sessions" / "7.json", named)

    assert CODEX.read_title(see_codex(codex_home), THREAD, THREAD) == ""
    assert CLAUDE.read_title(see_claude(), SESSION, "") == ""


@pytest.mark.parametrize(
    ("words", "role"),
    [
        (["codex"], ""),
        (["codex", "app-server"], "app server"),
        (["codex", "app-server", "--listen", "unix://"], "daemon"),
    ],
    ids=["a terminal", "an editor's", "a daemon"],
)
def test_a_process_of_codex_has_a_role(words: list[str], role: str) -> None:
    assert CODEX.name_role(words) == role


# Claude Code


def see_claude(**environ: str) -> SeenHost:
    return SeenHost(7, ["claude"], {**os.environ, **environ}, [])


@pytest.fixture
def claude_home(own_home: Path) -> Path:
    return own_home / ".claude"


def write_transcript(claude_home: Path, *records: Any) -> None:
    write_lines(claude_home / "projects" / "-home-ann-src-shop" / f"{SESSION}.jsonl", *records)


def ask(text: object, **more: object) -> dict[str, object]:
    return {"type": "user", "message": {"role": "user", "content": text}, **more}


@pytest.mark.parametrize("text", ["Fix the login", [{"type": "text", "text": "Fix the login"}]])
def test_a_session_is_called_after_its_first_prompt(text: object, claude_home: Path) -> None:
    write_transcript(
        claude_home,
        {"type": "mode", "mode": "normal"},
        ask("a hook's words", isMeta=True),
        ask("<command-name>/model</command-name>"),
        ask([{"type": "tool_result", "content": "x"}]),
        ask(text),
        ask("Break it"),
    )

    assert CLAUDE.read_title(see_claude(), SESSION, "") == "Fix the login"


def test_a_title_comes_before_a_prompt_and_the_users_before_claudes(claude_home: Path) -> None:
    titles = [{"type": "ai-title", "aiTitle": f"Login {number}"} for number in (1, 2)]
    write_transcript(claude_home, ask("Fix the login"), *titles)
    assert CLAUDE.read_title(see_claude(), SESSION, "") == "Login 2"

    own = {"type": "custom-title", "customTitle": "mine"}
    write_transcript(claude_home, ask("Fix the login"), titles[0], own, titles[1])
    assert CLAUDE.read_title(see_claude(), SESSION, "") == "mine"


@pytest.mark.parametrize(
    ("record", "title"),
    [
        ({"sessionId": SESSION, "name": "mine", "nameSource": "user"}, "mine"),
        ({"sessionId": SESSION, "name": "shop-41", "nameSource": "derived"}, "Fix the login"),
        ({"sessionId": "other", "name": "mine", "nameSource": "user"}, "Fix the login"),
    ],
    ids=["the user's", "made up", "another session's"],
)
def test_the_record_of_a_process_has_the_name_that_a_user_gave(
    record: Any, title: str, claude_home: Path
) -> None:
    write_transcript(claude_home, ask("Fix the login"))
    write_lines(claude_home / "sessions" / "7.json", record)

    assert CLAUDE.read_title(see_claude(), SESSION, "") == title


def test_records_are_where_the_hosts_environment_says(tmp_path: Path) -> None:
    write_transcript(tmp_path / "moved", ask("Fix the login"))

    host = see_claude(CLAUDE_CONFIG_DIR=str(tmp_path / "moved"))
    assert CLAUDE.read_title(host, SESSION, "") == "Fix the login"
    assert CLAUDE.read_title(see_claude(), SESSION, "") == ""


def test_only_an_id_names_a_transcript_and_only_of_hosts_that_have_them(claude_home: Path) -> None:
    write_lines(claude_home / "projects" / "x" / "y.jsonl", ask("no"))
    write_lines(claude_home.parent / "secret.jsonl", ask("no"))
    other = HOSTS["cursor"].sessions

    assert CLAUDE.read_title(see_claude(), "", "") == ""
    assert CLAUDE.read_title(see_claude(), "../../secret", "") == ""
    assert other.read_title(see_claude(), SESSION, "") == ""
    assert other.name_role(["x"]) == ""

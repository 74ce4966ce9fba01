"""Which session and thread a launch serves, by host, as tables."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeProcessTable, make_context, make_sighting

from mcp_launch import hosts
from mcp_launch.errors import SourceMissing
from mcp_launch.launch import plan, profile
from mcp_launch.values import Found, Missing, ProcessIdentity, compare

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.hosts import Identity


CODEX = hosts.load("codex")


CLAUDE = hosts.load("claude")


def thread_id(milliseconds: int, tail: int = 1) -> str:
    digits = f"{milliseconds:012x}7000800000000{tail:07x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


NOW = int(time.time() * 1000)


OLD, NEW, FUTURE = thread_id(NOW - 60_000), thread_id(NOW - 1_000), thread_id(NOW + 86_400_000)


def lock(thread: str) -> str:
    return f"/home/me/.codex/thread-writer-locks/{thread}.lock"


def rollout(directory: Path, thread: str, cwd: str, session: str | None = None) -> str:
    path = directory / "sessions/2026/11/16" / f"rollout-2026-11-16T01-00-00-{thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    payload = {"id": thread, "session_id": session or thread, "cwd": cwd, "x": "y" * 50_000}
    path.write_text(
        json.dumps({"type": "session_meta", "payload": payload}) + "\n", encoding="utf-8"
    )
    return str(path)


def identify_codex(files: list[str], argv: tuple[str, ...] = ("codex",), **facts: Any) -> Identity:
    table = FakeProcessTable()
    table.add(10, "codex")
    table.argv[10] = list(argv)
    table.files[10] = files
    return CODEX.identify(make_sighting(table, 10, **facts))


def value(fact: Found | Missing) -> str | None:
    return fact.value if isinstance(fact, Found) else None


def test_codex_with_one_open_thread_is_near_certain_and_with_several_a_guess() -> None:
    found = identify_codex([lock(OLD), "/home/me/.codex/thread-writer-locks/.coordination.lock"])
    assert (found.state, value(found.thread), value(found.session)) == ("tentative", OLD, OLD)
    assert "the only open thread" in found.evidence

    # The newest that is older than we are.
    found = identify_codex([lock(OLD), lock(NEW), lock(FUTURE)])
    assert (found.state, value(found.thread)) == ("tentative", NEW)
    assert "a guess" in found.evidence

    # A sibling is sure of the newest.
    found = identify_codex([lock(OLD), lock(NEW)], list_confirmed_threads=lambda: {NEW})
    assert value(found.thread) == OLD


def test_a_rollout_of_codex_that_is_nested_too_deeply_is_passed_over(tmp_path: Path) -> None:
    path = rollout(tmp_path, NEW, "/work/other")
    with open(path, "wb") as file:
        file.write(b"[" * 100_000 + b"]" * 100_000)

    assert value(identify_codex([lock(NEW), path]).thread) == NEW


def test_codex_threads_of_other_directories_are_dropped(tmp_path: Path) -> None:
    elsewhere = rollout(tmp_path, NEW, "/work/other")

    found = identify_codex([lock(OLD), lock(NEW), elsewhere], ("codex", "app-server"))

    assert value(found.thread) == OLD


def test_a_thread_of_another_directory_alone_in_an_app_server_is_not_ours(tmp_path: Path) -> None:
    found = identify_codex([lock(NEW), rollout(tmp_path, NEW, "/other")], ("codex", "app-server"))

    assert (found.state, value(found.thread)) == ("unbound", None)


def test_a_single_thread_of_codex_exec_is_ours_wherever_the_entry_puts_us(tmp_path: Path) -> None:
    found = identify_codex([lock(NEW), rollout(tmp_path, NEW, "/other")], ("codex", "exec", "x"))

    assert value(found.thread) == NEW


def test_a_sub_agents_session_is_its_roots(tmp_path: Path) -> None:
    found = identify_codex([lock(NEW), rollout(tmp_path, NEW, "/work/app", session=OLD)])

    assert (value(found.thread), value(found.session)) == (NEW, OLD)


@pytest.mark.parametrize(
    ("files", "facts"),
    [
        ([], {}),
        (["/home/me/.codex/sessions/2026/11/16/rollout-x-" + OLD + ".jsonl"], {}),
        ([lock(OLD)], {"is_starter": False}),
        ([lock(OLD)], {"cwd": "/home/me/.codex"}),
    ],
    ids=[
        "no open thread",
        "a rollout without a lock",
        "started by a program in its shell",
        "threadless",
    ],
)
def test_codex_is_unbound_with(files: list[str], facts: dict[str, Any]) -> None:
    found = identify_codex(files, environ={"HOME": "/home/me", "CODEX_THREAD_ID": OLD}, **facts)

    assert (found.state, value(found.thread), value(found.session)) == ("unbound", None, None)


def identify_claude(
    tmp_path: Path, record: str | None, environ: dict[str, str] | None = None
) -> Identity:
    table = FakeProcessTable()
    table.add(20, "claude", start="ticks:777")
    sessions = tmp_path / "claude" / "sessions"
    sessions.mkdir(parents=True)
    if record is not None:
        (sessions / "20.json").write_text(record, encoding="utf-8")
    settings = {"HOME": "/none", "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), **(environ or {})}
    return CLAUDE.identify(make_sighting(table, 20, environ=settings))


ENV = {"CLAUDE_CODE_SESSION_ID": "from-env"}


# the pid file, the environment, the session that is believed
CLAUDE_RECORDS = {
    "the pid file": ('{"sessionId": "s1", "procStart": "777"}', {}, "s1"),
    "the pid file before the environment": ('{"sessionId": "s1", "procStart": "777"}', ENV, "s1"),
    "not an earlier process's pid file": (
        '{"sessionId": "s1", "procStart": "776"}',
        ENV,
        "from-env",
    ),
    "not a pid file without a start": ('{"sessionId": "s1"}', ENV, "from-env"),
    "the environment without a pid file": (None, ENV, "from-env"),
    "not a torn pid file": ('{"sessionId": "s1", "procSt', ENV, "from-env"),
    "nothing where there is nothing": (None, {}, None),
}


@pytest.mark.parametrize(
    ("record", "environ", "expected"), CLAUDE_RECORDS.values(), ids=list(CLAUDE_RECORDS)
)
def test_claude_code_is_believed_by(
    record: str | None, environ: dict[str, str], expected: str | None, tmp_path: Path
) -> None:
    assert value(identify_claude(tmp_path, record, environ).session) == expected


def test_a_torn_pid_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "claude" / "sessions" / "20.json"
    whole = '{"sessionId": "s1", "procStart": "777"}'
    monkeypatch.setattr(time, "sleep", lambda _: path.write_text(whole, encoding="utf-8"))

    assert value(identify_claude(tmp_path, whole[:20]).session) == "s1"


@pytest.mark.parametrize(
    ("recorded", "seen", "verdict"),
    [
        ((1, "ticks:5"), (1, "ticks:5"), "same"),
        ((1, "ticks:5"), (1, "ticks:6"), "different"),
        ((1, "ticks:5"), (2, "ticks:5"), "different"),
        ((1, None), (1, "ticks:5"), "unknown"),
        ((1, "ticks:5"), (1, None), "unknown"),
        ((1, "ticks:5"), (1, "time:5.00"), "unknown"),
    ],
)
def test_a_process_is_compared(
    recorded: tuple[int, str], seen: tuple[int, str], verdict: str
) -> None:
    assert compare(ProcessIdentity(*recorded), ProcessIdentity(*seen)) == verdict


FACTS = make_context(
    thread=Found("t-1", "a lock"),
    session=Found("s-1", "a lock"),
)


def decide(words: list[str], **facts: object) -> plan.Plan:
    wanted = profile.load([*words, "--", "server"], {"HOME": "/nowhere"})
    context = make_context(**facts) if facts else FACTS
    environ = {"X": "mine", "MCP_LAUNCH_CWD": "/elsewhere", "MCP_LAUNCH_TRACE": "1"}
    dotenv = plan.Dotenv({"X": "from file", "Y": "2", "CODEX_THREAD_ID": "forged"}, "/x/.env")
    return plan.decide(wanted, context, environ, dotenv, lambda _: True)


def test_a_variable_comes_from_its_source() -> None:
    values = {
        "thread": "t-1",
        "session": "s-1",
        "project_root": "/work/app",
        "cwd": "/work/app",
        "host": "codex",
        "host_pid": "10",
        "launch": "launch-1",
        "local": "mine",
        "dotenv": "from file",
    }
    for source, expected in values.items():
        environ = decide(["--env", f"X={source}"]).environ
        assert environ["X"] == expected
        assert "Y" not in environ, "of a dotenv file only what is named"
    whole = decide(["--dotenv", ".env"]).environ
    assert (whole["Y"], whole["CODEX_THREAD_ID"]) == ("2", "t-1")  # it is no word on identity


def test_defaults_are_set_without_any_option() -> None:
    environ = decide([]).environ

    assert {name: environ[name] for name in environ if name not in {"X", "PWD"}} == {
        "MCP_LAUNCH_ID": "launch-1",
        "MCP_LAUNCH_HOST": "codex",
        "MCP_LAUNCH_SESSION_ID": "s-1",
        "MCP_LAUNCH_THREAD_ID": "t-1",
        "MCP_LAUNCH_PROJECT_ROOT": "/work/app",
        "CODEX_THREAD_ID": "t-1",
        "MCP_LAUNCH_TRACE": "1",  # for every launch; MCP_LAUNCH_CWD was for this one
    }


@pytest.mark.parametrize("source", ["thread", "session"])
def test_a_source_without_a_value_says_where_it_looked(source: str) -> None:
    with pytest.raises(SourceMissing, match="it was not looked for") as missing:
        decide(["--when-unknown", "fail", "--env", f"X={source}"], host=Found("codex", "above us"))
    assert "stop asking for X" in missing.value.fix


def test_a_session_that_no_host_names_is_not_made_up() -> None:
    nobody = {"host": Found("opencode", "above us"), "facts": hosts.load("opencode")}

    decided = decide([], **nobody)
    assert "MCP_LAUNCH_SESSION_ID" not in decided.environ
    for wire in ([], ["--direct"]):
        decided = decide([*wire, "--env", "X=session"], **nobody)
        assert decided.environ["X"] == decided.environ["MCP_LAUNCH_ID"] == "launch-1"
        assert decided.set_variables["X"] == (
            "the launch's own id instead of a session's (it was not looked for)"
        )
    # A placeholder will not do, and it has no threads.
    for words in (["--when-unknown", "fail", "--env", "X=session"], ["--env", "X=thread"]):
        with pytest.raises(SourceMissing, match="it was not looked for"):
            decide(words, **nobody)


@pytest.mark.parametrize(
    ("host", "words", "claimed"),
    [
        ("vscode", [], None),
        ("vscode", ["--env", "X=session"], "c-1"),  # each session gets its own server
        ("vscode", ["--env", "X=session", "--on-change", "follow"], None),
        ("vscode", ["--on-change", "refuse"], "c-1"),
        ("vscode", ["--on-change", "restart"], "c-1"),
        ("vscode", ["--on-change", "isolate"], "c-1"),
        ("qwen", [], None),
        ("copilot", [], "c-1"),
        ("codex", [], "c-1"),
    ],
)
def test_a_server_that_others_will_use_does_not_get_the_session_of_a_call(
    host: str, words: list[str], claimed: str | None
) -> None:
    context = make_context(host=Found(host, "above us"), facts=hosts.load(host))
    context = context.for_session(Found("c-1", "the call"), Missing(["none"]))
    wanted = profile.load([*words, "--", "server"], {"HOME": "/nowhere"})

    decided = plan.decide(wanted, context, {}, plan.Dotenv({}, ""), lambda _: True)

    assert decided.environ.get("MCP_LAUNCH_SESSION_ID") == claimed
    assert decided.environ.get("X", "c-1") == "c-1"  # if it was asked for


def test_a_server_gets_the_session_that_its_host_started_it_for() -> None:
    facts = {"host": Found("goose", "above us"), "facts": hosts.load("goose")}

    decided = decide([], session=Found("g-1", "AGENT_SESSION_ID"), **facts)

    assert decided.environ["MCP_LAUNCH_SESSION_ID"] == "g-1"


def test_a_variable_that_is_not_true_for_the_server_is_removed_and_said_to_be() -> None:
    context = make_context(host=Found("qwen", "above us"), facts=hosts.load("qwen"))
    inherited = {"QWEN_CODE_SESSION_ID": "of the process", "QWEN_CODE_PROJECT_DIR": "/h/.qwen/p"}
    wanted = profile.load(["--", "server"], {"HOME": "/nowhere"})

    decided = plan.decide(wanted, context, inherited, plan.Dotenv({}, ""), lambda _: True)

    assert decided.unset_variables == list(inherited)
    assert decided.environ.keys().isdisjoint(inherited)


# the host, the variables that it keeps, and those that are not its own
INHERITED = {
    "codex": ("", "CODEX_THREAD_ID CLAUDE_CODE_SESSION_ID"),
    "claude": ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"),
    "vscode": ("", "CLAUDE_PROJECT_DIR"),
    "goose": (
        "AGENT_SESSION_ID",
        (
            "COPILOT_AGENT_SESSION_ID QWEN_CODE_SESSION_ID QWEN_CODE_PROJECT_DIR "
            "KILO_RUN_ID KILO_PARENT_PID"
        ),
    ),
    # It may be one of these, by a name that we do not know.
    "unknown": (
        "COPILOT_AGENT_SESSION_ID QWEN_CODE_SESSION_ID KILO_RUN_ID SOMETHING_ELSE",
        "AGENT_SESSION_ID OPENCODE_PID",
    ),
    "copilot": (
        "COPILOT_AGENT_SESSION_ID",
        "QWEN_CODE_SESSION_ID QWEN_CODE_PROMPT_ID QWEN_CODE_LAUNCHER_PID",
    ),
    "qwen": ("QWEN_CODE_PROMPT_ID", "KILO_RUN_ID OPENCODE_PID COPILOT_LOADER_PID"),
    "opencode": ("OPENCODE_PID", "KILO_PID"),
    "kilo": ("KILO_RUN_ID KILO_PID", "OPENCODE_PID COPILOT_AGENT_SESSION_ID"),
}


@pytest.mark.parametrize(("host", "kept", "removed"), [(h, *v) for h, v in INHERITED.items()])
def test_what_another_host_set_for_another_process_is_removed(
    host: str, kept: str, removed: str
) -> None:
    inherited = dict.fromkeys(f"{kept} {removed}".split(), "x")
    wanted = profile.load(["--", "server"], {"HOME": "/nowhere"})
    context = make_context(host=Found(host, "above us"))

    decided = plan.decide(wanted, context, inherited, plan.Dotenv({}, ""), lambda _: True)

    assert decided.environ.keys() & inherited.keys() == set(kept.split())

"""Whom a call is for, and what the server is told of it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeProcessTable, make_context, make_sighting

from mcp_launch import hosts, protocol
from mcp_launch.broker.calls import KEY, Calls, Misplaced, Refused
from mcp_launch.launch import profile
from mcp_launch.launch.plan import Plan
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.launch.context import Context
    from mcp_launch.protocol.json_text import Json

CODEX_META: dict[str, Json] = {
    "callId": "call-1",
    "threadId": "t-1",
    "sessionId": "s-1",
    "x-codex-turn-metadata": {"session_id": "s-turn", "thread_id": "t-turn"},
}


def make_calls(context: Context, *words: str, outer: Any = None) -> Calls:
    decided = Plan(["srv"], Found("/work/app", "inherited"), {})
    return Calls(profile.load([*words, "--", "srv"], {"HOME": "/nowhere"}), context, decided, outer)


def below(host: str, **facts: Any) -> Context:
    """Return a context of that host in which nothing was found at the start."""
    table = FakeProcessTable()
    table.add(10, host)
    return make_context(
        host=Found(host, "above us"),
        facts=hosts.load(host),
        sighting=make_sighting(table, 10),
        **facts,
    )


def admit(calls: Calls, meta: Json = None, method: str = "tools/call", **more: Json) -> Any:
    """Return what becomes of a request: the message as the server gets it, or why not."""
    params: dict[str, Json] = {"name": "x", "arguments": {"threadId": "t-argument"}, **more}
    if meta is not None:
        params["_meta"] = meta
    said: dict[str, Json] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    verdict = calls.admit(said, json.dumps(said).encode() + b"\n")
    return json.loads(verdict) if isinstance(verdict, bytes) else verdict


def context_of(said: Any) -> Any:
    return said["params"]["_meta"][KEY.text]


def test_the_server_gets_every_fact_with_its_origin() -> None:
    told = context_of(admit(make_calls(below("codex")), CODEX_META))

    assert told == {
        "host": "codex",
        "sessionId": "s-1",
        "threadId": "t-1",
        "projectRoot": "/work/app",
        "cwd": "/work/app",
        "launchId": "launch-1",
        "binding": "confirmed",
        "origin": {
            "host": "above us",
            "sessionId": "the call's _meta.sessionId",
            "threadId": "the call's _meta.threadId",
            "projectRoot": ".git in it",
            "cwd": "inherited",
            "binding": "the call's _meta.threadId",
        },
    }


@pytest.mark.parametrize("meta", [None, {"progressToken": 1}], ids=["none", "another"])
def test_what_is_not_known_is_left_out(meta: Json) -> None:
    context = below("cursor", project_root=Missing(["no .git"]))

    told = context_of(admit(make_calls(context), meta))

    assert sorted(told) == ["binding", "cwd", "host", "launchId", "origin"]
    assert told["binding"] == "unbound"


def test_what_else_stands_in_meta_stays() -> None:
    said = admit(make_calls(below("codex")), {"progressToken": 7, **CODEX_META})

    rest = {name: value for name, value in said["params"]["_meta"].items() if name != KEY.text}
    assert rest == {"progressToken": 7, **CODEX_META}


def test_meta_is_unchanged_if_asked() -> None:
    assert (
        admit(make_calls(below("codex"), "--no-meta"), CODEX_META)["params"]["_meta"] == CODEX_META
    )


@pytest.mark.parametrize(
    ("host", "meta", "session", "thread"),
    [
        ("codex", CODEX_META, "s-1", "t-1"),
        ("codex", {"threadId": "t-1"}, None, "t-1"),
        (
            "codex",
            {"x-codex-turn-metadata": {"thread_id": "t-2", "session_id": "s-2"}},
            "s-2",
            "t-2",
        ),
        (
            "codex",
            {"threadId": "t-1", "x-codex-turn-metadata": {"session_id": "s-2"}},
            "s-2",
            "t-1",
        ),
        ("codex", {"threadId": 5, "sessionId": None}, None, None),
        ("codex", {"sessionId": "s-1"}, None, None),
        ("vscode", {"vscode.conversationId": "c-1"}, "c-1", None),
        ("goose", {"agent-session-id": "g-1"}, "g-1", None),
        ("vscode", {"threadId": "t-1"}, None, None),
        ("unknown", CODEX_META, None, None),
    ],
)
def test_each_host_tells_it_in_its_own_way(
    host: str, meta: Json, session: str | None, thread: str | None
) -> None:
    told = context_of(admit(make_calls(below(host)), meta))

    assert (told.get("sessionId"), told.get("threadId")) == (session, thread)


def test_the_server_gets_the_directory_of_a_call() -> None:
    meta: Json = {"agent-session-id": "g-1", "agent-working-dir": "/elsewhere"}
    told = context_of(admit(make_calls(below("goose")), meta))

    assert told["cwd"] == "/elsewhere"
    assert told["origin"]["cwd"] == 'the call\'s _meta["agent-working-dir"]'


@pytest.mark.parametrize(
    ("on_change", "kind"), [("refuse", Refused), ("restart", Misplaced), ("follow", dict)]
)
def test_another_directory_is_an_identity_change(on_change: str, kind: type) -> None:
    calls = make_calls(below("goose"), "--on-change", on_change)
    meta: Json = {"agent-session-id": "g-1", "agent-working-dir": "/elsewhere"}

    assert isinstance(admit(calls, meta), kind)


def test_a_contradiction_that_was_cleared_up_is_forgotten() -> None:
    calls = make_calls(below("codex"))
    calls.contradict(Found("/elsewhere", "the host's roots/list"))
    elsewhere = context_of(admit(calls, CODEX_META))
    calls.contradict(None)
    here = context_of(admit(calls, CODEX_META))

    assert (elsewhere["cwd"], here["cwd"]) == ("/elsewhere", "/work/app")


def test_a_client_cannot_forge_it() -> None:
    forged: dict[str, Json] = {"host": "codex", "threadId": "t-forged", "sessionId": "s-forged"}
    calls = make_calls(below("codex"))

    told = context_of(admit(calls, {KEY.text: forged, "threadId": "t-1", "sessionId": "s-1"}))
    alone = context_of(admit(make_calls(below("codex")), {KEY.text: forged}))

    assert (told["threadId"], told["binding"], told["outer"]) == ("t-1", "confirmed", forged)
    assert (alone.get("threadId"), alone["binding"]) == (None, "unbound")
    assert calls.bound.thread == "t-1"


def test_what_is_forged_and_no_object_is_dropped() -> None:
    told = context_of(admit(make_calls(below("codex")), {KEY.text: "t-forged", **CODEX_META}))

    assert told["threadId"] == "t-1"
    assert "outer" not in told


class Around:
    """A launch around this one."""

    def read(self) -> Json:
        return {"host": "claude", "outer": {"host": "vscode"}}


def test_the_server_gets_the_whole_chain_of_launches() -> None:
    calls = make_calls(below("codex"), outer=Around())

    for _ in range(2):
        told = context_of(admit(calls, CODEX_META))
        assert told["threadId"] == "t-1"
        assert told["outer"] == {"host": "claude", "outer": {"host": "vscode"}}


def test_a_misdelivered_call_is_refused_and_names_both() -> None:
    calls = make_calls(below("codex"))
    admit(calls, {"threadId": "t-1", "sessionId": "s-1"})

    refused = admit(calls, {"threadId": "t-2", "sessionId": "s-2"})

    assert isinstance(refused, Refused)
    assert "this call belongs to thread t-2, but this server serves thread t-1" in refused.reason
    assert calls.refusals == 1
    assert context_of(admit(calls, CODEX_META))["threadId"] == "t-1"


@pytest.mark.parametrize(
    "method", ["resources/read", "prompts/get", "notifications/x", "tasks/get"]
)
def test_whatever_says_whose_it_is_follows_the_same_rule(method: str) -> None:
    calls = make_calls(below("codex"))
    admit(calls, CODEX_META)

    assert isinstance(admit(calls, {"threadId": "t-2"}, method), Refused)
    assert "_meta" not in admit(calls, None, method)["params"]  # nor is anything put into it


def test_a_call_that_tells_nobody_is_of_whom_the_connection_is() -> None:
    calls = make_calls(below("codex"))
    admit(calls, CODEX_META)

    assert context_of(admit(calls, {"progressToken": 1}))["threadId"] == "t-1"


def test_where_many_share_a_connection_a_call_that_tells_nobody_is_nobodys() -> None:
    calls = make_calls(below("vscode"))
    first = context_of(admit(calls, {"vscode.conversationId": "c-1"}))
    nobodys = context_of(admit(calls, {}))
    second = context_of(admit(calls, {"vscode.conversationId": "c-2"}))

    assert (first["sessionId"], second["sessionId"]) == ("c-1", "c-2")
    assert "sessionId" not in nobodys
    assert nobodys["binding"] == "unbound"


def test_usual_calls_are_recognised_only_if_nothing_has_changed() -> None:
    calls = make_calls(below("codex"))

    def recognise(meta: dict[str, Json]) -> bytes:
        said = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"_meta": meta}}
        line = json.dumps(said, separators=(",", ":")).encode() + b"\n"
        return calls.recognise(line, protocol.find_usual_meta(line))

    assert recognise(CODEX_META) == b""  # the first one is judged
    told = context_of(admit(calls, CODEX_META))

    for number in range(3):
        assert json.loads(recognise({**CODEX_META, "callId": f"call-{number}"})) == told
    assert recognise({**CODEX_META, "threadId": "t-2"}) == b""
    assert recognise({**CODEX_META, "sessionId": "s-2"}) == b""
    assert recognise({KEY.text: {}, **CODEX_META}) == b""
    assert json.loads(recognise(CODEX_META)) == told
    assert calls.count == 5


class Record:
    """Claude Code's file of the process that is our host."""

    def __init__(self, home: Path) -> None:
        self.path = home / ".claude" / "sessions" / "10.json"
        self.path.parent.mkdir(parents=True)

    def write(self, session: str, start: str = "5") -> None:
        record = {"pid": 10, "sessionId": session, "procStart": start}
        self.path.write_text(json.dumps(record), encoding="utf-8")


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(tmp_path)


@pytest.fixture
def calls_of_claude(tmp_path: Path, record: Record) -> Calls:
    assert record
    table = FakeProcessTable()
    table.add(10, "claude")
    sighting = make_sighting(table, 10, environ={"HOME": str(tmp_path)})
    return make_calls(
        make_context(
            host=Found("claude", "above us"),
            facts=hosts.load("claude"),
            sighting=sighting,
        )
    )


def test_claudes_session_is_the_one_of_the_moment(calls_of_claude: Calls, record: Record) -> None:
    sessions = []
    for session in ("s-1", "s-2", "s-3", "s-3"):  # of one length, within one tick of a clock
        record.write(session)
        sessions.append(context_of(admit(calls_of_claude))["sessionId"])

    assert sessions == ["s-1", "s-2", "s-3", "s-3"]


def test_a_record_that_has_not_changed_is_not_read_again(
    calls_of_claude: Calls, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    record.write("s-1")
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    admit(calls_of_claude)
    clock[0] += 60
    admit(calls_of_claude)
    monkeypatch.setattr("builtins.open", None)

    assert context_of(admit(calls_of_claude))["sessionId"] == "s-1"


def test_what_was_known_holds_while_there_is_no_record(
    calls_of_claude: Calls, record: Record
) -> None:
    record.write("s-1")
    admit(calls_of_claude)
    record.path.unlink()

    assert context_of(admit(calls_of_claude))["sessionId"] == "s-1"


def test_the_record_of_an_earlier_process_tells_nothing(
    calls_of_claude: Calls, record: Record
) -> None:
    record.write("s-1", start="4")

    assert "sessionId" not in context_of(admit(calls_of_claude))


def test_lists_are_nobodys_where_only_a_record_tells(
    calls_of_claude: Calls, record: Record
) -> None:
    """Claude Code asks for them at the start, for a session that `--resume` may change."""
    record.write("s-1")
    admit(calls_of_claude, None, "resources/list")
    assert calls_of_claude.bound.state == "unbound"

    admit(calls_of_claude, None, "resources/read")
    assert calls_of_claude.bound.session == "s-1"

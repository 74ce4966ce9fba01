"""The caller of a call, and the context that the server gets with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeProcessTable, make_context, make_sighting

from mcp_launch import hosts
from mcp_launch.broker import Broker
from mcp_launch.broker.commands import SendToHost, SendToServer, Settings
from mcp_launch.broker.routing import KEY, Served, bind_at_start
from mcp_launch.hosts import Identity
from mcp_launch.launch.context import is_inside
from mcp_launch.launch.plan import Plan
from mcp_launch.runtime import describe_context
from mcp_launch.runtime.streams import explain_early_end, explain_end
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.broker.routing import Binding
    from mcp_launch.launch.context import Context
    from mcp_launch.protocol.json_text import Json

CODEX_META: dict[str, Json] = {
    "callId": "call-1",
    "threadId": "t-1",
    "sessionId": "s-1",
    "x-codex-turn-metadata": {"session_id": "s-turn", "thread_id": "t-turn"},
}


def make_broker(context: Context, *, outer: Json = None, **settings: Any) -> Broker:
    """Return a broker whose one server is ready for calls."""
    plan = Plan(["srv"], Found("/work/app", "inherited"), {})
    served = Served(context, bind_at_start(context.identity), plan)
    broker = Broker(
        Settings(
            server="srv",
            launch=context.launch.value,
            carries=context.facts.carries,
            callers=context.follow_callers(),
            plan_for=lambda changed, _place: (changed, plan),
            is_inside=is_inside,
            describe=describe_context,
            explain_end=explain_end,
            explain_early_end=lambda code, words: explain_early_end("srv", code, words),
            read_outer=lambda: outer,
            **settings,
        )
    )
    broker.connect("host")
    broker.open_backend("server", served).state = "starting"
    broker.server_started("server")
    broker.take_commands()
    return broker


def get_bound(broker: Broker) -> Binding:
    return broker.backends["server"].served.bound


class Refused:
    """A request that no server gets, with the reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Misplaced:
    """A request that another server gets."""


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


def admit(broker: Broker, meta: Json = None, method: str = "tools/call", **more: Json) -> Any:
    """Return the message as the server gets it, or why it does not get it."""
    params: dict[str, Json] = {"name": "x", "arguments": {"threadId": "t-argument"}, **more}
    if meta is not None:
        params["_meta"] = meta
    said: dict[str, Json] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    send(broker, said)
    commands = broker.take_commands()
    answers = [one.data for one in commands if isinstance(one, SendToHost)]
    sent = [one.data for one in commands if isinstance(one, SendToServer)]
    if answers:
        assert not sent
        return Refused(answers[0].decode())
    if not sent:
        assert broker.backends["server"].is_replacing
        return Misplaced()
    broker.server_said("server", b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    broker.take_commands()
    return json.loads(sent[0])


def send(broker: Broker, said: dict[str, Json]) -> None:
    broker.host_said("host", json.dumps(said).encode() + b"\n")


def context_of(said: Any) -> Any:
    return said["params"]["_meta"][KEY.text]


def test_the_server_gets_every_fact_with_its_origin() -> None:
    context = context_of(admit(make_broker(below("codex")), CODEX_META))

    assert context == {
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
def test_unknown_facts_are_left_out(meta: Json) -> None:
    context = below("cursor", project_root=Missing(["no .git"]))

    context = context_of(admit(make_broker(context), meta))

    assert sorted(context) == ["binding", "cwd", "host", "launchId", "origin"]
    assert context["binding"] == "unbound"


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
def test_the_caller_is_read_from_each_hosts_own_meta(
    host: str, meta: Json, session: str | None, thread: str | None
) -> None:
    context = context_of(admit(make_broker(below(host)), meta))

    assert (context.get("sessionId"), context.get("threadId")) == (session, thread)


def test_the_server_gets_the_directory_of_a_call() -> None:
    meta: Json = {"agent-session-id": "g-1", "agent-working-dir": "/elsewhere"}
    context = context_of(admit(make_broker(below("goose")), meta))

    assert context["cwd"] == "/elsewhere"
    assert context["origin"]["cwd"] == 'the call\'s _meta["agent-working-dir"]'


def test_a_client_cannot_forge_the_context() -> None:
    forged: dict[str, Json] = {"host": "codex", "threadId": "t-forged", "sessionId": "s-forged"}
    broker = make_broker(below("codex"))

    context = context_of(admit(broker, {KEY.text: forged, "threadId": "t-1", "sessionId": "s-1"}))
    alone = context_of(admit(make_broker(below("codex")), {KEY.text: forged}))

    assert (context["threadId"], context["binding"], context["outer"]) == (
        "t-1",
        "confirmed",
        forged,
    )
    assert (alone.get("threadId"), alone["binding"]) == (None, "unbound")
    assert get_bound(broker).thread == "t-1"


def test_a_forged_context_that_is_not_an_object_is_dropped() -> None:
    context = context_of(admit(make_broker(below("codex")), {KEY.text: "t-forged", **CODEX_META}))

    assert context["threadId"] == "t-1"
    assert "outer" not in context


def test_the_server_gets_the_whole_chain_of_launches() -> None:
    around: Json = {"host": "claude", "outer": {"host": "vscode"}}
    broker = make_broker(below("codex"), outer=around)

    for _ in range(2):
        context = context_of(admit(broker, CODEX_META))
        assert context["threadId"] == "t-1"
        assert context["outer"] == around


@pytest.mark.parametrize(
    "method", ["resources/read", "prompts/get", "notifications/x", "tasks/get"]
)
def test_every_request_that_names_its_caller_follows_the_same_rule(method: str) -> None:
    broker = make_broker(below("codex"), on_change="refuse")
    admit(broker, CODEX_META)

    assert isinstance(admit(broker, {"threadId": "t-2"}, method), Refused)
    assert "_meta" not in admit(broker, None, method)["params"]  # nothing is added to it


def test_a_call_that_names_no_caller_belongs_to_the_connections_caller() -> None:
    broker = make_broker(below("codex"))
    admit(broker, CODEX_META)

    assert context_of(admit(broker, {"progressToken": 1}))["threadId"] == "t-1"


def test_a_call_that_names_no_caller_is_nobodys_once_a_connection_has_two_threads() -> None:
    broker = make_broker(below("codex"))
    told = [
        context_of(admit(broker, {"threadId": one, "sessionId": one})) for one in ("t-1", "t-2")
    ]

    unknown = context_of(admit(broker, {"progressToken": 1}))

    assert [one["threadId"] for one in told] == ["t-1", "t-2"]
    assert not {"sessionId", "threadId"} & unknown.keys()
    assert unknown["binding"] == "unbound"


def test_a_call_that_names_no_caller_on_a_shared_connection_gets_no_session() -> None:
    broker = make_broker(below("vscode"))
    first = context_of(admit(broker, {"vscode.conversationId": "c-1"}))
    unknown = context_of(admit(broker, {}))
    second = context_of(admit(broker, {"vscode.conversationId": "c-2"}))

    assert (first["sessionId"], second["sessionId"]) == ("c-1", "c-2")
    assert "sessionId" not in unknown
    assert unknown["binding"] == "unbound"


@pytest.mark.parametrize("host", ["cline", "goose", "kimi", "opencode", "qwen", "unknown", "vibe"])
def test_one_sessions_id_is_not_told_to_all_that_share_a_connection(host: str) -> None:
    identity = Identity(Found("s-1", "as it was at the start"), Missing(["none"]), "tentative")
    context = below(host, identity=identity)

    unnamed = context_of(admit(make_broker(context), {}))

    assert "sessionId" not in unnamed
    assert (unnamed["launchId"], unnamed["binding"]) == ("launch-1", "unbound")


@pytest.mark.parametrize("host", ["copilot", "gemini", "claude"])
def test_a_server_of_its_own_is_told_its_session_with_every_call(host: str) -> None:
    identity = Identity(Found("s-1", "as it was at the start"), Missing(["none"]), "tentative")
    context = below(host, identity=identity)

    assert context_of(admit(make_broker(context), {}))["sessionId"] == "s-1"


def test_the_project_of_a_call_from_another_directory_is_that_directorys(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "deep").mkdir()
    meta: Json = {"agent-session-id": "g-1", "agent-working-dir": str(tmp_path / "deep")}

    context = context_of(admit(make_broker(below("goose")), meta))

    assert (context["cwd"], context["projectRoot"]) == (str(tmp_path / "deep"), str(tmp_path))


class Record:
    """Claude Code's record of the process that is our host."""

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
def broker_of_claude(tmp_path: Path, record: Record) -> Broker:
    assert record
    table = FakeProcessTable()
    table.add(10, "claude")
    sighting = make_sighting(table, 10, environ={"HOME": str(tmp_path)})
    return make_broker(
        make_context(
            host=Found("claude", "above us"),
            facts=hosts.load("claude"),
            sighting=sighting,
        )
    )


def test_claudes_session_is_read_at_the_moment_of_the_call(
    broker_of_claude: Broker, record: Record
) -> None:
    sessions = []
    for session in ("s-1", "s-2", "s-3", "s-3"):  # of equal length, within one clock tick
        record.write(session)
        sessions.append(context_of(admit(broker_of_claude))["sessionId"])

    assert sessions == ["s-1", "s-2", "s-3", "s-3"]


def test_the_last_known_session_is_kept_while_there_is_no_record(
    broker_of_claude: Broker, record: Record
) -> None:
    record.write("s-1")
    admit(broker_of_claude)
    record.path.unlink()

    assert context_of(admit(broker_of_claude))["sessionId"] == "s-1"


def test_the_record_of_an_earlier_process_is_ignored(
    broker_of_claude: Broker, record: Record
) -> None:
    record.write("s-1", start="4")

    assert "sessionId" not in context_of(admit(broker_of_claude))


def test_lists_do_not_bind_if_only_a_record_names_the_session(
    broker_of_claude: Broker, record: Record
) -> None:
    """Claude Code requests them at the start, for a session that `--resume` may change."""
    record.write("s-1")
    admit(broker_of_claude, None, "resources/list")
    assert get_bound(broker_of_claude).state == "unbound"

    admit(broker_of_claude, None, "resources/read")
    assert get_bound(broker_of_claude).session == "s-1"

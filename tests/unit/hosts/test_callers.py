"""The session that a request comes from, for hosts that name it in `_meta`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable, make_sighting

from mcp_launch.hosts import load
from mcp_launch.hosts.goose import HOST as GOOSE
from mcp_launch.hosts.vscode import HOST as VSCODE
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from mcp_launch.hosts import HostIdentity
    from mcp_launch.protocol.json_text import Json

OPENCODE, KILO, DROID, GEMINI, UNKNOWN = map(
    load, ("opencode", "kilo", "droid", "gemini", "unknown")
)

HANDLE = "io.modelcontextprotocol/conversation-handle"

SIGHTING = make_sighting(FakeProcessTable(), 10)


@pytest.mark.parametrize(
    ("host", "meta", "caller"),
    [
        (GOOSE, {"agent-session-id": "s", "agent-working-dir": "/w"}, ("s", None, "/w")),
        (GOOSE, {"agent-session-id": "s"}, ("s", None, None)),
        (GOOSE, {"agent-working-dir": "/w"}, None),
        (GOOSE, {"agent-session-id": 1}, None),
        (VSCODE, {"vscode.conversationId": "c"}, ("c", None, None)),
        (VSCODE, {"vscode.conversationId": ""}, None),
        (VSCODE, {}, None),
        (OPENCODE, {"sessionID": "ses_1"}, ("ses_1", None, None)),
        (OPENCODE, {}, None),
        (KILO, {"sessionID": "ses_1"}, ("ses_1", None, None)),
        (DROID, {"assemblySessionId": "d"}, ("d", None, None)),
        (UNKNOWN, {"assemblySessionId": "d"}, ("d", None, None)),
        (UNKNOWN, {"vscode.conversationId": "c"}, ("c", None, None)),
        (UNKNOWN, {"agent-session-id": "s", "agent-working-dir": "/w"}, ("s", None, "/w")),
        (UNKNOWN, {"qwen-code/invocation": {"sessionId": "q", "promptId": "p"}}, ("q", None, None)),
        (UNKNOWN, {"qwen-code/invocation": {"promptId": "p"}}, None),
        (UNKNOWN, {"qwen-code/invocation": []}, None),
        (UNKNOWN, {HANDLE: "h"}, ("h", None, None)),
        (UNKNOWN, {HANDLE: "h", "vscode.conversationId": "c"}, ("c", None, None)),
        (GEMINI, {HANDLE: "h"}, ("h", None, None)),
        # It says nothing about its maker.
        (UNKNOWN, {"agent-working-dir": "/w"}, None),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else None,
)
def test_a_request_names_its_session(
    host: HostIdentity, meta: dict[str, Json], caller: tuple[str | None, ...] | None
) -> None:
    callers = host.follow_callers(SIGHTING)

    assert callers.read(meta) == caller
    assert callers.names is not None
    assert set(meta) <= set(callers.names)


@pytest.mark.parametrize("meta", [{"sessionID": "s"}, {"sessionId": "s"}, {"threadId": "t"}])
def test_a_name_that_anybody_may_use_is_not_believed_of_an_unknown_host(
    meta: dict[str, Json],
) -> None:
    assert UNKNOWN.follow_callers(SIGHTING).read(meta) is None


def test_the_origin_of_a_session_is_the_member_that_named_it() -> None:
    callers = UNKNOWN.follow_callers(SIGHTING)

    callers.read({"agent-session-id": "s", "agent-working-dir": "/w"})
    assert callers.origins == (
        'the call\'s _meta["agent-session-id"]',
        "",
        'the call\'s _meta["agent-working-dir"]',
    )
    callers.read({HANDLE: "h"})
    assert callers.origins == (f'the call\'s _meta["{HANDLE}"]', "", "")


def test_goose_gives_a_server_its_first_session() -> None:
    sighting = make_sighting(FakeProcessTable(), 10, environ={"AGENT_SESSION_ID": "s-1"})

    found = GOOSE.identify(sighting)

    assert isinstance(found.session, Found)
    assert (found.session.value, found.state) == ("s-1", "tentative")
    assert isinstance(GOOSE.identify(SIGHTING).session, Missing)


def test_a_fresh_server_of_goose_gets_the_session_of_the_call() -> None:
    session, nothing = Found("s-2", "the call"), Missing(["it is not known"])

    assert GOOSE.default_variables(session, nothing) == {"AGENT_SESSION_ID": session}
    assert GOOSE.default_variables(nothing, nothing) == {}

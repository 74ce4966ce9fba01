"""Whom a request is for, by hosts that say so in `_meta`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable, make_sighting

from mcp_launch.hosts.goose import HOST as GOOSE
from mcp_launch.hosts.vscode import HOST as VSCODE
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from mcp_launch.hosts import HostIdentity
    from mcp_launch.protocol.json_text import Json

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
    ],
    ids=lambda value: value.name if hasattr(value, "name") else None,
)
def test_a_request_names_its_session(
    host: HostIdentity, meta: dict[str, Json], caller: tuple[str | None, ...] | None
) -> None:
    callers = host.follow_callers(SIGHTING)

    assert callers.read(meta) == caller
    assert callers.identifying is not None
    assert set(meta) <= set(callers.identifying)


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

"""The first requests of a connection: when it is open, and with which words it was opened."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_launch import protocol
from mcp_launch.protocol.requests import Handshake


def spell(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


INITIALIZE = spell(id=0, method="initialize", params={})
DISCOVER = spell(id="probe", method="server/discover")
LIST = spell(id=2, method="tools/list")


def open_with(*lines: bytes) -> Handshake:
    handshake = Handshake()
    for line in lines:
        said = protocol.look(line)
        assert isinstance(said, dict)
        handshake.note_request(said, line)
    return handshake


def answer(handshake: Handshake, request_id: object, **more: Any) -> None:
    handshake.note_answer({"jsonrpc": "2.0", "id": request_id, **(more or {"result": {}})})  # type: ignore[dict-item]


def list_pending(handshake: Handshake) -> list[bytes]:
    return [line for _, line in handshake.pending.values()]


@pytest.mark.parametrize(
    ("line", "request_id", "said", "is_over", "is_ready"),
    [
        (INITIALIZE, 0, {"result": {}}, True, True),
        (INITIALIZE, 0, {"error": {}}, True, False),
        (DISCOVER, "probe", {"result": {}}, True, True),
        (DISCOVER, "probe", {"error": {}}, False, False),
        (LIST, 2, {"result": {}}, True, True),
        (LIST, 2, {"error": {}}, True, True),
        (LIST, "2", {"result": {}}, False, False),
    ],
    ids=[
        "initialize accepted",
        "initialize refused",
        "discover accepted",
        "discover refused",
        "another request answered",
        "another request refused",
        "an id that is not the request's",
    ],
)
def test_a_connection_is_open_when_a_request_was_answered(
    line: bytes, request_id: object, said: dict[str, Any], is_over: bool, is_ready: bool
) -> None:
    handshake = open_with(line)

    answer(handshake, request_id, **said)

    assert (handshake.is_over, handshake.is_ready) == (is_over, is_ready)


def test_the_greeting_is_kept_word_for_word() -> None:
    handshake = open_with(DISCOVER, INITIALIZE)

    answer(handshake, "probe", error={"code": -32601})
    answer(handshake, 0, result={"serverInfo": {}})

    assert handshake.greeting == INITIALIZE
    assert handshake.era == "initialize"
    assert handshake.answer["result"] == {"serverInfo": {}}
    assert list_pending(handshake) == []


def test_what_is_answered_later_does_not_change_the_era() -> None:
    handshake = open_with(INITIALIZE, LIST)

    answer(handshake, 0)
    answer(handshake, 2)

    assert handshake.era == "initialize"


def test_notifications_are_not_requests() -> None:
    assert open_with(spell(method="notifications/initialized")).pending == {}


def test_a_server_that_died_of_the_news_is_asked_in_the_old_way() -> None:
    handshake = open_with(DISCOVER)

    [refusal] = handshake.refuse_discovery(set()).values()

    said = json.loads(refusal)
    assert (said["id"], said["error"]["code"]) == ("probe", -32601)
    assert list_pending(handshake) == []


def test_nothing_is_refused_for_a_server_that_has_read_more() -> None:
    handshake = open_with(DISCOVER, INITIALIZE)

    assert handshake.refuse_discovery(set()) == {}
    assert list_pending(handshake) == [DISCOVER, INITIALIZE]


def test_what_the_server_has_not_read_is_no_reason_against_it() -> None:
    handshake = open_with(DISCOVER, INITIALIZE)

    assert len(handshake.refuse_discovery({b"0"})) == 1

"""The first requests of a connection: when it is open, and with which words it was opened."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_launch.protocol.handshake import Opening


def spell(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


INITIALIZE = spell(id=0, method="initialize", params={})
DISCOVER = spell(id="probe", method="server/discover")
LIST = spell(id=2, method="tools/list")


def open_with(*lines: bytes) -> Opening:
    opening = Opening()
    assert opening.hear_lines(b"".join(lines)) == b""
    return opening


def answer(opening: Opening, request_id: object, **more: Any) -> None:
    opening.hear_server({"jsonrpc": "2.0", "id": request_id, **(more or {"result": {}})})  # type: ignore[dict-item]


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
    opening = open_with(line)

    answer(opening, request_id, **said)

    assert (opening.is_over, opening.is_ready) == (is_over, is_ready)


def test_the_greeting_is_kept_word_for_word() -> None:
    opening = open_with(DISCOVER, INITIALIZE)

    answer(opening, "probe", error={"code": -32601})
    answer(opening, 0, result={"serverInfo": {}})

    assert opening.greeting == INITIALIZE
    assert opening.era == "initialize"
    assert opening.answer["result"] == {"serverInfo": {}}
    assert opening.list_pending() == []


def test_what_is_answered_later_does_not_change_the_era() -> None:
    opening = open_with(INITIALIZE, LIST)

    answer(opening, 0)
    answer(opening, 2)

    assert opening.era == "initialize"


def test_half_a_line_is_left_for_later() -> None:
    opening = Opening()

    rest = opening.hear_lines(INITIALIZE + LIST[:10])
    assert opening.hear_lines(rest + LIST[10:]) == b""

    assert opening.list_pending() == [INITIALIZE, LIST]


def test_notifications_and_noise_are_not_requests() -> None:
    assert open_with(b"hello\n", spell(method="notifications/initialized")).pending == {}


def test_a_server_that_died_of_the_news_is_asked_in_the_old_way() -> None:
    opening = open_with(DISCOVER)

    [refusal] = opening.refuse_news(set())

    said = json.loads(refusal)
    assert (said["id"], said["error"]["code"]) == ("probe", -32601)
    assert opening.list_pending() == []


def test_nothing_is_refused_for_a_server_that_has_read_more() -> None:
    opening = open_with(DISCOVER, INITIALIZE)

    assert opening.refuse_news(set()) == []
    assert opening.list_pending() == [DISCOVER, INITIALIZE]


def test_what_the_server_has_not_read_is_no_reason_against_it() -> None:
    opening = open_with(DISCOVER, INITIALIZE)

    assert len(opening.refuse_news({b"0"})) == 1

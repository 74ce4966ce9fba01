"""What is remembered of a server's answers, and what a host gets of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_launch import protocol
from mcp_launch.protocol.memory import (
    Comparison,
    KnownList,
    Remembered,
    find_page,
    find_question,
    hash_page,
    name_client,
)

PREFIX = "io.modelcontextprotocol/"


def learn(memory: Remembered, method: str, answer: dict[str, Any], cursor: bytes = b"") -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": 1, **answer}).encode() + b"\n"
    memory.learn((method, cursor), protocol.look_message(line), line)


def ask(memory: Remembered, said: dict[str, Any], now: float = 0.0) -> Any:
    line = json.dumps({"jsonrpc": "2.0", "id": 7, **said}).encode() + b"\n"
    answer = memory.answer(protocol.look_message(line), line, now)
    return json.loads(answer) if answer else None


# The kind of client


def greet(**params: Any) -> str:
    return name_client({"method": "initialize", "params": params})


def nest(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def test_a_client_with_deeply_nested_capabilities_is_not_remembered() -> None:
    assert not greet(protocolVersion="1", capabilities={"x": nest(900)})


def test_a_cursor_that_is_no_single_value_is_not_remembered() -> None:
    assert find_question({"method": "tools/list", "params": {"cursor": nest(900)}}) is None
    assert not find_page({"result": {"nextCursor": nest(900)}})


@pytest.mark.parametrize(
    "other",
    [
        {"protocolVersion": "2", "capabilities": {"roots": {}}, "clientInfo": {"name": "c"}},
        {"protocolVersion": "1", "capabilities": {}, "clientInfo": {"name": "c"}},
        {"protocolVersion": "1", "capabilities": {"roots": {}}, "clientInfo": {"name": "d"}},
    ],
    ids=["protocol version", "capabilities", "name"],
)
def test_clients_are_told_apart(other: dict[str, Any]) -> None:
    one = greet(protocolVersion="1", capabilities={"roots": {}}, clientInfo={"name": "c"})

    assert greet(**other) != one


def test_a_new_release_of_a_host_is_the_same_client() -> None:
    first = greet(clientInfo={"name": "c", "version": "1"}, capabilities={"a": 1, "b": 2})

    assert greet(clientInfo={"version": "2", "name": "c"}, capabilities={"b": 2, "a": 1}) == first


def test_a_modern_host_is_named_by_every_request() -> None:
    meta: Any = {f"{PREFIX}protocolVersion": "2026-07-28", f"{PREFIX}clientCapabilities": {}}
    named = {name_client({"method": one, "params": {"_meta": meta}}) for one in ("a/b", "c/d")}

    assert len(named) == 1
    assert named != {""}


@pytest.mark.parametrize("params", [None, [], {}, {"_meta": 1}, {"_meta": {}}])
def test_a_request_that_names_no_client_has_none(params: Any) -> None:
    assert not name_client({"method": "tools/list", "params": params})


# Questions


@pytest.mark.parametrize(
    ("said", "question"),
    [
        ({"method": "tools/list"}, ("tools/list", b"")),
        ({"method": "tools/list", "params": {"cursor": ""}}, ("tools/list", b"")),
        ({"method": "tools/list", "params": {"cursor": "2"}}, ("tools/list", b'"2"')),
        ({"method": "tools/list", "params": {"_meta": {"a": 1}}}, ("tools/list", b"")),
        ({"method": "tools/list", "params": {"filter": "x"}}, None),
        ({"method": "tools/list", "params": [1]}, None),
        ({"method": "resources/read", "params": {"uri": "u"}}, None),
        ({"method": "tools/call"}, None),
    ],
)
def test_only_greetings_and_plain_lists_are_questions(said: Any, question: object) -> None:
    assert find_question(said) == question


# What is learned


def test_an_answer_is_given_again_under_the_id_of_the_request() -> None:
    memory = Remembered("c", 0.0)
    learn(memory, "tools/list", {"result": {"tools": [{"name": "x"}]}})

    assert ask(memory, {"method": "tools/list"}) == {
        "jsonrpc": "2.0",
        "id": 7,
        "result": {"tools": [{"name": "x"}]},
    }


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"tools": []}},
        {"result": {}},
        {"result": {"tools": [{"name": "x"}], "resultType": "input_required"}},
        {"error": {"code": -32603, "message": "broken"}},
    ],
    ids=["empty", "no list", "unfinished", "another error"],
)
def test_what_may_be_different_next_time_is_not_learned(answer: dict[str, Any]) -> None:
    memory = Remembered("c", 0.0)
    learn(memory, "tools/list", answer)

    assert not memory.answers
    assert not memory.has_changed


def test_a_method_that_does_not_exist_is_learned() -> None:
    memory = Remembered("c", 0.0)
    learn(memory, "server/discover", {"error": {"code": -32601, "message": "no"}})

    assert ask(memory, {"method": "server/discover"})["error"] == {"code": -32601, "message": "no"}
    assert memory.is_worth_keeping


def test_a_greeting_alone_is_not_worth_keeping() -> None:
    memory = Remembered("c", 0.0)
    learn(memory, "initialize", {"result": {}})
    learn(memory, "prompts/list", {"result": {"prompts": []}})
    assert not memory.is_worth_keeping

    learn(memory, "prompts/list", {"result": {"prompts": [{"name": "p"}]}})

    assert memory.is_worth_keeping


def test_another_first_page_makes_the_others_worthless() -> None:
    memory = Remembered("c", 0.0)
    learn(memory, "tools/list", {"result": {"tools": [{"name": "x"}], "nextCursor": "2"}})
    learn(memory, "tools/list", {"result": {"tools": [{"name": "y"}]}}, b'"2"')
    assert memory.list_names("tools/list") == ["x", "y"]

    learn(memory, "tools/list", {"result": {"tools": [{"name": "z"}]}})

    assert memory.list_names("tools/list") == ["z"]


def test_a_client_of_another_kind_gets_nothing() -> None:
    memory = Remembered(greet(protocolVersion="1"), 0.0)
    learn(memory, "initialize", {"result": {}})

    assert ask(memory, {"method": "initialize", "params": {"protocolVersion": "1"}})
    assert not ask(memory, {"method": "initialize", "params": {"protocolVersion": "2"}})


# The time to live


@pytest.mark.parametrize(
    ("given", "seconds", "left"),
    [(5000, 0.0, 5000), (5000, 2.0, 3000), (5000, 9.0, 0), (0, 1.0, 0), (-1, 0.0, 0)],
)
def test_the_time_to_live_is_shortened_by_the_time_that_has_passed(
    given: int, seconds: float, left: int
) -> None:
    memory = Remembered("c", 100.0)
    learn(memory, "tools/list", {"result": {"tools": [1], "ttlMs": given, "cacheScope": "x"}})

    result = ask(memory, {"method": "tools/list"}, 100.0 + seconds)["result"]

    assert result == {"tools": [1], "ttlMs": left, "cacheScope": "x"}


@pytest.mark.parametrize("given", [b"1e999", b"1" + b"0" * 400, b"1" + b"0" * 5000])
def test_an_endless_life_does_no_harm(given: bytes) -> None:
    memory = Remembered("c", 0.0)
    line = b'{"id":1,"result":{"tools":[1],"ttlMs":%b}}\n' % given
    memory.learn(("tools/list", b""), protocol.look_message(line), line)

    answer = memory.answer({"id": 7, "method": "tools/list"}, b'{"id":7}\n', 1.0)
    assert answer.startswith(b'{"jsonrpc":"2.0","id":7,"result":{"tools":[1],"ttlMs":')


@pytest.mark.parametrize("given", [b"-1e999", b"NaN", b"-1" + b"0" * 400])
def test_a_life_that_cannot_be_counted_is_over(given: bytes) -> None:
    memory = Remembered("c", 0.0)
    line = b'{"id":1,"result":{"tools":[1],"ttlMs":%b}}\n' % given
    memory.learn(("tools/list", b""), protocol.look_message(line), line)

    assert ask(memory, {"method": "tools/list"}, 1.0)["result"] == {"tools": [1], "ttlMs": 0}


def test_a_life_is_not_prolonged_when_another_answer_is_learned() -> None:
    memory = Remembered("c", 0.0)
    learn(memory, "tools/list", {"result": {"tools": [1], "ttlMs": 5000}})

    memory.renew(4.0)
    learn(memory, "prompts/list", {"result": {"prompts": [1], "ttlMs": 5000}})

    assert ask(memory, {"method": "tools/list"}, 4.0)["result"]["ttlMs"] == 1000
    assert ask(memory, {"method": "prompts/list"}, 4.0)["result"]["ttlMs"] == 5000


# Comparing lists


def compare(pages: list[dict[str, Any]], others: list[dict[str, Any]]) -> bool:
    """Return whether the lists differ."""
    known = KnownList("tools/list", b'{"id":1,"method":"tools/list"}\n')
    for page in pages:
        line = json.dumps({"id": 1, "result": page}).encode()
        known.pages.append(hash_page("tools/list", line))
    comparison = Comparison()
    comparison.begin({"tools/list": known})
    for page in others:
        line = json.dumps({"id": 1, "result": page}).encode()
        comparison.take(known, protocol.look_message(line), line)
        if not comparison.is_going_on:
            break
    return bool(comparison.changed)


FIRST: dict[str, Any] = {"tools": [{"name": "x"}], "nextCursor": "2"}
LAST: dict[str, Any] = {"tools": [{"name": "y"}]}


@pytest.mark.parametrize(
    ("pages", "others", "differs"),
    [
        ([LAST], [LAST], False),
        ([FIRST, LAST], [FIRST, LAST], False),
        ([FIRST, LAST], [FIRST | {"nextCursor": "another"}, LAST], False),
        ([FIRST, LAST], [FIRST, {"tools": []}], True),
        ([FIRST, LAST], [LAST], True),
        ([LAST], [FIRST, LAST], True),
        ([LAST], [LAST | {"ttlMs": 1}], False),
    ],
    ids=["same", "same pages", "cursor", "other page", "shorter", "longer", "time to live"],
)
def test_lists_are_compared_page_by_page(
    pages: list[dict[str, Any]], others: list[dict[str, Any]], *, differs: bool
) -> None:
    assert compare(pages, others) == differs


def test_a_list_without_end_is_not_read_for_ever() -> None:
    known = KnownList("tools/list", b'{"id":1,"method":"tools/list"}\n')
    known.pages.append(1)
    comparison = Comparison()
    comparison.begin({"tools/list": known})
    line = json.dumps({"id": 1, "result": FIRST}).encode()

    asked = 0
    while comparison.take(known, protocol.look_message(line), line):
        asked += 1

    assert asked < 100

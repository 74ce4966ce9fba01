"""Looking into a line and changing a part of it, against Python's own JSON."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_json import make_random_message

from mcp_launch import protocol
from mcp_launch.protocol import json_edit, json_text

if TYPE_CHECKING:
    from random import Random

# How many times a hundred messages are made up; ten thousand times have been tried.
EXAMPLES = int(os.environ.get("MCP_LAUNCH_TEST_EXAMPLES", "40"))
MESSAGES = 100

NAME = json_edit.Name("mcp-launch/context")
VALUE = b'{"host":"codex","launchId":"l-1"}'

many_messages = settings(max_examples=EXAMPLES)


def read(line: bytes) -> Any:
    """Return what Python reads; None where it cannot."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def put(line: bytes) -> bytes:
    """Return a line as the server gets it, if it is a call."""
    said = protocol.look(line)
    if not isinstance(said, dict) or said.get("method") != "tools/call":
        return line
    params = said.get("params")
    if not isinstance(params, dict):
        return line
    return json_edit.put_meta(line, params, NAME, VALUE)


def expect(line: bytes) -> Any:
    """Return what the server must read, by the oracle alone."""
    said = read(line)
    if not isinstance(said, dict) or said.get("method") != "tools/call":
        return said
    if not isinstance(said.get("params"), dict):
        return said
    meta = said["params"].get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    said["params"]["_meta"] = {**meta, NAME.text: json.loads(VALUE)}
    return said


@many_messages
@given(random=st.randoms(use_true_random=True))
def test_any_spelling_of_a_message_gets_the_same_verdict(random: Random) -> None:
    for _ in range(MESSAGES):
        line = make_random_message(random)
        said = read(line)
        if said is None:
            continue

        assert protocol.look(line) == said, line
        edited = put(line)
        assert read(edited) == expect(line), line
        check_only_our_bytes_are_new(line, edited)


def check_only_our_bytes_are_new(line: bytes, edited: bytes) -> None:
    """See that what stands before the first and behind the last byte of ours is as it was."""
    if edited == line:
        return
    start = edited.index(VALUE)
    end = edited.rindex(VALUE) + len(VALUE)
    before = edited[:start].removesuffix(NAME.quoted)
    assert line.startswith(before.removesuffix(b"{").removesuffix(b'"_meta":'))
    after = edited[end:]
    assert line.endswith(after.removeprefix(b"}").removeprefix(b","))


@many_messages
@given(random=st.randoms(use_true_random=True))
def test_a_value_is_replaced_and_nothing_else(random: Random) -> None:
    for _ in range(MESSAGES // 10):
        line = make_random_message(random)
        said = read(line)
        if not isinstance(said, dict):
            continue

        edited = json_edit.replace(line, b'"ours"', "id")

        assert read(edited) == (said | {"id": "ours"} if "id" in said else said), line


@many_messages
@given(random=st.randoms(use_true_random=True))
def test_an_answer_is_known_by_its_id_wherever_it_stands(random: Random) -> None:
    for _ in range(MESSAGES // 10):
        line = make_random_message(random)
        said = read(line)
        key = protocol.read_answered(line)
        if isinstance(said, dict) and key and key.isdigit() and "method" not in said:
            assert said.get("id") == json.loads(key), line


CALL = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"threadId":"t"},"name":"x"}}'
)


@pytest.mark.parametrize(
    ("line", "answered"),
    [
        (b'{"jsonrpc":"2.0","id":5,"result":{}}\n', b"5"),
        (b'{"jsonrpc":"2.0","id":"a","error":{}}\n', b'"a"'),
        (b'{"result":{"id":9},"jsonrpc":"2.0","id":5}\n', b"5"),
        (b'{"jsonrpc":"2.0","id":5,"method":"roots/list"}\n', b""),
        (b'{"method":"roots/list","jsonrpc":"2.0","id":5}\n', b""),
        (b'{"result":{"a":1,"id":9}}\n', b"9}"),  # nobody's id
    ],
)
def test_answers_as_servers_write_them(line: bytes, answered: bytes) -> None:
    assert protocol.read_answered(line) == answered


@pytest.mark.parametrize(
    "spelt",
    [
        CALL.replace(b"tools/call", b"tools\\/call"),
        CALL.replace(b"tools/call", b"\\u0074ools/call"),
        CALL.replace(b'"method"', b'"m\\u0065thod"'),
        CALL.replace(b":", b" : ").replace(b",", b" ,\t"),
        CALL.replace(b'"_meta"', b'"\\u005fmeta"'),
        CALL.replace(b'"method":"tools/call"', b'"method":"ping","method":"tools/call"'),
        CALL.replace(b'"name":"x"', b'"name":"x","arguments":{"_meta":{"threadId":"other"}}'),
        CALL.replace(b'"name":"x"', b'"name":"\\"_meta\\":{"'),
    ],
)
def test_a_call_is_known_in_any_spelling(spelt: bytes) -> None:
    said = json.loads(put(spelt + b"\n"))

    assert said["method"] == "tools/call"
    assert said["params"]["_meta"] == {"threadId": "t", NAME.text: json.loads(VALUE)}


def test_numbers_order_and_escapes_arrive_as_they_were_sent() -> None:
    line = b'{"id":1,"method":"tools/call","params":{"a":1.10,"b":%b,"c":"\\u00e4","_meta":{}}}\n'
    line %= b"9" * 5000

    member = NAME.quoted + VALUE

    assert put(line) == line.replace(b'"_meta":{', b'"_meta":{' + member)


def test_every_forged_context_is_replaced() -> None:
    forged = b'{"method":"tools/call","params":{"_meta":{%b1,"x":2,%b3}}}\n'
    line = forged % (NAME.quoted, NAME.quoted)

    assert put(line) == line.replace(b":1,", b":" + VALUE + b",").replace(
        b":3}", b":" + VALUE + b"}"
    )


@pytest.mark.parametrize("is_closed", [True, False])
def test_nobody_hides_below_a_thousand_brackets(is_closed: bool) -> None:
    deep = b"[" * 100_000 + b"]" * (100_000 if is_closed else 1)
    line = CALL.replace(b'"name":"x"', b'"name":"x","arguments":%b' % deep) + b"\n"

    said = protocol.look(line)

    if not is_closed:
        assert said is None
        return
    assert protocol.get_member(said, "params", "_meta", "threadId") == "t"
    assert put(line).startswith(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"mcp'
    )


def test_a_path_that_leads_nowhere_changes_nothing() -> None:
    assert json_edit.replace(b'{"a":{"b":1}}\n', b"2", "a", "c") == b'{"a":{"b":1}}\n'
    assert json_edit.replace(b'{"a":[]}\n', b"2", "a", "b") == b'{"a":[]}\n'


def test_ids_that_look_alike_differ() -> None:
    assert protocol.spell(1) != protocol.spell("1")
    assert protocol.spell("ä\n") == json_text.encode("ä\n").encode()


@many_messages
@given(random=st.randoms(use_true_random=True))
def test_a_value_is_put_where_it_belongs_and_nothing_else_changes(random: Random) -> None:
    for _ in range(MESSAGES):
        line = make_random_message(random)
        said = read(line)
        if not isinstance(said, dict):
            continue
        params = said.get("params")
        said["params"] = {**(params if isinstance(params, dict) else {}), "cursor": "c"}
        assert read(json_edit.put(line, b'"c"', "params", "cursor")) == said, line


@many_messages
@given(random=st.randoms(use_true_random=True))
def test_what_is_read_as_it_is_written_is_what_it_says(random: Random) -> None:
    for _ in range(MESSAGES):
        line = make_random_message(random)
        said = read(line)
        if not isinstance(said, dict):
            continue
        for name in ("id", "method", "params"):
            raw = json_edit.read_raw(line, name)
            assert (read(raw) if raw else "none") == said.get(name, "none"), line


def test_a_number_is_the_same_id_however_it_is_written() -> None:
    assert protocol.spell(100.0) == protocol.spell(100) == b"100"
    assert protocol.spell(1.5) == b"1.5"

"""Reading a line as a message and changing a part of it, against Python's own JSON."""

from __future__ import annotations

import itertools
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_json import make_random_message

from mcp_launch.protocol import json_edit, lines, message
from mcp_launch.protocol.message import read, splice

if TYPE_CHECKING:
    from random import Random

# How many times a hundred messages are made up; ten thousand times have been tried.
EXAMPLES = int(os.environ.get("MCP_LAUNCH_TEST_EXAMPLES", "40"))
MESSAGES = 100

KEY = "mcp-launch/context"
VALUE = b'{"host":"codex","launchId":"l-1"}'
MEMBER = b'"mcp-launch/context":' + VALUE

many_messages = settings(max_examples=EXAMPLES)


def load(line: bytes) -> Any:
    """Return what Python reads; None where it cannot."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def stamp(line: bytes) -> bytes:
    """Return a line as the server gets it, if it is a call."""
    said = message.parse(line)
    if said.method != "tools/call" or not isinstance(said.parse().get("params"), dict):
        return line
    if KEY in said.meta:
        return splice(line, [(*span, VALUE) for span in said.find_all(KEY, "params", "_meta")])
    return splice(line, [said.add_to_meta(MEMBER)])


def expect(said: Any) -> Any:
    """Return what the server must read, by the oracle alone."""
    if isinstance(said, dict) and said.get("method") == "tools/call":
        params = said.get("params")
        if isinstance(params, dict):
            meta = params.get("_meta")
            meta = meta if isinstance(meta, dict) else {}
            params["_meta"] = {**meta, KEY: json.loads(VALUE)}
    return said


@many_messages
@given(random=st.randoms(use_true_random=True))
def test_any_spelling_of_a_call_is_known_and_stamped(random: Random) -> None:
    for _ in range(MESSAGES):
        line = make_random_message(random)
        said = load(line)
        if said is None:
            continue
        assert message.look(line) == said, line
        stamped = stamp(line)
        assert load(stamped) == expect(said), line
        check_only_our_bytes_are_new(line, stamped)


def check_only_our_bytes_are_new(line: bytes, stamped: bytes) -> None:
    """See that what stands before the first and behind the last byte of ours is as it was."""
    if stamped == line:
        return
    start, end = stamped.index(VALUE), stamped.rindex(VALUE) + len(VALUE)
    before = stamped[:start].removesuffix(b'"mcp-launch/context":')
    assert line.startswith(before.removesuffix(b"{").removesuffix(b'"_meta":'))
    assert line.endswith(stamped[end:].removeprefix(b"}").removeprefix(b","))


@many_messages
@given(random=st.randoms(use_true_random=True))
def test_the_id_of_any_message_is_replaced_and_nothing_else(random: Random) -> None:
    for _ in range(MESSAGES):
        line = make_random_message(random)
        said, known = load(line), read(line)
        if not isinstance(said, dict):
            assert known.kind in {message.NOISE, message.BATCH, message.ANSWER}
        elif said.get("id") is not None and not isinstance(said["id"], (dict, list)):
            assert load(known.id) == said["id"], line
            edited = known.with_id(b'"ours"')
            assert load(edited) == {**said, "id": "ours"}, line
            assert edited[: known.id_at] == line[: known.id_at]
            assert line.endswith(edited[known.id_at + 6 :])
        elif isinstance(said.get("method"), str) and not {"result", "error"} & said.keys():
            assert known.kind in {message.NOTIFICATION, message.AMBIGUOUS}, line


@many_messages
@given(random=st.randoms(use_true_random=True))
def test_a_value_is_put_where_it_belongs_and_nothing_else_changes(random: Random) -> None:
    for _ in range(MESSAGES):
        line = make_random_message(random)
        said = load(line)
        if not isinstance(said, dict):
            continue
        ours = json_edit.replace(line, b'"ours"', "id")
        assert load(ours) == (said | {"id": "ours"} if "id" in said else said), line
        params = said.get("params")
        said["params"] = {**(params if isinstance(params, dict) else {}), "cursor": "c"}
        assert load(json_edit.put(line, b'"c"', "params", "cursor")) == said, line


@many_messages
@given(random=st.randoms(use_true_random=True))
def test_what_is_read_as_it_is_written_is_what_it_says(random: Random) -> None:
    for _ in range(MESSAGES):
        line = make_random_message(random)
        said = load(line)
        for name in ("id", "method", "params") if isinstance(said, dict) else ():
            raw = json_edit.read_raw(line, name)
            assert (load(raw) if raw else "none") == said.get(name, "none"), line


CALL = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"threadId":"t"},"name":"x"}}'
)


@pytest.mark.parametrize(
    ("line", "kind", "raw_id"),
    [
        (b'{"jsonrpc":"2.0","id":5,"result":{}}\n', "answer", b"5"),
        (b'{"jsonrpc":"2.0","id":"a","error":{}}\n', "answer", b'"a"'),
        (b'{"jsonrpc": "2.0", "id": 5, "result": {}}\n', "answer", b"5"),
        (b'{"result":{"id":9},"jsonrpc":"2.0","id":5}\n', "answer", b"5"),
        (b'{"error":{"id":9},"id":5,"jsonrpc":"2.0"}\r\n', "answer", b"5"),
        (b'{"jsonrpc":"2.0","id":5,"method":"roots/list"}\n', "request", b"5"),
        (b'{"method":"roots/list","jsonrpc":"2.0","id":5}\n', "request", b"5"),
        (b'{"method":"roots/list","jsonrpc":"2.0","id":null}\n', "notification", b""),
        (b'{"result":{"a":1,"id":9}}\n', "other", b""),
        (b'{"method":5,"id":1}\n', "other", b"1"),
        (b'{"Method":"x","id":1}\n', "ambiguous", b"1"),
        (b'{"method":"x","params":{"_Meta":{}}}\n', "ambiguous", b""),
        (b'[{"id":1}]\n', "batch", b""),
        (b"5\n", "noise", b""),
        (b"null\n", "noise", b""),
        (b"\n", "noise", b""),
    ],
)
def test_what_a_line_is(line: bytes, kind: str, raw_id: bytes) -> None:
    said = read(line)

    assert (said.kind, said.id) == (kind, raw_id)


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
        CALL.replace(b'"name":"x"', b'"name":"x","arguments":"%b"' % (b'\\"_meta' * 40_000)),
    ],
)
def test_a_call_is_known_in_any_spelling(spelt: bytes) -> None:
    said = json.loads(stamp(spelt + b"\n"))

    assert said["method"] == "tools/call"
    assert said["params"]["_meta"] == {"threadId": "t", KEY: json.loads(VALUE)}


def test_numbers_order_and_escapes_arrive_as_they_were_sent() -> None:
    line = (
        b'{"id":1,"method":"tools/call","params":{"a":1.10,"b":%b,"c":"\\u00e4","_meta":{"d":1}}}\n'
    )
    line %= b"9" * 5000

    assert stamp(line) == line.replace(b'"_meta":{', b'"_meta":{' + MEMBER + b",")


@pytest.mark.parametrize("token", ["7", '"p"', '"\\u0070"', "9007199254740993"])
def test_a_progress_token_is_found_as_it_is_written(token: str) -> None:
    line = f'{{"id":1,"method":"x","params":{{"_meta":{{"progressToken": {token}}}}}}}\n'.encode()
    said = read(line)
    start, end = said.find_token(said.meta["progressToken"])

    assert line[start:end].decode() == token


@pytest.mark.parametrize("size", [10, 20_000, 200_000])
@pytest.mark.parametrize("letter", ["x", "ä", '\\"', "\\\\", "\ud800"])
def test_values_are_found_behind_and_before_long_strings(letter: str, size: int) -> None:
    long = letter * size
    text = (
        f'{{"a":"{long}","params":{{"b":["{long}"],"_meta":{{"s":"t"}},"c":"{long}"}},"id":77}}\n'
    )
    line = text.encode("utf-8", "surrogatepass").replace(b'"id"', b'"method":"x","id"')
    said = read(line)

    assert (said.kind, said.id, said.raw("params", "_meta", "s")) == ("request", b"77", b'"t"')
    assert said.with_id(b"1") == line.replace(b'"id":77', b'"id":1')
    assert splice(line, [said.add_to_meta(b'"k":1')]) == line.replace(b'{"s"', b'{"k":1,"s"')


def test_nobody_hides_below_a_thousand_brackets() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    line = CALL.replace(b'"name":"x"', b'"name":"x","arguments":%b' % deep) + b"\n"

    said = read(line)

    assert said.kind == "request"
    assert said.meta == {"threadId": "t"}
    assert stamp(line).startswith(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"mcp'
    )


def test_a_path_that_leads_nowhere_changes_nothing() -> None:
    assert json_edit.replace(b'{"a":{"b":1}}\n', b"2", "a", "c") == b'{"a":{"b":1}}\n'
    assert json_edit.replace(b'{"a":[]}\n', b"2", "a", "b") == b'{"a":[]}\n'


def test_a_number_is_the_same_id_however_it_is_written_and_a_text_is_another() -> None:
    values: list[Any] = [1, 1.0, "1", True, 1.5, [1]]
    keys = [message.find_key(one) for one in values]

    assert keys[0] == keys[1]
    assert len(set(keys)) == 5


# Lines


@given(
    parts=st.lists(st.sampled_from([b"a", b"\n", b"bc\n", b"\r\n", b'{"x":1}\n']), max_size=30),
    cuts=st.lists(st.integers(0, 200), max_size=12),
)
def test_lines_are_whole_however_they_are_cut(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    bounds = sorted({0, len(data), *(one for one in cuts if one < len(data))})
    joiner = lines.Lines()

    whole = [line for a, b in itertools.pairwise(bounds) for line in joiner.feed(data[a:b])]

    *expected, rest = data.split(b"\n")
    assert whole == [line + b"\n" for line in expected]
    assert joiner.close() == rest


@pytest.mark.parametrize("chunk", [7, 100, 1000])
def test_of_a_line_that_is_too_long_both_ends_are_kept(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LINE_LIMIT", 2000)
    line = b'{"jsonrpc":"2.0","method":"tools/call","params":{"a":"%b"},"id":7}\n' % (b"x" * 5000)
    joiner, data = lines.Lines(), line + b"next\n"

    whole = [one for at in range(0, len(data), chunk) for one in joiner.feed(data[at : at + chunk])]

    cut, following = whole
    assert isinstance(cut, lines.CutLine)
    assert (following, type(following)) == (b"next\n", bytes)
    assert len(cut) < 3000
    assert (cut[:40], cut[-40:]) == (line[:40], line[-40:])
    shown = message.read_ends(cut)
    assert (shown.kind, shown.id, shown.method) == ("request", b"7", "tools/call")


@pytest.mark.parametrize(
    ("begin", "end", "raw_id"),
    [
        (b'{"id":"a","method":"x/y","params":{"t":"', b'"}}\n', b'"a"'),
        (b'{"params":{"t":"', b'"},"method":"x/y","id":8 }\r\n', b"8"),
        (b'{"params":{"t":"', b'"},"method":"x/y"}\n', b""),
        (b'{"params":{"t":"', b'","id":8}}\n', b""),
        (b'{"id":8,"result":{"t":"', b'"}}\n', b""),
    ],
)
def test_the_ends_of_a_line_show_whose_request_it_is(
    begin: bytes, end: bytes, raw_id: bytes
) -> None:
    cut = lines.CutLine(begin + b"x" * 600 + b"x" * 600 + end)

    assert message.read_ends(cut).id == raw_id

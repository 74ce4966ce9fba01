"""A long call is checked without its long strings, and gets them back byte for byte."""

from __future__ import annotations

import json
import os
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_launch import protocol
from mcp_launch.protocol import LONG_LINE, LongLine, condense, json_edit, restore, shorten

EXAMPLES = int(os.environ.get("MCP_LAUNCH_TEST_EXAMPLES", "40"))
LINES = 5

LIMIT = protocol._LONG_STRING  # noqa: SLF001
NAME = json_edit.Name("mcp-launch/context")
VALUE = b'{"launchId":"l-1"}'

many_lines = settings(max_examples=EXAMPLES)

# What a string is filled with, as it is written.
FILLINGS = [
    b"x",
    b"\\\\",
    b'\\"',
    b"\\u0041",
    b"{",
    b"\xc3\xa4",
    b"\\n",
    b"\xff",
    b",",
    b'\\"_meta\\":{',
]


def make_string(random: Random, *, is_long: bool) -> bytes:
    """Return a string with its quotes, about as long as the limit, or short."""
    length = LIMIT + random.choice([-2, -1, 0, 1, 2, 90, LIMIT]) if is_long else random.randrange(9)
    filling = random.choice(FILLINGS)
    text = filling * (length // len(filling))
    text += b"y" * (length - len(text))
    if random.random() < 0.3:  # escapes near its end, more than are looked at once, too
        count = random.choice([1, 2, 31, 32, 33, 64, 65])
        text = text[: -2 * count - 1] + random.choice([b"\\\\" * count, b"\\\\" * count + b'\\"'])
    return b'"%b"' % text


def make_value(random: Random, depth: int = 2) -> bytes:
    kind = random.randrange(6 if depth else 3)
    if kind == 0:
        return random.choice([b"1", b"null", b"1.50", b"[]", b"{}"])
    if kind < 3:
        return make_string(random, is_long=random.random() < 0.5)
    parts = [make_value(random, depth - 1) for _ in range(random.randrange(4))]
    if kind == 3:
        return b"[" + b",".join(parts) + b"]"
    names = [make_string(random, is_long=random.random() < 0.1) for _ in parts]
    return b"{" + b", ".join(b"%b: %b" % pair for pair in zip(names, parts, strict=True)) + b"}"


def make_line(random: Random) -> bytes:
    """Return a line that may be a long call, or something similar to one."""

    def pick(usual: bytes, *odd: bytes) -> bytes:
        return random.choice(odd) if random.random() < 0.15 else usual

    long = make_string(random, is_long=True)
    request_id = pick(b"1", long, b'"a"', b"null", b"1e2")
    meta = pick(b'"_meta":{"threadId":"t"},', b"", b'"_meta":{"x":%b},' % long, b'"_meta":{},')
    values = b",".join(b'"v%d":%b' % (n, make_value(random)) for n in range(random.randrange(1, 4)))
    method = pick(
        b'"method":"tools/call"', b'"method":"tools\\/call"', b'"method":"ping"', b'"result":1'
    )
    params = b'{%b"name":%b,"arguments":{%b}}' % (meta, pick(b'"x"', long), values)
    parts = [b'"jsonrpc":"2.0"', b'"id":%b' % request_id, method, b'"params":%b' % params]
    if random.random() < 0.3:
        random.shuffle(parts)
    line = b"{" + b",".join(parts) + b"}"
    line = pick(line, b"[%b]" % line, b" \t%b " % line, line[:-1], b"\xef\xbb\xbf%b" % line)
    if random.random() < 0.05:
        at = random.randrange(len(line))
        line = line[:at] + random.choice([b"\0", b'"', b"\\", b"\r"]) + line[at:]
    return line + pick(b"\n", b"\r\n", b"")


def is_shortened(line: bytes) -> bool:
    return isinstance(line, LongLine)


def replace_marks(value: Any, strings: list[bytes]) -> Any:
    """Return a parsed short message with the long strings in it."""
    if isinstance(value, dict):
        return {
            replace_marks(name, strings): replace_marks(member, strings)
            for name, member in value.items()
        }
    if isinstance(value, list):
        return [replace_marks(one, strings) for one in value]
    if isinstance(value, str) and value.startswith("\0"):
        return protocol.look(b'"%b"' % strings[int(value.strip("\0"))])
    return value


@many_lines
@given(random=st.randoms(use_true_random=True))
def test_a_shortened_line_says_the_same_and_is_restored_byte_for_byte(random: Random) -> None:
    for _ in range(LINES):
        line = make_line(random)
        short = shorten(line)
        if not isinstance(short, LongLine):
            assert short is line
            continue

        strings = [bytes(one) for one in short.strings]
        assert short.restore(short) == line
        assert restore(bytes(short), line) == line
        assert short.whole_length >= len(line)
        assert min(map(len, strings)) >= LIMIT
        said = protocol.look(line)
        if said is not None:
            assert replace_marks(protocol.look(short), strings) == said, short


@many_lines
@given(random=st.randoms(use_true_random=True))
def test_a_short_line_is_stamped_as_the_long_one_is(random: Random) -> None:
    for _ in range(LINES):
        line = make_line(random)
        short, said = shorten(line), protocol.look(line)
        if not isinstance(short, LongLine) or not isinstance(said, dict):
            continue
        read: Any = protocol.look(short)
        params: Any = said["params"]
        stamped = json_edit.put_meta(short, read["params"], NAME, VALUE)
        expected = json_edit.put_meta(line, params, NAME, VALUE)

        assert short.restore(stamped) == expected, short
        assert restore(bytes(short), expected) == line, short
        renamed = json_edit.replace(stamped, b'"mcp-launch/1"', "id")
        assert restore(bytes(short), short.restore(renamed)) == line, short


@many_lines
@given(random=st.randoms(use_true_random=True))
def test_a_call_is_judged_by_the_same_members_whether_it_is_shortened_or_not(
    random: Random,
) -> None:
    for _ in range(LINES):
        line = make_line(random)
        short, said = shorten(line), protocol.look(line)
        if not isinstance(short, LongLine) or not isinstance(said, dict):
            continue
        read = protocol.look(short)
        assert isinstance(read, dict)
        assert protocol.is_request(read)
        assert read["method"] == said["method"] == "tools/call"
        assert read["id"] == said["id"]
        path = ("params", "_meta")
        assert protocol.get_member(read, *path) == protocol.get_member(said, *path)
        assert json_edit.read_raw(short, "id") == json_edit.read_raw(line, "id")
        assert protocol.is_ambiguous(read) == protocol.is_ambiguous(said)


def test_many_of_the_random_lines_are_shortened() -> None:
    random = Random(1)  # noqa: S311
    lines = [shorten(make_line(random)) for _ in range(300)]

    assert 60 < sum(map(is_shortened, lines)) < 240


LONG = b"x" * LIMIT


def call(arguments: bytes, request_id: bytes = b"1", meta: bytes = b'"threadId":"t"') -> bytes:
    """Return a call."""
    line = b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"_meta":{%b},"a":%b}}\n'
    return line % (request_id, meta, arguments)


@pytest.mark.parametrize("length", [LIMIT - 1, LIMIT])
def test_a_string_is_long_from_the_limit_on(length: int) -> None:
    assert is_shortened(shorten(call(b'"%b"' % (b"x" * length)))) == (length == LIMIT)


@pytest.mark.parametrize("count", [*range(1, 7), 62, 63, 64, 65, 66, 127, 128, 129, 20_000])
@pytest.mark.parametrize("start", [b"", b"x" * LIMIT], ids=["alone", "after others"])
def test_a_quote_ends_a_string_after_an_even_number_of_backslashes(
    count: int, start: bytes
) -> None:
    line = call(b'["%b%b"%b,"y"]' % (start, b"\\" * count, b'"' if count % 2 else b""))
    short = shorten(line)

    assert protocol.look(line) is not None
    assert is_shortened(short) == (len(start) + count >= LIMIT)
    if isinstance(short, LongLine):
        assert short.restore(short) == line
        assert short.find(b'"y"') > 0


@pytest.mark.parametrize(
    "line",
    [
        call(b'"%b"' % LONG, request_id=b'"%b"' % LONG),
        call(b'"%b"' % LONG, meta=b'"threadId":"%b"' % LONG),
        call(b'"%b"' % LONG, request_id=b"null"),
        call(b'"%b"' % LONG).replace(b'"id":1,', b""),
        call(b'"%b"' % LONG).replace(b"tools/call", b"resources/read"),
        call(b'"%b"' % LONG).replace(b'"method":"tools/call"', b'"result":1'),
        call(b'"%b"' % LONG).replace(b"tools/call", LONG),
        b"[%b]\n" % call(b'"%b"' % LONG).strip(),
        call(b'"%b' % LONG),
        call(b'"\0%b"' % LONG),
        call(b'["%b","\0"]' % LONG),
        call(b'["%b","\\"]' % LONG),
        call(b"[%b1]" % (b"1," * LONG_LINE)),
        call(b'"%b"]' % LONG),
        b'"%b"\n' % LONG,
        LONG * 5 + b"\n",
        b"\n",
    ],
    ids=[
        "its id is long",
        "its meta is long",
        "its id is null",
        "a notification",
        "another request",
        "an answer",
        "its method is long",
        "a batch",
        "an unterminated string",
        "a zero byte in the string",
        "a zero byte elsewhere",
        "no end",
        "short values",
        "not JSON",
        "a string",
        "text",
        "an empty line",
    ],
)
def test_a_line_that_cannot_be_shortened_is_returned_as_it_is(line: bytes) -> None:
    assert shorten(line) is line


def test_a_shortened_line_is_not_shortened_again() -> None:
    short = shorten(call(b'"%b"' % LONG))

    assert shorten(short) is short


def test_a_long_name_is_restored_too() -> None:
    line = call(b'{"%b":"%b","a%b":1}' % (LONG, LONG, LONG))
    short = shorten(line)

    assert isinstance(short, LongLine)
    assert len(short.strings) == 3
    assert short.restore(short) == line


def test_strings_after_very_many_short_ones_are_left_in_the_line() -> None:
    line = call(b'[%b"%b"]' % (b'"",' * (1 << 16), LONG))

    assert shorten(line) is line


def test_what_is_kept_of_a_shortened_call_does_not_grow_with_its_strings() -> None:
    short = [shorten(call(b'"%b"' % (LONG * times))) for times in (1, 50)]

    assert short[0] == short[1]
    assert len(bytes(short[0])) < 200


def test_a_line_that_was_not_shortened_is_restored_as_it_is() -> None:
    line = call(b'"x"')

    assert restore(line, b"anything") is line


def test_a_line_is_not_restored_from_another_one() -> None:
    short = bytes(shorten(call(b'["%b","%b"]' % (LONG, LONG))))

    assert restore(short, call(b'"%b"' % LONG)) == b""
    assert restore(short, call(b'"x"')) == b""


DEEP = b'"x":' + b"[" * 900 + b"]" * 900


@pytest.mark.parametrize(
    "request_id", [b"1", b'"a"', b"-7", b'"\\u00e4"', b"1.0", b"1e2", b"{}", b"[1]"]
)
@pytest.mark.parametrize("meta", [b"", b'"progressToken":"p"', b'"x":{"y":[1,"\\""]}', DEEP])
def test_a_condensed_request_can_be_answered_but_not_restored(
    request_id: bytes, meta: bytes
) -> None:
    line = call(b"[%b1]" % (b"1," * LONG_LINE), request_id, meta)
    said: Any = protocol.look(line)

    kept = condense(line, said)

    assert len(kept) < 200
    assert restore(kept, line) == b""
    read: Any = protocol.look(kept)
    assert (read["id"], read["method"]) == (said["id"], said["method"])
    token = said["params"]["_meta"].get("progressToken")
    assert read["params"]["_meta"].get("progressToken") == token
    assert b'"id":%b,' % request_id in kept
    refusal = json.loads(protocol.make_refusal(kept, "no"))
    assert (refusal["id"], refusal["result"]["isError"]) == (said["id"], True)


def test_a_condensed_request_of_the_2026_era_is_refused_with_a_complete_result() -> None:
    line = call(b"[]", meta=b'"io.modelcontextprotocol/protocolVersion":"2026-07-28"')

    kept = condense(line, json.loads(line))

    assert json.loads(protocol.make_refusal(kept, "no"))["result"]["resultType"] == "complete"

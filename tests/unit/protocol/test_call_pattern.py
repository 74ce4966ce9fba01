"""A call that matches a learned pattern is what Python's own JSON reads in it."""

from __future__ import annotations

import json
import os
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_json import make_random_message

from mcp_launch import protocol
from mcp_launch.protocol import json_edit
from mcp_launch.protocol.requests import CallPattern
from mcp_launch.runtime import loop

# How many times a hundred calls are made up.
EXAMPLES = int(os.environ.get("MCP_LAUNCH_TEST_EXAMPLES", "40"))
CALLS = 100

OURS = json_edit.Name("mcp-launch/context")
VALUE = b'{"launchId":"l-1"}'
IDENTIFYING = ("threadId", "sessionId", "turn")

many_calls = settings(max_examples=EXAMPLES)


def read(line: bytes) -> Any:
    """Return what Python reads; None where it cannot."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def learn(line: bytes) -> CallPattern:
    """Return a pattern that was learned from a call."""
    pattern = CallPattern()
    teach(pattern, line)
    return pattern


def teach(pattern: CallPattern, line: bytes) -> None:
    meta = protocol.get_member(protocol.look(line), "params", "_meta")
    assert isinstance(meta, dict), line
    pattern.learn(line, meta, name_caller(meta), IDENTIFYING, OURS.text)


def name_caller(meta: Any) -> list[Any]:
    """Return everything that identifies the caller of a call."""
    return [meta.get(name) for name in IDENTIFYING]


def check_match(pattern: CallPattern, line: bytes, at: int) -> None:
    """Check everything that a match claims about a line."""
    assert line.find(b"\n") == len(line) - 1, line
    assert b"\r" not in line, line
    said = read(line)
    if said is None:
        return  # no server can read it either
    assert said["method"] == "tools/call", line
    meta = said["params"]["_meta"]
    assert name_caller(meta) == pattern.caller, line
    assert name_caller(pattern.meta) == pattern.caller
    assert pattern.key == protocol.spell(said["id"]), line
    assert type(said["id"]) is int, line
    assert OURS.text not in meta, line
    assert not protocol.is_ambiguous(said), line
    stamped = line[:at] + OURS.quoted + VALUE + b"," + line[at:]
    assert stamped == json_edit.put_meta(line, said["params"], OURS, VALUE), line


# Texts of a label, each as it is written between the quotes.
LABELS = [
    b"1",
    b"22",
    b"",
    b'x","y":"z',
    b"a\\",
    b'a\\"b',
    b"\\u0041",
    b"\xc3\xa4",
    b"a\nb",
    b"a\rb",
]
NUMBERS = [b"1", b"22", b"-1", b"1.5", b"1e3", b"true", b'"1"', b"007", b"{}"]
IDS = [
    b"22",
    b"907",
    b"007",
    b"0",
    b'"1"',
    b"1.5",
    b"1.0",
    b"-1",
    b"null",
    b"[1]",
    b"",
]

# What may follow the last member that the pattern knows, inside of `_meta`.
MORE = [
    b',"progressToken":5',
    b',"x":"\\"threadId\\""',
    b',"threadId":"u"',
    b',"THREADID":"u"',
    b',"thread\\u0049d":"u"',
    b',"threa\xc4\x91Id":"u"',
    b',"\xc5\xbfessionId":"u"',
    b',"sess\xc4\xb1onId":"u"',
    b',"turn":"\xe2\x84\xaa"',
    b',"mcp-launch/context":{}',
    b',"mcp-launch\\/context":{}',
    b',"MCP-launch/context":{}',
    b',"x":{"threadId":"u"}',
]

# What may follow `_meta`, inside of the parameters.
ARGUMENTS = [
    b',"name":"x"',
    b',"name":"x","arguments":{"a":"b"}',
    b',"name":"x","arguments":{"a":"\\n\\t\\"\\\\"}',
    b',"name":"x","arguments":{"a":"\\/\\u0041"}',
    b',"name":"x","arguments":{"id":7,"method":"ping"}',
    b',"_meta":{"threadId":"u"}',
    b',"_META":{"threadId":"u"}',
    b',"\\u005fmeta":{"threadId":"u"}',
    b',"name":"\xc3\xa4"',
    b',"name":"a\nb"',
    b',"name":"a\rb"',
    b"",
]

ENDS = [
    b"}}\r\n",
    b"}}",
    b"}}\n\n",
    b"}\n",
    b"}}x\n",
    b"}} {}\n",
    b'}}\n{"jsonrpc":"2.0","method":"notifications/x"}\n',
    b'}}{"id":3,"method":"tools/call"}\n',
    b'},"id":8}\n',
    b'},"ID":8}\n',
    b'},"\\u0069d":8}\n',
    b'},"method":"ping"}\n',
    b'},"params":{}}\n',
    b'},"Params":{}}\n',
    b"},\n",
]

BEGINNINGS = [
    b'{"jsonrpc":"1.0","id":',
    b'{"jsonrpc": "2.0","id":',
    b'[{"jsonrpc":"2.0","id":',
    b' {"jsonrpc":"2.0","id":',
    b'{"JSONRPC":"2.0","id":',
]

METHODS = [
    b'"method":"tools/list"',
    b'"Method":"tools/call"',
    b'"method":"tools\\/call"',
    b'"method":"ping","method":"tools/call"',
]


def make_call_like_codex(random: Random) -> bytes:
    """Return one of few calls that are nearly the same."""

    def pick(usual: bytes, odd: list[bytes]) -> bytes:
        return random.choice(odd) if random.random() < 0.12 else usual

    thread = pick(b'"t"', [b'"u"', b"null", b'"\\u0074"', b'"T"'])
    turn = pick(b'{"a":1}', [b'{"a":2}', b"[]", b'{"a":"threadId"}'])
    label = pick(b"call-%d" % random.randrange(30), LABELS)
    number = pick(b"%d" % random.randrange(1, 30), NUMBERS)
    parts = [b'"callId":"%b"' % label, b'"n":%b' % number]
    parts += [b'"turn":%b' % turn, b'"threadId":%b' % thread]
    if random.random() < 0.1:
        random.shuffle(parts)
    if random.random() < 0.1:
        parts = random.sample(parts, random.randrange(len(parts)))
    if random.random() < 0.05:
        parts.insert(random.randrange(len(parts) + 1), random.choice(MORE)[1:])
    meta = b",".join(parts) + pick(b"", MORE)
    params = b'"_meta":{%b}%b' % (meta if parts else meta[1:], pick(b',"name":"x"', ARGUMENTS))
    beginning = pick(b'{"jsonrpc":"2.0","id":', BEGINNINGS)
    request_id, method = pick(b"1", IDS), pick(b'"method":"tools/call"', METHODS)
    line = b'%b%b,%b,"params":{%b' % (beginning, request_id, method, params)
    return line + pick(b"}}\n", ENDS)


@many_calls
@given(random=st.randoms(use_true_random=True))
def test_a_line_that_matches_is_a_call_of_the_same_caller(random: Random) -> None:
    pattern = CallPattern()
    for _ in range(CALLS):
        line = make_call_like_codex(random)
        if random.random() < 0.1:
            line = line[: random.randrange(len(line) + 1)]  # as far as it has come
        at = pattern.match(line)
        if at:
            check_match(pattern, line, at)
        said = protocol.look(line)
        meta = protocol.get_member(said, "params", "_meta")
        is_call = protocol.get_member(said, "method") == "tools/call"
        if not at and is_call and isinstance(meta, dict) and line.count(b"\n") == 1:
            pattern = learn(line) if random.random() < 0.5 else pattern


@many_calls
@given(random=st.randoms(use_true_random=True))
def test_no_spelling_of_a_message_matches_by_mistake(random: Random) -> None:
    patterns = [learn(call(meta=one)) for one in (b'"threadId":"t-1"', b'"x":"","threadId":"t-1"')]
    patterns += [learn(call(meta=b'"x":1')), learn(call(meta=b'"sessionId":""'))]
    for _ in range(CALLS):
        line = make_random_message(random)
        for pattern in patterns:
            if at := pattern.match(line):
                check_match(pattern, line, at)


def test_many_of_the_random_calls_match() -> None:
    pattern = learn(call(1, b'"callId":"","n":1,"turn":{"a":1},"threadId":"t"'))
    random = Random(1)  # noqa: S311

    matches = [pattern.match(make_call_like_codex(random)) for _ in range(1000)]

    assert 200 < sum(map(bool, matches)) < 800


def call(number: int = 2, meta: bytes = b'"threadId":"t"', rest: bytes = b',"name":"x"') -> bytes:
    """Return a call as Codex writes it."""
    line = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{%b}%b}}\n'
    return line % (number, meta, rest)


CODEX_META = b'"callId":"%b","turn":{"thread_id":"t"},"threadId":"%b","progressToken":%b'


@pytest.mark.parametrize(
    ("meta", "is_known"),
    [
        (CODEX_META % (b"call-22", b"t", b"22"), True),
        (CODEX_META % (b"", b"t", b"22"), True),
        (CODEX_META % (b"call-22", b"t", b"1.5"), True),  # it follows all that identifies
        (CODEX_META % (b"call-22", b"other", b"22"), False),
        (CODEX_META % (b'a","b":"c', b"t", b"22"), False),
        (CODEX_META % (b'a\\","callId":"', b"t", b"22"), False),
        (CODEX_META.replace(b'"thread_id":"t"', b'"thread_id":"u"') % (b"", b"t", b"1"), False),
        (CODEX_META % (b"call-22", b"t", b'22,"sessionId":"s"'), False),
        (CODEX_META % (b"call-22", b"t", b'22,"threadId":"u"'), False),
    ],
)
def test_a_call_is_known_by_everything_but_its_labels(meta: bytes, is_known: bool) -> None:
    pattern = learn(call(1, CODEX_META % (b"call-1", b"t", b"1")))

    assert bool(pattern.match(call(22, meta))) == is_known
    assert pattern.key == (b"22" if is_known else None)


@pytest.mark.parametrize(
    "line",
    [
        call(meta=b'"threadId":"u"'),
        call(meta=b'"mcp-launch/context":{}'),
        call(meta=b'"progressToken":2,"threadId":"u"'),
        call(meta=b'"thread\\u0049d":"u"'),
    ],
)
def test_a_call_that_names_a_caller_is_not_taken_for_one_that_names_none(line: bytes) -> None:
    pattern = learn(call(1, b'"progressToken":1'))

    assert pattern.match(call(2, b'"progressToken":2'))
    assert not pattern.match(line)


@pytest.mark.parametrize("meta", [b'"threadId":"t"', b'"label":"1","turn":{},"n":1', b'"n":1'])
def test_no_part_of_a_call_matches(meta: bytes) -> None:
    line = call(1, meta)
    pattern = learn(line)

    assert pattern.match(line)
    assert not any(pattern.match(line[:end]) for end in range(len(line)))


@pytest.mark.parametrize("sign", [b"\n", b"\r", b"\r\n"])
def test_a_label_does_not_hide_the_end_of_a_line(sign: bytes) -> None:
    pattern = learn(call(1, b'"callId":"1","threadId":"t"'))

    assert not pattern.match(call(2, b'"callId":"1%b2","threadId":"t"' % sign))


def test_an_empty_meta_is_neither_learned_nor_matched() -> None:
    assert not learn(call(1, b"")).match(call(2, b""))
    assert not learn(call(1, b'"n":1')).match(call(2, b""))


def test_a_call_with_a_context_of_ours_is_not_learned() -> None:
    line = call(1, b'"mcp-launch/context":{},"threadId":"t"')

    assert not learn(line).match(line)


@pytest.mark.parametrize(
    "again",
    [b'"_meta":{"threadId":"u"}', b'"name":"x"},"params":{"_meta":{"threadId":"u"}'],
    ids=["two metas", "two parameters"],
)
def test_a_call_that_names_two_callers_is_not_learned(again: bytes) -> None:
    pattern = learn(call(1, b'"threadId":"t"', b"," + again))

    assert not pattern.match(call(2, b'"threadId":"t"'))
    assert not pattern.match(call(2, b'"threadId":"u"'))


def test_a_call_matches_however_often_its_caller_has_changed() -> None:
    pattern = learn(call(1, b'"threadId":"t"'))
    for number in range(1, 20):
        meta = b'"threadId":"t-%d"' % number
        assert not pattern.match(call(number, meta))
        teach(pattern, call(number, meta))
        assert pattern.match(call(number + 1, meta))


def test_calls_of_a_host_that_never_repeats_itself_are_studied_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    studied: list[object] = []

    def study(*what: object) -> list[object]:
        studied.append(what)
        return []

    monkeypatch.setattr(json_edit, "list_members", study)
    pattern = CallPattern()
    for number in range(100):
        line = call(1, b'"a%d":{}' % number)
        assert not pattern.match(line)
        teach(pattern, line)

    assert len(studied) == 7


def test_a_call_that_comes_in_one_piece_is_no_longer_than_a_line_that_is_kept() -> None:
    """A call that matches is not shortened, so it could not be restored if it were longer."""
    assert loop.CHUNK <= protocol.LONG_LINE

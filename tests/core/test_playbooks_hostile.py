"""Input that no honest host or server sends: nothing breaks, and nothing slips through."""

# ruff: noqa: E501  # what hosts are told is compared word for word

from __future__ import annotations

import json
import os
from random import Random
from typing import Any

import pytest
from core_playbooks import Playbook, open_playbook
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_launch.protocol.lines import LINE_LIMIT, CutLine

BATCH_ERROR = "null error -32600 [mcp-launch] not delivered: this line is an array (a JSON-RPC batch), which MCP removed in 2025-06-18 — fix: send each message on a line of its own"
OPEN_CALL = """
    >> host: 1 tools/call {"name":"x"}
    << server: #a tools/call {"name":"x"}
"""

# Lines of a host


def test_a_message_with_wrongly_capitalised_members_is_refused() -> None:
    open_playbook("""
        >> host: {"id":1,"Method":"tools/call","method":"ping"}
        << host: 1 error -32600 [mcp-launch] not delivered: members of this message are capitalised wrongly
        >> host: {"id":2,"method":"tools/call","params":{"_META":{}}}
        << host: 2 error -32600 …
        >> host: {"Method":"tools/call","params":{}}
        << host: null error -32600 …
        >> host: {"id":3,"method":"tools/call","Params":{"name":"x"}}
        << host: 3 error -32600 …
    """)


@pytest.mark.parametrize(
    "line",
    [
        '[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}]\n',
        ' [{"id":1,"result":{}}]\r\n',
        '\ufeff[{"id":1,"method":"ping"}]\n',
        "[]\n",
        "[" * 5000 + "]" * 5000 + "\n",
    ],
    ids=["a call", "an answer", "behind a byte order mark", "empty", "nested 5000 deep"],
)
def test_an_array_is_refused_and_what_follows_it_is_served(line: str) -> None:
    open_playbook(f"""
        >> host: {line.encode()!r}
        << host: {BATCH_ERROR}
        >> host: 2 ping
        << server: #b ping
    """)


CALL = '{"id":1,"method":"tools/call"}'


@pytest.mark.parametrize(
    "line",
    [
        b'{"method":"notifications/x"}{"id":1,"method":"ping"}\n',
        b'{"id":1,"method":"tools/call",}\n',
        b'{"id":1,"method":"tools/call"} // x\n',
        b'/**/{"id":1,"method":"tools/call"}\n',
        f"\u00a0{CALL}\n".encode(),
        b"\x0b" + CALL.encode() + b"\n",
        b"\x1c" + CALL.encode() + b"\n",
        b"words " + CALL.encode() + b"\n",
        b"{id:1,'method':'tools/call'}\n",
        b'{"id":1,"METHOD":"tools/call"\n',
        b'{"id":1,"m\\u0065thod":"tools/call"\n',
        CALL.encode("utf-16") + b"\n",
        CALL.encode("utf-32-le") + b"\n",
        b'{"id":1,"method":"tools/call","params":{"a":' + b"[" * 100_000 + b"\n",
    ],
)
def test_no_reader_finds_a_call_that_was_not_judged(line: bytes) -> None:
    open_playbook(f">> host: {line!r}\n<< host: null error -32700 [mcp-launch] not delivered: …")


@pytest.mark.parametrize("between", [b"\r", b"\r\r"])
def test_a_stray_carriage_return_does_not_hide_a_second_message(between: bytes) -> None:
    playbook = open_playbook()
    line = b'{"id":1,"method":"ping","params":{"a":' + between + b'{"id":2,"method":"ping"}}}\n'

    playbook.core.client_said("host", line)

    [(_, name, sent)] = [one for one in playbook.core.out if one[0] == "send"]
    assert (name, sent.count(b"\r")) == ("server", 0)
    assert json.loads(sent)["params"] == {"a": {"id": 2, "method": "ping"}}


def test_a_carriage_return_at_the_end_or_in_a_string_stays() -> None:
    playbook = open_playbook()
    for line in (b'{"id":1,"method":"ping"}\r\n', b'{"id":1,"method":"ping","x":"a\rb"}\n'):
        playbook.core.client_said("host", line)
        sent = [one[2] for one in playbook.core.out if one[0] == "send"][-1]
        number = b'"id":%d,' % playbook.core.counts.numbers
        assert sent.replace(number, b'"id":1,') == line


@pytest.mark.parametrize("line", [b"not a message\n", b'nor is "method"\n', b"42\n", b'"x"\n'])
def test_a_line_that_is_not_a_message_waits_for_the_next_server(line: bytes) -> None:
    open_playbook(f"""
        >> gone server
        << start server
        >> host: {line!r}
        >> started server
        << server: {line!r}
    """)


def test_nobody_hides_below_a_thousand_brackets() -> None:
    deep = "[" * 60_000 + "]" * 60_000
    open_playbook(
        f"""
        >> host: 1 tools/call {{"_meta":{{"session":"s-1"}},"name":"x"}}
        << server: #a tools/call {{"_meta":{{"session":"s-1"}},"name":"x"}}
        >> host: 2 tools/call {{"arguments":{deep},"_meta":{{"session":"s-2"}}}}
        << host: 2 refused …session s-2…
        """,
        on_change="refuse",
    )


RESTS = [
    '},"_meta":{"session":"s-2"}}}',
    '},"_m\\u0065ta":{"session":"s-2"}}}',
    ',"session":"s-2"},"name":"x"}}',
    ',"s\\u0065ssion":"s-2"},"name":"x"}}',
    '},"name":"x"},"params":{"_meta":{"session":"s-2"}}}',
]


@pytest.mark.parametrize("rest", RESTS)
def test_the_last_of_two_members_counts(rest: str) -> None:
    """As for most servers; where a policy makes it matter, both are refused."""
    playbook = open_playbook(on_change="refuse")
    begin = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{"session":"s-1"'
    playbook.core.client_said("host", (begin % 1 + "}}}\n").encode())
    playbook.take()

    playbook.core.client_said("host", (begin % 7 + rest + "\n").encode())

    [refused] = playbook.take()
    assert "session s-2" in refused


def test_a_line_that_is_too_long_is_refused_by_its_ends() -> None:
    playbook = open_playbook()
    text = f"[mcp-launch] not delivered: this message is longer than {LINE_LIMIT >> 20} MB — fix: send it in parts, or pass the path of a file"
    begin, end = b'{"jsonrpc":"2.0",', b"x" * 600
    for line, expected in (
        (begin + b'"id":7,"method":"tools/call","params":{"a":"' + end, f"host: 7 refused {text}"),
        (
            begin + b'"method":"x","params":{"a":"' + end + b'"},"id":"z"}\n',
            'host: "z" error -31000',
        ),
        (begin + b'"method":"x","params":{"a":"' + end + b'"}}\n', "host: null error -32600"),
    ):
        playbook.core.client_said("host", CutLine(line))
        assert [one.startswith(expected) for one in playbook.take()] == [True]


@pytest.mark.parametrize("size", [1 << 16, 10 << 20])
def test_lines_of_any_size_pass_both_ways(size: int) -> None:
    playbook = open_playbook()
    text = b'a\\"\\\\' * (size // 5)
    playbook.core.client_said("host", b'{"id":1,"method":"x/y","params":{"t":"%b"}}\n' % text)
    number = b"%d" % playbook.core.counts.numbers
    playbook.core.server_said("server", b'{"id":%b,"result":{"t":"%b"}}\n' % (number, text))

    assert [one for one in playbook.core.out if one[0] == "send"] == [
        ("send", "server", b'{"id":%b,"method":"x/y","params":{"t":"%b"}}\n' % (number, text)),
        ("send", "host", b'{"id":1,"result":{"t":"%b"}}\n' % text),
    ]


# Lines of a server


@pytest.mark.parametrize("length", [1, 40_000])
def test_an_array_of_a_server_is_noise_and_what_it_answers_stays_open(length: int) -> None:
    line = b'[{"jsonrpc":"2.0","id":3,"result":"%b"}]\n' % (b"x" * length)
    playbook = open_playbook(f"""
        {OPEN_CALL}
        >> server: {line!r}
        << noise: {line!r}
        >> server: #a = {{}}
        << host: 1 = {{}}
    """)

    assert "which MCP removed in 2025-06-18" in str(playbook.notes)


@pytest.mark.parametrize(
    "line",
    [
        b"Server started on stdio\n",
        b"[INFO] ready\n",
        b"\x1b[32mready\x1b[0m\n",
        b"{not json}\n",
        b"{\n",
        b'"text"\n',
        b"42\n",
        b"true\n",
        b"\n",
        b'{"a":1} trailing\n',
        b"log: x " + b"y" * 70_000 + b'"}\n',
    ],
)
def test_noise_does_not_reach_the_host(line: bytes) -> None:
    playbook = open_playbook(f">> server: {line!r}\n<< noise: {line!r}")

    assert playbook.core.counts.noise == 1


def test_noise_glued_to_a_message_is_cut_off() -> None:
    open_playbook(f"""
        {OPEN_CALL}
        >> server: b'loading... {{"jsonrpc":"2.0","method":"notifications/x"}}\\n'
        << noise: b'loading... \\n'
        << host: notifications/x
        >> server: notifications/y
        << host: notifications/y
    """)


def test_a_line_that_is_meant_as_a_message_reaches_the_host_even_if_it_is_broken() -> None:
    playbook = open_playbook(f"""
        {OPEN_CALL}
        >> server: {{"jsonrpc":"2.0","x":oops}}
        << host: {{"jsonrpc":"2.0","x":oops}}
        >> server: {{"jsonrpc":"2.0","x":1}}
        << host: {{"jsonrpc":"2.0","x":1}}
        >> server: {{"jsonrpc":"2.0","id":#a,"result":{{"a":oops}}}}
        << host: {{"jsonrpc":"2.0","id":1,"result":{{"a":oops}}}}
    """)

    assert not playbook.server.owes


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
messages = st.dictionaries(st.text(max_size=5), json_values, max_size=4).map(
    lambda value: json.dumps({**value, "method": "notifications/x"}).encode() + b"\n"
)


@settings(max_examples=200)
@given(line=messages)
def test_any_notification_of_a_server_passes_as_it_is(line: bytes) -> None:
    playbook = open_playbook()
    playbook.core.server_said("server", line)

    assert [one[2] for one in playbook.core.out if one[0] == "inform"] == [line]


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":{"a":1},"method":"roots/list"}',
        '{"jsonrpc":"2.0","id":[1],"method":"sampling/createMessage"}',
        '{"jsonrpc":"2.0","id":1e999,"method":"ping"}',
        '{"jsonrpc":"2.0","id":true,"method":"ping"}',
        '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{}}}',
        '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
        '{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":{}}}',
        '{"jsonrpc":"2.0","id":4,"method":"elicitation/create","params":{"elicitationId":[{}]}}',
        '{"jsonrpc":"2.0","id":5,"method":"tasks/get","params":{"taskId":{}}}',
        '{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":[]}}',
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":{}}}',
        '{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":["debug"]}}',
        '{"jsonrpc":"2.0","id":7,"method":"resources/subscribe","params":{"uri":{}}}',
        '{"jsonrpc":"2.0","id":8,"method":"subscriptions/listen","params":{"notifications":5}}',
        '{"jsonrpc":"2.0","id":9,"method":"initialize","params":[]}',
        '{"jsonrpc":"2.0","id":10,"method":"tools/list","params":{"cursor":{}}}',
        '{"jsonrpc":"2.0","id":11,"method":"x","params":{"_meta":{"progressToken":{}}}}',
        '{"jsonrpc":"2.0","id":12,"method":"x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":{}}}}',
    ],
)
def test_odd_values_harm_nobody(line: str) -> None:
    playbook = open_playbook(carries="many sessions", on_change="isolate")
    playbook.core.client_said("host", line.encode() + b"\n")
    playbook.core.server_said("server", line.encode() + b"\n")
    playbook.take()

    playbook.play('>> host: "z" ping\n<< server: #z ping\n>> server: #z = {}\n<< host: "z" = {}')


# Random damage

# Each part is a seed; more of them: MCP_LAUNCH_TEST_EXAMPLES=4000.
EXAMPLES = int(os.environ.get("MCP_LAUNCH_TEST_EXAMPLES", "40"))

META = b'{"session":"s-1","progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026"}'
DAMAGED = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":%b,"name":"t"}}'
LONG = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{},"a":"%b","b":[%b1]}}'
FROM_HOST = [
    DAMAGED % (1, META),
    DAMAGED % (2, b"{}"),
    LONG % (b'x\\"' * 20_000, b"1," * 10),
    LONG % (b"", b"1," * 40_000),
    b'[[{"id":1,"method":"ping"}],{"id":5,"method":"ping"},{"id":6,"result":{}}]',
    b'{"jsonrpc":"2.0","id":8,"method":"tools/list","params":{"cursor":"c"}}',
    b'{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{}}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5}}',
    b'{"jsonrpc":"2.0","id":5,"result":{"roots":[{"uri":"file:///a%20b"}]}}',
    b'{"jsonrpc":"2.0","id":10,"method":"resources/subscribe","params":{"uri":"u"}}',
    b'{"jsonrpc":"2.0","id":11,"method":"initialize","params":{"capabilities":{"roots":{}}}}',
]
FROM_SERVER = [
    b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}',
    b'{"result":{"tools":[{"name":"a"}],"nextCursor":"c"},"jsonrpc":"2.0","id":%d}',
    b'{"jsonrpc":"2.0","id":%d,"result":"' + b"y" * 70_000 + b'"}',
    b'{"jsonrpc":"2.0","id":%d,"error":{}}',
    b'{"jsonrpc":"2.0","id":%d,"result":{"task":{"taskId":"t","status":"working"}}}',
    b'{"jsonrpc":"2.0","id":%d,"method":"sampling/createMessage"}',
    b'{"jsonrpc":"2.0","id":%d,"method":"roots/list","params":{"_meta":{"progressToken":1}}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d}}',
    b"a banner %d",
]
SCRAPS = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\r", b"\0", b"\xff", b"1e999"]
SCRAPS += [b'"id"', b'"method"', b"[" * 1200, b"\\u0000", b'"_meta":', b'"\xc5\xbf"', b"null"]


def damage(random: Random, line: bytes) -> bytes:
    """Return a line with up to three places cut out, doubled or overwritten."""
    for _ in range(random.randrange(4)):
        near = random.randrange(99) % (len(line) + 1)
        at = random.choice([random.randrange(len(line) + 1), near])
        end = min(len(line), at + random.choice([0, 1, 3, 20, 30_000]))
        line = line[:at] + random.choice([b"", *SCRAPS, line[at:end] * 2]) + line[end:]
    return line + b"\n"


def step(random: Random, playbook: Playbook) -> None:
    """Let one thing happen."""
    core, kind, server = playbook.core, random.randrange(20), playbook.server
    if kind < 10:
        core.client_said("host", damage(random, random.choice(FROM_HOST)))
    elif kind < 18 and server.state not in {"absent", "starting"}:
        number = random.choice([*map(int, server.owes), random.randrange(40)])
        core.server_said("server", damage(random, random.choice(FROM_SERVER) % number))
    elif kind == 18:
        playbook.pass_time(random.choice([0.1, 1.0, 70.0]))
    elif server.state == "starting":
        core.server_started("server")
    elif server.state != "absent":
        sent = [value for verb, name, value in core.out if (verb, name) == ("send", "server")]
        core.server_exited("server", random.choice([0, 1, 137]))
        core.server_gone("server", sent[-random.randrange(1, 9) :], b"oops")
    if random.random() < 0.5:
        playbook.take()


@pytest.mark.parametrize("part", range(4))
def test_no_damage_makes_the_core_raise(part: int) -> None:
    for seed in range(part * EXAMPLES, (part + 1) * EXAMPLES):
        random = Random(seed)  # noqa: S311  # to be repeated, not to be secret
        options: dict[str, Any] = {
            "no_meta": random.random() < 0.3,
            "on_change": random.choice(["auto", "follow", "restart", "refuse"]),
            "moves_unannounced": random.random() < 0.3,
            "call_timeout": random.choice([0.0, 60.0]),
            "max_concurrent": random.choice([0, 1]),
            "rests_after": random.choice([0.0, 60.0]),
        }
        playbook = open_playbook(**options)
        try:
            for _ in range(40):
                step(random, playbook)
        except Exception as error:  # noqa: BLE001  # any: that is the point
            pytest.fail(f"seed {seed}: {error!r}")

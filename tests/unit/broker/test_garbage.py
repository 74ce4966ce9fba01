"""Random damage to what hosts and servers send: the broker never raises."""

from __future__ import annotations

import os
from random import Random

import pytest
from broker_playbooks import Playbook, open_playbook

# Each part is a seed; more of them: MCP_LAUNCH_TEST_EXAMPLES=4000.
EXAMPLES = int(os.environ.get("MCP_LAUNCH_TEST_EXAMPLES", "40"))

META = b'{"session":"s-1","progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026"}'
CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":%b,"name":"t"}}'
LONG = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{},"a":"%b","b":[%b1]}}'
FROM_HOST = [
    CALL % (1, META),
    CALL % (2, b"{}"),
    LONG % (b'x\\"' * 20_000, b"1," * 10),
    LONG % (b"", b"1," * 40_000),
    b"[%b,%b]" % (CALL % (3, META), b'{"jsonrpc":"2.0","id":4,"method":"tools/list"}'),
    b'[[{"id":1,"method":"ping"}],{"id":5,"method":"ping"},{"id":6,"result":{}}]',
    b'{"jsonrpc":"2.0","id":8,"method":"tools/list","params":{"cursor":"c"}}',
    b'{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{}}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///a%20b"}]}}',
    b'{"jsonrpc":"2.0","id":10,"method":"resources/subscribe","params":{"uri":"u"}}',
]
FROM_SERVER = [
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}',
    b'{"result":{"tools":[{"name":"a"}],"nextCursor":"c"},"jsonrpc":"2.0","id":8}',
    b'{"jsonrpc":"2.0","id":2,"result":"%b"}' % (b"y" * 20_000),
    b'[{"jsonrpc":"2.0","id":3,"result":"%b"}]' % (b"z" * 20_000),
    b'{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage"}',
    b'{"jsonrpc":"2.0","id":5,"method":"roots/list","params":{"_meta":{"progressToken":1}}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}',
    b'{"jsonrpc":"2.0","id":"mcp-launch/L/1","result":{"capabilities":{}}}',
    b'{"jsonrpc":"2.0","id":"mcp-launch/L/2","error":{}}',
    b"a banner",
]
SCRAPS = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\r",
    b"\n",
    b"\0",
    b"\xff",
    b"1e999",
    b"null",
]
SCRAPS += [b'"id"', b'"method"', b"[" * 1200, b"\\u0000", b'"_meta":', b'"\xc5\xbf"']


def damage(random: Random, line: bytes) -> bytes:
    """Return a line with up to three places cut out, doubled or overwritten."""
    for _ in range(random.randrange(4)):
        at = random.choice(
            [random.randrange(len(line) + 1), random.randrange(99) % (len(line) + 1)]
        )
        end = min(len(line), at + random.choice([0, 1, 3, 20, 30_000]))
        line = line[:at] + random.choice([b"", *SCRAPS, line[at:end] * 2]) + line[end:]
    return line + b"\n"


def play(random: Random, playbook: Playbook) -> None:
    """Let one thing happen."""
    broker, kind = playbook.broker, random.randrange(20)
    backend = broker.backends["server"]
    if kind < 10:
        data = damage(random, random.choice(FROM_HOST))
        cut = random.choice([len(data), random.randrange(len(data) + 1)])
        broker.host_said("host", data[:cut])
        broker.host_said("host", data[cut:])
    elif kind < 18 and backend.state not in {"absent", "starting"}:
        broker.server_said("server", damage(random, random.choice(FROM_SERVER)))
    elif backend.state == "starting":
        broker.server_started("server")
    elif backend.state != "absent":
        sent = [one.data for one in broker.out if hasattr(one, "data")]
        broker.server_exited("server", random.choice([0, 1, 137]))
        broker.server_gone("server", b"".join(sent)[-random.randrange(1, 999) :], b"oops")
    if random.random() < 0.5:
        broker.take_commands()


@pytest.mark.parametrize("part", range(4))
def test_no_damage_makes_the_broker_raise(part: int) -> None:
    for seed in range(part * EXAMPLES, (part + 1) * EXAMPLES):
        random = Random(seed)  # noqa: S311  # to be repeated, not to be secret
        playbook = open_playbook(
            no_meta=random.random() < 0.3,
            on_change=random.choice(["auto", "follow", "restart", "refuse"]),
        )
        try:
            for _ in range(30):
                play(random, playbook)
        except Exception as error:  # noqa: BLE001  # any: that is the point
            pytest.fail(f"seed {seed}: {error!r}")

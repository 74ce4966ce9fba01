"""Random schedules of clients and servers, and lines that nobody should write, against the core.

More of the first: `python tests/support/core_world.py SEED WORLDS`.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest
from core_setup import Setup
from core_world import World, run_worlds

from mcp_launch.broker.core import Core

SEEDS = [0, int(os.environ.get("MCP_LAUNCH_SEED", "1000"))]

# What schedules have to contain to say anything.
HAPPENS = [
    *("answers", "refusals", "cancels", "progress", "questions", "announced", "replayed"),
    *("deaths", "requeued", "restarts", "starts", "end: rest", "end: replaced", "end: restarted"),
]


@pytest.mark.parametrize("seed", SEEDS, ids=["fixed", "chosen"])
def test_every_request_is_answered_once_and_by_the_right_server(seed: int) -> None:
    counts = run_worlds(seed, 100, steps=200)
    assert [what for what in HAPPENS if not counts[what]] == []


def list_worlds() -> list[World]:
    """Return worlds with one client and one server that work well, in each mode and era."""
    worlds: dict[tuple[str, str], World] = {}
    for seed in range(100):
        setup = Setup(random.Random(seed))  # noqa: S311  # no secret
        setup.danger = setup.trouble = 0.0
        setup.is_deferred = setup.moves = False
        setup.rule = "follow" if setup.mode == "plain" else setup.rule
        world = World(seed, setup)
        # A server that does not understand a call keeps its place for ever.
        if not world.core.settings.max_concurrent and world.core.settings.in_flight != 3:
            worlds.setdefault((setup.mode, setup.era), world)
    return [*worlds.values()]


class Attack:
    """An honest runtime, whose clients and servers write anything."""

    def __init__(self, world: World) -> None:
        self.world, self.core, self.dice = world, world.core, world.dice
        self.running: set[str] = set()
        self.answered: set[object] = set()
        self.lines = 0
        self.samples: list[bytes] = []
        first = self.core.open_server(world.setup.serve())
        self.core.client_joined("host", "owner")
        self.core.happen(first, "needed")
        self.obey()

    def obey(self) -> None:
        while self.core.out:
            verb, name, what = self.core.out.pop(0)
            if verb == "start":
                self.core.server_started(name, 5)
                self.running.add(name)
            elif verb == "end" and name in self.running:
                self.running.discard(name)
                self.core.server_exited(name, 0)
                self.core.server_gone(name, [], b"")
            elif verb == "leave" and name not in self.core.clients:
                self.core.client_joined(name, "owner")
            elif verb in {"send", "inform"}:
                self.take(name, what)

    def take(self, name: str, line: bytes) -> None:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            return  # it was passed on as it came
        if not isinstance(said, dict):
            return
        if name in self.core.servers and "method" in said and "id" in said:
            result: dict[str, Any] = {"capabilities": {"logging": {}, "tools": {}}, "tools": []}
            answer = {"jsonrpc": "2.0", "id": said["id"], "result": result}
            self.core.server_said(name, json.dumps(answer).encode() + b"\n")
        elif name not in self.core.servers and "method" not in said:
            self.answered.add(json.dumps(said.get("id")))

    def mutate(self, line: bytes) -> bytes:
        """Return a line that no peer should write."""
        dice = self.dice
        kind = dice.randrange(4)
        said = json.loads(line)
        if kind == 0:
            place = dice.choice([said, said.get("params", {}), said.get("result", {})])
            if isinstance(place, dict):
                names = [*place, "_meta", "id", "requestId", "progressToken", "uri", "taskId"]
                names += ["level", "notifications", "status", "task", "elicitationId", "cursor"]
                place[dice.choice(names)] = dice.choice(_ODD)
            return json.dumps(said).encode() + b"\n"
        if kind == 1:
            at = dice.randrange(len(line))
            odd = dice.choice(_BYTES)
            return line[:at].replace(b"\n", b"") + odd + line[at + 1 :].strip() + b"\n"
        if kind == 2:
            deep = dice.choice([50, 990, 5000])
            nest = dice.choice([b"[" * deep + b"]" * deep, b'{"a":' * deep + b"1" + b"}" * deep])
            name = dice.choice([b'"id":', b'"params":', b'"result":', b'"x":'])
            return line.replace(b"{", b"{" + name + nest + b",", 1)
        return dice.choice(_LINES)

    def strike(self, count: int) -> None:
        for number in range(count):
            self.core.now += 0.01
            sample = self.dice.choice(_SAMPLES)
            line = self.mutate(json.dumps(sample).encode() + b"\n")
            if self.running and self.dice.random() < 0.5:
                self.core.server_said(self.dice.choice(sorted(self.running)), line)
            else:
                self.core.client_said("host", line)
            self.obey()
            if self.core.now >= self.core.timers.next:
                self.core.time_passed()
                self.obey()
            if number % 50 == 0:
                self.ask(number)

    def ask(self, number: int) -> None:
        """Check that a client is served as if nothing had happened."""
        id_, meta = f"honest {number}", {"session": "s"}
        params = {"name": "x", "arguments": {}, "_meta": meta}
        said = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}
        who = "host"
        if self.world.setup.is_pool:  # a client that leaves requests open has its own limit
            who = f"guest {number}"
            self.core.client_joined(who, who)
        self.core.client_said(who, json.dumps(said).encode() + b"\n")
        self.obey()
        for _ in range(5):
            if json.dumps(id_) not in self.answered and self.core.timers.next < float("inf"):
                self.core.now = max(self.core.now, self.core.timers.next)
                self.core.time_passed()
                self.obey()
        assert json.dumps(id_) in self.answered, (id_, self.core.servers)
        if who != "host" and who in self.core.clients:
            self.core.client_left(who)


_ODD: list[Any] = [
    *(None, True, False, 1.5, 1.0, -0.0, 1e308, 10**400, -1, "", "x", "\ud800", [], [[1]], {}),
    *({"a": {}}, {"uri": []}, {"listChanged": 1}, {"progressToken": {}}, {"taskId": 3}),
    {"taskId": "t", "status": []},
    {"io.modelcontextprotocol/subscriptionId": {}, "progressToken": [], "session": 4},
    {"io.modelcontextprotocol/related-task": {"taskId": []}},
    {"notifications": {"toolsListChanged": []}},
]
_BYTES = [b"\x00", b"\xff", b"{", b"}", b'"', b"\\", b"\r", b",", b"1e999", b"\xe2\x80\xa8", b"]"]
_LINES = [
    *(b"\n", b"[]\n", b"{}\n", b"null\n", b"1\n", b'"x"\n', b"[{}]\n", b"{\n", b"\xef\xbb\xbf{}\n"),
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n',
    b'{"jsonrpc":"2.0","ID":1,"Method":"ping"}\n',
    b'{"jsonrpc":"2.0","id":1,"result":{}}\n',
    b'{"jsonrpc":"2.0","id":{},"result":{}}\n',
    b'{"result":{},"jsonrpc":"2.0","id":}\n',
    b'prompt> {"jsonrpc":"2.0","id":1,"result":{}}\n',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}\n',
    b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}\n',
    b'{"jsonrpc":"2.0","id":NaN,"method":"tools/call"}\n',
    b'{"jsonrpc":"2.0","id":%b,"method":"tools/list"}\n' % (b"9" * 5000),
    b'{"jsonrpc":"2.0","id":1,"method":"' + b"\\u0061" * 3000 + b'"}\n',
]
_PARAMS = {"_meta": {"progressToken": 1, "session": "s"}, "uri": "a", "taskId": "t"}
_SAMPLES: list[dict[str, Any]] = (
    [
        {"jsonrpc": "2.0", "id": 3, "method": method, "params": _PARAMS}
        for method in [
            *(
                "tools/call",
                "tools/list",
                "resources/read",
                "resources/subscribe",
                "ping",
                "tasks/get",
            ),
            *("resources/unsubscribe", "logging/setLevel", "subscriptions/listen", "tasks/list"),
            *("sampling/createMessage", "elicitation/create", "roots/list", "server/discover"),
        ]
    ]
    + [
        {
            "jsonrpc": "2.0",
            "method": f"notifications/{what}",
            "params": {"requestId": 3, "uri": "a"},
        }
        for what in [
            *("cancelled", "progress", "message", "resources/updated", "tools/list_changed"),
            *("tasks/status", "elicitation/complete", "roots/list_changed", "initialized"),
        ]
    ]
    + [
        {"jsonrpc": "2.0", "id": number, "result": {"task": {"taskId": "t", "status": "working"}}}
        for number in range(5)
    ]
)


def name_world(world: World) -> str:
    return f"{world.setup.mode} {world.setup.era}"


@pytest.mark.parametrize("world", list_worlds(), ids=name_world)
def test_whatever_the_peers_write_a_call_that_follows_is_answered(world: World) -> None:
    assert isinstance(world.core, Core)
    Attack(world).strike(int(os.environ.get("MCP_LAUNCH_LINES", "500")))

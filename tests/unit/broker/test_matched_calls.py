"""A call that matches the pattern of the last ones is treated as if it had been read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from broker_playbooks import HANDSHAKE, Playbook, open_playbook, write

from mcp_launch import protocol
from mcp_launch.broker import commands
from mcp_launch.broker.routing import Binding, Served

if TYPE_CHECKING:
    from mcp_launch.broker.routing import Call
    from mcp_launch.values import Found

# The server serves session s-1, and the pattern is that of its calls.
LEARNED = """
    >> host: 1 tools/call {"_meta":{"session":"s-1"}}
    << server: 1 tools/call {"_meta":{"session":"s-1"}}
    >> server: 1 = {}
    << host: 1 = {}
"""


def open_learned(**settings: Any) -> Playbook:
    """Return a playbook whose server serves session s-1."""
    playbook = open_playbook(**settings)
    playbook.play(LEARNED)
    assert matches(playbook, '2 tools/call {"_meta":{"session":"s-1"}}')
    return playbook


def matches(playbook: Playbook, text: str) -> bool:
    """Return whether a call would match."""
    return bool(playbook.broker.connections["host"].pattern.match(write(text)))


def send(playbook: Playbook, line: bytes) -> bytes:
    """Return what the server gets when the host sends a line."""
    playbook.broker.host_said("host", line)
    done = playbook.broker.take_commands()
    return b"".join(one.data for one in done if isinstance(one, commands.SendToServer))


def test_a_call_that_matches_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    playbook = open_learned()

    with monkeypatch.context() as patched:
        patched.setattr(protocol, "look", None)
        playbook.play_event('host: 2 tools/call {"_meta":{"session":"s-1"},"name":"x"}')

    assert playbook.take() == ['server: 2 tools/call {"_meta":{"session":"s-1"},"name":"x"}']
    assert playbook.broker.backends["server"].calls == 2


def test_a_call_that_matches_is_answered_under_its_own_id() -> None:
    open_learned().play("""
        >> host: 22 tools/call {"_meta":{"session":"s-1"},"name":"x"}
        << server: 22 tools/call {"_meta":{"session":"s-1"},"name":"x"}
        >> host: 23 tools/call {"_meta":{"session":"s-1"},"name":"y"}
        << server: 23 tools/call {"_meta":{"session":"s-1"},"name":"y"}
        >> server: 23 = {"of":"y"}
        << host: 23 = {"of":"y"}
        >> exited server 1
        >> gone server
        << host: 22 refused …
        << start server
    """)


def test_a_call_that_comes_in_pieces_is_delivered_once() -> None:
    line = write('2 tools/call {"_meta":{"session":"s-1"},"name":"x"}')
    for cut in range(1, len(line)):
        playbook = open_learned()

        assert send(playbook, line[:cut]) == b"", line[:cut]
        assert send(playbook, line[cut:]) == line, line[:cut]


def test_a_call_that_matches_and_is_refused_is_answered_under_its_id() -> None:
    playbook = open_moving(on_change="refuse")
    playbook.play(f"""
        {LEARNED}
        >> server: 9 roots/list
        << host: 9 roots/list
        >> host: 9 = {{"roots":[{{"uri":"file:///elsewhere"}}]}}
        << server: 9 = …
    """)
    assert matches(playbook, '2 tools/call {"_meta":{"session":"s-1"}}')

    playbook.play("""
        >> host: 22 tools/call {"_meta":{"session":"s-1"}}
        << host: 22 refused … session s-1 in /elsewhere (the host's roots/list), …
        >> host: 23 tools/call {"_meta":{"session":"s-1"}}
        << host: 23 refused …
        >> host: notifications/cancelled {"requestId":22}
    """)
    assert playbook.broker.refusals == 2


def open_moving(**settings: Any) -> Playbook:
    """Return a playbook whose host has named the directory it works in."""
    playbook = Playbook(moves_unannounced=True, **settings)
    playbook.play(f"""
        {HANDSHAKE.rstrip()}
        << timer roots host: 0.1
        >> server: 8 roots/list
        << host: 8 roots/list
        >> host: 8 = {{"roots":[{{"uri":"file:///work/app"}}]}}
        << server: 8 = …
    """)
    return playbook


def test_a_call_that_matches_is_judged_again_when_the_host_has_moved() -> None:
    playbook = open_moving(on_change="restart")
    playbook.play(f"""
        {LEARNED}
        >> server: 9 roots/list
        << host: 9 roots/list
        >> host: 9 = {{"roots":[{{"uri":"file:///elsewhere"}}]}}
        << server: 9 = …
    """)
    assert matches(playbook, '2 tools/call {"_meta":{"session":"s-1"}}')

    playbook.play("""
        >> host: 2 tools/call {"_meta":{"session":"s-1"}}
        << timer drain server: 10
        << close input of server
        << end server: replaced
        >> gone server
        << start server in /elsewhere
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/1" initialize …
        >> host: 3 tools/call {"_meta":{"session":"s-1"}}
        >> server: "mcp-launch/L/1" = {}
        << server: notifications/initialized
        << server: 2 tools/call {"_meta":{"session":"s-1"}}
        << server: 3 tools/call {"_meta":{"session":"s-1"}}
        >> host: 4 tools/call {"_meta":{"session":"s-1"}}
        << server: 4 tools/call {"_meta":{"session":"s-1"}}
    """)


def test_a_call_that_matches_is_stamped_with_the_directory_of_the_moment() -> None:
    def describe(_served: Served, place: Found | None) -> dict[str, Any]:
        return {"in": place.value if place else "None"}

    playbook = open_moving(no_meta=False, on_change="follow", describe=describe)
    playbook.play("""
        >> host: 1 tools/call {"_meta":{"session":"s-1"}}
        << server: 1 …"in":"None"…
        >> host: 2 tools/call {"_meta":{"session":"s-1"}}
        << server: 2 …"in":"None"…
        >> server: 9 roots/list
        << host: 9 roots/list
        >> host: 9 = {"roots":[{"uri":"file:///elsewhere"}]}
        << server: 9 = …
        >> host: 3 tools/call {"_meta":{"session":"s-1"}}
        << server: 3 …"in":"/elsewhere"…
        >> server: 10 roots/list
        << host: 10 roots/list
        >> host: 10 = {"roots":[{"uri":"file:///work/app"}]}
        << server: 10 = …
        >> host: 4 tools/call {"_meta":{"session":"s-1"}}
        << server: 4 …"in":"None"…
    """)


@pytest.mark.parametrize("on_change", ["follow", "restart", "refuse"])
def test_a_call_of_another_session_never_matches(on_change: str) -> None:
    playbook = open_learned(on_change=on_change)

    assert not matches(playbook, '2 tools/call {"_meta":{"session":"s-2"}}')
    assert not matches(playbook, '2 tools/call {"_meta":{"session":"s-1","thread":"t"}}')


def test_a_call_that_matches_a_refused_one_is_refused_too() -> None:
    playbook = open_learned(on_change="refuse")

    playbook.play("""
        >> host: 2 tools/call {"_meta":{"session":"s-2"}}
        << host: 2 refused … session s-2, but this server serves session s-1…
        >> host: 3 tools/call {"_meta":{"session":"s-2"}}
        << host: 3 refused …
        >> host: 4 tools/call {"_meta":{"session":"s-1"}}
        << server: 4 tools/call {"_meta":{"session":"s-1"}}
    """)


def test_the_first_call_that_names_a_caller_is_not_taken_for_the_last_that_named_none() -> None:
    playbook = open_playbook(no_meta=False, on_change="refuse")
    playbook.play("""
        >> host: 1 tools/call {"_meta":{"session":"s-1"}}
        << server: 1 …"for":"session s-1"…
        >> host: 2 tools/call {"_meta":{"progressToken":2}}
        << server: 2 …"for":"session s-1"…
        >> host: 3 tools/call {"_meta":{"progressToken":3}}
        << server: 3 …
        >> host: 4 tools/call {"_meta":{"session":"s-2"}}
        << host: 4 refused …
    """)


def test_a_call_that_matches_waits_for_the_next_server() -> None:
    open_learned().play("""
        >> gone server
        << start server
        >> host: 2 tools/call {"_meta":{"session":"s-1"}}
        >> host: 3 tools/call {"_meta":{"session":"s-1"}}
        >> host: notifications/cancelled {"requestId":2}
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/1" initialize …
        >> server: "mcp-launch/L/1" = {}
        << server: notifications/initialized
        << server: 3 tools/call {"_meta":{"session":"s-1"}}
    """)


def test_a_call_that_matches_and_was_not_read_goes_to_the_next_server() -> None:
    playbook = open_learned()
    playbook.play("""
        >> host: 2 tools/call {"_meta":{"session":"s-1"}}
        << server: 2 tools/call {"_meta":{"session":"s-1"}}
        >> gone server | 2 tools/call {"_meta":{"session":"s-1"}}
        << start server
        >> started server
        << timer greeting server: 30
        << server: "mcp-launch/L/1" initialize …
        >> server: "mcp-launch/L/1" = {}
        << server: notifications/initialized
        << server: 2 tools/call {"_meta":{"session":"s-1"}}
    """)


def test_a_call_that_matches_under_an_id_in_use_is_answered_too() -> None:
    open_learned().play("""
        >> host: 2 tools/call {"_meta":{"session":"s-1"}}
        << server: 2 tools/call {"_meta":{"session":"s-1"}}
        >> host: 2 tools/call {"_meta":{"session":"s-1"}}
        << server: "mcp-launch/1" tools/call {"_meta":{"session":"s-1"}}
        >> server: "mcp-launch/1" = {}
        << host: 2 = {}
        >> server: 2 = {}
        << host: 2 = {}
    """)


@pytest.mark.parametrize("read_outer", [None, lambda: None, lambda: {"host": "claude"}])
@pytest.mark.parametrize("rest", [b',"name":"x"}}', b',"arguments":{"a":"\\n"}}}'])
def test_a_call_that_matches_is_stamped_like_one_that_is_parsed(
    read_outer: Any, rest: bytes
) -> None:
    line = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"session":"s-1"}'
    line += rest + b"\n"
    first, other = (open_playbook(no_meta=False, read_outer=read_outer) for _ in range(2))
    send(
        other,
        b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"_meta":{"session":"s-1"}}}\n',
    )
    assert other.broker.connections["host"].pattern.match(line)

    parsed, matched = send(first, line), send(other, line)

    assert matched == parsed
    assert ("outer" in str(matched)) == bool(read_outer and read_outer())


@pytest.mark.parametrize("read_outer", [None, lambda: None, lambda: {"host": "claude"}])
@pytest.mark.parametrize("rest", [b"} and so on", b'},"name":"t","arguments":{"k" "v"}}}'])
def test_a_call_that_begins_like_the_last_and_goes_on_with_anything_is_the_servers(
    rest: bytes, read_outer: Any
) -> None:
    """The server says what is wrong with it, and its death does not take us along."""
    playbook = open_playbook(no_meta=False, read_outer=read_outer)
    beginning = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{"session":"s-1"'
    send(playbook, beginning % 1 + b"}}}\n")

    assert send(playbook, beginning % 2 + rest + b"\n").endswith(rest + b"\n")
    assert send(playbook, beginning % 2 + rest + b"\n").endswith(rest + b"\n")
    playbook.broker.server_gone("server", b"", b"")

    sent = playbook.broker.take_commands()
    refusals = b"".join(one.data for one in sent if isinstance(one, commands.SendToHost))
    assert refusals.count(b'"id":2,"error"') == 2


@pytest.mark.parametrize(
    "rest",
    [
        b",'session':'s-2'},\"name\":\"t\"}}",
        b"}}}{id:12,method:'tools/call'}",
        b"}}}[{id:12,method:'tools/call'}]",
    ],
)
def test_a_call_that_begins_like_the_last_may_not_name_another_session_or_method(
    rest: bytes,
) -> None:
    playbook = open_playbook(no_meta=False)
    beginning = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{"session":"s-1"'
    send(playbook, beginning % 1 + b"}}}\n")

    playbook.broker.host_said("host", beginning % 2 + rest + b"\n")

    sent = playbook.broker.take_commands()
    reached = b"".join(one.data for one in sent if isinstance(one, commands.SendToServer))
    assert b"12" not in reached
    assert b"s-2" not in reached
    assert b"-32700" in b"".join(one.data for one in sent if isinstance(one, commands.SendToHost))


class Recorder:
    """A policy that reads every call."""

    def __init__(self) -> None:
        self.names: list[Any] = []

    def review(self, call: Call) -> bytes:
        self.names.append(protocol.get_member(call.parse(), "params", "name"))
        return call.line


def test_a_policy_can_read_a_call_that_matches() -> None:
    recorder = Recorder()
    open_learned(policies=(recorder,)).play("""
        >> host: 2 tools/call {"_meta":{"session":"s-1"},"name":"x"}
        << server: 2 tools/call {"_meta":{"session":"s-1"},"name":"x"}
    """)

    assert recorder.names == [None, "x"]


def open_pair() -> Playbook:
    """Return a playbook of a host with a server for each of two sessions."""
    playbook = Playbook(backends=("1", "2"))
    for name in ("1", "2"):
        backend = playbook.broker.backends[name]
        backend.connections.append("host")
        bound = Binding("confirmed", f"s-{name}", None, "a call")
        backend.served = Served(backend.served.context, bound, backend.served.plan)
    playbook.play("""
        >> started 1
        >> started 2
        >> host: 0 initialize
        << 1: 0 initialize
        >> 1: 0 = {}
        << host: 0 = {}
    """)
    for name in ("1", "2"):
        playbook.broker.backends[name].calls += 1
    return playbook


def test_a_call_that_matches_goes_to_the_server_of_its_session() -> None:
    playbook = open_pair()
    for number in range(1, 30):
        name = "12"[number % 3 == 0]
        playbook.play(f"""
            >> host: {number} tools/call {{"_meta":{{"session":"s-{name}"}}}}
            << {name}: {number} tools/call {{"_meta":{{"session":"s-{name}"}}}}
        """)

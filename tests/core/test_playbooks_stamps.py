"""The context that a server gets with each call, and whose it is."""

# ruff: noqa: E501  # what hosts are told is compared word for word

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from core_playbooks import Playbook, open_playbook
from fakes import make_context

from mcp_launch.broker.routing import Binding, Served

if TYPE_CHECKING:
    from mcp_launch.values import Found

KEY = "mcp-launch/context"


def describe(served: Served, place: Found | None) -> Any:
    """Describe a caller as the runtime does, in short."""
    bound = served.bound
    context = served.context.at(place) if place else served.context
    facts = {"session": bound.session, "thread": bound.thread, "cwd": context.place.value}
    return {name: fact for name, fact in facts.items() if fact} | {"binding": bound.state}


def open_stamped(**settings: Any) -> Playbook:
    """Return a playbook whose calls are stamped."""
    return open_playbook(no_meta=False, describe=describe, **settings)


def call(playbook: Playbook, meta: str = "", arguments: str = '"name":"x"') -> dict[str, Any]:
    """Return the context that the server gets with a call."""
    params = f'"_meta":{meta},{arguments}' if meta else arguments
    playbook.happen(f"host: 1 tools/call {{{params}}}")
    [(_, name, line)] = [one for one in playbook.core.out if one[0] == "send"]
    assert name.startswith("server")
    playbook.core.out.clear()
    said = json.loads(line)
    playbook.happen(f"server: {said['id']} = {{}}")
    playbook.take()
    context = said["params"]["_meta"][KEY]
    assert isinstance(context, dict)
    return context


def test_the_context_is_all_that_is_added() -> None:
    open_stamped().play("""
        >> host: 1 tools/call {"_meta":{"session":"s","progressToken":1},"name":"x"}
        << server: #a tools/call {"_meta":{"mcp-launch/context":{"session":"s","cwd":"/work/app","binding":"confirmed"},"session":"s","progressToken":#a},"name":"x"}
        >> host: 2 tools/call {"_meta":{},"name":"x"}
        << server: #b tools/call {"_meta":{"mcp-launch/context":{"session":"s",…}},"name":"x"}
        >> host: 3 tools/call {"_meta":5,"name":"x"}
        << server: #c tools/call {"_meta":{"mcp-launch/context":{"session":"s",…}},"name":"x"}
        >> host: 4 tools/call {}
        << server: #d tools/call {"_meta":{"mcp-launch/context":{"session":"s",…}}}
        >> host: 5 tools/call
        << server: #e tools/call
        >> host: 6 resources/read {"_meta":{"session":"s"},"uri":"u"}
        << server: #f resources/read {"_meta":{"session":"s"},"uri":"u"}
    """)


def test_a_call_belongs_to_the_session_that_it_names() -> None:
    playbook = open_stamped()

    assert call(playbook)["binding"] == "unbound"
    assert call(playbook, '{"session":"s","thread":"t"}')["thread"] == "t"
    assert call(playbook, '{"thread":"t"}')["session"] == "s"
    assert "session" not in call(playbook, '{"thread":"u"}')


def test_the_server_gets_the_directory_of_a_call() -> None:
    playbook = open_stamped()

    assert call(playbook, '{"session":"s","place":"/else"}')["cwd"] == "/else"
    assert call(playbook, '{"session":"s","place":"/work/app"}')["cwd"] == "/work/app"


def test_a_client_cannot_forge_the_context() -> None:
    playbook = open_stamped()
    forged = '{"session":"forged","thread":"t"}'

    context = call(playbook, f'{{"{KEY}":{forged},"session":"s"}}')

    assert context.pop("outer") == json.loads(forged)
    assert context == {"session": "s", "cwd": "/work/app", "binding": "confirmed"}
    assert playbook.server.served.bound.session == "s"
    assert "outer" not in call(playbook, f'{{"{KEY}":"forged","session":"s"}}')


def test_every_forged_context_is_replaced() -> None:
    context = '{"session":"s","cwd":"/work/app","binding":"confirmed"}'
    playbook = open_stamped()
    playbook.core.client_said(
        "host",
        b'{"id":1,"method":"tools/call","params":{"_meta":{"%b":1,"session":"s","%b":3}}}\n'
        % (KEY.encode(), rb"mcp\u002dlaunch/context"),
    )

    [line] = [one[2].decode() for one in playbook.core.out if one[0] == "send"]
    assert line.count(context) == 2
    assert json.loads(line)["params"]["_meta"] == {KEY: json.loads(context), "session": "s"}


def test_the_server_gets_the_whole_chain_of_launches() -> None:
    around = {"host": "claude", "outer": {"host": "vscode"}}
    playbook = open_stamped(read_outer=lambda: around)

    for _ in range(2):
        assert call(playbook, '{"session":"s"}')["outer"] == around
    assert call(playbook, f'{{"{KEY}":{{"host":"forged"}}}}')["outer"] == {"host": "forged"}


def test_a_call_that_names_nobody_is_the_connections_if_it_carries_one_session() -> None:
    playbook = open_stamped()
    call(playbook, '{"session":"s"}')

    assert call(playbook, '{"progressToken":1}')["session"] == "s"


def test_a_call_that_names_nobody_is_nobodys_once_a_connection_has_two_threads() -> None:
    playbook = open_stamped(carries="one thread")
    threads = [call(playbook, f'{{"session":"{one}","thread":"{one}"}}')["thread"] for one in "ab"]

    unknown = call(playbook, '{"progressToken":1}')

    assert threads == ["a", "b"]
    assert unknown == {"cwd": "/work/app", "binding": "unbound"}


def test_a_call_that_names_nobody_on_a_shared_connection_gets_no_session() -> None:
    playbook = open_stamped(carries="many sessions")
    first = call(playbook, '{"session":"a"}')
    unknown = call(playbook)
    second = call(playbook, '{"session":"b"}')

    assert (first["session"], second["session"]) == ("a", "b")
    assert unknown == {"cwd": "/work/app", "binding": "unbound"}


@pytest.mark.parametrize(
    ("carries", "is_told"),
    [("many sessions", False), ("one session at a time", True), ("one thread", True)],
)
def test_the_session_at_the_start_is_told_only_if_the_connection_is_its_own(
    carries: str, *, is_told: bool
) -> None:
    playbook = open_stamped(carries=carries)
    server = playbook.server
    bound = Binding("tentative", "s-1", None, "as it was at the start")
    server.served = Served(make_context(), bound, server.served.plan)

    assert ("session" in call(playbook)) == is_told


def test_a_call_that_has_waited_is_stamped_for_its_own_session() -> None:
    open_stamped(on_change="restart").play("""
        >> host: 1 tools/call {"_meta":{"session":"s-1"}}
        << server: #a tools/call {"_meta":{"mcp-launch/context":{"session":"s-1",…
        >> host: 2 tools/call {"_meta":{"session":"s-2"}}
        >> server: #a = {}
        << host: 1 = {}
        << end server: replaced
        << close server
        >> gone server
        << start server
        >> started server
        << server: #b tools/call {"_meta":{"mcp-launch/context":{"session":"s-2",…
        >> died server 3 | #b tools/call {"_meta":{"mcp-launch/context":{},"session":"s-2"}}
        << start server
        >> started server
        << server: #b tools/call {"_meta":{"mcp-launch/context":{"session":"s-2",…
    """)


class OfRecord:
    """A host whose record says which session it has; its calls do not."""

    origins = ("the host's record", "", "")
    names: tuple[str, ...] = ()
    is_in_request = False
    session: str | None = None

    def read(self, _meta: Any) -> Any:
        return (self.session, None, None) if self.session else None


def test_the_session_of_a_record_is_read_at_the_moment_of_the_call() -> None:
    callers = OfRecord()
    playbook = open_stamped(callers=callers)
    told = []
    for callers.session in ("s-1", "s-2", None):
        told.append(call(playbook)["session"])

    assert told == ["s-1", "s-2", "s-2"]


def test_lists_do_not_bind_if_only_a_record_names_the_session() -> None:
    """Claude Code requests them at the start, for a session that `--resume` may change."""
    callers = OfRecord()
    callers.session = "s-1"
    playbook = open_stamped(callers=callers)
    playbook.happen("host: 1 resources/list")
    assert playbook.server.served.bound.state == "unbound"

    playbook.happen("host: 2 resources/read")
    assert playbook.server.served.bound.session == "s-1"

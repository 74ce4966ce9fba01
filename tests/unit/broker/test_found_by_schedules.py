"""Failures that random schedules have found, each as a short sequence of events."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from broker_schedules import small_limits
from broker_setup import Setup
from broker_world import HOST, SERVER, World


def make_world(**changes: Any) -> World:
    """Return a world whose host and first server have completed the handshake."""
    world = make_world_before_handshake(**changes)
    host_sends(world, {"id": 0, "method": "initialize"})
    server_sends(world, {"id": 0, "result": {"capabilities": {}}})
    host_sends(world, {"method": "notifications/initialized"})
    world.from_us = b""
    return world


def make_world_before_handshake(**changes: Any) -> World:
    """Return a world whose first server runs, before the handshake."""
    setup = Setup(Random(0))  # noqa: S311  # every field is set below
    plain: dict[str, Any] = {
        "style": "codex",
        "on_change": "auto",
        "on_failure": "error",
        "restart": "on",
        "no_meta": True,
        "holds": "nothing",
        "moves_unannounced": False,
        "is_host_directory": False,
        "state": "unbound",
        "capacity": 1 << 30,
        "danger": 0.0,
        "remembers": False,
        "is_deferred": False,
        "answers_from_memory": False,
        "ignores_changes": False,
        "starts_when_called": False,
        "rests_after": 0.0,
    }
    vars(setup).update(plain | changes)
    world = World(setup, Random(0))  # noqa: S311
    world.start(fails=False)
    return world


def encode(*messages: Any) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in messages)


def host_sends(world: World, *messages: Any) -> None:
    """Send messages from the host."""
    world.to_us += encode(*messages)
    world.read_host(1 << 20)


def server_sends(world: World, *messages: Any, cut: int = 0) -> None:
    """Send messages from the server, without their last `cut` bytes."""
    data = encode(*messages)
    world.server.output += data[: len(data) - cut]
    world.read_server(1 << 20)


def list_host_messages(world: World) -> list[Any]:
    """Return the messages that the host got since the last time."""
    got, world.from_us = world.from_us, b""
    return [json.loads(line) for line in got.splitlines()]


def list_server_messages(world: World) -> list[Any]:
    """Return the messages that the server got."""
    return [json.loads(line) for line in world.server.received.splitlines()]


def end(world: World, *, reads: int = 1 << 20) -> None:
    """Let the server read some bytes, and die."""
    world.read_input(reads)
    world.kill(1)
    world.report_exit()
    world.report_gone()


def call(number: int, thread: str = "a") -> dict[str, Any]:
    params = {"name": "t", "_meta": {"threadId": thread}}
    return {"id": number, "method": "tools/call", "params": params}


def test_a_servers_cancellation_arrives_after_the_request_it_cancels() -> None:
    world = make_world()
    question = {"id": 1, "method": "ping"}
    cancelled = {"method": "notifications/cancelled", "params": {"requestId": 1}}

    server_sends(world, question, cancelled)

    assert list_host_messages(world) == [question, cancelled]


def test_every_request_of_a_batch_is_answered_when_there_is_no_server() -> None:
    world = make_world_before_handshake()
    end(world)

    host_sends(world, [{"id": 1, "method": "ping"}, call(2)])

    assert [[one["id"] for one in answers] for answers in list_host_messages(world)] == [[1, 2]]


def test_a_batch_that_waits_for_the_first_server_is_answered_if_it_cannot_be_started() -> None:
    world = make_world_before_handshake()
    broker = world.broker
    broker.backends[SERVER].state = "starting"
    world.server.stage = "starting"
    host_sends(world, [{"id": 1, "method": "ping"}])

    world.start(fails=True)

    assert [[one["id"] for one in answers] for answers in list_host_messages(world)] == [[1]]


def test_requests_from_a_server_that_dies_of_discovery_are_cancelled() -> None:
    world = make_world_before_handshake()
    host_sends(world, {"id": 1, "method": "server/discover"})
    server_sends(world, {"id": 7, "method": "ping"})
    end(world)

    got = list_host_messages(world)
    world.start(fails=False)
    host_sends(world, {"id": 7, "result": {}})

    assert got[-1]["method"] == "notifications/cancelled"
    assert got[-1]["params"]["requestId"] == 7
    assert list_server_messages(world) == []


def test_a_late_answer_to_our_own_request_reaches_no_server() -> None:
    world = make_world()

    host_sends(world, {"id": "mcp-launch/L/1", "result": {"roots": []}})

    assert all("result" not in one for one in list_server_messages(world))


def test_a_server_that_is_being_replaced_may_finish_the_line_it_is_writing() -> None:
    answer = {"id": 1, "result": {"text": "x" * 400}}
    end_of_line = encode(answer)[-20:]
    with small_limits():
        world = make_world(on_change="restart")
        host_sends(world, call(1), call(2, "b"))
        server_sends(world, answer, cut=20)
        world.pass_time()
        assert world.event == "timer drain server"
        world.server.output += end_of_line
        world.read_server(5)
        assert world.server.doomed_at is None

        world.read_server(100)

        assert world.server.doomed_at is not None
        assert list_host_messages(world) == [answer]


def test_a_long_answer_to_the_greeting_is_understood_in_pieces() -> None:
    answer = {"result": {"instructions": "x" * 400}, "id": 0}
    with small_limits():
        world = make_world_before_handshake()
        host_sends(world, {"id": 0, "method": "initialize"})
        data = encode(answer)
        for at in range(0, len(data), 100):
            world.server.output += data[at : at + 100]
            world.read_server(100)

        assert list_host_messages(world) == [answer]
        assert world.broker.connections[HOST].handshake.is_ready


def test_a_long_batch_of_answers_is_understood_in_pieces() -> None:
    answers = [{"id": 1, "result": {"text": "x" * 400}}, {"id": 2, "result": {}}]
    with small_limits():
        world = make_world()
        host_sends(world, [{"id": 1, "method": "ping"}, {"id": 2, "method": "ping"}])
        server_sends(world, answers, cut=30)
        world.server.output += encode(answers)[-30:]
        world.read_server(100)

        assert list_host_messages(world) == [answers]
        assert world.broker.backends[SERVER].requests.list_unfinished() == []


def test_a_new_server_gets_its_answer_before_it_has_answered_the_greeting() -> None:
    world = make_world()
    end(world)
    world.start(fails=False)
    server_sends(world, {"id": 1, "method": "ping"})
    asked = list_host_messages(world)[-1]

    host_sends(world, {"id": asked["id"], "result": {}})

    assert list_server_messages(world)[-1] == {"id": 1, "result": {}}


def test_a_broker_finishes_once() -> None:
    world = make_world()
    world.signal(15)
    world.pass_time()
    assert world.finished == [143]

    end(world)

    assert world.finished == [143]


@pytest.mark.parametrize("read", [0, 1])
def test_a_request_that_a_server_has_begun_to_read_reaches_no_other_server(read: int) -> None:
    world = make_world()
    world.read_input(1 << 20)
    host_sends(world, call(1))
    end(world, reads=read)
    world.start(fails=False)
    greeting = list_server_messages(world)[-1]
    server_sends(world, {"id": greeting["id"], "result": {}})

    calls = [one for one in list_server_messages(world) if one["method"] == "tools/call"]
    answers = [one for one in list_host_messages(world) if one.get("id") == 1]

    assert len(calls) == 1 - read
    assert len(answers) == read

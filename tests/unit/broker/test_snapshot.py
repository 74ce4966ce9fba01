"""Another broker goes on from the description of one without a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from broker_twins import list_differences
from remembered_servers import CALLED, CLIENT, GREETED, OFFERED, TOOLS, WOKEN, open_absent

from mcp_launch.broker import Broker, snapshot
from mcp_launch.errors import LaunchError

if TYPE_CHECKING:
    from broker_playbooks import Playbook

# Its server was called, and rests.
RESTED = f"""
    {GREETED}
    {CALLED.rstrip()}
    << timer rest server: 60
    >> server: 2 = {{}}
    << host: 2 = {{}}
    >> after 60
    >> timer rest server
    << close input of server
    << end server: rest
    >> exited server 143
    >> gone server
"""

# The first page of two, and the second.
PAGE = '{"tools":[{"name":"x"}],"nextCursor":"2"}'


def open_rested(script: str = "") -> Playbook:
    """Return a playbook whose server rests."""
    return open_absent(RESTED + script, rests_after=60.0)


def replace(playbook: Playbook, *, may_run: bool = False) -> None:
    """Let another broker go on."""
    described = json.loads(json.dumps(snapshot.describe(playbook.broker, may_run=may_run)))
    before = playbook.broker
    playbook.broker = Broker(before.settings)
    playbook.broker.now = before.now
    playbook.broker.connect("host")
    playbook.broker.open_backend("server", playbook.first)
    snapshot.restore(playbook.broker, described, before.settings.plan_for)
    assert not list(list_differences(before, playbook.broker))


@pytest.mark.parametrize("script", [GREETED, RESTED], ids=["never started", "resting"])
def test_a_broker_without_a_server_can_be_replaced(script: str) -> None:
    playbook = open_absent(script, rests_after=60.0)

    replace(playbook)

    playbook.play(f"""
        >> host: 3 tools/list
        << host: 3 = {TOOLS}
        >> host: 4 tools/call {{"name":"x"}}
        << start server
    """)


def test_our_own_requests_go_on_counting() -> None:
    playbook = open_rested()

    replace(playbook)

    playbook.play(f"""
        >> host: 4 tools/call {{"name":"x"}}
        << start server
        >> started server
        << timer greeting server: 120
        << server: "mcp-launch/L/3" initialize {CLIENT}
        >> server: "mcp-launch/L/3" = {OFFERED}
        << timer remember host: 1
        << server: notifications/initialized
        << server: "mcp-launch/L/4" tools/list
        << timer compare server: 2
    """)


def test_a_failed_start_is_not_repeated_too_soon_by_another_broker() -> None:
    playbook = open_absent()
    playbook.plan_problem = "no such directory"
    playbook.play_event('host: 2 tools/call {"name":"x"}')
    playbook.take()

    playbook.plan_problem = ""
    replace(playbook)

    playbook.play_event('host: 3 tools/call {"name":"x"}')
    assert "no such directory" in "".join(playbook.take())


@pytest.mark.parametrize(
    "script",
    [
        GREETED + WOKEN,
        GREETED + '>> host: 2 tools/call {"name":"x"}\n<< start server',
        GREETED + ">> signal 15\n<< signal server: 15\n<< timer leave: 0.45\n<< finish 143",
    ],
    ids=["a server runs", "a server is being started", "it was told to end"],
)
def test_there_is_no_snapshot_while_something_goes_on(script: str) -> None:
    assert snapshot.describe(open_absent(script, rests_after=60.0).broker) is None


def open_running(script: str = "") -> Playbook:
    """Return a playbook whose server runs, and has nothing to do."""
    return open_absent(
        f"""
        {GREETED}
        {CALLED.rstrip()}
        << timer rest server: 60
        >> server: 2 = {{}}
        << host: 2 = {{}}
        {script}
        """,
        rests_after=60.0,
    )


def test_a_broker_with_an_idle_server_can_be_replaced() -> None:
    playbook = open_running()

    replace(playbook, may_run=True)

    playbook.play("""
        >> host: 4 tools/call {"name":"x"}
        << server: 4 tools/call {"name":"x"}
        >> server: 4 = {}
        << host: 4 = {}
    """)


@pytest.mark.parametrize(
    "script",
    [
        '>> host: 4 tools/call {"name":"x"}\n<< server: 4 tools/call {"name":"x"}',
        ">> exited server 1",
    ],
    ids=["it is called", "it has ended"],
)
def test_there_is_no_snapshot_while_a_server_is_busy_or_has_ended(script: str) -> None:
    assert snapshot.describe(open_running(script).broker, may_run=True) is None


def test_there_is_no_snapshot_in_the_middle_of_a_line_of_a_server() -> None:
    playbook = open_running()

    playbook.broker.server_said("server", b'{"jsonrpc":"2.0",')

    assert snapshot.describe(playbook.broker, may_run=True) is None


def test_there_is_no_snapshot_in_the_middle_of_a_line() -> None:
    playbook = open_rested()

    playbook.broker.host_said("host", b'{"jsonrpc":"2.0",')

    assert snapshot.describe(playbook.broker) is None


def test_there_is_no_snapshot_if_memory_does_not_have_what_the_host_has() -> None:
    playbook = open_rested()

    [memory] = playbook.broker.connections["host"].memories.values()
    del memory.answers["tools/list", b""]

    assert snapshot.describe(playbook.broker) is None


@pytest.mark.parametrize("count", [1, 2])
def test_all_pages_of_a_list_are_known_to_another_broker(count: int) -> None:
    playbook = open_absent("")
    playbook.play(GREETED)
    broker = playbook.broker
    [memory] = broker.connections["host"].memories.values()
    memory.answers["tools/list", b""] = f'{{"result":{PAGE}}}'.encode()
    memory.answers["tools/list", b'"2"'] = f'{{"result":{TOOLS}}}'.encode()
    playbook.play(f">> host: 2 tools/list\n<< host: 2 = {PAGE}")
    if count > 1:
        playbook.play(f'>> host: 3 tools/list {{"cursor":"2"}}\n<< host: 3 = {TOOLS}')

    replace(playbook)

    known = playbook.broker.backends["server"].requests.lists["tools/list"]
    assert len(known.pages) == count


def test_a_directory_that_is_gone_is_reported() -> None:
    playbook = open_rested()
    described = snapshot.describe(playbook.broker)
    assert described
    described["context"]["place"] = ["Found", "/gone", "the host's roots/list"]
    playbook.plan_problem = "/gone does not exist"

    with pytest.raises(LaunchError, match="/gone does not exist"):
        snapshot.restore(playbook.broker, described, playbook.broker.settings.plan_for)

"""The two tables of the core, row by row: what becomes of a server, and who gets a request."""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from core_setup import Setup
from fakes import make_context

from mcp_launch.broker.core import Core
from mcp_launch.broker.life import EVENTS, LIFE, STATES
from mcp_launch.broker.routing import ROUTES, RULES, Binding, Rule, Served, route
from mcp_launch.launch.plan import Plan
from mcp_launch.values import Found

if TYPE_CHECKING:
    from mcp_launch.broker.server import Server
    from mcp_launch.hosts import Carries, State

# How each state is reached by events alone, for a server that no client waits for.
WAYS = {
    "absent": [],
    "starting": ["needed"],
    "greeting": ["needed", "started"],
    "ready": ["needed", "started", "greeted"],
    "draining": ["needed", "started", "greeted", "unfit"],
    "ending": ["needed", "started", "greeted", "idle"],
}

GREETING = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":'
    b'{"protocolVersion":"1","capabilities":{},"clientInfo":{"name":"x"}}}\n'
)
CALL = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}\n'


def make_core() -> tuple[Core, Server]:
    setup = Setup(Random(1))  # noqa: S311  # no secret
    setup.danger = setup.trouble = 0.0
    setup.mode, setup.is_pool, setup.rule, setup.moves = "plain", False, "follow", False
    setup.is_deferred = setup.is_shared = False
    core = Core(setup.make_settings())
    server = core.open_server(setup.serve())
    core.client_joined("host")
    return core, server


def reach(state: str) -> tuple[Core, Server]:
    """Return a server in a state, with a client that has greeted; a draining one is at work."""
    core, server = make_core()
    if state == "absent":
        return core, server
    core.client_said("host", GREETING)
    if state == "starting":
        return core, server
    core.server_started("server", 5)
    if state == "greeting":
        return core, server
    core.server_said("server", b'{"jsonrpc":"2.0","id":2,"result":{"capabilities":{}}}\n')
    if state == "draining":
        core.client_said("host", CALL)
        core.happen(server, "unfit")
    elif state == "ending":
        core.happen(server, "idle")
    return core, server


@pytest.mark.parametrize("state", STATES)
def test_every_state_is_reached(state: str) -> None:
    _, server = reach(state)
    assert server.state == state


NO_ROWS = sorted({*itertools.product(STATES, EVENTS)} - LIFE.keys())


@pytest.mark.parametrize(("state", "event"), NO_ROWS, ids=" ".join)
def test_an_event_without_a_row_changes_nothing(state: str, event: str) -> None:
    core, server = reach(state)
    core.out.clear()
    before = (server.waiting.copy(), server.owes.copy(), server.why_absent, core.timers.next)
    core.happen(server, event)
    assert server.state == state
    assert core.out == []
    assert before == (server.waiting, server.owes, server.why_absent, core.timers.next)


def test_the_table_has_only_known_states_and_events_and_no_state_is_a_dead_end() -> None:
    assert LIFE.keys() <= {*itertools.product(STATES, EVENTS)}
    assert {event for _, event in LIFE} == EVENTS.keys()
    for state in STATES:
        found, new = {state}, {state}
        while new:
            new = {to for (old, _), (to, _) in LIFE.items() if old in new} - found
            found |= new
        assert found == {*STATES}, f"from {state}"


# What each row leads to at once; some actions have the next event happen themselves.
STEPS = [
    ("absent", "needed", "starting", {"start"}),
    ("starting", "started", "greeting", {"send"}),
    ("greeting", "greeted", "ready", {"send"}),
    ("greeting", "failed", "ending", {"end"}),
    ("ready", "hailed", "greeting", {"send"}),
    ("ready", "unfit", "ending", {"close", "end"}),
    ("ready", "idle", "ending", {"close", "end"}),
    ("draining", "drained", "ending", {"close", "end"}),
]


@pytest.mark.parametrize(
    ("state", "event", "after", "verbs"), STEPS, ids=[f"{one[0]} {one[1]}" for one in STEPS]
)
def test_a_row_has_its_action(state: str, event: str, after: str, verbs: set[str]) -> None:
    core, server = reach(state)
    core.out.clear()
    if event == "greeted":
        core.server_said("server", b'{"jsonrpc":"2.0","id":2,"result":{"capabilities":{}}}\n')
    else:
        core.happen(server, event)
    assert server.state == after
    assert verbs <= {verb for verb, name, _ in core.out if name == "server"}


@pytest.mark.parametrize("state", [one for one in STATES if (one, "gone") in LIFE])
def test_a_server_that_is_gone_is_absent_or_followed_by_another(state: str) -> None:
    core, server = reach(state)
    core.out.clear()
    core.server_exited("server", 1)
    core.server_gone("server", [], b"")
    is_followed = "start" in [verb for verb, *_ in core.out]
    assert server.state == ("starting" if is_followed else "absent")
    assert not server.owes


# Whose a server is and what is wrong in its environment, by whether it was called, whose it was
# proven to be, and what its environment holds; written down without the table.
CARRIES: list[Carries] = ["one thread", "one session at a time", "many sessions"]
PROVEN: list[State] = ["unbound", "tentative", "confirmed"]
HELD = ["nothing", "default", "requested"]
ON_CHANGE = ["auto", "follow", "restart", "refuse", "isolate"]
COLUMNS: list[Any] = [PROVEN, CARRIES, HELD, ON_CHANGE, [True, False], [True, False]]


class Candidate:
    """A server that may get the request of `t-mine` in `s-mine`."""

    def __init__(self, state: State, held: str, *, is_mine: bool, was_never_called: bool) -> None:
        whose = "mine" if is_mine else "other"
        plan = Plan(["srv"], Found("/work/app", "inherited"), {})
        if held != "nothing":
            plan.held.add("session", "s-wrong", is_requested=held == "requested")
        bound = Binding(state, f"s-{whose}", f"t-{whose}", "")
        self.served = self.to_serve = Served(make_context(), bound, plan)
        self.was_never_called = was_never_called


def expect(  # noqa: PLR0913, PLR0917  # the columns
    state: str, carries: str, held: str, on_change: str, is_mine: bool, is_new: bool
) -> str:
    """Return what to do with a request, in words instead of a table."""
    is_proven = state == "confirmed"
    if is_new and (on_change == "auto" or not is_proven):
        return "deliver" if held == "nothing" else "restart"
    if is_mine or not is_proven:
        return "restart" if held == "requested" else "deliver"
    if on_change == "auto":
        if held != "requested":
            return "deliver"
        return "restart" if carries == "one session at a time" else "open"
    return {"follow": "deliver", "isolate": "open"}.get(on_change, on_change)


def test_every_request_is_routed_as_the_words_say() -> None:
    claimed = Binding("confirmed", "s-mine", "t-mine", "the call")
    actions = set()
    for state, carries, held, on_change, is_mine, is_new in itertools.product(*COLUMNS):
        one: Any = Candidate(state, held, is_mine=is_mine, was_never_called=is_new)
        action, server = route(claimed, [one], Rule(carries, on_change))
        wanted = expect(state, carries, held, on_change, is_mine, is_new)
        assert (action, server) == (wanted, one), (state, carries, held, on_change, is_mine, is_new)
        actions.add(action)
    assert actions == {*RULES.values()}
    assert {*ROUTES.values()} == {"deliver", "restart", "by rule"}


def test_of_several_servers_the_callers_own_comes_first_then_one_that_is_nobodys() -> None:
    claimed = Binding("confirmed", "s-mine", "t-mine", "the call")
    own: Any = Candidate("confirmed", "nothing", is_mine=True, was_never_called=False)
    other: Any = Candidate("confirmed", "nothing", is_mine=False, was_never_called=False)
    free: Any = Candidate("unbound", "nothing", is_mine=False, was_never_called=True)
    rule = Rule("many sessions", "isolate")
    for servers in itertools.permutations([own, other, free]):
        assert route(claimed, servers, rule) == ("deliver", own)
        others = [one for one in servers if one is not own]
        assert route(claimed, others, rule) == ("deliver", free)
    assert route(claimed, [other], rule) == ("open", other)

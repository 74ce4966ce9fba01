"""The tables of routing and of a backend's states: complete, and as their docstrings say."""

from __future__ import annotations

import inspect
import itertools
import json
from typing import TYPE_CHECKING

import pytest
from broker_playbooks import Playbook, Store
from fakes import make_context

from mcp_launch.broker import backend, routing
from mcp_launch.broker.routing import Binding, Rule, Served, route
from mcp_launch.launch.plan import IdentityInEnvironment, Plan
from mcp_launch.protocol.memory import Remembered, name_client
from mcp_launch.values import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.hosts import Carries, State


def read_table(text: str, first_column: str) -> list[list[str]]:
    """Return the cells of the table whose header begins with this column, row by row."""
    lines = inspect.cleandoc(text).splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {first_column} |"))
    table = itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


# Routing

STATES: list[State] = ["unbound", "tentative", "confirmed"]
CARRIES: list[Carries] = ["one thread", "one session at a time", "many sessions"]
WRONG = ["nothing", "default", "requested"]
ON_CHANGE = ["auto", "follow", "restart", "refuse", "isolate"]


class Case:
    """One combination of everything that routing depends on."""

    def __init__(  # noqa: PLR0913  # the columns
        self,
        state: State,
        carries: Carries,
        wrong: str,
        on_change: str,
        *,
        is_same: bool,
        was_never_called: bool,
    ) -> None:
        self.state = state
        self.carries = carries
        self.wrong = wrong
        self.on_change = on_change
        self.is_same = is_same
        self.was_never_called = was_never_called
        self.is_sessions_own = False
        plan = Plan(["srv"], Found("/work/app", "inherited"), {})
        plan.held = IdentityInEnvironment()
        if wrong != "nothing":
            plan.held.add("session", "s-wrong", is_requested=wrong == "requested")
        which = "same" if is_same else "other"
        self.is_ready = True
        self.served = self.to_serve = Served(
            make_context(), Binding(state, f"s-{which}", f"t-{which}", "evidence"), plan
        )

    def route(self) -> str:
        claimed = Binding("confirmed", "s-same", "t-same", "the call")
        return route(claimed, [self], Rule(self.carries, self.on_change))[0]

    @property
    def kind(self) -> str:
        is_settled = self.on_change != "auto"
        if self.was_never_called and not (self.state == "confirmed" and is_settled):
            return "unclaimed"
        is_mine = self.state != "confirmed" or self.is_same
        return "the caller's, or not confirmed" if is_mine else "another caller's"

    def __str__(self) -> str:
        return str({name: value for name, value in vars(self).items() if name != "served"})


def list_cases() -> Iterator[Case]:
    booleans = itertools.product([True, False], repeat=2)
    columns = itertools.product(STATES, CARRIES, WRONG, ON_CHANGE, booleans)
    for state, carries, wrong, on_change, (is_same, was_never_called) in columns:
        yield Case(
            state,
            carries,
            wrong,
            on_change,
            is_same=is_same,
            was_never_called=was_never_called,
        )


CARRIED: dict[str, set[str]] = {
    "any": set(CARRIES),
    "one session at a time": {"one session at a time"},
    "threads, or many sessions": {"one thread", "many sessions"},
}
WRONGS = {
    "any": set(WRONG),
    "nothing": {"nothing"},
    "anything": {"default", "requested"},
    "nothing, or a default variable": {"nothing", "default"},
    "a requested variable": {"requested"},
}


def choose_action(case: Case, on_change: str, action: str) -> str:
    """Return what a row of the docstring says; nothing if the row does not match this case."""
    choices = on_change.split(" · ")
    actions = action.split(" · ")
    if on_change == "any":
        return action
    if case.on_change not in choices:
        return ""
    return actions[choices.index(case.on_change)]


def test_every_request_is_routed_as_exactly_one_row_of_the_table_says() -> None:
    rows = read_table(str(route.__doc__), "the server is")
    used = set()
    for case in list_cases():
        said = [
            (number, action)
            for number, (kind, carries, wrong, on_change, cell) in enumerate(rows)
            if kind == case.kind
            and case.carries in CARRIED[carries]
            and case.wrong in WRONGS[wrong]
            and (action := choose_action(case, on_change, cell))
        ]
        assert [action for _, action in said] == [case.route()], case
        used.add(said[0][0])
    assert used == set(range(len(rows))), "a row matches no request"


def test_of_several_servers_the_callers_own_gets_the_request_then_an_unclaimed_one() -> None:
    kinds: list[tuple[State, bool, bool]] = [
        ("confirmed", True, False),
        ("confirmed", False, False),
        ("unbound", False, True),
    ]
    own, other, unclaimed = (
        Case(
            state,
            "many sessions",
            "nothing",
            "isolate",
            is_same=is_same,
            was_never_called=was_never_called,
        )
        for state, is_same, was_never_called in kinds
    )
    claimed, rule = (
        Binding("confirmed", "s-same", "t-same", ""),
        Rule("many sessions", "isolate"),
    )

    assert route(claimed, [other, unclaimed, own], rule) == ("deliver", own)
    assert route(claimed, [other, unclaimed], rule) == ("deliver", unclaimed)
    assert route(claimed, [other], rule) == ("open", other)


@pytest.mark.parametrize("on_change", ON_CHANGE)
def test_a_call_from_another_directory_is_routed_for_every_on_change(on_change: str) -> None:
    action = routing.route_place(is_elsewhere=True, rule=Rule("many sessions", on_change))

    assert action in {"deliver", "restart", "refuse"}


# The states of a backend


CALL = ">> host: 1 tools/call {}"
OF_S1 = '>> host: 1 tools/call {"_meta":{"session":"s-1"}}'
OF_S2 = '>> host: 2 tools/call {"_meta":{"session":"s-2"}}'

READY = [
    ">> started server",
    '>> host: 0 initialize {"capabilities":{"roots":{}}}',
    ">> server: 0 = {}",
    ">> host: notifications/initialized",
    ">> server: 5 roots/list",
    '>> host: 5 = {"roots":[]}',
    OF_S1,
]
STARTING_AGAIN = [*READY, ">> gone server"]
GREETING = [*STARTING_AGAIN, ">> started server"]
DRAINING = [*READY, OF_S2]

# How each state is reached.
WAYS: dict[str, list[str]] = {
    "starting": [],
    "starting again": STARTING_AGAIN,
    "greeting": GREETING,
    "ready": READY,
    "holding": [*READY, ">> host: notifications/roots/list_changed", CALL.replace("1", "3")],
    "draining": DRAINING,
    "ending": [*DRAINING, ">> timer drain server"],
    "lost": [*READY, ">> input closed by server"],
    "failed": [*GREETING, ">> timer greeting server"],
    "absent": [*READY, ">> signal 15", ">> gone server"],
}

EVENTS: dict[str, list[str]] = {
    "started": [">> started server"],
    "start failed": [">> start failed server"],
    "answered": ['>> server: "mcp-launch/L/1" = {}'],
    "refused": ['>> server: "mcp-launch/L/1" error -32600 no'],
    "the greeting's timer": [">> timer greeting server"],
    "hold": [">> host: notifications/roots/list_changed", '>> host: 8 tools/call {"name":"x"}'],
    "release": ['>> host: "mcp-launch/L/1" = {"roots":[]}'],
    "input broken": [">> input closed by server"],
    "restart for another": [OF_S2],
    "restart on request": [">> restart requested"],
    "last answer": [">> server: 1 = {}"],
    "the drain's timer": [">> timer drain server"],
    "gone": [">> gone server"],
    # The following events change no state.
    "a request": [">> host: 9 ping"],
    "a notification": [">> host: notifications/x"],
    "a batch": ['>> host: [{"id":9,"method":"ping"}]'],
    "a cancellation": ['>> host: notifications/cancelled {"requestId":1}'],
    "an answer to nobody": [">> host: 77 = {}"],
    "half a line": [">> host: b'{\"id\"'"],
    "noise": [">> server: b'noise\\n'"],
    "a server's request": [">> server: 6 sampling/createMessage"],
    "output closed": [">> output closed by server"],
    "exited": [">> exited server 1"],
    "input ended": [">> host closed host"],
    "host lost": [">> host lost now"],
    "reader lost": [">> reader lost host"],
    "bytes moved": [">> bytes moved"],
    "signal": [">> signal 15"],
}

IMPOSSIBLE = "impossible"
_RUNS = ["greeting", "ready", "holding", "draining", "ending", "lost"]
_STARTS_ONCE = ["absent", "failed", *_RUNS]
_TIMED = [state for state in WAYS if state not in {"greeting", "draining"}]

# The next state, if it differs from the last. The runtime reports each start once, each end of
# a started server once, and only timers that are set.
NEXT: dict[tuple[str, str], str] = {
    **{(state, "started"): IMPOSSIBLE for state in _STARTS_ONCE},
    **{(state, "start failed"): IMPOSSIBLE for state in _STARTS_ONCE},
    **{(state, "the greeting's timer"): IMPOSSIBLE for state in [*_TIMED, "draining"]},
    **{(state, "the drain's timer"): IMPOSSIBLE for state in [*_TIMED, "greeting"]},
    **{(state, "gone"): "starting" for state in _RUNS},  # it becomes absent, and is started again
    ("starting", "started"): "ready",
    ("starting again", "started"): "greeting",
    ("starting", "start failed"): "failed",
    ("starting again", "start failed"): "failed",
    ("greeting", "answered"): "ready",
    ("greeting", "refused"): "failed",
    ("greeting", "the greeting's timer"): "failed",
    ("ready", "hold"): "holding",
    ("holding", "release"): "ready",
    ("ready", "input broken"): "lost",
    ("holding", "input broken"): "lost",
    ("ready", "restart for another"): "draining",
    ("ready", "restart on request"): "draining",
    ("draining", "last answer"): "ending",
    ("draining", "a cancellation"): "ending",  # of the last open request
    ("draining", "the drain's timer"): "ending",
    ("failed", "gone"): "absent",
    ("starting", "gone"): IMPOSSIBLE,
    ("starting again", "gone"): IMPOSSIBLE,
    ("absent", "gone"): IMPOSSIBLE,
}


# States that a server is in while memory stands in for it: how each is reached, and the next
# state after an event.
CLIENT = '{"protocolVersion":"1","capabilities":{},"clientInfo":{"name":"h"}}'
RECALLED = [f">> host: 0 initialize {CLIENT}", ">> host: notifications/initialized"]
WOKEN = [*RECALLED, CALL]
GREETED = [*WOKEN, ">> started server"]
WAYS_WITHOUT_SERVER: dict[str, list[str]] = {
    "absent": RECALLED,
    "starting": WOKEN,
    "greeting": GREETED,
    "ready": [*GREETED, '>> server: "mcp-launch/L/1" = {}', ">> server: 1 = {}"],
}
NEXT_WITHOUT_SERVER: dict[tuple[str, str], str] = {
    ("absent", "a request that memory cannot answer"): "starting",
    ("absent", "restart after failure"): "starting",
    ("absent", "restart on request"): "absent",
    ("absent", "ping"): "absent",
    ("absent", "signal"): "absent",
    ("absent", "input ended"): "absent",
    ("starting", "started"): "greeting",
    ("starting", "start failed"): "absent",
    ("starting", "a request that memory cannot answer"): "starting",
    ("greeting", "answered"): "ready",
    ("greeting", "refused"): "ending",
    ("greeting", "the greeting's timer"): "ending",
    ("greeting", "gone"): "absent",
    ("ready", "rest"): "ending",
    ("ready", "gone"): "absent",
}
EVENTS_WITHOUT_SERVER: dict[str, list[str]] = {
    **EVENTS,
    "a request that memory cannot answer": ['>> host: 9 tools/call {"name":"y"}'],
    "restart after failure": [CALL, ">> start failed server", ">> restart requested"],
    "ping": [">> host: 9 ping"],
    "rest": [">> after 60", ">> timer rest server"],
}


def make_store() -> Store:
    """Return a store that knows one server."""
    client = name_client({"method": "initialize", "params": json.loads(CLIENT)})
    tools = b'{"result":{"tools":[{"name":"x"}]}}'
    answers = {("initialize", b""): b'{"result":{}}', ("tools/list", b""): tools}
    return Store(Remembered(client, 0.0, answers))


@pytest.mark.parametrize(("state", "event"), NEXT_WITHOUT_SERVER)
def test_memory_stands_in_for_a_server_as_the_table_says(state: str, event: str) -> None:
    playbook = Playbook(handshakes=make_store(), is_started=False, rests_after=60.0)
    assert play_events(playbook, WAYS_WITHOUT_SERVER[state]) == state

    assert play_events(playbook, EVENTS_WITHOUT_SERVER[event]) == NEXT_WITHOUT_SERVER[state, event]


def test_a_server_that_is_late_is_greeted_again() -> None:
    playbook = Playbook(handshakes=make_store(), answers_from_memory=True)
    reached = play_events(playbook, [">> started server", f">> host: 0 initialize {CLIENT}"])
    assert reached == "ready"

    assert play_events(playbook, [">> timer patience host"]) == "greeting"


def play_events(playbook: Playbook, events: list[str]) -> str:
    """Return the state after these events."""
    for event in events:
        playbook.play_event(event.removeprefix(">> "))
        playbook.take()
    return playbook.broker.backends["server"].state


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", WAYS)
def test_every_event_in_every_state_of_a_backend_leads_to_the_state_in_the_table(
    state: str, event: str
) -> None:
    playbook = Playbook(on_change="restart", moves_unannounced=True)
    reached = play_events(playbook, WAYS[state])
    assert reached == state.removesuffix(" again")
    follows = NEXT.get((state, event), reached)
    if follows != IMPOSSIBLE:
        assert play_events(playbook, EVENTS[event]) == follows
    elif event.endswith("timer"):
        assert EVENTS[event][0].removeprefix(">> timer ") not in playbook.timers


def test_the_docstring_lists_the_same_transitions_of_a_backend() -> None:
    """Each of its rows is in the table above, and vice versa."""
    described = set()
    for states, events, then in read_table(str(backend.__doc__), "state"):
        ways = then.split("→")
        for state, event in itertools.product(states.split(", "), events.split(", or ")):
            described |= {(state, event, way.split(";")[0].strip()) for way in ways[1:]}
    timers = {"greeting": "the greeting's timer", "draining": "the drain's timer"}
    described = {
        (state, timers[state] if event == "the timer" else event, follows)
        for state, event, follows in described
    }
    known = {
        (state.removesuffix(" again"), event, follows)
        for (state, event), follows in NEXT.items()
        if follows != IMPOSSIBLE and event != "gone"
    }
    known |= {
        (state, event, follows)
        for (state, event), follows in NEXT_WITHOUT_SERVER.items()
        if follows != state and event != "gone"
    }
    known -= {("draining", "a cancellation", "ending")}  # it counts as the last answer
    known |= {("any", "gone", "absent"), ("ready", "late", "greeting")}

    assert described == known

"""Which session a call belongs to, and what to do with it: the table, row by row."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from fakes import make_context

from mcp_launch.broker import routing
from mcp_launch.broker.routing import Binding, Rule, Served
from mcp_launch.launch.plan import IdentityInEnvironment, Plan
from mcp_launch.values import Found

if TYPE_CHECKING:
    from mcp_launch.hosts import Carries, State

ONE_THREAD: Carries = "one thread"
ONE_AT_A_TIME: Carries = "one session at a time"
MANY: Carries = "many sessions"
ALL: list[Carries] = [ONE_THREAD, ONE_AT_A_TIME, MANY]
NOT_CONFIRMED: list[State] = ["unbound", "tentative"]

CLAIMED = Binding("confirmed", "s-new", "t-new", "the call")


def bound(state: State, session: str | None = "s-old", thread: str | None = "t-old") -> Binding:
    return Binding(state, session, thread, "evidence")


def held(kind: str) -> IdentityInEnvironment:
    """Return what an environment holds: nothing, the right values, or wrong ones."""
    values = IdentityInEnvironment()
    if kind == "right":
        values.add("thread", "t-new", is_requested=True)
        values.add("session", "s-new", is_requested=False)
    elif kind != "nothing":
        values.add("thread", "t-old", is_requested=kind == "requested")
        values.add("session", "s-old", is_requested=kind == "requested")
    return values


class Server:
    """A server that may get a request."""

    def __init__(self, before: Binding, environment: str, *, was_never_called: bool) -> None:
        plan = Plan(["srv"], Found("/work/app", "inherited"), {})
        plan.held = held(environment)
        self.served = self.to_serve = Served(make_context(), before, plan)
        self.is_ready = True
        self.was_never_called = was_never_called
        self.is_sessions_own = False


def judge(
    before: Binding,
    carries: Carries,
    environment: str,
    *,
    was_never_called: bool,
    on_change: str = "auto",
) -> str:
    server = Server(before, environment, was_never_called=was_never_called)
    action, chosen = routing.route(CLAIMED, [server], Rule(carries, on_change))
    assert chosen is server
    return action


@pytest.mark.parametrize("on_change", ["auto", "follow", "restart", "refuse"])
@pytest.mark.parametrize("carries", ALL)
@pytest.mark.parametrize("state", NOT_CONFIRMED)
def test_before_the_first_call_only_a_wrong_environment_requires_another_server(
    state: State, carries: Carries, on_change: str
) -> None:
    for environment, action in [
        ("nothing", "deliver"),
        ("right", "deliver"),
        ("default", "restart"),
        ("requested", "restart"),
    ]:
        verdict = judge(
            bound(state), carries, environment, was_never_called=True, on_change=on_change
        )
        assert verdict == action, environment


@pytest.mark.parametrize("carries", ALL)
@pytest.mark.parametrize("environment", ["nothing", "right", "default"])
def test_a_changed_session_is_followed_unless_its_variable_was_asked_for(
    carries: Carries, environment: str
) -> None:
    action = judge(bound("confirmed"), carries, environment, was_never_called=False)
    assert action == "deliver"


@pytest.mark.parametrize(
    ("carries", "action"), [(ONE_THREAD, "open"), (ONE_AT_A_TIME, "restart"), (MANY, "open")]
)
def test_a_session_whose_variable_was_asked_for_gets_a_server_with_the_right_one(
    carries: Carries, action: str
) -> None:
    assert judge(bound("confirmed"), carries, "requested", was_never_called=False) == action


@pytest.mark.parametrize(
    ("on_change", "action"),
    [("follow", "deliver"), ("restart", "restart"), ("refuse", "refuse"), ("isolate", "open")],
)
def test_on_change_decides_about_a_call_of_another_session(on_change: str, action: str) -> None:
    for carries, environment in itertools.product(ALL, ["nothing", "default", "requested"]):
        before = bound("confirmed")
        verdict = judge(before, carries, environment, was_never_called=False, on_change=on_change)
        assert verdict == action


@pytest.mark.parametrize("on_change", ["auto", "follow", "restart", "refuse"])
@pytest.mark.parametrize("carries", ALL)
def test_a_call_of_the_same_session_is_delivered(carries: Carries, on_change: str) -> None:
    for environment in ("nothing", "right"):
        same = bound("confirmed", "s-new", "t-new")
        assert (
            judge(same, carries, environment, was_never_called=False, on_change=on_change)
            == "deliver"
        )


@pytest.mark.parametrize("carries", ALL)
def test_a_replacement_server_has_no_state_to_lose_before_its_first_call(carries: Carries) -> None:
    for environment, action in [("nothing", "deliver"), ("default", "restart")]:
        assert judge(bound("confirmed"), carries, environment, was_never_called=True) == action
        refused = judge(
            bound("confirmed"), carries, environment, was_never_called=True, on_change="refuse"
        )
        assert refused == "refuse"


def test_another_session_of_the_same_thread_is_not_a_misdelivery() -> None:
    before = bound("confirmed", "s-old", "t-new")

    assert judge(before, ONE_THREAD, "nothing", was_never_called=False) == "deliver"


@pytest.mark.parametrize("carries", ALL)
def test_calls_that_name_no_caller_do_not_bind(carries: Carries) -> None:
    """A server that was called keeps its state, unless an identity variable was requested."""
    for environment, action in [("default", "deliver"), ("requested", "restart")]:
        verdict = judge(bound("tentative"), carries, environment, was_never_called=False)
        assert verdict == action


def test_a_call_that_names_only_its_thread_keeps_the_session() -> None:
    claimed = routing.bind_by_call(bound("tentative"), (None, "t-old", None), "the call")
    assert (claimed.state, claimed.session, claimed.thread) == ("confirmed", "s-old", "t-old")

    claimed = routing.bind_by_call(bound("tentative"), (None, "t-new", None), "the call")
    assert (claimed.state, claimed.session, claimed.thread) == ("confirmed", None, "t-new")


@pytest.mark.parametrize(
    ("on_change", "action"),
    [("auto", "deliver"), ("follow", "deliver"), ("restart", "restart"), ("refuse", "refuse")],
)
def test_on_change_decides_about_a_call_from_another_directory(on_change: str, action: str) -> None:
    for carries in ALL:
        rule = Rule(carries, on_change)
        assert routing.route_place(is_elsewhere=True, rule=rule) == action
        assert routing.route_place(is_elsewhere=False, rule=rule) == "deliver"


@pytest.mark.parametrize(
    ("on_change", "action"),
    [("auto", "restart"), ("follow", "deliver"), ("restart", "restart"), ("refuse", "refuse")],
)
def test_a_server_in_its_hosts_directory_is_replaced_by_one_in_the_sessions(
    on_change: str, action: str
) -> None:
    rule = Rule(ONE_AT_A_TIME, on_change, is_host_directory=True)

    assert routing.route_place(is_elsewhere=True, rule=rule) == action
    assert routing.route_place(is_elsewhere=False, rule=rule) == "deliver"


@pytest.mark.parametrize(
    ("binding", "text"),
    [
        (Binding("confirmed", "s", "t", ""), "thread t"),
        (Binding("confirmed", "s", None, ""), "session s"),
        (Binding("unbound", None, None, ""), "an unknown session"),
    ],
)
def test_a_binding_can_be_described(binding: Binding, text: str) -> None:
    assert str(binding) == text

"""Whose call is it, and what becomes of it: the table, row by row."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from mcp_launch.broker import routing
from mcp_launch.broker.routing import Binding
from mcp_launch.launch.plan import IdentityInEnvironment

if TYPE_CHECKING:
    from mcp_launch.hosts import Carries, State

ONE_THREAD: Carries = "one thread"
ONE_AT_A_TIME: Carries = "one session at a time"
MANY: Carries = "many sessions"
ALL: list[Carries] = [ONE_THREAD, ONE_AT_A_TIME, MANY]
NOT_CONFIRMED: list[State] = ["unbound", "tentative"]

TOLD = Binding("confirmed", "s-new", "t-new", "the call")


def bound(state: State, session: str | None = "s-old", thread: str | None = "t-old") -> Binding:
    return Binding(state, session, thread, "evidence")


def held(kind: str) -> IdentityInEnvironment:
    """Return what an environment holds: nothing, what is right, or what is not."""
    values = IdentityInEnvironment()
    if kind == "right":
        values.add("thread", "t-new", is_requested=True)
        values.add("session", "s-new", is_requested=False)
    elif kind != "nothing":
        values.add("thread", "t-old", is_requested=kind == "requested")
        values.add("session", "s-old", is_requested=kind == "requested")
    return values


def judge(
    before: Binding,
    carries: Carries,
    environment: str,
    *,
    is_fresh: bool,
    on_change: str = "",
) -> str:
    return routing.judge(
        before,
        TOLD,
        carries=carries,
        held=held(environment),
        is_fresh=is_fresh,
        on_change=on_change,
    )


@pytest.mark.parametrize("on_change", ["", "follow", "restart", "refuse"])
@pytest.mark.parametrize("carries", ALL)
@pytest.mark.parametrize("state", NOT_CONFIRMED)
def test_before_the_first_call_only_a_wrong_environment_needs_another_server(
    state: State, carries: Carries, on_change: str
) -> None:
    for environment, action in [
        ("nothing", "deliver"),
        ("right", "deliver"),
        ("default", "restart"),
        ("requested", "restart"),
    ]:
        verdict = judge(bound(state), carries, environment, is_fresh=True, on_change=on_change)
        assert verdict == action, environment


@pytest.mark.parametrize("environment", ["nothing", "right", "default", "requested"])
def test_a_call_of_another_thread_on_one_threads_connection_is_refused(environment: str) -> None:
    for is_fresh in (True, False):
        assert judge(bound("confirmed"), ONE_THREAD, environment, is_fresh=is_fresh) == "refuse"


@pytest.mark.parametrize("carries", [ONE_AT_A_TIME, MANY])
@pytest.mark.parametrize(
    ("environment", "action"),
    [
        ("nothing", "deliver"),
        ("right", "deliver"),
        ("default", "deliver"),
        ("requested", "restart"),
    ],
)
def test_a_changed_session_is_followed_unless_its_variable_was_asked_for(
    carries: Carries, environment: str, action: str
) -> None:
    assert judge(bound("confirmed"), carries, environment, is_fresh=False) == action


@pytest.mark.parametrize(
    ("on_change", "action"),
    [("follow", "deliver"), ("restart", "restart"), ("refuse", "refuse")],
)
def test_what_was_chosen_for_a_change_is_done(on_change: str, action: str) -> None:
    for carries, environment in itertools.product(ALL, ["nothing", "default", "requested"]):
        before = bound("confirmed")
        verdict = judge(before, carries, environment, is_fresh=False, on_change=on_change)
        assert verdict == action


@pytest.mark.parametrize("on_change", ["", "follow", "restart", "refuse"])
@pytest.mark.parametrize("carries", ALL)
def test_what_has_not_changed_is_delivered(carries: Carries, on_change: str) -> None:
    for environment in ("nothing", "right"):
        same = bound("confirmed", "s-new", "t-new")
        assert judge(same, carries, environment, is_fresh=False, on_change=on_change) == "deliver"


@pytest.mark.parametrize("carries", [ONE_AT_A_TIME, MANY])
def test_a_server_in_anothers_place_has_no_state_before_its_first_call(carries: Carries) -> None:
    for environment, action in [("nothing", "deliver"), ("default", "restart")]:
        assert judge(bound("confirmed"), carries, environment, is_fresh=True) == action
        refused = judge(bound("confirmed"), carries, environment, is_fresh=True, on_change="refuse")
        assert refused == "refuse"


def test_another_session_of_the_same_thread_is_no_misdelivery() -> None:
    before = bound("confirmed", "s-old", "t-new")

    assert judge(before, ONE_THREAD, "nothing", is_fresh=False) == "deliver"


@pytest.mark.parametrize("carries", ALL)
def test_calls_that_named_nobody_do_not_bind(carries: Carries) -> None:
    """A server that has worked keeps its state, unless it asked for an identity."""
    for environment, action in [("default", "deliver"), ("requested", "restart")]:
        verdict = judge(bound("tentative"), carries, environment, is_fresh=False)
        assert verdict == action


def test_a_call_that_tells_only_its_thread_keeps_the_session() -> None:
    told = routing.bind_by_call(bound("tentative"), (None, "t-old", None), "the call")
    assert (told.state, told.session, told.thread) == ("confirmed", "s-old", "t-old")

    told = routing.bind_by_call(bound("tentative"), (None, "t-new", None), "the call")
    assert (told.state, told.session, told.thread) == ("confirmed", None, "t-new")


@pytest.mark.parametrize(
    ("on_change", "action"),
    [("", "deliver"), ("follow", "deliver"), ("restart", "restart"), ("refuse", "refuse")],
)
def test_another_directory_is_noted_or_handled_as_chosen(on_change: str, action: str) -> None:
    assert routing.judge_place(is_elsewhere=True, on_change=on_change) == action
    assert routing.judge_place(is_elsewhere=False, on_change=on_change) == "deliver"


@pytest.mark.parametrize(
    ("whom", "text"),
    [
        (Binding("confirmed", "s", "t", ""), "thread t"),
        (Binding("confirmed", "s", None, ""), "session s"),
        (Binding("unbound", None, None, ""), "an unknown session"),
    ],
)
def test_a_binding_can_be_described(whom: Binding, text: str) -> None:
    assert str(whom) == text

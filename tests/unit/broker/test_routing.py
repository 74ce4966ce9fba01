"""Which session a call belongs to, and what to do with it: every combination, row by row."""

from __future__ import annotations

import inspect
import itertools
from typing import TYPE_CHECKING

import pytest
from fakes import make_context

from mcp_launch.broker.routing import Binding, Rule, Served, bind_by_call, route, route_place
from mcp_launch.launch.plan import IdentityInEnvironment, Plan
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


def test_another_session_of_the_same_thread_is_not_a_misdelivery() -> None:
    case = Case("confirmed", "one thread", "nothing", "auto", is_same=False, was_never_called=False)
    case.served.bound.thread = "t-same"

    assert case.route() == "deliver"


def test_a_call_that_names_only_its_thread_keeps_the_session() -> None:
    claimed = bind_by_call(
        Binding("tentative", "s-old", "t-old", ""), (None, "t-old", None), "the call"
    )
    assert (claimed.state, claimed.session, claimed.thread) == ("confirmed", "s-old", "t-old")

    claimed = bind_by_call(
        Binding("tentative", "s-old", "t-old", ""), (None, "t-new", None), "the call"
    )
    assert (claimed.state, claimed.session, claimed.thread) == ("confirmed", None, "t-new")


@pytest.mark.parametrize(
    ("on_change", "action"),
    [("auto", "deliver"), ("follow", "deliver"), ("restart", "restart"), ("refuse", "refuse")],
)
def test_on_change_decides_about_a_call_from_another_directory(on_change: str, action: str) -> None:
    for carries in CARRIES:
        rule = Rule(carries, on_change)
        assert route_place(is_elsewhere=True, rule=rule) == action
        assert route_place(is_elsewhere=False, rule=rule) == "deliver"


@pytest.mark.parametrize(
    ("on_change", "action"),
    [("auto", "restart"), ("follow", "deliver"), ("restart", "restart"), ("refuse", "refuse")],
)
def test_a_server_in_its_hosts_directory_is_replaced_by_one_in_the_sessions(
    on_change: str, action: str
) -> None:
    rule = Rule("one session at a time", on_change, is_host_directory=True)

    assert route_place(is_elsewhere=True, rule=rule) == action
    assert route_place(is_elsewhere=False, rule=rule) == "deliver"

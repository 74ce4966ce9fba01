"""The tables of the core are in the documentation as the code has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generated_docs import HELP, check, mark

from mcp_launch.broker.life import EVENTS, LIFE
from mcp_launch.broker.routing import ROUTES, RULES, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from mcp_launch.hosts import Carries

THIS = "tests/core/test_documented_tables.py"

CARRIES: list[Carries] = ["one thread", "one session at a time", "many sessions"]


def format_table(*rows: Iterable[str]) -> str:
    """Return rows, of which the first one is the head, as Markdown."""
    head, *others = [list(row) for row in rows]
    lines = [head, ["---"] * len(head), *others]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def test_the_life_of_a_server_is_documented(pytestconfig: pytest.Config) -> None:
    rows = []
    for event, meaning in EVENTS.items():
        before: dict[str, list[str]] = {}  # by what follows
        for (state, happened), (after, action) in LIFE.items():
            if happened == event:
                before.setdefault(f"{after} (`{action}`)", []).append(state)
        steps = "; ".join(f"{', '.join(states)} → {then}" for then, states in before.items())
        rows.append((f"`{event}`", meaning, steps))
    table = format_table(("event", "meaning", "state before → after (action)"), *rows)

    check(pytestconfig, mark(THIS, "the life of a server"), table, HELP / "layout.md")


def test_the_routes_of_requests_are_documented(pytestconfig: pytest.Config) -> None:
    owners, wrongs = (list(dict.fromkeys(parts)) for parts in zip(*ROUTES, strict=True))
    routes = [(whose, *(ROUTES[whose, wrong] for wrong in wrongs)) for whose in owners]
    table = format_table(("the server is", *(f"wrong: {one}" for one in wrongs)), *routes)

    check(pytestconfig, mark(THIS, "which server gets a request"), table, HELP / "sessions.md")


def test_the_rules_of_on_change_are_documented(pytestconfig: pytest.Config) -> None:
    wrongs = list(dict.fromkeys(wrong for _, wrong in ROUTES))
    named = {f"`auto`, {carries}": Rule(carries, "auto") for carries in CARRIES}
    named |= {f"`{name}`": Rule(CARRIES[0], name) for name in RULES}
    rules = [
        (name, *(rule.choose(wrong) for wrong in wrongs), rule.place)
        for name, rule in named.items()
    ]
    head = ("`--on-change`", *(f"wrong: {one}" for one in wrongs), "elsewhere")

    made = format_table(head, *rules)
    check(pytestconfig, mark(THIS, "what `--on-change` does"), made, HELP / "sessions.md")

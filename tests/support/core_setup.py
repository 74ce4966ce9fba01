"""The settings of one random world: hosts, rules and limits, and a memory that outlives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fakes import make_context

from mcp_launch.broker.commands import Settings
from mcp_launch.broker.routing import Served, bind_at_start
from mcp_launch.errors import LaunchError, ServerFailed
from mcp_launch.hosts import Callers
from mcp_launch.launch.plan import Plan
from mcp_launch.protocol.memory import Remembered
from mcp_launch.values import Found

if TYPE_CHECKING:
    from random import Random

    from mcp_launch.hosts import Caller
    from mcp_launch.launch.context import Context

HOME = "/p/home"
ROOTS = {"roots": [{"uri": "file:///p/pool"}]}


class InMeta(Callers):
    """The caller is named in the `_meta` of each request."""

    origins = ("the call's session", "the call's thread", "the call's directory")
    names = ("session", "thread", "place")

    def read(self, meta: dict[str, Any]) -> Caller | None:
        named = [meta.get(name) for name in self.names]
        session, thread, place = (one if isinstance(one, str) else None for one in named)
        return (session, thread, place) if session or thread or place else None


class Store:
    """What is kept on disk of the answers of earlier servers."""

    def __init__(self) -> None:
        self.kept: dict[str, Remembered] = {}
        self.is_old = False

    def read(self, client: str, now: float) -> Remembered | None:
        kept = self.kept.get(client)
        if kept is None:
            return None
        memory = Remembered(client, min(kept.written, now), dict(kept.answers))
        memory.is_due = self.is_old
        return memory

    def claim_check(self, client: str) -> None:
        assert client in self.kept

    def keep(self, memory: Remembered) -> None:
        self.kept[memory.client] = Remembered(memory.client, memory.written, dict(memory.answers))


class Setup:
    """What one world is like."""

    def __init__(self, dice: Random) -> None:
        choose = dice.choice
        self.dice = dice
        self.mode = choose(["plain", "plain", "isolate", "pool"])
        self.is_pool = self.mode == "pool"
        self.rule = choose(["auto", "follow", "restart", "refuse"])
        self.rule = {"plain": self.rule, "isolate": "isolate", "pool": "follow"}[self.mode]
        self.carries = choose(["one thread", "one session at a time", "many sessions"])
        self.holds = choose(["nothing", "nothing", "default", "requested"])
        self.names_places = not self.is_pool and choose([False, False, True])
        self.is_shared = self.mode == "plain" and choose([False, False, True])
        self.restarts = choose([True, True, True, False])
        self.limit = choose([2, 3, 8]) if self.mode == "isolate" or self.rule == "auto" else 1
        self.moves = not self.is_pool and choose([False, False, True])
        self.danger = choose([0.0, 0.0, 0.03, 0.15])  # how often a server or its start fails
        self.era = choose(["2025", "2025", "2026"])
        self.trouble = choose([0.0, 0.1]) if self.danger else 0.0  # how often there is no plan
        self.has_pages = choose([False, False, True])
        self.is_prompt = choose([False, True])  # servers are slow, or answer at once
        self.is_deferred = not self.is_pool and choose([False, True])
        self.store = Store()
        self.store.is_old = choose([False, True])
        known = {"session": Found("s-A", "a variable")} if choose([False, False, True]) else {}
        self.context = make_context(place=Found(HOME, "inherited"), **known)

    def make_settings(self) -> Settings:
        choose = self.dice.choice
        given: dict[str, Any] = {
            "server": "srv",
            "callers": Callers() if self.is_pool else InMeta(),
            "carries": self.carries,
            "plan_for": self.plan_for,
            "is_inside": lambda place, roots: any(
                f"{place}/".startswith(f"{one}/") for one in roots
            ),
            "describe": lambda served, _: {"for": [served.bound.session, served.bound.thread]},
            "explain_end": lambda code, when, _: f"ended with {code} {when}",
            "explain_early_end": lambda code, _: ServerFailed("no luck", fix="f", exit_code=code),
            "records_calls": True,
            "on_change": self.rule,
            "server_limit": self.limit,
            "restarts": self.restarts,
            "is_shared": self.is_shared,
            "handshakes": choose([None, self.store, self.store]),
            "answers_from_memory": choose([False, True]),
            "ignores_changes": choose([False, True]),
            "starts_when_called": self.is_deferred,
            "on_failure": choose(["error", "error", "tool", "call"]),
            "moves_unannounced": self.moves,
            "call_timeout": choose([0.0, 0.0, 40.0]),
            "max_concurrent": choose([0, 0, 1, 2]),
            "rests_after": choose([0.0, 0.0, 8.0]),
            "rest_anyway": choose([False, True]),
            "is_directory": lambda _: True,
            "find_state": lambda _: choose(["", "", "a socket"]),
        }
        if self.is_pool:
            given |= {"returns_unread": True, "no_meta": True, "roots": ROOTS}
            given |= {"in_flight": choose([128, 3]), "rests_after": 0.0, "on_failure": "error"}
        return Settings(**given)

    def serve(self) -> Served:
        return Served(self.context, bind_at_start(self.context.identity), self._plan(self.context))

    def plan_for(self, context: Context, place: Found | None) -> tuple[Context, Plan]:
        if self.dice.random() < self.trouble:
            raise LaunchError("there is no plan", fix="try again")
        context = context.at(place) if place is not None else context
        return context, self._plan(context)

    def _plan(self, context: Context) -> Plan:
        plan = Plan(["srv"], context.place, {})
        if self.holds != "nothing" and isinstance(context.session, Found):
            session = context.session.value
            plan.environ["SESSION"] = session
            plan.held.add("session", session, is_requested=self.holds == "requested")
        return plan

    def name_caller(self, meta: dict[str, Any]) -> str | None:
        """Return whom a call is for; None if it names nobody."""
        return cast("str | None", meta.get("thread" if self.carries == "one thread" else "session"))

    @property
    def keeps_callers_apart(self) -> bool:
        """Whether a server may only ever work for one caller."""
        return self.rule in {"isolate", "restart", "refuse"}

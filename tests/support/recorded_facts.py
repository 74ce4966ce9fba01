"""What a recorded launch was started with: its settings, its context, its plan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fakes import make_context

from mcp_launch import errors, hosts
from mcp_launch.broker.commands import Settings
from mcp_launch.broker.routing import Binding, Served
from mcp_launch.hosts import Callers
from mcp_launch.launch.context import is_inside
from mcp_launch.launch.plan import Plan
from mcp_launch.runtime import describe_context
from mcp_launch.runtime.streams import explain_early_end, explain_end
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from playbooks import Playbook, Step

    from mcp_launch.broker.routing import PlanFor
    from mcp_launch.hosts import Caller
    from mcp_launch.launch.context import Context
    from mcp_launch.protocol.json_text import Json


class RecordedCallers(Callers):
    """Reads the callers that the host's own record named."""

    is_in_request = False

    def __init__(self, origins: list[str], read: Callable[[], Caller | None]) -> None:
        session, thread, place = origins
        self.origins = (session, thread, place)
        self._read = read

    def read(self, meta: dict[str, Json]) -> Caller | None:
        assert isinstance(meta, dict)
        return self._read()


def make_served(head: dict[str, Any]) -> Served:
    """Return whom the first server was started for."""
    bound = head["binding"]
    binding = Binding(bound["state"], bound["session"], bound["thread"], bound["evidence"])
    return Served(remake_context(head, head["context"]), binding, make_plan(head["plan"]))


def make_settings(
    playbook: Playbook, plan_for: PlanFor, read_caller: Callable[[], Caller | None]
) -> Settings:
    """Return the settings of the recorded launch."""
    head, profile = playbook.head, playbook.head["profile"]
    context = remake_context(head, head["context"])
    callers = context.follow_callers()
    if not head["callers"]["is_in_request"]:
        callers = RecordedCallers(head["callers"]["origins"], read_caller)
    outer = _find_outer(playbook.steps)
    server = profile["server"]
    return Settings(
        server=server,
        launch=context.launch.value,
        carries=head["host"]["carries"],
        callers=callers,
        plan_for=plan_for,
        is_inside=is_inside,
        describe=describe_context,
        explain_end=explain_end,
        explain_early_end=lambda code, words: explain_early_end(server, code, words),
        read_outer=(lambda: outer) if outer else None,
        on_change=profile["on_change"],
        restart=profile["restart"],
        cwd=profile["cwd"],
        moves_unannounced=head["host"]["moves_unannounced"],
        no_meta=profile["no_meta"],
    )


def remake_context(head: dict[str, Any], recorded: dict[str, Any]) -> Context:
    """Return a context of the recorded launch."""
    names = ("launch", "host", "host_pid", "session", "thread", "place", "project_root")
    facts = {name: _make_fact(recorded[name]) for name in (*names, "inherited_cwd")}
    return make_context(
        **facts,
        facts=hosts.load(head["host"]["name"]),
        home=recorded["home"],
        host_homes=recorded["host_homes"],
    )


def _make_fact(recorded: Any) -> Found | Missing:
    return Found(*recorded) if isinstance(recorded, list) else Missing(recorded["searched"])


def make_plan(recorded: dict[str, Any]) -> Plan:
    """Return a plan that was decided."""
    plan = Plan(["server"], Found(*recorded["cwd"]), {})
    plan.place_note = recorded["place_note"]
    for source, value, is_requested in recorded["held"]:
        plan.held.add(source, value, is_requested=is_requested)
    return plan


def make_error(recorded: dict[str, Any]) -> errors.LaunchError:
    """Return an error that was raised."""
    error: errors.LaunchError = getattr(errors, recorded["type"])(
        recorded["problem"], fix=recorded["fix"]
    )
    error.exit_code = recorded["exit_code"]
    return error


def _find_outer(steps: list[Step]) -> Json:
    """Return what a launch around this one said, by what the server was told of it."""
    said = b"".join(step.value for step in steps if step.party == "host" and step.verb == "data")
    if b"mcp-launch/context" in said:
        return None
    for step in steps:
        is_sent = not step.is_input and step.party == "server-1" and step.verb == "data"
        if is_sent and b'"outer":' in step.value:
            context = json.loads(step.value)["params"]["_meta"]["mcp-launch/context"]
            outer: Json = context["outer"]
            return outer
    return None

"""The values of a launch as JSON: what stands in a playbook's head and in its steps."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from mcp_launch import broker, runtime
from mcp_launch.broker import calls, replacement, routing, server_messages
from mcp_launch.runtime import failed_launch, loop, relay, streams
from mcp_launch.system import guardian, guardian_process
from mcp_launch.values import Found, Missing, Variable

if TYPE_CHECKING:
    from mcp_launch.errors import LaunchError
    from mcp_launch.hosts import Callers, HostIdentity
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.plan import Plan
    from mcp_launch.launch.profile import Profile

_MODULES = (
    *(broker, calls, replacement, server_messages),
    *(runtime, failed_launch, loop, relay, streams, guardian, guardian_process),
)

_OF_HOST = (
    *("name", "title", "carries", "is_known", "told_later", "session_variable"),
    *("thread_variable", "moves_unannounced", "keeps_variables_from_servers"),
)

_OF_CONTEXT = (
    *("launch", "host", "host_pid", "session", "thread", "place", "project_root"),
    *("inherited_cwd", "home", "host_homes", "contradiction"),
)

_OF_LEASE = (
    *("context", "place_note", "binding", "calls", "refusals", "opened_with", "noise"),
    *("restarts", "roots", "outer", "last_call"),
)


def describe_head(wanted: Profile, found: Context, callers: Callers, plan: Plan) -> dict[str, Any]:
    """Return the head of a playbook, but for the test's name."""
    return {
        "profile": {name: _simplify(getattr(wanted, name)) for name in wanted.__slots__},
        "host": {name: getattr(found.facts, name) for name in _OF_HOST},
        "callers": describe_callers(callers),
        "context": describe_context(found),
        "binding": _describe_binding(found),
        "identity": {"is_guess": found.identity.is_guess},
        "default_variables": _list_defaults(found.facts, found),
        "plan": describe_plan(plan),
        "constants": list_constants(),
        "streams": [_name_kind(fd) for fd in range(3)],
        "pids": {
            "launcher": os.getpid(),
            "parent": os.getppid(),
            "host": int(getattr(found.host_pid, "value", 0)),
        },
    }


def describe_callers(callers: Callers) -> dict[str, Any]:
    """Return how requests name their callers."""
    return {
        "is_in_request": callers.is_in_request,
        "telling": callers.telling,
        "origins": callers.origins,
    }


def describe_context(found: Context) -> dict[str, Any]:
    """Return the facts, each with its origin."""
    return {name: _simplify(getattr(found, name)) for name in _OF_CONTEXT}


def describe_plan(plan: Plan) -> dict[str, Any]:
    """Return what distinguishes one server's start from another's."""
    return {
        "cwd": _simplify(plan.cwd),
        "place_note": plan.place_note,
        "held": _simplify(plan.held._values),  # noqa: SLF001  # there is no other way to see it
        "set": {name: [plan.environ[name], why] for name, why in plan.set_variables.items()},
        "unset": plan.unset_variables,
        "kept_back": plan.kept_back,
    }


def describe_error(error: LaunchError) -> dict[str, Any]:
    """Return what stops a launch, and the requests that it leaves unanswered."""
    facts = {
        "type": type(error).__name__,
        "problem": error.problem,
        "fix": error.fix,
        "exit_code": error.exit_code,
    }
    if error.pending or error.unfinished:
        facts["pending"] = [line.decode(errors="surrogateescape") for line in error.pending]
        facts["unfinished"] = error.unfinished.decode(errors="surrogateescape")
    return facts


def describe_lease(learned: dict[str, Any]) -> dict[str, Any]:
    """Return what the core has learned: no times, and nothing of the processes."""
    facts = {name: learned[name] for name in _OF_LEASE if name in learned}
    return {**facts, "last_call": facts.get("last_call") is not None}


def list_constants() -> dict[str, float]:
    """Return every limit, as it is in this launch."""
    return {
        f"{module.__name__.removeprefix('mcp_launch.')}.{name}": value
        for module in _MODULES
        for name, value in vars(module).items()
        if name.isupper() and type(value) in {int, float}
    }


def _describe_binding(found: Context) -> dict[str, Any]:
    bound = routing.bind_at_start(found.identity)
    return {name: getattr(bound, name) for name in sorted(bound.__slots__)}


def _list_defaults(facts: HostIdentity, found: Context) -> dict[str, Any]:
    return {
        name: _simplify(value)
        for name, value in facts.default_variables(found.session, found.thread).items()
    }


def _simplify(value: Any) -> Any:
    if isinstance(value, Found):
        return [value.value, value.origin]
    if isinstance(value, Missing):
        return {"searched": value.searched}
    if isinstance(value, Variable):
        return {name: getattr(value, name) for name in value.__slots__}
    if isinstance(value, dict):
        return {name: _simplify(one) for name, one in value.items()}
    return [_simplify(one) for one in value] if isinstance(value, list | tuple) else value


def _name_kind(fd: int) -> str:
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode):
        return "pipe"
    if stat.S_ISSOCK(mode):
        return "socket"
    return "terminal" if os.isatty(fd) else "other"

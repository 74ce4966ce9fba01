"""What differs between two sessions of a server, and so says nothing about it."""

from __future__ import annotations

from fakes import make_context

from mcp_launch.launch import profile
from mcp_launch.launch.plan import Plan, drop_session_variables
from mcp_launch.values import Found


def drop(environ: dict[str, str], *options: str) -> dict[str, str]:
    wanted = profile.load([*options, "--", "srv"], {"HOME": "/nowhere"})
    plan = Plan(["srv"], Found("/work/app", "inherited"), environ)
    return drop_session_variables(wanted, make_context(), plan)


def test_variables_that_name_the_session_are_dropped() -> None:
    environ = {"MCP_LAUNCH_ID": "L", "WHO": "a session", "WHERE": "/work/app"}
    options = ("--env", "WHO=session", "--env", "WHERE=cwd")

    assert drop(environ, *options) == {"WHERE": "/work/app"}

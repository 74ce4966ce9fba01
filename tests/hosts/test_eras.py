"""Both eras of the protocol, with the hosts that speak them."""

from __future__ import annotations

import pytest
from hosts import claude
from hosts.codex_and_claude import HOSTS
from hosts.workspace import SERVER, Workspace, promise

VERSION = "io.modelcontextprotocol/protocolVersion"


def test_a_server_of_2026_learns_the_session_of_a_call(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    claude.configure(workspace, workspace.wrap([*SERVER, "--modern"]))

    claude.run(workspace, project)

    [sight] = workspace.wait_for_observations(1)
    assert sight.meta[VERSION] == "2026-07-28"
    promise(sight.context.get("sessionId") == sight.asker, "no call carries its session id")
    workspace.check(sight, project)


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_server_of_2025_learns_the_session_of_a_call(workspace: Workspace, host: str) -> None:
    project = workspace.make_project("project")
    HOSTS[host].configure(workspace, workspace.wrap(SERVER))

    HOSTS[host].run(workspace, project)

    [sight] = workspace.wait_for_observations(1)
    assert VERSION not in sight.meta
    told = sight.meta.get("threadId", sight.context.get("sessionId"))
    promise(told == sight.asker, "no call carries its session id")
    workspace.check(sight, project)

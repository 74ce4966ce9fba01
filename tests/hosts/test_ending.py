"""However a host ends, no server process is left; on a normal exit servers may finish."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hosts.codex_and_claude import HOSTS
from hosts.fake_models import LIMIT
from hosts.survivors import ROLES, list_survivors
from hosts.workspace import SERVER, Workspace, promise

if TYPE_CHECKING:
    from launches import LivenessSocket


@pytest.mark.parametrize("host", list(HOSTS))
def test_nothing_is_left_when_a_host_is_killed_while_a_hostile_server_works(
    workspace: Workspace, liveness: LivenessSocket, host: str
) -> None:
    project = workspace.make_project("project")
    command = [*SERVER, "--liveness", liveness.path, "hostile"]
    HOSTS[host].configure(workspace, workspace.wrap(command))
    called = threading.Event()
    workspace.models.before_call = called.set

    process = HOSTS[host].run(workspace, project, words="call mcp__probe__wait {}")
    liveness.wait_for(*ROLES)
    assert called.wait(LIMIT)
    process.kill()
    process.wait(LIMIT)

    promise(not list_survivors(liveness), "the server and everything it started live on")


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_server_may_finish_when_its_host_ends(
    workspace: Workspace, liveness: LivenessSocket, host: str
) -> None:
    project = workspace.make_project("project")
    command = [*SERVER, "--liveness", liveness.path, "slow"]
    HOSTS[host].configure(workspace, workspace.wrap(command))

    # No call, and so no end, before all processes have connected.
    met = threading.Event()
    workspace.models.before_call = partial(met.wait, LIMIT)

    process = HOSTS[host].run(workspace, project)
    liveness.wait_for(*ROLES)
    met.set()
    assert process.wait(LIMIT) == 0

    survivors = list_survivors(liveness)
    assert "server" not in survivors
    promise(
        liveness.read_until_end("server") == b"finished", "the server is killed before it finished"
    )
    promise(not survivors, "what the server started lives on")

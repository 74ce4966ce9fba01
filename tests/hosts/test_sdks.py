"""Programs that run many sessions through an SDK: every call is served for its own session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hosts.fake_models import LIMIT
from hosts.sdks import LOOK, PROGRAMS, VARIABLES, SdkProgram
from hosts.survivors import ROLES, list_survivors
from hosts.workspace import SERVER, Workspace, promise

if TYPE_CHECKING:
    from launches import LivenessSocket


@pytest.mark.parametrize("sdk", list(PROGRAMS))
def test_four_sessions_of_one_program_have_servers_that_know_them(
    workspace: Workspace, sdk: str
) -> None:
    projects = [workspace.make_project(name) for name in ("one", "two")] * 2
    program = SdkProgram(workspace, sdk, projects, workspace.wrap(SERVER), [LOOK, LOOK])

    sights = workspace.wait_for_observations(2 * len(projects))

    sessions = program.wait_until_idle()
    assert sorted(sessions.values()) == sorted(projects)
    for sight in sights:
        told = sight.env.get(VARIABLES[sdk])
        promise(told == sight.asker, "the server gets no thread id")
        promise(sight.context, "no call carries its session id")
        workspace.check(sight, sessions[sight.asker])


@pytest.mark.parametrize("sdk", list(PROGRAMS))
def test_a_program_started_by_an_agent_has_servers_that_do_not_know_the_agent(
    workspace: Workspace, sdk: str
) -> None:
    """What an agent runs in its shell inherits the agent's own session."""
    agents = {"CODEX_THREAD_ID": "a thread", "CLAUDE_CODE_SESSION_ID": "a session"}
    agents |= {"AGENT_SESSION_ID": "another session"}
    project = workspace.make_project("project")
    SdkProgram(workspace, sdk, [project], workspace.wrap(SERVER), **agents)

    [sight] = workspace.wait_for_observations(1)

    leaked = [name for name, value in agents.items() if sight.env.get(name) == value]
    promise(not leaked, "the server gets the agent's session")
    promise(sight.context, "no call carries its session id")
    workspace.check(sight, project)


@pytest.mark.parametrize("sdk", list(PROGRAMS))
def test_nothing_is_left_when_a_program_is_killed_while_its_session_is_idle(
    workspace: Workspace, liveness: LivenessSocket, sdk: str
) -> None:
    project = workspace.make_project("project")
    hostile = [*SERVER, "--liveness", liveness.path, "hostile"]
    program = SdkProgram(workspace, sdk, [project], workspace.wrap(hostile))

    liveness.wait_for(*ROLES)
    program.wait_until_idle()
    program.process.kill()
    program.process.wait(LIMIT)

    promise(not list_survivors(liveness), "the server and everything it started live on")

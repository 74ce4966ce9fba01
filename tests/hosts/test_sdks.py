"""Programs that run many sessions at once, through the SDKs of Claude Code and Codex."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hosts.fake_models import LIMIT
from hosts.sdks import LOOK, PROGRAMS, VARIABLES, SdkProgram
from hosts.workspace import SERVER, Observation, Workspace, promise

if TYPE_CHECKING:
    from hosts.server_processes import ServerProcesses

# As if an agent of another host had started the program, in its own session.
OF_OTHERS = dict.fromkeys([*VARIABLES.values(), "AGENT_SESSION_ID"], "session-of-another-host")


@pytest.mark.parametrize("sdk", list(PROGRAMS))
def test_a_program(workspace: Workspace, processes: ServerProcesses, sdk: str) -> None:
    projects = [workspace.make_project(name) for name in ("one", "two")] * 2
    command = [*SERVER, "--liveness", processes.path, "hostile"]
    processes.delay_calls(workspace)  # the second one, and so the end of a turn
    prompts = 2 * [2 * f"{LOOK} "]
    program = SdkProgram(workspace, sdk, projects, workspace.wrap(command), prompts, **OF_OTHERS)

    sights = workspace.wait_for_observations(4 * len(projects))

    sessions = program.wait_until_idle()
    assert sorted(sessions.values()) == sorted(projects)
    check_sessions(workspace, sdk, sights, sessions)
    program.process.kill()
    program.process.wait(LIMIT)
    # Nothing is left when a program is killed while its sessions are idle.
    promise(not processes.list_survivors(), "the servers and everything they started live on")


def check_sessions(
    workspace: Workspace,
    sdk: str,
    sights: list[Observation],
    projects: dict[str, str],
) -> None:
    """Check that every call was answered by its own session's server, in its own project."""
    # Sessions of one program are served in their own projects.
    assert [sight.cwd for sight in sights] == [projects[sight.asker] for sight in sights]
    # A session of another host does not reach a server.
    leaked = [sight for sight in sights if set(OF_OTHERS.values()) & set(sight.env.values())]
    promise(not leaked, "the server sees the session of another host")
    # Sessions of one program at once have servers that know them.
    for sight in sights:
        told = sight.env.get(VARIABLES[sdk])
        promise(told == sight.asker, "the server gets no thread id")
        promise(sight.context, "no call carries its session id")
        workspace.check(sight, projects[sight.asker])

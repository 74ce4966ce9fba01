"""Cline's hub: one process for the prompts of all projects, in the directory of the first."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from hosts import cline
from hosts.fake_models import LIMIT
from hosts.further_hosts import is_agents
from hosts.isolation import find_above
from hosts.promised_ends import check_killed_host
from hosts.workspace import SERVER, Workspace, kill, promise

if TYPE_CHECKING:
    from hosts.server_processes import ServerProcesses


def test_a_hub(workspace: Workspace, processes: ServerProcesses) -> None:
    projects = {name: workspace.make_project(name) for name in ("one", "two")}
    command = [*SERVER, "--liveness", processes.path, "hostile"]
    cline.configure_all(workspace, {"probe": workspace.wrap(command)})
    called = threading.Semaphore(0)
    workspace.models.before_call = called.release
    words = " ".join(cline.say(tool) for tool in ("look", "look", "wait"))

    for count, (name, project) in enumerate(projects.items(), 1):
        # It exits with 1 if the hub needs five seconds, which then goes on all the same.
        cline.hand_over(workspace, project, f"I am {name}. {words}").wait(LIMIT)
        sights = workspace.wait_for_observations(2 * count)

    # A place that may not be the session's is marked as the agent's.
    # While only the first task runs, Cline's own record shows that it works there.
    for sight in sights:
        is_right = sight.cwd == projects[sight.asker]
        promise(is_right or is_agents(sight), "nothing shows it")
    sessions = {project: session for session, project in cline.map_sessions(workspace).items()}
    # No session of an agent is told the id of another.
    for sight in sights:
        asker = sessions[projects[sight.asker]]
        assert sight.context.get("sessionId") in {None, asker}
        assert "MCP_LAUNCH_SESSION_ID" not in sight.env

    for _ in range(6):
        assert called.acquire(timeout=LIMIT)
    servers = {sight.pid for sight in sights}
    processes.wait_for(servers)
    kill(find_above(sights[0].pid, "cline"), servers)
    check_killed_host(processes)

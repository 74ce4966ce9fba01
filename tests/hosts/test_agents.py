"""One process with several sessions, as editors run hosts over the Agent Client Protocol."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from hosts.fake_models import LIMIT
from hosts.further_hosts import HOSTS, META, VARIABLES, is_agents
from hosts.promised_ends import check_killed_host
from hosts.workspace import SERVER, Observation, Workspace, kill, promise

if TYPE_CHECKING:
    from hosts.acp import Agent
    from hosts.server_processes import ServerProcesses

# Every one of their sessions has a server of its own that knows it.
KNOWN = {"goose", "copilot"}

AGENTS = [name for name, host in HOSTS.items() if hasattr(host, "open_agent")]


@pytest.mark.parametrize("host", AGENTS)
def test_an_agent(workspace: Workspace, processes: ServerProcesses, host: str) -> None:
    # Its own directory is not a session's, and two sessions share a project.
    own, one, two = (workspace.make_project(name) for name in ("own", "one", "two"))
    command = [*SERVER, "--liveness", processes.path, "hostile"]
    HOSTS[host].configure_all(workspace, {"probe": workspace.wrap(command)})
    agent = HOSTS[host].open_agent(workspace, own)
    projects = [one, two, one]
    sessions = agent.start_sessions(*projects)

    look_twice(workspace, agent, host, sessions)

    sights = workspace.wait_for_observations(6)
    assert sorted(sight.asker for sight in sights) == sorted(2 * sessions)
    check_places(host, sights, dict(zip(sessions, projects, strict=True)))
    check_sessions(host, sights)

    called = threading.Semaphore(0)
    workspace.models.before_call = called.release
    agent.send_prompts({one: mark(one, HOSTS[host].say("wait")) for one in sessions})
    for _ in sessions:
        assert called.acquire(timeout=LIMIT)
    servers = {sight.pid for sight in sights}
    processes.wait_for(servers)
    kill(agent.process.pid, servers)
    check_killed_host(processes)


def look_twice(workspace: Workspace, agent: Agent, host: str, sessions: list[str]) -> None:
    """Make every session call twice."""
    words = 2 * f"{HOSTS[host].say('look')} "
    deadline = time.monotonic() + LIMIT
    left = sessions
    while left:
        # Qwen Code may ask the model before a server is ready; users try again then, too.
        assert time.monotonic() < deadline, workspace.models.not_offered
        agent.prompt({one: mark(one, words) for one in left})
        served = {answer.asker for answer in workspace.models.answers}
        left = [one for one in sessions if one not in served]


def mark(session: str, words: str) -> str:
    """Return a prompt that says whose it is, because requests to the model do not."""
    return f"I am {session}. {words}"


def check_places(host: str, sights: list[Observation], projects: dict[str, str]) -> None:
    """Check where servers worked: for their session, or so that they know it."""
    if host == "vibe":
        # A place that may not be the session's is marked as the agent's.
        promise(all(is_agents(sight) for sight in sights), "nothing shows it")
        return
    # Sessions of one agent are served in their own projects.
    right = [sight.cwd == projects[sight.asker] for sight in sights]
    promise(all(right), "servers work where the agent was started")


def check_sessions(host: str, sights: list[Observation]) -> None:
    """Check what servers were told: the truth or nothing."""
    if host in KNOWN:
        # Sessions of one agent at once have servers that know them.
        told = [sight.context.get("sessionId") or sight.meta.get(META) for sight in sights]
        promise(told == [one.asker for one in sights], "no call carries its session id")
    # No session of an agent is told the id of another.
    for sight in sights:
        assert sight.context.get("sessionId") in {None, sight.asker}
        assert sight.env.get("MCP_LAUNCH_SESSION_ID") in {None, sight.asker}
        named = sight.env.get(VARIABLES.get(host, ""))
        promise(named in {None, sight.asker}, "the server's environment names another one")

"""Codex: every server knows its thread, from the first call on and on every call."""

from __future__ import annotations

import pytest
from hosts import codex
from hosts.fake_models import LIMIT
from hosts.workspace import SERVER, Observation, Workspace, promise


def check(workspace: Workspace, sights: list[Observation], projects: dict[str, str]) -> None:
    """Check that every call was answered by its own thread's server, in its own project."""
    for sight in sights:
        assert sight.meta["threadId"] == sight.asker
        promise(sight.env.get("CODEX_THREAD_ID") == sight.asker, "the server gets no thread id")
        workspace.check(sight, projects[sight.asker])
    servers = {sight.asker: sight.pid for sight in sights}
    assert len(set(servers.values())) == len(servers)


@pytest.mark.parametrize("version", ["codex", "old-codex"])
def test_codex_exec_starts_a_server_that_needs_its_thread(
    workspace: Workspace, version: str
) -> None:
    project = workspace.make_project("project")
    needy = [*SERVER, "--needs", "CODEX_THREAD_ID"]
    codex.configure(workspace, workspace.wrap(needy, "--env", "CODEX_THREAD_ID=thread"))

    codex.run(workspace, project, name=version)
    workspace.models.wait_for(1)

    promise(workspace.models.answers, "the server does not start, its tools are missing")
    sights = workspace.wait_for_observations(1)
    check(workspace, sights, {sights[0].asker: project})


def test_a_thread_resumed_from_the_home_directory_has_its_servers(workspace: Workspace) -> None:
    """The thread's record names the project where it began; the user is at home now."""
    project, home = workspace.make_project("project"), workspace.work_at_home()
    codex.configure(workspace, workspace.wrap(SERVER))
    codex.run(workspace, project).wait(LIMIT)
    [first] = workspace.wait_for_observations(1)

    codex.run(workspace, home, "--skip-git-repo-check", "resume", first.asker)

    _, second = workspace.wait_for_observations(2)
    assert second.asker == first.asker
    workspace.check(second, home)


def test_a_thread_of_an_app_server_in_the_home_directory_has_its_servers(
    workspace: Workspace,
) -> None:
    """Home is the app server's own directory, and one of its threads is recorded elsewhere."""
    projects = [workspace.make_project("project"), workspace.work_at_home()]
    codex.configure(workspace, workspace.wrap(SERVER))
    host = codex.AppServer(workspace)

    threads = []
    for project in projects:
        threads += host.start_threads(project)
        host.prompt(threads[-1])
    host.prompt(*threads)

    for sight in workspace.wait_for_observations(4):
        workspace.check(sight, projects[threads.index(sight.asker)])


@pytest.mark.parametrize("version", ["codex", "old-codex"])
def test_threads_in_different_projects_at_once_have_servers_that_know_them(
    workspace: Workspace, version: str
) -> None:
    projects = [workspace.make_project(f"project-{number}") for number in range(4)]
    codex.configure(workspace, workspace.wrap(SERVER, "--env", "CODEX_THREAD_ID=thread"))
    host = codex.AppServer(workspace, version)

    threads = host.start_threads(*projects)
    host.prompt(*threads)
    host.prompt(*threads)

    check(workspace, workspace.wait_for_observations(8), dict(zip(threads, projects, strict=True)))


def test_a_fork_of_a_thread_has_a_server_that_knows_it(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    codex.configure(workspace, workspace.wrap(SERVER))
    host = codex.AppServer(workspace)

    [thread] = host.start_threads(project)
    host.prompt(thread)
    fork = host.ask("thread/fork", threadId=thread)["thread"]["id"]
    host.prompt(fork, thread)

    check(workspace, workspace.wait_for_observations(3), dict.fromkeys([thread, fork], project))


def test_sub_agents_have_servers_that_know_them(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    codex.configure(workspace, workspace.wrap(SERVER))
    host = codex.AppServer(workspace)

    [thread] = host.start_threads(project)
    host.prompt(thread, words=f"{codex.spawn('one')} {codex.spawn('two')}")
    answers = workspace.models.wait_for(4)
    host.prompt(thread)

    sights = [Observation(one) for one in workspace.models.wait_for(5) if one.tool != "spawn_agent"]
    agents = {one.asker for one in answers} - {thread}
    assert len(agents) == 2
    check(workspace, sights, dict.fromkeys([thread, *agents], project))


def test_ephemeral_threads_have_servers_that_know_them(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    codex.configure(workspace, workspace.wrap(SERVER, "--env", "CODEX_THREAD_ID=thread"))
    host = codex.AppServer(workspace)

    threads = host.start_threads(project, project, ephemeral=True)
    host.prompt(*threads)

    check(workspace, workspace.wait_for_observations(2), dict.fromkeys(threads, project))


def test_threads_resumed_in_a_new_process_have_servers_that_know_them(workspace: Workspace) -> None:
    projects = [workspace.make_project(f"project-{number}") for number in range(2)]
    codex.configure(workspace, workspace.wrap(SERVER))
    host = codex.AppServer(workspace)
    threads = host.start_threads(*projects)
    host.prompt(*threads)
    host.close()

    host = codex.AppServer(workspace)
    for number in [host.send("thread/resume", threadId=thread) for thread in threads]:
        host.receive(number)
    host.prompt(*threads)

    sights = workspace.wait_for_observations(4)
    check(workspace, sights[:2], dict(zip(threads, projects, strict=True)))
    check(workspace, sights[2:], dict(zip(threads, projects, strict=True)))


@pytest.mark.parametrize("variable", [[], ["--env", "THREAD=thread"]], ids=["none", "its thread"])
def test_threads_that_share_a_connection_are_all_served(
    workspace: Workspace, variable: list[str]
) -> None:
    """Codex shares one if it is told to, and if the server answers `server/discover`."""
    project = workspace.make_project("project")
    server = workspace.wrap([*SERVER, "--modern"], *variable)
    codex.configure(workspace, server, features=["mcp_connection_sharing"])
    host = codex.AppServer(workspace)

    threads = host.start_threads(*[project] * 3)
    host.prompt(*threads)
    host.prompt(*threads)

    sights = workspace.wait_for_observations(6)
    assert sorted(sight.asker for sight in sights) == sorted(threads * 2)
    assert all(sight.meta["threadId"] == sight.asker for sight in sights)
    told = [sight.context.get("threadId") for sight in sights]
    promise(told == [sight.asker for sight in sights], "no call carries its thread's context")
    owners = {sight.pid: sight.asker for sight in sights}
    assert len(owners) == (3 if variable else 1)
    for sight in sights if variable else ():
        assert owners[sight.pid] == sight.env["THREAD"] == sight.asker

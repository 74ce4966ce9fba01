"""Codex: every server knows its thread, from the first call on and on every call."""

from __future__ import annotations

import pytest
from hosts import codex
from hosts.desk import SERVER, Desk, Sight, promise
from hosts.models import LIMIT


def check(desk: Desk, sights: list[Sight], projects: dict[str, str]) -> None:
    """Every call was answered by a server of its own thread, in its own project."""
    for sight in sights:
        assert sight.meta["threadId"] == sight.asker
        promise(sight.env.get("CODEX_THREAD_ID") == sight.asker, "the server is told no thread")
        desk.check(sight, projects[sight.asker])
    servers = {sight.asker: sight.pid for sight in sights}
    assert len(set(servers.values())) == len(servers)


@pytest.mark.parametrize("version", ["codex", "old-codex"])
def test_codex_exec_starts_a_server_that_needs_its_thread(desk: Desk, version: str) -> None:
    project = desk.make_project("project")
    needy = [*SERVER, "--needs", "CODEX_THREAD_ID"]
    codex.configure(desk, desk.wrap(needy, "--env", "CODEX_THREAD_ID=thread"))

    codex.run(desk, project, name=version)
    desk.models.wait_for(1)

    promise(desk.models.answers, "the server does not start, its tools are missing")
    sights = desk.wait_for_sights(1)
    check(desk, sights, {sights[0].asker: project})


@pytest.mark.parametrize("is_repository", [False, True], ids=["plain", "in Git"])
@pytest.mark.parametrize("version", ["codex", "old-codex"])
def test_codex_exec_in_the_home_directory_has_its_servers(
    desk: Desk, version: str, is_repository: bool
) -> None:
    home = desk.work_at_home(is_repository=is_repository)
    codex.configure(desk, desk.wrap(SERVER))

    codex.run(desk, home, "--skip-git-repo-check", name=version, words=2 * f"{codex.LOOK} ")

    for sight in desk.wait_for_sights(2):
        desk.check(sight, home)


def test_a_thread_resumed_from_the_home_directory_has_its_servers(desk: Desk) -> None:
    """Its record names the project in which it began; the user is at home now."""
    project, home = desk.make_project("project"), desk.work_at_home(is_repository=False)
    codex.configure(desk, desk.wrap(SERVER))
    codex.run(desk, project).wait(LIMIT)
    [first] = desk.wait_for_sights(1)

    codex.run(desk, home, "--skip-git-repo-check", "resume", first.asker)

    _, second = desk.wait_for_sights(2)
    assert second.asker == first.asker
    desk.check(second, home)


def test_a_thread_of_an_app_server_in_the_home_directory_has_its_servers(desk: Desk) -> None:
    """There the app server's own directory, and one of its threads is recorded elsewhere."""
    projects = [desk.make_project("project"), desk.work_at_home(is_repository=False)]
    codex.configure(desk, desk.wrap(SERVER))
    host = codex.AppServer(desk)

    threads = []
    for project in projects:
        threads += host.start_threads(project)
        host.prompt(threads[-1])
    host.prompt(*threads)

    for sight in desk.wait_for_sights(4):
        desk.check(sight, projects[threads.index(sight.asker)])


@pytest.mark.parametrize("version", ["codex", "old-codex"])
def test_threads_in_different_projects_at_once_have_servers_that_know_them(
    desk: Desk, version: str
) -> None:
    projects = [desk.make_project(f"project-{number}") for number in range(4)]
    codex.configure(desk, desk.wrap(SERVER, "--env", "CODEX_THREAD_ID=thread"))
    host = codex.AppServer(desk, version)

    threads = host.start_threads(*projects)
    host.prompt(*threads)
    host.prompt(*threads)

    check(desk, desk.wait_for_sights(8), dict(zip(threads, projects, strict=True)))


def test_six_threads_in_one_project_at_once_have_servers_that_know_them(desk: Desk) -> None:
    project = desk.make_project("project")
    codex.configure(desk, desk.wrap(SERVER))
    host = codex.AppServer(desk)

    threads = host.start_threads(*[project] * 6)
    host.prompt(*threads)
    host.prompt(*threads)

    check(desk, desk.wait_for_sights(12), dict.fromkeys(threads, project))


def test_a_fork_of_a_thread_has_a_server_that_knows_it(desk: Desk) -> None:
    project = desk.make_project("project")
    codex.configure(desk, desk.wrap(SERVER))
    host = codex.AppServer(desk)

    [thread] = host.start_threads(project)
    host.prompt(thread)
    fork = host.ask("thread/fork", threadId=thread)["thread"]["id"]
    host.prompt(fork, thread)

    check(desk, desk.wait_for_sights(3), dict.fromkeys([thread, fork], project))


def test_sub_agents_have_servers_that_know_them(desk: Desk) -> None:
    project = desk.make_project("project")
    codex.configure(desk, desk.wrap(SERVER))
    host = codex.AppServer(desk)

    [thread] = host.start_threads(project)
    host.prompt(thread, words=f"{codex.spawn('one')} {codex.spawn('two')}")
    answers = desk.models.wait_for(4)
    host.prompt(thread)

    sights = [Sight(one) for one in desk.models.wait_for(5) if one.tool != "spawn_agent"]
    agents = {one.asker for one in answers} - {thread}
    assert len(agents) == 2
    check(desk, sights, dict.fromkeys([thread, *agents], project))


def test_ephemeral_threads_have_servers_that_know_them(desk: Desk) -> None:
    project = desk.make_project("project")
    codex.configure(desk, desk.wrap(SERVER, "--env", "CODEX_THREAD_ID=thread"))
    host = codex.AppServer(desk)

    threads = host.start_threads(project, project, ephemeral=True)
    host.prompt(*threads)

    check(desk, desk.wait_for_sights(2), dict.fromkeys(threads, project))


def test_threads_resumed_in_a_new_process_have_servers_that_know_them(desk: Desk) -> None:
    projects = [desk.make_project(f"project-{number}") for number in range(2)]
    codex.configure(desk, desk.wrap(SERVER))
    host = codex.AppServer(desk)
    threads = host.start_threads(*projects)
    host.prompt(*threads)
    host.close()

    host = codex.AppServer(desk)
    for number in [host.send("thread/resume", threadId=thread) for thread in threads]:
        host.receive(number)
    host.prompt(*threads)

    sights = desk.wait_for_sights(4)
    check(desk, sights[:2], dict(zip(threads, projects, strict=True)))
    check(desk, sights[2:], dict(zip(threads, projects, strict=True)))

"""Servers that make trouble: the host's user sees as little of it as possible, or the reason."""

from __future__ import annotations

import os
import signal
import time

import pytest
from hosts import claude, codex
from hosts.both import HOSTS
from hosts.desk import SERVER, Desk, Sight, promise
from hosts.models import LIMIT
from launches import wait_until_gone

# Nobody calls within milliseconds of a death: what counts is what a host does that knows of it.
NOTICED = 0.5


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_server_that_prints_what_is_no_message_is_understood(desk: Desk, host: str) -> None:
    project = desk.make_project("project")
    HOSTS[host].configure(desk, desk.wrap([*SERVER, "--noisy"]))

    HOSTS[host].run(desk, project, words=f"{codex.LOOK} {codex.LOOK}").wait(LIMIT)

    promise(len(desk.models.answers) == 2, "the noise breaks the connection")
    assert [Sight(one).calls for one in desk.models.answers] == [1, 2]


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_server_that_dies_between_two_calls_is_replaced(desk: Desk, host: str) -> None:
    project = desk.make_project("project")
    HOSTS[host].configure(desk, desk.wrap(SERVER))

    def kill_the_server() -> None:
        for answer in desk.models.answers:
            os.kill(Sight(answer).pid, signal.SIGKILL)
            wait_until_gone(Sight(answer).pid)
        time.sleep(NOTICED)

    desk.models.before_call = kill_the_server
    HOSTS[host].run(desk, project, words=f"{codex.LOOK} {codex.LOOK}")

    first, second = desk.models.wait_for(2)
    promise("<<" in second.text, "it stays dead, and every later call fails")
    assert Sight(second).pid != Sight(first).pid
    assert Sight(second).calls == 1
    desk.check(Sight(second), project)
    if desk.launcher:
        # The host has not noticed anything: it is the same launch.
        assert Sight(second).context["launchId"] == Sight(first).context["launchId"]


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_command_that_does_not_exist_is_explained(desk: Desk, host: str) -> None:
    project = desk.make_project("project")
    command = desk.wrap(["no-such-server"])

    # Codex tells only of servers that are required, Claude Code only when asked.
    if host == "codex":
        codex.configure(desk, command, required=True)
        codex.run(desk, project).wait(LIMIT)
    else:
        claude.configure(desk, command)
        claude.list_servers(desk, project).wait(LIMIT)

    shown = desk.read_output()
    assert "probe: " in shown
    ours = "was not found on PATH (" in shown and "fix: install it, or give its" in shown
    promise(ours, "the error names no way out")


def test_a_server_that_dies_over_the_first_word_of_2026_is_asked_in_the_old_way(desk: Desk) -> None:
    project = desk.make_project("project")
    claude.configure(desk, desk.wrap([*SERVER, "--touchy"]))

    claude.run(desk, project).wait(LIMIT)

    desk.check(Sight(desk.models.wait_for(1)[0]), project)


def test_a_slow_server_is_ready_within_the_second_that_codex_gives_it(desk: Desk) -> None:
    # As slow as Codex permits for a first turn, and the launcher needs its share too.
    project = desk.make_project("project")
    codex.configure(desk, desk.wrap([*SERVER, "--late", "0.5"]))

    codex.run(desk, project)
    desk.models.wait_for(1)

    promise(desk.models.answers, "the first turn has to do without its tools")
    desk.check(Sight(desk.models.answers[0]), project)


def test_a_very_slow_server_is_there_for_the_next_turn(desk: Desk) -> None:
    project = desk.make_project("project")
    codex.configure(desk, desk.wrap([*SERVER, "--late", "2"]))
    host = codex.AppServer(desk)

    [thread] = host.start_threads(project)
    host.prompt(thread)
    assert desk.models.not_offered == [(thread, "mcp__probe__look")]
    host.wait_until_ready("probe")
    host.prompt(thread)

    [answer] = desk.models.wait_for(2)
    desk.check(Sight(answer), project)

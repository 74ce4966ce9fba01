"""Faulty servers: the user notices nothing, if possible, or sees the reason."""

from __future__ import annotations

import os
import signal

import pytest
from hosts import claude, codex
from hosts.codex_and_claude import HOSTS
from hosts.fake_models import LIMIT
from hosts.workspace import SERVER, Observation, Workspace, promise
from launches import wait_until_gone


# How long a host has to notice a death: we test what it does once it knows.
@pytest.mark.parametrize("host", list(HOSTS))
def test_a_server_that_prints_noise_and_dies_between_two_calls_is_replaced(
    workspace: Workspace, host: str
) -> None:
    project = workspace.make_project("project")
    HOSTS[host].configure(workspace, workspace.wrap([*SERVER, "--noisy"]))

    def kill_the_server() -> None:
        for answer in workspace.models.answers:
            os.kill(Observation(answer).pid, signal.SIGKILL)
            wait_until_gone(Observation(answer).pid)

    workspace.models.before_call = kill_the_server
    HOSTS[host].run(workspace, project, words=f"{codex.LOOK} {codex.LOOK}")

    first, second = workspace.models.wait_for(2)
    promise("<<" in second.text, "it stays dead, and every later call fails")
    assert Observation(second).pid != Observation(first).pid
    assert Observation(second).calls == 1
    workspace.check(Observation(second), project)
    if workspace.launcher:
        # The host has not noticed anything: it is the same launch.
        assert Observation(second).context["launchId"] == Observation(first).context["launchId"]


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_command_that_does_not_exist_is_explained(workspace: Workspace, host: str) -> None:
    project = workspace.make_project("project")
    command = workspace.wrap(["no-such-server"])

    # Codex reports only required servers, Claude Code only when asked.
    if host == "codex":
        codex.configure(workspace, command, required=True)
        codex.run(workspace, project).wait(LIMIT)
    else:
        claude.configure(workspace, command)
        claude.list_servers(workspace, project).wait(LIMIT)

    shown = workspace.read_output()
    assert "probe: " in shown
    ours = "was not found on PATH (" in shown and "fix: install it, or give its" in shown
    promise(ours, "the error suggests no fix")


def test_a_server_that_dies_on_the_first_request_of_2026_gets_initialize(
    workspace: Workspace,
) -> None:
    project = workspace.make_project("project")
    claude.configure(workspace, workspace.wrap([*SERVER, "--touchy"]))

    claude.run(workspace, project).wait(LIMIT)

    workspace.check(Observation(workspace.models.wait_for(1)[0]), project)

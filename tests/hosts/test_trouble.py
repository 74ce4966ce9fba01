"""Faulty servers: the user notices nothing, if possible, or sees the reason."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest
from hosts import claude, codex, isolation
from hosts.codex_and_claude import HOSTS
from hosts.fake_models import LIMIT
from hosts.workspace import SERVER, Observation, Workspace, promise
from launches import wait_until_gone
from npm_registry import NAME, NpmRegistry

if TYPE_CHECKING:
    from pathlib import Path

# How long a host has to notice a death: we test what it does once it knows.
NOTICED = 0.5


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_server_that_prints_noise_still_works(workspace: Workspace, host: str) -> None:
    project = workspace.make_project("project")
    HOSTS[host].configure(workspace, workspace.wrap([*SERVER, "--noisy"]))

    HOSTS[host].run(workspace, project, words=f"{codex.LOOK} {codex.LOOK}").wait(LIMIT)

    promise(len(workspace.models.answers) == 2, "the noise breaks the connection")
    assert [Observation(one).calls for one in workspace.models.answers] == [1, 2]


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_server_that_dies_between_two_calls_is_replaced(workspace: Workspace, host: str) -> None:
    project = workspace.make_project("project")
    HOSTS[host].configure(workspace, workspace.wrap(SERVER))

    def kill_the_server() -> None:
        for answer in workspace.models.answers:
            os.kill(Observation(answer).pid, signal.SIGKILL)
            wait_until_gone(Observation(answer).pid)
        time.sleep(NOTICED)

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


@pytest.mark.skipif(shutil.which("npx") is None, reason="npm is not installed")
def test_a_package_that_takes_too_long_to_install_is_there_for_the_next_session(
    workspace: Workspace,
) -> None:
    project = workspace.make_project("project")
    registry = NpmRegistry(f'#!/bin/sh\nexec {shlex.join(SERVER)} "$@"\n')
    registry.publish("1.0.0")
    (workspace.home / ".npmrc").write_text(f"registry={registry.url}\n", encoding="utf-8")
    claude.configure(workspace, workspace.wrap(["npx", "-y", NAME], "--server", "probe"))

    def run_session() -> None:
        # No archive is sent while it runs, and it gives up after five seconds.
        registry.hold_archives()
        claude.run(workspace, project, MCP_TIMEOUT="5000").wait(LIMIT)

    try:
        run_session()
        registry.may_send_archives.set()
        isolation.wait_until_alone(LIMIT)
        run_session()
    finally:
        registry.close()

    assert len(workspace.models.not_offered) > 0
    promise(workspace.models.answers, "every session begins the installation again")
    workspace.check(Observation(workspace.models.answers[0]), project)
    logs = [path.read_text(encoding="utf-8") for path in list_logs(workspace)]
    assert any(f"{NAME} is being installed (npx, 4 s so far)" in text for text in logs)
    assert any(f"npx has installed {NAME}: the next start is ready" in text for text in logs)


def list_logs(workspace: Workspace) -> list[Path]:
    return list((workspace.home / ".local/state/mcp-launch/logs").iterdir())

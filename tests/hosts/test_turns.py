"""A turn without a terminal, in every host besides Codex and Claude Code."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hosts.fake_models import LIMIT
from hosts.further_hosts import (
    HOSTS,
    KNOWN_AT_THE_START,
    KNOWN_WHEN_CALLED,
    META,
    MODERN,
    SILENT,
    VARIABLES,
)
from hosts.promised_ends import check_polite_end
from hosts.workspace import SERVER, Observation, Workspace, promise
from launches import wait_until_gone

if TYPE_CHECKING:
    from hosts.server_processes import ServerProcesses

# How long a host has to notice a death: we test what it does once it knows.
NOTICED = 0.5

ERROR_TOOL = "mcp_launch_error"
VERSION = "io.modelcontextprotocol/protocolVersion"

# As if the host were started by other hosts, in a session of theirs.
OF_OTHERS = dict.fromkeys(
    ["CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID", *VARIABLES.values()], "session-of-another-host"
)


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_turn(workspace: Workspace, host: str) -> None:
    project = workspace.make_project("project")
    servers = {"probe": SERVER, "gone": ["no-such-server"]}
    wrapped = {name: workspace.wrap(command) for name, command in servers.items()}
    HOSTS[host].configure_all(workspace, wrapped)
    workspace.models.before_call = partial(kill_before_the_third_call, workspace)
    say = HOSTS[host].say
    words = [say("look"), say("shout"), say("look"), say("look")]
    words += [say(ERROR_TOOL, server="gone")] if host in SILENT else []

    HOSTS[host].run(workspace, project, " ".join(words), **OF_OTHERS).wait(LIMIT)

    first = Observation(workspace.models.answers[0])
    # A server works in the project of its session.
    assert first.cwd == project
    # A session of another host does not reach a server.
    leaked = [name for name in OF_OTHERS if first.env.get(name) == OF_OTHERS[name]]
    promise(not leaked, "the server sees the session of another host")
    check_session(workspace, host, first)
    check_trouble(workspace)
    if host != "vibe":
        # A command that does not exist is explained.
        shown = read_trouble(workspace, project, host).lower()
        ours = "was not found on path (" in shown and "fix: install it, or give its" in shown
        promise(ours, "nothing is shown" if host in SILENT else "the error suggests no fix")


def kill_before_the_third_call(workspace: Workspace) -> None:
    if len(workspace.models.answers) == 2 and "<<" in workspace.models.answers[1].text:
        pid = Observation(workspace.models.answers[1]).pid
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(pid)
        time.sleep(NOTICED)


def check_session(workspace: Workspace, host: str, sight: Observation) -> None:
    """Check what a server was told about the only session there is."""
    [session] = HOSTS[host].list_sessions(workspace)
    at_start = sight.env.get("MCP_LAUNCH_SESSION_ID") or sight.env.get(VARIABLES.get(host, ""))
    called = sight.context.get("sessionId") or sight.meta.get(META)
    if host in KNOWN_AT_THE_START:
        # A server knows its session when it starts.
        promise(at_start == session, "nothing shows the server its session")
    if host in KNOWN_WHEN_CALLED:
        # A server of 2025 learns the session of a call.
        assert VERSION not in sight.meta
        promise(called == session, "no call carries its session id")
    else:
        # No session is made up where a host shows none.
        assert not at_start
        assert not called


def check_trouble(workspace: Workspace) -> None:
    """Check the second call, which came with noise, and those after the death of the server."""
    answers = [one.text for one in workspace.models.answers]
    first, second, third, fourth, *_ = ["<<" in text for text in answers] + 3 * [False]
    # A server that prints noise still works.
    promise(second, "the noise breaks the connection")
    # A server that dies between two calls is replaced.
    promise(second, "the noise has broken the connection before")
    promise(third or fourth, "it stays dead, and every later call fails")
    promise(third, "the next call fails")
    assert first
    before, after = (Observation(workspace.models.answers[place]) for place in (0, 2))
    assert (before.pid != after.pid, after.calls) == (True, 1)
    assert after.context.get("launchId") == before.context.get("launchId")


def read_trouble(workspace: Workspace, project: str, host: str) -> str:
    """Return what a host shows of a server that did not start."""
    if host in SILENT:
        return workspace.models.answers[-1].text
    return str(HOSTS[host].read_trouble(workspace, project))


@pytest.mark.parametrize("host", list(HOSTS))
def test_the_end_of_a_turn(workspace: Workspace, processes: ServerProcesses, host: str) -> None:
    project = workspace.make_project("project")
    era = ["--modern"] if host in MODERN else []
    command = [*SERVER, *era, "--liveness", processes.path, "slow"]
    HOSTS[host].configure_all(workspace, {"probe": workspace.wrap(command)})
    processes.delay_calls(workspace)  # the second one, and so the end

    process = HOSTS[host].run(workspace, project, 2 * f"{HOSTS[host].say('look')} ")
    assert process.wait(LIMIT) == 0

    sight = workspace.wait_for_observations(2)[-1]
    if host in MODERN:
        # A server of 2026 learns the session of a call.
        assert sight.meta[VERSION] == "2026-07-28"
        called = sight.context.get("sessionId") or sight.meta.get(META)
        [session] = HOSTS[host].list_sessions(workspace)
        promise(called == session, "no call carries its session id")
    check_polite_end(processes, sight.pid)

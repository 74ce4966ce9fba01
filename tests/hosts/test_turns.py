"""A turn without a terminal, in every host besides Codex and Claude Code."""

from __future__ import annotations

import os
import signal
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
ERROR_TOOL = "mcp_launch_error"
VERSION = "io.modelcontextprotocol/protocolVersion"

# As if the host were started by other hosts, in a session of theirs.
OF_OTHERS = dict.fromkeys(
    ["CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID", *VARIABLES.values()], "session-of-another-host"
)


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_turn(workspace: Workspace, processes: ServerProcesses, host: str) -> None:
    project = workspace.make_project("project")
    slow = [*SERVER, "--liveness", processes.path, "slow"]
    servers = {"probe": slow, "gone": ["no-such-server"]}
    if host in MODERN:
        servers["modern"] = [*slow, "--modern"]
    wrapped = {name: workspace.wrap(command) for name, command in servers.items()}
    HOSTS[host].configure_all(workspace, wrapped)
    workspace.models.before_call = partial(prepare_call, workspace, processes)
    say = HOSTS[host].say
    words = [say("look"), say("shout"), say("look"), say("look")]
    words += [say(ERROR_TOOL, server="gone")] if host in SILENT else []
    words += [say("look", server="modern")] if host in MODERN else []

    HOSTS[host].run(workspace, project, " ".join(words), **OF_OTHERS).wait(LIMIT)

    sights = [Observation(one) for one in workspace.models.answers if "<<" in one.text]
    first, last = sights[0], sights[-1]
    # A server works in the project of its session.
    assert first.cwd == project
    # A session of another host does not reach a server.
    leaked = [name for name in OF_OTHERS if first.env.get(name) == OF_OTHERS[name]]
    promise(not leaked, "the server sees the session of another host")
    check_session(workspace, host, first)
    if host in MODERN:
        # A server of 2026 learns the session of a call.
        assert last.meta[VERSION] == "2026-07-28"
        [session] = HOSTS[host].list_sessions(workspace)
        promise(read_session(last) == session, "no call carries its session id")
    check_trouble(workspace)
    check_polite_end(processes, last.pid)
    if host != "vibe":
        # A command that does not exist is explained.
        shown = read_trouble(workspace, project, host).lower()
        ours = "was not found on path (" in shown and "fix: install it, or give its" in shown
        promise(ours, "nothing is shown" if host in SILENT else "the error suggests no fix")


def prepare_call(workspace: Workspace, processes: ServerProcesses) -> None:
    """Wait until servers have started all that they start, and kill the one of the second call."""
    told = [Observation(one) for one in workspace.models.answers if "<<" in one.text]
    processes.wait_for([sight.pid for sight in told])
    if len(workspace.models.answers) == len(told) == 2:
        pid = told[1].pid
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(pid)


def check_session(workspace: Workspace, host: str, sight: Observation) -> None:
    """Check what a server was told about the only session there is."""
    [session] = HOSTS[host].list_sessions(workspace)
    at_start = sight.env.get("MCP_LAUNCH_SESSION_ID") or sight.env.get(VARIABLES.get(host, ""))
    called = read_session(sight)
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


def read_session(sight: Observation) -> str | None:
    """Return the session that a server was told with a call."""
    return sight.context.get("sessionId") or sight.meta.get(META)


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

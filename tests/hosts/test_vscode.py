"""VS Code: all chats of a window share one server."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hosts import vscode
from hosts.promised_ends import check_killed_host, check_polite_end
from hosts.workspace import SERVER, Workspace, promise
from launches import wait_until_gone

if TYPE_CHECKING:
    from hosts.server_processes import ServerProcesses
    from hosts.vscode import VsCode

pytestmark = pytest.mark.vscode


def test_a_window(workspace: Workspace, processes: ServerProcesses) -> None:
    project = workspace.make_project("project")
    servers = {"probe": [*SERVER, "--liveness", processes.path, "hostile"], "gone": ["no-such-one"]}
    wrapped = {name: workspace.wrap(command) for name, command in servers.items()}
    vscode.configure_all(workspace, project, wrapped)

    with vscode.open_window(workspace, project) as window:
        window.start_servers()
        check_chats(workspace, window, project)
        check_trouble(window)
        processes.wait_for([window.call("look").pid])
        window.begin_call("wait")
        os.kill(window.extension_host, signal.SIGKILL)
        check_killed_host(processes)


def check_chats(workspace: Workspace, window: VsCode, project: str) -> None:
    """Check two calls of a chat, one of another, and one by an extension."""
    chats = [window.chat("look", is_new=is_new) for is_new in (True, False, True)]
    outside = window.call("look")
    assert chats[0].chat == chats[1].chat != chats[2].chat
    assert {sight.pid for _, sight in chats} == {outside.pid}
    # A server works in the project of its session.
    assert {sight.cwd for _, sight in chats} == {outside.cwd} == {project}
    # A server of 2025 learns the session of a call.
    for chat, sight in chats:
        called = sight.context.get("sessionId") or sight.meta.get(vscode.META)
        promise(called == chat, "no call carries its session id")
    # No session is made up where a host shows none.
    assert "sessionId" not in outside.context
    assert vscode.META not in outside.meta
    if workspace.launcher:
        assert outside.env["MCP_LAUNCH_HOST"] == outside.context["host"] == "vscode"


def check_trouble(window: VsCode) -> None:
    """Check noise, a server's death, and what a user sees of one that does not start."""
    # A server that prints noise still works.
    before = window.chat("shout").sight
    os.kill(before.pid, signal.SIGKILL)
    wait_until_gone(before.pid)
    # A server that dies between two calls is replaced.
    after = window.chat("look").sight
    assert (before.pid != after.pid, after.calls) == (True, 1)
    # A command that does not exist is explained.
    shown = window.show_output("gone", "Error")
    ours = "was not found on PATH (" in shown and "fix: install it, or give its" in shown
    promise(ours, "the error suggests no fix")


def test_the_end_of_a_window(workspace: Workspace, processes: ServerProcesses) -> None:
    project = workspace.make_project("project")
    command = workspace.wrap([*SERVER, "--liveness", processes.path, "slow"])
    vscode.configure_all(workspace, project, {"probe": command})

    with vscode.open_window(workspace, project) as window:
        window.start_servers()
        server = window.call("look").pid
        processes.wait_for([server])
        window.process.terminate()
        check_polite_end(processes, server)

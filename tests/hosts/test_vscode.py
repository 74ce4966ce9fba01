"""VS Code: all chats of a window share one server, and each call names its own chat."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hosts import vscode
from hosts.fake_models import LIMIT
from hosts.survivors import ROLES, list_survivors
from hosts.workspace import SERVER, Workspace, promise
from launches import wait_until_gone

if TYPE_CHECKING:
    from launches import LivenessSocket

pytestmark = pytest.mark.vscode

# In seconds: what a server that cannot start is given, because no wait would help it.
CERTAIN = 5.0


def test_every_call_of_a_chat_names_its_chat_and_no_other_call_does(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    vscode.configure(workspace, project, workspace.wrap(SERVER))

    with vscode.open_window(workspace, project) as window:
        assert window.start_servers()
        outside = window.look()
        chats = [window.look_in_chat(is_new=is_new) for is_new in (False, False, True)]

    one, again, two = [chatted.chat for chatted in chats]
    assert one == again != two
    assert {sight.pid for _, sight in chats} == {outside.pid}
    for _, sight in chats:
        promise(sight.context, "no call carries its session id")
        assert sight.context["host"] == sight.env["MCP_LAUNCH_HOST"] == "vscode"
        workspace.check(sight, project)
    assert outside.cwd == project
    assert "sessionId" not in outside.context


def test_a_command_that_does_not_exist_is_explained(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    vscode.configure(workspace, project, workspace.wrap(["no-such-server"]))

    with vscode.open_window(workspace, project) as window:
        window.begin_to_start_servers()
        shown = window.read_output("Error")

    ours = "was not found on PATH (" in shown and "fix: install it, or give its" in shown
    promise(ours, "the error suggests no fix")


def test_a_server_that_prints_noise_still_works(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    vscode.configure(workspace, project, workspace.wrap([*SERVER, "--noisy"]))

    with vscode.open_window(workspace, project) as window:
        is_ready = window.start_servers(LIMIT if workspace.launcher else CERTAIN)
        promise(is_ready, "the noise breaks the connection")
        calls = [window.look_in_chat().sight.calls for _ in range(2)]

    assert calls == [1, 2]


def test_a_server_that_dies_between_two_calls_is_replaced(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    vscode.configure(workspace, project, workspace.wrap(SERVER))

    with vscode.open_window(workspace, project) as window:
        assert window.start_servers()
        first = window.look_in_chat().sight
        os.kill(first.pid, signal.SIGKILL)
        wait_until_gone(first.pid)
        second = window.look_in_chat().sight

    assert second.pid != first.pid
    workspace.check(second, project)


def test_nothing_is_left_when_a_host_is_killed_while_a_hostile_server_works(
    workspace: Workspace, liveness: LivenessSocket
) -> None:
    project = workspace.make_project("project")
    hostile = [*SERVER, "--liveness", liveness.path, "hostile"]
    vscode.configure(workspace, project, workspace.wrap(hostile))

    with vscode.open_window(workspace, project) as window:
        assert window.start_servers()
        liveness.wait_for(*ROLES)
        window.keep_busy()
        os.kill(window.extension_host, signal.SIGKILL)
        survivors = list_survivors(liveness)

    promise(not survivors, "the server and everything it started live on")


def test_a_server_may_finish_when_its_host_ends(
    workspace: Workspace, liveness: LivenessSocket
) -> None:
    project = workspace.make_project("project")
    slow = [*SERVER, "--liveness", liveness.path, "slow"]
    vscode.configure(workspace, project, workspace.wrap(slow))

    with vscode.open_window(workspace, project) as window:
        assert window.start_servers()
        liveness.wait_for(*ROLES)
        window.process.terminate()
        survivors = list_survivors(liveness)

    assert "server" not in survivors
    promise(
        liveness.read_until_end("server") == b"finished", "the server is killed before it finished"
    )
    promise(not survivors, "what the server started lives on")

"""Sessions that share a connection: each of them has a server of its own.

Only two of the hosts here name the session of every call and have one connection for all sessions:
Qwen Code's daemon and VS Code. Goose names it too, but starts a server for each session, also as an
agent. The agents of Qwen Code, Kimi Code, opencode and Mistral Vibe have one connection for several
sessions, but their calls name none.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from hosts import qwen, vscode
from hosts.fake_models import LIMIT
from hosts.notes import Notes
from hosts.promised_ends import check_killed_host
from hosts.workspace import SERVER, Observation, Workspace, kill, promise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosts.server_processes import ServerProcesses

# Options with which every session of a connection has a server of its own.
# With these, every session of a connection has a server of its own.
OPTIONS = ["--env", "SESSION=session"]

SESSIONS = 3
ROUNDS = 4


@pytest.fixture
def notes(workspace: Workspace) -> Notes:
    """Return what the servers of the test record."""
    return Notes(str(workspace.place / "notes"))


@pytest.fixture
def command(processes: ServerProcesses, notes: Notes) -> list[str]:
    """Return the command of a server that is hard to end and records its start."""
    return [*SERVER, "--liveness", processes.path, "hostile", "--notes", notes.path]


def check_own_servers(sights: Sequence[Observation], sessions: Sequence[str], notes: Notes) -> None:
    """Check that every session had one server from its first call to its last."""
    assert sorted(sight.asker for sight in sights) == sorted(ROUNDS * [*sessions])
    servers = {sight.pid for sight in sights}
    promise(len(servers) == SESSIONS, "all of them share one server")
    for session in sessions:
        own = [sight for sight in sights if sight.asker == session]
        assert len({sight.pid for sight in own}) == 1
        assert [sight.calls for sight in own] == [*range(1, ROUNDS + 1)]
        assert {sight.env["SESSION"] for sight in own} == {session}
        assert {sight.context["sessionId"] for sight in own} == {session}
    # One more for the host's own first words; it was replaced before it was called.
    _, *started = notes.read_starts()
    assert {start.pid: start.env["SESSION"] for start in started} == {
        sight.pid: sight.asker for sight in sights
    }


def mark(session: str, tool: str) -> str:
    """Return a prompt that says whose it is, because requests to the model do not."""
    return f"I am {session}. {qwen.say(tool)}"


def call_in_rounds(workspace: Workspace, daemon: qwen.Daemon, sessions: list[str]) -> None:
    """Make every session call once in each round, all of them at the same time."""
    together = threading.Barrier(len(sessions), timeout=LIMIT)
    workspace.models.before_call = together.wait
    for count in range(1, ROUNDS + 1):
        daemon.send_prompts({one: mark(one, "look") for one in sessions})
        workspace.wait_for_observations(count * len(sessions))


def test_a_daemon(
    workspace: Workspace, processes: ServerProcesses, notes: Notes, command: list[str]
) -> None:
    project = workspace.make_project("project")
    qwen.configure_all(workspace, {"probe": workspace.wrap(command, *OPTIONS)})
    daemon = qwen.Daemon(workspace, project)
    sessions = daemon.start_sessions(SESSIONS)

    call_in_rounds(workspace, daemon, sessions)

    sights = workspace.wait_for_observations(SESSIONS * ROUNDS)
    # Each session has a server of its own that knows it.
    check_own_servers(sights, sessions, notes)

    called = threading.Semaphore(0)
    workspace.models.before_call = called.release
    daemon.send_prompts({one: mark(one, "wait") for one in sessions})
    for _ in sessions:
        assert called.acquire(timeout=LIMIT)
    servers = {sight.pid for sight in sights}
    processes.wait_for(servers)
    kill(daemon.process.pid, servers)
    check_killed_host(processes)


@pytest.mark.vscode
def test_chats(
    workspace: Workspace, processes: ServerProcesses, notes: Notes, command: list[str]
) -> None:
    project = workspace.make_project("project")
    vscode.configure_all(workspace, project, {"probe": workspace.wrap(command, *OPTIONS)})

    with vscode.open_window(workspace, project) as window:
        window.start_servers()
        chats = window.begin_chats(SESSIONS)
        sights = [sight for _ in range(ROUNDS) for sight in window.call_at_once(chats, "look")]
        # Each session has a server of its own that knows it.
        check_own_servers(sights, chats, notes)
        processes.wait_for({sight.pid for sight in sights})
        window.begin_calls(chats, "wait")
        os.kill(window.extension_host, signal.SIGKILL)
        check_killed_host(processes)

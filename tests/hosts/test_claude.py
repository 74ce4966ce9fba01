"""Claude Code without a terminal: every call is served in its own project and session."""

from __future__ import annotations

import threading
import uuid

from hosts import claude
from hosts.fake_models import LIMIT
from hosts.workspace import SERVER, Workspace, promise


def test_interleaved_calls_of_two_sessions_stay_in_their_projects(workspace: Workspace) -> None:
    projects = {str(uuid.uuid4()): workspace.make_project(name) for name in ("one", "two")}
    claude.configure(workspace, workspace.wrap(SERVER))
    # Every call waits for one of the other session, so that they arrive together.
    workspace.models.before_call = threading.Barrier(2, timeout=LIMIT).wait

    for option in ("--session-id", "--resume", "--resume"):
        hosts = [
            claude.run(workspace, project, option, session, words=3 * f"{claude.LOOK} ")
            for session, project in projects.items()
        ]
        assert [host.wait(LIMIT) for host in hosts] == [0, 0], workspace.read_output()

    for sight in workspace.wait_for_observations(3 * 3 * 2):
        promise(sight.cwd == projects[sight.asker], "a call is worked on in another project")
        told = sight.env["CLAUDE_CODE_SESSION_ID"]
        promise(told == sight.asker, "a call is worked on for another session")
        promise(sight.context.get("sessionId") == sight.asker, "no call carries its session id")
        workspace.check(sight, projects[sight.asker])


def test_a_session_started_in_the_home_directory_has_its_servers(workspace: Workspace) -> None:
    home, session = workspace.work_at_home(), str(uuid.uuid4())
    claude.configure(workspace, workspace.wrap(SERVER))

    for option in ("--session-id", "--resume"):
        host = claude.run(workspace, home, option, session, words=2 * f"{claude.LOOK} ")
        assert host.wait(LIMIT) == 0, workspace.read_output()

    for sight in workspace.wait_for_observations(4):
        workspace.check(sight, home)

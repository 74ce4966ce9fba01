"""Claude Code without a terminal: every call is worked on in its own project and session."""

from __future__ import annotations

import threading
import uuid

import pytest
from hosts import claude
from hosts.desk import SERVER, Desk, promise
from hosts.models import LIMIT


def test_interleaved_calls_of_two_sessions_stay_in_their_projects(desk: Desk) -> None:
    projects = {str(uuid.uuid4()): desk.make_project(name) for name in ("one", "two")}
    claude.configure(desk, desk.wrap(SERVER))
    # Every call waits for one of the other session, so that they arrive together.
    desk.models.before_call = threading.Barrier(2, timeout=LIMIT).wait

    for option in ("--session-id", "--resume", "--resume"):
        hosts = [
            claude.run(desk, project, option, session, words=3 * f"{claude.LOOK} ")
            for session, project in projects.items()
        ]
        assert [host.wait(LIMIT) for host in hosts] == [0, 0], desk.read_output()

    for sight in desk.wait_for_sights(3 * 3 * 2):
        promise(sight.cwd == projects[sight.asker], "a call is worked on in another project")
        told = sight.env["CLAUDE_CODE_SESSION_ID"]
        promise(told == sight.asker, "a call is worked on for another session")
        promise(sight.context.get("sessionId") == sight.asker, "no call tells its session")
        desk.check(sight, projects[sight.asker])


@pytest.mark.parametrize("is_repository", [False, True], ids=["plain", "in Git"])
def test_a_session_started_in_the_home_directory_has_its_servers(
    desk: Desk, is_repository: bool
) -> None:
    home, session = desk.work_at_home(is_repository=is_repository), str(uuid.uuid4())
    claude.configure(desk, desk.wrap(SERVER))

    for option in ("--session-id", "--resume"):
        host = claude.run(desk, home, option, session, words=2 * f"{claude.LOOK} ")
        assert host.wait(LIMIT) == 0, desk.read_output()

    for sight in desk.wait_for_sights(4):
        desk.check(sight, home)

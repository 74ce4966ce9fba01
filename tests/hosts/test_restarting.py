"""`mcp-launch restart` between two calls of a real host, which does not notice."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from hosts import codex
from hosts.codex_and_claude import HOSTS
from hosts.fake_models import LIMIT
from hosts.workspace import LAUNCHED, LAUNCHER, SERVER, Workspace


@LAUNCHED
@pytest.mark.parametrize(
    ("host", "era"), [("codex", []), ("claude", ["--modern"])], ids=["codex", "claude-2026"]
)
def test_a_restart_between_two_calls_is_not_noticed(
    workspace: Workspace, host: str, era: list[str]
) -> None:
    project = workspace.make_project("project")
    HOSTS[host].configure(workspace, workspace.wrap([*SERVER, *era]))
    outcomes: list[dict[str, Any]] = []

    def restart() -> None:
        if workspace.models.answers:
            done = subprocess.run(
                [LAUNCHER[0], "restart", "probe", "--json"],
                check=True,
                capture_output=True,
                cwd=project,
                env=workspace.environment(),
                timeout=LIMIT,
            )
            outcomes.extend(json.loads(done.stdout)["servers"])

    workspace.models.before_call = restart
    HOSTS[host].run(workspace, project, words=2 * f"{codex.LOOK} ")

    first, second = workspace.wait_for_observations(2)
    [told] = outcomes
    assert (told["outcome"], told["host"]) == ("restarted", host)
    assert (told["before"], told["after"]) == (first.pid, second.pid)
    assert [first.calls, second.calls] == [1, 1]
    for sight in (first, second):
        workspace.check(sight, project)
    assert first.context["launchId"] == second.context["launchId"]

"""Mistral Vibe: it remembers the tools of a server for a day."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hosts import vibe
from hosts.fake_models import LIMIT
from hosts.workspace import SERVER, promise

if TYPE_CHECKING:
    from hosts.workspace import Workspace


def test_a_known_tool_of_a_server_that_cannot_be_started_says_why(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    program = workspace.home / "server"
    program.write_text(f"#!/bin/sh\nexec {shlex.join(SERVER)}\n", encoding="utf-8")
    program.chmod(0o755)
    vibe.configure_all(workspace, {"probe": workspace.wrap([str(program)])})

    vibe.run(workspace, project, vibe.say("look")).wait(LIMIT)
    program.unlink()
    vibe.run(workspace, project, vibe.say("look")).wait(LIMIT)

    first, second = workspace.models.wait_for(2)
    assert "<<" in first.text
    promise(f"{program} does not exist" in second.text, "nothing is shown")
    assert "Fix: " in second.text

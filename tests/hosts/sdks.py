"""Programs that run several sessions at once, with the SDKs of Claude Code and Codex."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from hosts import claude, codex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hosts.workspace import Workspace

# By the name of the SDK: our program that uses it.
PROGRAMS = {"agent-sdk": "claude_agent.mjs", "codex-sdk": "codex.mjs"}

# The variable in which its servers get their session or thread.
VARIABLES = {"agent-sdk": "CLAUDE_CODE_SESSION_ID", "codex-sdk": "CODEX_THREAD_ID"}

LOOK = "call mcp__probe__look {}"

_HERE = Path(__file__).parent / "sdk_programs"


class SdkProgram:
    """A running program: it opens a session in each project, and stays when all are idle."""

    def __init__(
        self,
        workspace: Workspace,
        sdk: str,
        projects: Sequence[str],
        command: Sequence[str],
        prompts: Sequence[str] = (LOOK,),
        **variables: str,
    ) -> None:
        node = shutil.which("node")
        assert node
        codex.configure(workspace, command)  # the other SDK gets it from the program
        words = {"projects": projects, "prompts": prompts, "command": command}
        self._workspace = workspace
        self.process = workspace.start(
            sdk,
            json.dumps(words),
            before=[node, str(_HERE / PROGRAMS[sdk])],
            # Its own directory must not be a project: the project must come from the session.
            cwd=workspace.home,
            env=claude.make_environment(workspace) | variables,
            stdout=subprocess.PIPE,
        )

    def wait_until_idle(self) -> dict[str, str]:
        """Return the project of each session, once all their prompts were answered."""
        projects: dict[str, str] = {}
        assert self.process.stdout
        for line in self.process.stdout:
            told = json.loads(line)
            if told == "idle":
                return projects
            projects[told[1]] = told[0]
        raise AssertionError(self._workspace.read_output())

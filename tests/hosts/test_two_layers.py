"""Hosts that serve each other: the innermost server knows all of them, and none is left behind."""

from __future__ import annotations

import json
import shlex
import threading
from typing import TYPE_CHECKING

import pytest
from hosts import claude, codex
from hosts.fake_models import LIMIT
from hosts.isolation import wait_until_alone
from hosts.survivors import PATIENCE, ROLES, list_survivors
from hosts.workspace import SERVER, Workspace, promise

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from launches import LivenessSocket


def start_claude_with_codex(
    workspace: Workspace, command: Sequence[str], words: str
) -> subprocess.Popen[bytes]:
    """Claude Code → `codex mcp-server` → server."""
    project, other = workspace.make_project("project"), workspace.make_project("other")
    serving = [str(workspace.programs["old-codex"]), "mcp-server"]
    claude.configure(workspace, workspace.wrap(serving), server="codex")
    codex.configure(workspace, workspace.wrap(command))
    return claude.run(workspace, project, words=say("mcp__codex__codex", prompt=words, cwd=other))


def start_codex_with_claude(
    workspace: Workspace, command: Sequence[str], words: str
) -> subprocess.Popen[bytes]:
    """Codex → `claude mcp serve` → its shell → `claude -p` → server.

    `claude mcp serve` only serves its own tools: it starts no server itself.
    """
    project, other = workspace.make_project("project"), workspace.make_project("other")
    env = claude.make_environment(workspace)
    program = str(workspace.programs["claude"])
    serving = workspace.wrap([program, "mcp", "serve"])
    # Required, since it may need more than the second that Codex allows optional servers.
    codex.configure(workspace, serving, server="claude", env_vars=sorted(env), required=True)
    claude.configure(workspace, workspace.wrap(command))
    line = shlex.join(["env", "-C", other, program, "-p", words, "--allowedTools", claude.TOOLS])
    return codex.run(workspace, project, words=say("mcp__claude__Bash", command=line), env=env)


def say(tool: str, **arguments: str) -> str:
    return f"call {tool} {json.dumps(arguments)}"


START = {"claude": start_claude_with_codex, "codex": start_codex_with_claude}
INNER = {"claude": "codex", "codex": "claude"}


@pytest.mark.parametrize("outermost", list(START))
def test_a_server_below_two_hosts_knows_both_and_ends_with_the_outermost(
    workspace: Workspace, liveness: LivenessSocket, outermost: str
) -> None:
    command = [*SERVER, "--liveness", liveness.path, "hostile"]
    called = threading.Semaphore(0)  # by the outer host, and twice by the inner
    workspace.models.before_call = called.release

    words = "call mcp__probe__look {} call mcp__probe__wait {}"
    host = START[outermost](workspace, command, words)
    liveness.wait_for(*ROLES)
    for _ in range(3):
        assert called.acquire(timeout=LIMIT)

    [sight] = workspace.wait_for_observations(1)
    [outer] = {asker for asker, tool in workspace.models.calls if "probe" not in tool}
    around = sight.context.get("outer", {})
    promise(
        (around.get("host"), around.get("sessionId")) == (outermost, outer),
        "nothing tells the server that there is another host above its own",
    )
    project, other = workspace.projects
    workspace.check(sight, other)
    assert around["cwd"] == project
    assert sight.context["host"] == INNER[outermost]

    host.kill()
    host.wait(LIMIT)

    promise(not list_survivors(liveness), "the server and everything it started live on")
    left = wait_until_alone(PATIENCE)
    assert not left

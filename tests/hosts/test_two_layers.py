"""Hosts that serve each other: the innermost server knows all of them, and none outlives them."""

from __future__ import annotations

import json
import shlex
import threading
from typing import TYPE_CHECKING

import pytest
from hosts import claude, codex
from hosts.company import PATIENCE, ROLES, list_survivors
from hosts.desk import SERVER, Desk, Sight, promise
from hosts.enclosure import wait_until_alone
from hosts.models import LIMIT

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from launches import LivenessSocket


def start_claude_with_codex(
    desk: Desk, command: Sequence[str], words: str
) -> subprocess.Popen[bytes]:
    """Claude Code → `codex mcp-server` → server."""
    project, other = desk.make_project("project"), desk.make_project("other")
    desk.used.add("old-codex")
    serving = [str(desk.programs["old-codex"]), "mcp-server"]
    claude.configure(desk, desk.wrap(serving), server="codex")
    codex.configure(desk, desk.wrap(command))
    return claude.run(desk, project, words=say("mcp__codex__codex", prompt=words, cwd=other))


def start_codex_with_claude(
    desk: Desk, command: Sequence[str], words: str
) -> subprocess.Popen[bytes]:
    """Codex → `claude mcp serve` → its shell → `claude -p` → server.

    What `claude mcp serve` serves are its own tools: it starts no server itself.
    """
    project, other = desk.make_project("project"), desk.make_project("other")
    desk.used.add("claude")
    env = claude.make_environment(desk)
    program = str(desk.programs["claude"])
    serving = desk.wrap([program, "mcp", "serve"])
    # Required, since it may need more than the second that Codex gives to others.
    codex.configure(desk, serving, server="claude", env_vars=sorted(env), required=True)
    claude.configure(desk, desk.wrap(command))
    line = shlex.join(["env", "-C", other, program, "-p", words, "--allowedTools", claude.TOOLS])
    return codex.run(desk, project, words=say("mcp__claude__Bash", command=line), env=env)


def say(tool: str, **arguments: str) -> str:
    return f"call {tool} {json.dumps(arguments)}"


START = {"claude": start_claude_with_codex, "codex": start_codex_with_claude}
INNER = {"claude": "codex", "codex": "claude"}


@pytest.mark.parametrize("outermost", list(START))
def test_a_server_below_two_hosts_knows_both(desk: Desk, outermost: str) -> None:
    START[outermost](desk, SERVER, "call mcp__probe__look {}")

    inner, outer = desk.models.wait_for(2)
    sight = Sight(inner)
    around = sight.context.get("outer", {})
    promise(
        (around.get("host"), around.get("sessionId")) == (outermost, outer.asker),
        "nothing tells the server that there is another host behind its own",
    )
    project, other = desk.projects
    desk.check(sight, other)
    assert around["cwd"] == project
    assert sight.context["host"] == INNER[outermost]


@pytest.mark.parametrize("outermost", list(START))
def test_the_end_of_the_outermost_host_ends_all_layers(
    desk: Desk, liveness: LivenessSocket, outermost: str
) -> None:
    command = [*SERVER, "--liveness", liveness.path, "hostile"]
    called = threading.Semaphore(0)  # by the outer host, and by the inner
    desk.models.before_call = called.release

    host = START[outermost](desk, command, "call mcp__probe__wait {}")
    liveness.wait_for(*ROLES)
    for _ in range(2):
        assert called.acquire(timeout=LIMIT)
    host.kill()
    host.wait(LIMIT)

    promise(not list_survivors(liveness), "the server and everything it started live on")
    left = wait_until_alone(PATIENCE)
    assert not left

"""Our own commands in a workspace, and what `ps` shows of the hosts there."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hosts.fake_models import LIMIT
from hosts.workspace import LAUNCHER

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.workspace import Workspace

PROGRAM = LAUNCHER[0]


def run(workspace: Workspace, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one of our commands as the workspace's owner, who has Codex and Claude Code installed."""
    path = ":".join(str(Path(workspace.programs[name]).parent) for name in ("codex", "claude"))
    environ = workspace.environment()
    return subprocess.run(
        [PROGRAM, *words],
        cwd=workspace.projects[0],
        env=environ | {"PATH": f"{path}:{environ['PATH']}"},
        check=False,
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
    )


def list_servers(workspace: Workspace) -> dict[int, dict[str, Any]]:
    """Return the servers in the workspace that `ps` shows by their processes, by pid."""
    found: dict[int, dict[str, Any]] = {}
    for host in json.loads(run(workspace, "ps", "--json").stdout)["hosts"]:
        for session in host["sessions"]:
            for server in session["servers"]:
                if server["project"] in workspace.projects:
                    whose = {"host": host["host"], "asker": session["thread"] or session["session"]}
                    launch = server["launch"] or {"server": server["pid"]}
                    found[launch["server"]] = server | whose
    return found


def find_hosts(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the hosts that `ps` shows in the workspace."""
    shown = json.loads(run(workspace, "ps", "--json").stdout)
    projects = set(workspace.projects)
    return [
        host
        for host in shown["hosts"]
        if not projects.isdisjoint(session["project"] for session in host["sessions"])
    ]


def list_titles(workspace: Workspace) -> dict[str, str | None]:
    """Return the title that `ps` shows for each project of the workspace."""
    return {
        session["project"]: session["title"]
        for host in find_hosts(workspace)
        for session in host["sessions"]
    }


def wait_for_host(workspace: Workspace, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the only host, once it is shown like this."""
    deadline = time.monotonic() + LIMIT
    while True:
        (host,) = find_hosts(workspace)
        if is_so(host):
            return host
        assert time.monotonic() < deadline, host

"""`wrap` and `unwrap` on configurations that the real hosts read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hosts import claude, codex
from hosts.fake_models import LIMIT
from hosts.workspace import SERVER, Workspace

LAUNCHER = str(Path(sys.executable).parent / "mcp-launch")


def edit(workspace: Workspace, *words: str) -> None:
    """Run `wrap` or `unwrap` as the workspace's owner."""
    done = subprocess.run(
        [LAUNCHER, *words, "--yes"],
        cwd=workspace.projects[0],
        env=workspace.environment(),
        check=False,
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_codex_accepts_what_wrap_and_unwrap_write(
    workspace_without_launcher: Workspace,
) -> None:
    workspace = workspace_without_launcher
    project = workspace.make_project("project")
    codex.configure(workspace, SERVER)
    path = workspace.home / ".codex" / "config.toml"
    # What Codex itself refuses, what its own editor would lose, and what only TOML 1.1 has.
    text = path.read_text(encoding="utf-8").replace(
        "args = ",
        '# mine\nenv_vars = [{ name = "THREAD", source = "thread" }]\n'
        'env = {\n  MINE = "\\x41", # why\n}\nargs = ',
    )
    path.write_text(text, encoding="utf-8")

    edit(workspace, "wrap")

    workspace.start("codex", "mcp", "list", "--json", cwd=project).wait(LIMIT)
    [entry] = json.loads(workspace.read_output())
    script = workspace.home / ".local/state/mcp-launch/mcp-launch"
    assert entry["transport"]["command"] == str(script)
    own = ["--server", entry["name"], "--env", "THREAD=thread"]
    assert entry["transport"]["args"] == ["run", *own, *SERVER]
    codex.run(workspace, project).wait(LIMIT)
    [sight] = workspace.wait_for_observations(1)
    assert sight.env["MINE"] == "A"
    assert sight.env["THREAD"] == sight.context["threadId"] == sight.asker
    edit(workspace, "unwrap")
    assert path.read_text(encoding="utf-8") == text


def test_claude_code_accepts_what_wrap_and_unwrap_write(
    workspace_without_launcher: Workspace,
) -> None:
    workspace = workspace_without_launcher
    project = workspace.make_project("project")
    claude.configure(workspace, SERVER)
    path = workspace.home / ".claude.json"
    before = path.read_text(encoding="utf-8")

    edit(workspace, "wrap")
    edit(workspace, "unwrap")
    assert path.read_text(encoding="utf-8") == before
    edit(workspace, "wrap")

    # It starts the servers, and writes its file itself.
    claude.list_servers(workspace, project).wait(LIMIT)
    assert "Connected" in workspace.read_output()
    claude.run(workspace, project).wait(LIMIT)
    [sight] = workspace.wait_for_observations(1)
    assert sight.context["sessionId"] == sight.asker
    edit(workspace, "unwrap")
    servers = json.loads(path.read_text(encoding="utf-8"))["mcpServers"]
    assert servers == json.loads(before)["mcpServers"]

"""`wrap` and `unwrap` on configurations that the real hosts read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hosts import claude, codex
from hosts.desk import SERVER, Desk
from hosts.models import LIMIT

LAUNCHER = str(Path(sys.executable).parent / "mcp-launch")


def edit(desk: Desk, *words: str) -> None:
    """Run `wrap` or `unwrap` as the desk's owner."""
    done = subprocess.run(
        [LAUNCHER, *words, "--yes"],
        cwd=desk.projects[0],
        env=desk.environment(),
        check=False,
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_codex_is_content_with_what_wrap_and_unwrap_write(bare_desk: Desk) -> None:
    desk = bare_desk
    project = desk.make_project("project")
    codex.configure(desk, SERVER)
    path = desk.home / ".codex" / "config.toml"
    # What Codex itself refuses, what its own editor would lose, and what only TOML 1.1 has.
    text = path.read_text(encoding="utf-8").replace(
        "args = ",
        '# mine\nenv_vars = [{ name = "THREAD", source = "thread" }]\n'
        'env = {\n  MINE = "\\x41", # why\n}\nargs = ',
    )
    path.write_text(text, encoding="utf-8")

    edit(desk, "wrap")

    desk.start("codex", "mcp", "list", "--json", cwd=project).wait(LIMIT)
    [entry] = json.loads(desk.read_output())
    assert entry["transport"]["command"] == LAUNCHER
    own = ["--server", entry["name"], "--env", "THREAD=thread"]
    assert entry["transport"]["args"][:6] == ["run", *own, "--"]
    codex.run(desk, project).wait(LIMIT)
    [sight] = desk.wait_for_sights(1)
    assert sight.env["MINE"] == "A"
    assert sight.env["THREAD"] == sight.context["threadId"] == sight.asker
    edit(desk, "unwrap")
    assert path.read_text(encoding="utf-8") == text


def test_claude_code_is_content_with_what_wrap_and_unwrap_write(bare_desk: Desk) -> None:
    desk = bare_desk
    project = desk.make_project("project")
    claude.configure(desk, SERVER)
    path = desk.home / ".claude.json"
    before = path.read_text(encoding="utf-8")

    edit(desk, "wrap")
    edit(desk, "unwrap")
    assert path.read_text(encoding="utf-8") == before
    edit(desk, "wrap")

    # It starts the servers, and writes its file itself.
    claude.list_servers(desk, project).wait(LIMIT)
    assert "Connected" in desk.read_output()
    claude.run(desk, project).wait(LIMIT)
    [sight] = desk.wait_for_sights(1)
    assert sight.context["sessionId"] == sight.asker
    edit(desk, "unwrap")
    servers = json.loads(path.read_text(encoding="utf-8"))["mcpServers"]
    assert servers == json.loads(before)["mcpServers"]

"""`wrap` where it takes processes: a terminal, a launch, writers at once, a limit of the system."""

from __future__ import annotations

import json
import os
import pty
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from launches import ENVIRONMENT_SERVER, LIMIT, LaunchRunner
from wrap_requests import PROGRAM, find_script, write

CODEX = """\
# mine
[mcp_servers.docs] # the docs
command = "npx"
args = ["-y", "docs"]

[mcp_servers.web]
url = "https://example.org"

[mcp_servers.off]
command = "off"
enabled = false
"""


def edit(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run `wrap` or `unwrap`."""
    settings: dict[str, Any] = {"stdin": subprocess.DEVNULL} | options
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [PROGRAM, *words],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT,
        **settings,
    )
    return done


@pytest.fixture
def codex_file(own_home: Path, project: Path) -> Path:
    """Return a Codex configuration of this user."""
    assert project.is_dir()
    return write(own_home / ".codex" / "config.toml", CODEX)


@pytest.mark.parametrize(("answer", "is_done"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_person_is_asked(answer: str, is_done: bool, codex_file: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer.encode())
        done = edit("wrap", stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)

    assert "Change 1 file? [y/N]" in done.stdout
    assert (find_script() in codex_file.read_text(encoding="utf-8")) is is_done


def test_a_host_without_projects_still_starts_what_was_wrapped(
    own_home: Path, runner: LaunchRunner
) -> None:
    path = own_home / ".config" / "Claude" / "claude_desktop_config.json"
    entry = {"command": ENVIRONMENT_SERVER[0], "args": ENVIRONMENT_SERVER[1:]}
    write(path, json.dumps({"mcpServers": {"it": entry}}))
    assert edit("wrap", "--yes").returncode == 0
    wrapped = json.loads(path.read_text(encoding="utf-8"))["mcpServers"]["it"]

    for place in ("/", str(own_home)):
        launch = runner.start([wrapped["command"], *wrapped["args"]], cwd=place)
        assert launch.ask("look")["cwd"] == place


# A host that counts in its file, under its own lock, as Claude Code does.
COUNTER = """
import json, os, sys, time
path, times = sys.argv[1], int(sys.argv[2])
for number in range(times):
    while True:
        try:
            os.mkdir(path + ".lock")
            break
        except FileExistsError:
            time.sleep(0.001)
    value = json.load(open(path))
    value["count"] = value.get("count", 0) + 1
    with open(path + ".new", "w") as file:
        json.dump(value, file, indent=2)
    os.replace(path + ".new", path)
    os.rmdir(path + ".lock")
"""


def test_wraps_at_once_and_a_host_that_writes_lose_nothing(own_home: Path, project: Path) -> None:
    assert project.is_dir()
    names = [f"s{number}" for number in range(4)]
    servers = {name: {"command": name, "args": ["x"]} for name in names}
    path = write(own_home / ".claude.json", json.dumps({"mcpServers": servers}))
    writer = subprocess.Popen([sys.executable, "-c", COUNTER, str(path), "300"])
    wraps = [
        subprocess.Popen([PROGRAM, "wrap", name, "--yes"], stdout=subprocess.DEVNULL)
        for name in names
    ]

    assert [wrap.wait(LIMIT) for wrap in wraps] == [0] * 4
    assert writer.wait(LIMIT) == 0

    value = json.loads(path.read_text(encoding="utf-8"))
    assert value["count"] == 300
    assert {name: one["command"] for name, one in value["mcpServers"].items()} == dict.fromkeys(
        names, find_script()
    )
    assert not Path(f"{path}.lock").exists()


def test_a_file_that_cannot_be_written_is_reported_and_stays(codex_file: Path) -> None:
    for words in ("wrap", "unwrap"):  # what entries start stays
        assert edit(words, "--yes").returncode == 0

    # A full disk, as far as this process can tell; root has it, too.
    done = edit("wrap", "--yes", preexec_fn=forbid_writing)

    assert done.returncode == 1
    assert f"cannot write {codex_file}: File too large" in done.stderr
    assert codex_file.read_text(encoding="utf-8") == CODEX
    assert [path.name for path in codex_file.parent.iterdir()] == [codex_file.name]


def forbid_writing() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

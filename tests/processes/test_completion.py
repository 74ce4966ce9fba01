"""Completion in real shells, with names that a shell must not evaluate."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from mcp_launch.commands.completion_scripts import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# How long a shell may take for one answer, in seconds.
LIMIT = 30.0

# How each shell is started without the user's settings, and made ready for the script.
START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {script}"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -D -u; source {script}"),
}


@pytest.fixture
def home(own_home: Path, tmp_path: Path) -> Path:
    """Return a home with servers of strange names, and a `mcp-launch` on PATH."""
    entry = {"command": "server"}
    names = ["my docs", f"$(touch {own_home}/evaluated)", f"`touch {own_home}/evaluated`", "web:1"]
    text = json.dumps({"mcpServers": dict.fromkeys(names, entry)})
    (own_home / ".claude.json").write_text(text, encoding="utf-8")
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "mcp-launch"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m mcp_launch "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    for shell, script in SCRIPTS.items():
        (tmp_path / f"script.{shell}").write_text(script, encoding="utf-8")
    return own_home


class Shell:
    """An interactive shell in a pseudo-terminal."""

    def __init__(self, name: str, home: Path, files: Path) -> None:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
        command, prepare = START[name]
        self._pid, self._fd = pty.fork()
        if not self._pid:
            os.chdir(home)
            path = f"{files}/programs:{os.environ['PATH']}"
            environ = {"HOME": str(home), "PATH": path, "TERM": "dumb", "PS1": "$ "}
            os.execvpe(command[0], command, environ)
        self.press(prepare.format(script=files / f"script.{name}") + "; echo rea''dy\r")
        self.wait_for("ready")

    def press(self, keys: str) -> None:
        """Type these keys."""
        self._seen = ""
        os.write(self._fd, keys.encode())

    def wait_for(self, text: str) -> str:
        """Return what the shell has shown since the last key, once it shows this text."""
        deadline = time.monotonic() + LIMIT
        while text not in self._seen:
            left = deadline - time.monotonic()
            assert left > 0, self._seen
            if select.select([self._fd], [], [], left)[0]:
                self._seen += os.read(self._fd, 1 << 16).decode(errors="replace")
        return self._seen

    def close(self) -> None:
        """End the shell."""
        os.close(self._fd)
        os.waitpid(self._pid, 0)


@pytest.fixture(params=START)
def shell(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Iterator[Shell]:
    one = Shell(request.param, home, tmp_path)
    yield one
    one.close()


def test_a_shell_completes_commands_hosts_and_servers(shell: Shell, home: Path) -> None:
    shell.press("mcp-launch doc\t")
    shell.wait_for("doctor")
    shell.press("--host curs\t")
    shell.wait_for("cursor")
    shell.press("\x15")  # ^U: begin the line again
    shell.press("mcp-launch wrap my\t")
    shell.wait_for("my\\ docs")
    shell.press("\x15")  # ^U: begin the line again
    shell.press("mcp-launch wrap \t\t")
    shell.wait_for("web")
    shell.press("\x15")  # ^U: begin the line again
    shell.press("mcp-launch wrap web\t")
    shell.wait_for(":1")

    assert not (home / "evaluated").exists()


def test_fish_completes_commands_hosts_and_servers(home: Path, tmp_path: Path) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")

    def ask(line: str) -> list[str]:
        asked = subprocess.run(
            [fish, "--no-config", "-c", f"source {tmp_path}/script.fish; complete -C {line!r}"],
            check=True,
            capture_output=True,
            encoding="utf-8",
            env={"HOME": str(home), "PATH": f"{tmp_path}/programs:{os.environ['PATH']}"},
            cwd=home,
            timeout=LIMIT,
        )
        return [one.partition("\t")[0] for one in asked.stdout.splitlines()]

    assert ask("mcp-launch doc") == ["doctor"]
    assert ask("mcp-launch doctor --host curs") == ["cursor"]
    assert sorted(ask("mcp-launch wrap "))[-2:] == ["my docs", "web:1"]
    assert not (home / "evaluated").exists()

"""Typer's completion in real shells, with names that a shell must not evaluate."""

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

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# How long a shell may take for one answer, in seconds.
LIMIT = 30.0


@pytest.fixture
def environ(own_home: Path, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a user with servers of strange names and a `mcp-launch` on PATH."""
    run = f"touch {own_home}/evaluated"
    names = ["my-docs", f"$({run})", f"a`{run}`", f"\\$({run})", f"';{run};'", "red\x1b[31m", "a b"]
    text = json.dumps({"mcpServers": {name: {"command": "server"} for name in names}})
    (own_home / ".claude.json").write_text(text, encoding="utf-8")
    program = tmp_path / "programs" / "mcp-launch"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m mcp_launch "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    return {"HOME": str(own_home), "PATH": path, "TERM": "dumb"}


def install(shell: str, environ: dict[str, str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    # `true`, so that the shell stays the parent, by which typer knows it.
    subprocess.run(
        [shell, "-c", "mcp-launch --install-completion; true"],
        check=True,
        capture_output=True,
        env=environ,
        cwd=environ["HOME"],
        timeout=LIMIT,
    )


class Shell:
    """An interactive shell in a pseudo-terminal."""

    def __init__(self, name: str, environ: dict[str, str]) -> None:
        self._pid, self._fd = pty.fork()
        if not self._pid:
            os.chdir(environ["HOME"])
            os.execvpe(name, [name, "-i"], environ)
        self._seen = ""
        self.wait_for("ask> ")  # before it, keys are the terminal's
        # With the first tab, zsh only loads the script; ^U begins the line again.
        self.press("mcp-launch \t\x15echo rea''dy\r")
        self.wait_for("ready")
        self.wait_for("ask> ")

    def press(self, keys: str) -> None:
        """Type these keys."""
        self._seen = ""
        os.write(self._fd, keys.encode())

    def wait_for(self, text: str) -> None:
        """Wait until the shell shows this text after the last key, or the last text."""
        deadline = time.monotonic() + LIMIT
        while text not in self._seen:
            left = deadline - time.monotonic()
            assert left > 0, self._seen
            if select.select([self._fd], [], [], left)[0]:
                self._seen += os.read(self._fd, 1 << 16).decode(errors="replace")
        self._seen = self._seen.partition(text)[2]

    def close(self) -> None:
        """End the shell."""
        os.close(self._fd)
        os.waitpid(self._pid, 0)


@pytest.fixture(params=["bash", "zsh"])
def shell(
    request: pytest.FixtureRequest, environ: dict[str, str], own_home: Path
) -> Iterator[Shell]:
    install(request.param, environ)
    with (own_home / f".{request.param}rc").open("a", encoding="utf-8") as file:
        file.write("PS1='ask> '\n")  # whatever the system's own file says
    one = Shell(request.param, environ)
    yield one
    one.close()


def test_a_shell_completes_commands_hosts_and_servers(shell: Shell, own_home: Path) -> None:
    # What a shell adds follows what was typed, perhaps after a sequence that moves the cursor.
    shell.press("mcp-launch doc\t")
    shell.wait_for("tor")
    shell.press("--host curs\t")
    shell.wait_for("or")
    shell.press("\x15mcp-launch wrap \t")
    shell.wait_for("my-docs")

    assert not (own_home / "evaluated").exists()


def test_fish_completes_commands_hosts_and_servers(environ: dict[str, str], own_home: Path) -> None:
    install("fish", environ)

    def ask(line: str) -> list[str]:
        asked = subprocess.run(
            [str(shutil.which("fish")), "-c", f"complete -C {line!r}"],
            check=True,
            capture_output=True,
            encoding="utf-8",
            env=environ,
            cwd=own_home,
            timeout=LIMIT,
        )
        return [one.partition("\t")[0] for one in asked.stdout.splitlines()]

    assert ask("mcp-launch doct") == ["doctor"]
    assert ask("mcp-launch doctor --host curs") == ["cursor"]
    assert ask("mcp-launch wrap ") == ["my-docs"]
    assert "--stats" in (options := ask("mcp-launch calls --"))
    assert [one for one in options if not one.startswith("--")] == []
    assert not (own_home / "evaluated").exists()

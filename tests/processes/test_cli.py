"""The commands beside `run`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mcp_launch import __version__
from mcp_launch.commands import command_line

if TYPE_CHECKING:
    from pathlib import Path

    from launches import LaunchRunner


def mcp_launch(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcp_launch", *words],
        check=False,
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


def test_the_version_is_printed() -> None:
    assert mcp_launch("--version").stdout == f"mcp-launch {__version__}\n"


def test_a_system_without_fork_is_refused_with_the_reason() -> None:
    assert command_line.run(["run", "--direct", "--", "server", "-x"]) == 125


@pytest.mark.parametrize(
    ("words", "code"),
    [("lunch <&-", 2), ("list --json >&- <&-", 0), ("logs >&- <&-", 2)],
    ids=["a mistake without stdin", "a list", "no logs"],
)
def test_a_closed_stream_is_no_bug_of_ours(words: str, code: int, own_home: Path) -> None:
    command = f"exec {sys.executable} -m mcp_launch {words}"
    done = subprocess.run(["/bin/sh", "-c", command], check=False, capture_output=True, timeout=60)

    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    assert b"a bug in mcp-launch" not in done.stderr
    assert not list(own_home.rglob("crash-*"))


def test_what_we_say_of_a_servers_noise_is_only_text(runner: LaunchRunner) -> None:
    noise = "\x1b]52;c;ZXZpbA==\x07\x9b2Jready\tnow"
    code = f"import sys; print({noise!r}, flush=True); sys.stdin.read()"

    launch = runner.launch("--server", "noisy\x1b[2J", "--", sys.executable, "-c", code)

    said = launch.finish()[2].decode()
    assert "ready" in said
    assert all(one.isprintable() or one == "\n" for one in said), ascii(said)

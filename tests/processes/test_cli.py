"""The commands beside `run`."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
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


def test_the_demo_leaves_nothing(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    shown = mcp_launch("demo")

    assert shown.returncode == 0, shown.stderr
    assert max(map(len, shown.stdout.splitlines())) <= 80
    # Without us the server and its three children are left; with us nothing is.
    assert shown.stdout.count("alive") == 4
    assert re.search(r"^Left after .* s: nothing\.$", shown.stdout, re.MULTILINE)
    assert "\n  mcp-launch wrap --dry-run " in shown.stdout
    assert list(own_home.iterdir()) == []
    places = [process.info["cwd"] or "" for process in psutil.process_iter(["cwd"])]
    assert [place for place in places if place.startswith(str(tmp_path))] == []


def test_the_version_is_printed() -> None:
    assert mcp_launch("--version").stdout == f"mcp-launch {__version__}\n"


def test_a_system_without_fork_is_refused_with_the_reason() -> None:
    assert command_line.run(["run", "--direct", "--", "server", "-x"]) == 125


def test_a_closed_stdin_is_no_reason_for_a_traceback() -> None:
    command = f"exec {sys.executable} -m mcp_launch lunch <&-"
    refused = subprocess.run(
        ["/bin/sh", "-c", command], check=False, capture_output=True, timeout=60
    )

    assert refused.returncode == 2
    assert b"Traceback" not in refused.stderr


@pytest.mark.parametrize("words", ["--version", "list --json", "explain", "schema", "logs"])
def test_a_closed_stdout_is_no_bug_of_ours(words: str, own_home: Path) -> None:
    command = f"exec {sys.executable} -m mcp_launch {words} >&- <&-"
    done = subprocess.run(["/bin/sh", "-c", command], check=False, capture_output=True, timeout=60)

    assert done.returncode in {0, 2}  # there are no logs
    assert b"a bug in mcp-launch" not in done.stderr
    assert not list(own_home.rglob("crash-*"))


def test_what_we_say_of_a_servers_noise_is_only_text(runner: LaunchRunner) -> None:
    noise = "\x1b]52;c;ZXZpbA==\x07\x9b2Jready\tnow"
    code = f"import sys; print({noise!r}, flush=True); sys.stdin.read()"

    launch = runner.launch("--server", "noisy\x1b[2J", "--", sys.executable, "-c", code)

    said = launch.finish()[2].decode()
    assert "ready" in said
    assert all(one.isprintable() or one == "\n" for one in said), ascii(said)

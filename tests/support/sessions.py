"""Launches below a fake Codex or Claude Code, whose threads and sessions change."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from launches import LIMIT, RUN, SCRIPTED_SERVER, Launch, LaunchRunner, wait_until_gone

if TYPE_CHECKING:
    from collections.abc import Callable

# The second is the newer: the first twelve digits of an id are the time.
A = "01999999-0000-7000-8000-000000000000"
B = "01999999-0001-7000-8000-000000000000"


@pytest.fixture
def codex(runner: LaunchRunner, tmp_path: Path) -> Callable[..., Launch]:
    """Start a launch below a fake Codex that holds the locks of some threads."""
    locks = tmp_path / "home" / ".codex" / "thread-writer-locks"
    locks.mkdir(parents=True)

    def start(
        *words: str, threads: tuple[str, ...] = (), server: tuple[str, ...] = (), **more: Any
    ) -> Launch:
        opened = [word for one in threads for word in ("--open", str(locks / f"{one}.lock"))]
        opened += more.pop("host_words", ())
        run = more.pop("run", RUN)
        command = [*run, *words, "--", *more.pop("command", SCRIPTED_SERVER), *server]
        return runner.launch_below_host("codex", *opened, command=command, **more)

    return start


@pytest.fixture
def claude(runner: LaunchRunner, tmp_path: Path) -> Callable[..., Claude]:
    """Start a launch below a fake Claude Code, in session s-1."""

    def start(*words: str, server: tuple[str, ...] = (), **more: Any) -> Claude:
        environ = {
            **os.environ,
            "CLAUDE_CODE_SESSION_ID": "s-1",
            "CLAUDE_PROJECT_DIR": str(runner.project),
        }
        command = [*more.pop("run", RUN), *words, "--", *SCRIPTED_SERVER, *server]
        host = runner.launch_below_host("claude", "--socket", command=command, env=environ, **more)
        return Claude(host, tmp_path / "home")

    return start


class Claude:
    """A fake Claude Code whose session record can be changed."""

    def __init__(self, host: Launch, home: Path) -> None:
        self.host = host
        self._record = home / ".claude" / "sessions" / f"{host.pid}.json"
        self._record.parent.mkdir(parents=True, exist_ok=True)
        self.switch("s-1")

    def begin(self) -> Launch:
        """Greet the server and call it once, so that it serves the session; return the launch."""
        self.host.initialize()
        self.host.call("look")
        return self.host

    def switch(self, session: str) -> None:
        """Do what `/clear` does."""
        stat = Path(f"/proc/{self.host.pid}/stat").read_text(encoding="utf-8")
        start = stat.rpartition(")")[2].split()[19]
        record = {"pid": self.host.pid, "sessionId": session, "procStart": start}
        self._record.write_text(json.dumps(record), encoding="utf-8")


def kill(pid: int) -> None:
    """Kill a server, and wait: until it is gone it may still read requests."""
    os.kill(pid, signal.SIGKILL)
    wait_until_gone(pid)


def stop(pid: int) -> None:
    """Stop a server with SIGSTOP, and wait until it has stopped."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + LIMIT
    while ") T " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8"):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def of(thread: str, **more: object) -> dict[str, object]:
    return {"threadId": thread, "sessionId": thread, **more}


def methods(sight: dict[str, Any]) -> list[str]:
    return [message.get("method") for message in sight["heard"]]


def with_constants(*, module: str = "broker.succession", **constants: float) -> list[str]:
    """Return the command of a launcher with other time limits."""
    lines = [f"module.{name} = {value}" for name, value in constants.items()]
    code = "; ".join(
        [
            "import sys",
            f"import mcp_launch.{module} as module",
            *lines,
            "from mcp_launch import main",
            "sys.exit(main(['run', *sys.argv[1:]]))",
        ]
    )
    return [sys.executable, "-c", code]

"""A fake developer's workspace: a home, projects, fake models, and running hosts."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hosts import isolation
from hosts.fake_models import Answer, FakeModels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hosts.programs import Programs
    from hosts.terminal import Terminal

HERE = Path(__file__).parent

LAUNCHER = [str(Path(sys.executable).parent / "mcp-launch"), "run"]
SERVER = [sys.executable, "-S", str(HERE / "probe_server.py")]

CONTEXT = "mcp-launch/context"

# In seconds: how long a host may take to exit on request, and its servers after it.
FAREWELL = 10.0

_TOLD = re.compile(r"<<([A-Za-z0-9+/=]+)>>")


# For a test of what there is only with the launcher.
LAUNCHED = pytest.mark.usefixtures("launched")


class PromiseBroken(AssertionError):
    """A promise was not kept, as expected without the launcher."""


def promise(kept: object, fault: str) -> None:
    """Check a promise of the launcher; the fault describes what happens without it."""
    if not kept:
        raise PromiseBroken(fault)


def wrap(launcher: list[str], command: Sequence[str], *options: str) -> list[str]:
    """Return a server's command, with the launcher before it if there is one."""
    return [*launcher, *options, "--", *command] if launcher else list(command)


def make_entries(commands: Mapping[str, Sequence[str]], **more: object) -> dict[str, Any]:
    """Return the entries of servers, in the form that most hosts have for them."""
    return {
        name: {**more, "command": command[0], "args": list(command[1:])}
        for name, command in commands.items()
    }


def find_free_port() -> int:
    """Return a port on which nobody listens now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


class Observation:
    """What a server saw during a call, and which session or thread got its answer."""

    def __init__(self, answer: Answer) -> None:
        found = _TOLD.search(answer.text)
        assert found, f"no server said: {answer.text}"
        told = json.loads(base64.b64decode(found[1]))
        self.asker = answer.asker
        self.pid: int = told["pid"]
        self.cwd: str = told["cwd"]
        self.env: dict[str, str] = told["env"]
        self.calls: int = told["calls"]
        self.arguments: dict[str, Any] = told["arguments"] or {}
        self.meta: dict[str, Any] = told["meta"] or {}
        self.context: dict[str, Any] = self.meta.get(CONTEXT, {})


class Workspace:
    """Where hosts run: separate from the developer's files, and removed after the test."""

    def __init__(self, place: Path, programs: Programs, launcher: list[str]) -> None:
        self.place = place.resolve()
        self.home = self.place / "home"
        self.home.mkdir()
        (self.place / "tmp").mkdir()
        self.programs = programs
        self.launcher = launcher  # the words before a server's command, or none
        self.projects: list[str] = []
        self.terminals: list[Terminal] = []
        self.models = FakeModels()
        self._running: list[subprocess.Popen[bytes]] = []

    def make_project(self, name: str) -> str:
        """Return a new project's directory."""
        project = str(self.place / name)
        git = shutil.which("git")
        assert git
        subprocess.run([git, "init", "-q", project], check=True, env=self.environment())
        self.projects.append(project)
        return project

    def work_at_home(self) -> str:
        """Return the home directory as a project."""
        self.projects.append(str(self.home))
        return str(self.home)

    def write(self, path: str, content: str | dict[str, Any]) -> None:
        """Write a file, by default below the home directory; as JSON unless it is a text."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        file.write_text(text, encoding="utf-8")

    def wrap(self, command: Sequence[str], *options: str) -> list[str]:
        """Return a server's command, with the launcher before it if there is one."""
        return wrap(self.launcher, command, *options)

    def environment(self, **more: str) -> dict[str, str]:
        """Return the whole environment of a host."""
        # Requests to other addresses go to the fake models, which refuse them.
        proxy = f"http://127.0.0.1:{self.models.port}"
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.place / "tmp"),
            "HTTP_PROXY": proxy,
            "HTTPS_PROXY": proxy,
            "NO_PROXY": "127.0.0.1",
            "GIT_SSH_COMMAND": "false",  # ssh ignores proxies and HOME
            **more,
        }

    def environment_with_node(self, **more: str) -> dict[str, str]:
        """Return the whole environment of a host that is a Node script."""
        own = self.environment()
        return own | {"PATH": f"{self.programs['node'].parent}:{own['PATH']}"} | more

    def start(
        self, name: str, *words: str, before: Sequence[str] = (), **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start one of the programs, with the words of `before` in front of it."""
        settings: dict[str, Any] = {"stdin": subprocess.DEVNULL, "env": self.environment()}
        with (self.place / "output").open("ab") as output:
            settings |= {"stdout": output, "stderr": output} | options
            command = [*before, str(self.programs[name]), *words]
            process: subprocess.Popen[bytes] = subprocess.Popen(command, **settings)
        self._running.append(process)
        return process

    def read_output(self) -> str:
        """Return everything that hosts have written to stdout and stderr."""
        return (self.place / "output").read_text(encoding="utf-8")

    def list_printed(self, pattern: str) -> list[str]:
        """Return everything of this form that hosts have written, without repetitions."""
        return list(dict.fromkeys(re.findall(pattern, self.read_output())))

    def wait_for_observations(self, count: int) -> list[Observation]:
        """Return what servers saw, once this many calls were answered."""
        answers = self.models.wait_for(count)
        assert len(answers) >= count, f"not offered: {self.models.not_offered}"
        return [Observation(answer) for answer in answers]

    def check(self, sight: Observation, project: str) -> None:
        """Check that a call was served in its project, and carried its project and session."""
        assert sight.cwd == project
        if self.launcher:
            assert sight.env["PWD"] == project
            assert sight.context["cwd"] == project
            key = "threadId" if sight.context["host"] == "codex" else "sessionId"
            assert sight.context[key] == sight.asker

    def end_all(self) -> list[str]:
        """End every host; return the server processes that are left after a while."""
        for process in self._running:
            end(process)
            for stream in filter(None, (process.stdin, process.stdout)):
                stream.close()
        for terminal in self.terminals:
            terminal.close()
        # Codex's daemon is meant to outlive its terminals, and Cline's hub every task. VS Code
        # replaces an extension host that was killed, and may end before the new one.
        isolation.terminate("codex", "cline", "--type=extensionHost")
        # Without the launcher something is left, and nobody asks what.
        return isolation.wait_until_alone(FAREWELL if self.launcher else 0.0)

    def close(self) -> None:
        """Remove everything, including what Codex puts outside its home."""
        self.models.close()
        link = self.home / ".codex" / "app-server-control" / "app-server-control.sock"
        if link.is_symlink():
            target = link.readlink()
            target.unlink(missing_ok=True)
            Path(f"{target}.lock").unlink(missing_ok=True)


def kill(host: int, servers: set[int]) -> None:
    """Kill a host: the process with this pid, and those between it and its servers."""
    # Some of the servers may be gone: opencode may start two for a project, and end one.
    running = [psutil.Process(server) for server in servers if psutil.pid_exists(server)]
    above = [one for one in running[0].parents() if LAUNCHER[0] not in one.cmdline()]
    pids = [one.pid for one in above]
    for one in above[: pids.index(host) + 1]:
        with contextlib.suppress(psutil.NoSuchProcess):  # the first may end with the others
            one.kill()
            one.wait(FAREWELL)


def end(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> None:
    """End a host with a signal, then SIGKILL."""
    for one in (number, signal.SIGKILL):
        if process.poll() is None:
            os.kill(process.pid, one)
            try:
                process.wait(FAREWELL)
            except subprocess.TimeoutExpired:
                continue

"""Fake hosts that can be killed, with servers that survive, isolated from other processes."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launches import HERE, LIMIT, python, wait_until_gone

from mcp_launch.machine import running
from mcp_launch.machine.survey import open_survey
from mcp_launch.system import linux
from mcp_launch.values import compare

if TYPE_CHECKING:
    from launches import Launch, LaunchRunner

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.recognize_server import Configured
    from mcp_launch.machine.running import Census, HostProcess
    from mcp_launch.system import ProcessTable

# Keeps running when its input ends, as many servers do; the alarm ends it if no test does.
STAYS = python(
    "import os, signal; signal.alarm(120); os.write(1, b'ready\\n')\nwhile True: signal.pause()"
)


def serve(code: str) -> list[str]:
    """Return the command that runs some Python under a server's name."""
    return [sys.executable, "-S", "-E", str(HERE / "scripts" / "mcp-docs"), code]


SERVER = serve(STAYS[-1])

# The same with a child in a session of its own; both ignore SIGTERM.
STUBBORN = serve(
    "import os, signal\n"
    "signal.signal(15, signal.SIG_IGN)\n"
    "parent = os.fork()\n"
    "signal.alarm(120)\n"
    "os.write(1, b'ready\\n') if parent else os.setsid()\n"
    "while True: signal.pause()"
)


def configure(command: list[str], name: str = "mcp-docs") -> None:
    """Write an entry with this command into a host's file, so that it is known as a server."""
    path = Path(os.environ["HOME"]) / ".kiro" / "settings" / "mcp.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = {"command": command[0], "args": command[1:]}
    entries = json.loads(path.read_text(encoding="utf-8"))["mcpServers"] if path.exists() else {}
    if entry not in entries.values():
        entries[f"{name}-{len(entries)}" if entries else name] = entry
    path.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")


class ProcessSubtree:
    """The process table, limited to the descendants of one process."""

    def __init__(self, top: int, reader: ProcessTable) -> None:
        self._top = top
        self._reader = reader

    def list_pids(self) -> list[int]:
        return linux.list_descendants(self._top)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def limit_to_subtree(top: int | None = None, reader: ProcessTable = linux) -> Any:
    """Return a process table that only has what this test started."""
    return ProcessSubtree(top or os.getpid(), reader)


class FakeHost:
    """A fake init, a stand-in host below it, and the command that the host started."""

    def __init__(
        self, runner: LaunchRunner, program: str, *words: str, command: list[str], **options: Any
    ) -> None:
        init, host = (link(runner, name) for name in (options.pop("init", "init"), program))
        scripts = HERE / "scripts"
        self.launch: Launch = runner.start(
            [
                *(init, "-S", "-E", str(scripts / "fake_init.py")),
                *(host, "-S", "-E", str(scripts / "fake_host.py"), *words, "--", *command),
            ],
            **options,
        )
        self.server = int(self.launch.read_line())
        process = linux.look(self.server)
        assert process
        self.pid = process.parent
        # A fake host exits when its server closes stdout, perhaps before we look for it.
        self._has_exited = self.pid == self.launch.pid  # the init is the parent now
        parent = linux.look(self.pid)
        assert parent
        self._identity = parent.identity

    def wait_until_ready(self) -> FakeHost:
        """Wait until the server is there."""
        assert self.launch.read_line() == b"ready\n"
        return self

    def kill_host(self) -> FakeHost:
        """Kill the host without a warning; its children are adopted."""
        if self._has_exited:
            return self
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has exited since
        wait_until_gone(self.pid)
        deadline = time.monotonic() + LIMIT
        # Until the init has collected it; another process may have its pid soon after.
        while (seen := linux.look(self.pid)) and compare(self._identity, seen.identity) == "same":
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return self

    def end(self) -> None:
        """Kill everything that is left."""
        for pid in reversed(linux.list_descendants(self.launch.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # as it should be


class FakeHosts:
    """Starts fake hosts, and ends all of them."""

    def __init__(self, runner: LaunchRunner) -> None:
        self._runner = runner
        self._started: list[FakeHost] = []

    def start(self, program: str, *words: str, command: list[str], **options: Any) -> FakeHost:
        """Start a host with a command that says "ready", and wait for that.

        A command that `serve` returned is also in a host's file.
        """
        script = SERVER[-2]
        if script in command:
            configure(command[command.index(script) - len(SERVER) + 2 :])
        fake_host = FakeHost(self._runner, program, *words, command=command, **options)
        self._started.append(fake_host)
        return fake_host.wait_until_ready()

    def end_all(self) -> None:
        """End everything that was started here."""
        for fake_host in self._started:
            fake_host.end()


def link(runner: LaunchRunner, name: str) -> str:
    """Return the path of a Python under another name."""
    path = runner.project.parent / name
    if not path.exists():
        path.symlink_to(os.path.realpath(sys.executable))
    return str(path)


def write_session(home: Path, pid: int, session: str) -> None:
    """Write Claude Code's record of its session."""
    process = linux.look(pid)
    assert process
    assert process.identity.start
    path = home / ".claude" / "sessions" / f"{pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    start = process.identity.start.partition(":")[2]
    path.write_text(
        json.dumps({"pid": pid, "sessionId": session, "procStart": start}), encoding="utf-8"
    )


def write_lease(state: Path, launch: str = "launch-1", /, **facts: Any) -> Path:
    """Write the lease of a made-up launch; processes are given by their pids."""
    pids = facts.pop("processes", {})
    processes = {part: {"pid": pid, "start": _start_of(pid)} for part, pid in pids.items()}
    record = {"version": 1, "launch": launch, "server": "docs", "state": "running"}
    record |= {"boot": linux.boot_id()}
    path = state / "leases" / f"{launch}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**record, "processes": processes, **facts}), encoding="utf-8")
    path.chmod(0o600)
    path.parent.chmod(0o700)
    return path


def _start_of(pid: int) -> str | None:
    process = linux.look(pid)
    return process.identity.start if process else "ticks:1"


def take(state: Path, *configured: Configured) -> Census:
    """Return the census of what this test started; without `configured`, hosts' files are read."""
    known = configured or open_survey(os.environ).configured
    return running.take(limit_to_subtree(), str(state), known)


def forget_seconds(text: str) -> str:
    """Return a text with every age in seconds set to 0s: machines are busy."""
    return re.sub(r"\b\d+s\b", "0s", text)


def find_hosts(seen: Census, name: str) -> list[HostProcess]:
    """Return the processes of one host."""
    return [host for host in seen.hosts if host.name == name]


def find_server(seen: Census, pid: int) -> Server | None:
    """Return a server of any host by its pid."""
    servers = (server for host in seen.hosts for server in host.servers)
    return next((server for server in servers if server.pid == pid), None)

"""`mcp-launch demo`: what is left when a host is killed, with mcp-launch and without it.

Needs no host and touches nothing outside a temporary directory. The host is a stand-in with
Codex's name, and its server ignores the end of its input and hides children; launcher and
guardian are real. Host and server are this file, run as a script with the standard library only.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

# A stand-in answers within a second on any machine; after this long it never will.
_ANSWER_LIMIT = 30.0

# A server that ignores the end of its input gets 2 s, and another 2 s after SIGTERM.
_END_LIMIT = 10.0

_PARTS = {
    "host": "the stand-in, killed",
    "launcher": "between host and server",
    "keeper": "steps in if launcher or guardian dies",
    "guardian": "adopts and ends the processes below it",
    "server": "ignores the end of its input",
    "child": "a child of the server",
    "own session": "a child in its own session",
    "daemon": "forked twice, its environment emptied",
}

_NEXT = {
    "mcp-launch wrap --dry-run": "show what would change in their files",
    "mcp-launch doctor": "find out what is wrong with their servers",
    "mcp-launch explain": "read more",
}

# -I: the modules beside this file have names that the standard library has, too.
_SCRIPT = ("-I", "-S", os.path.realpath(__file__))

_SLEEP = [sys.executable, "-c", "import time; time.sleep(3600)"]

# Forks twice in its own session, with an empty environment, to detach from its parents.
_DAEMON = """
import os, sys
os.setsid()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
os.execve(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(3600)"], {})
"""


def show() -> int:
    """Run the demo and return 0 if everything went as promised."""
    from mcp_launch.commands.screen import Screen

    screen = Screen(soft_wrap=False)
    screen.print(
        "A stand-in for Codex starts a server through mcp-launch, and another one starts\n"
        "it directly. Both are killed with SIGKILL. The server ignores the end of its\n"
        "input, and hides children:\n"
    )
    with tempfile.TemporaryDirectory(prefix="mcp-launch-demo-") as directory:
        hosts: list[StandIn] = []
        try:
            hosts.append(StandIn(f"{directory}/with", is_wrapped=True))
            hosts.append(StandIn(f"{directory}/without", is_wrapped=False))
            with_us, without = (host.list_processes() for host in hosts)
            for host in hosts:
                host.process.kill()
                host.process.wait()
            started = time.monotonic()
            left = _wait_for_all(with_us)
            took = time.monotonic() - started
            screen.print(_tabulate(with_us, without))
        finally:
            for host in hosts:
                host.end()
    screen.print(f"\nLeft after {took:.1f} s: [bold]{', '.join(left) or 'nothing'}[/bold].")
    screen.print("\nNext, with your own hosts:")
    if shutil.which("mcp-launch") is None:
        screen.print("  uv tool install .           install it first (or: pipx install .)")
    for command, what in _NEXT.items():
        screen.print(f"  {command.ljust(28)}{what}")
    return 1 if left else 0


class StandIn:
    """A stand-in host process and its server."""

    def __init__(self, directory: str, *, is_wrapped: bool) -> None:
        self._is_wrapped = is_wrapped
        self._processes: dict[str, psutil.Process] = {}
        # A host is recognised by its name, so this is a link to Python with that name.
        host = f"{directory}/codex"
        os.makedirs(f"{directory}/project/.git")
        os.symlink(os.path.realpath(sys.executable), host)
        prefix = [sys.executable, "-m", "mcp_launch", "run", "--"] if is_wrapped else []
        kept = ("PATH", "LANG", "PYTHONPATH", "VIRTUAL_ENV")
        environ = {name: os.environ[name] for name in kept if name in os.environ}
        self.process = subprocess.Popen(
            [host, *_SCRIPT, "host", *prefix, sys.executable, *_SCRIPT, "server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=f"{directory}/project",
            env=environ | {"HOME": f"{directory}/home", "MCP_LAUNCH_HOME": f"{directory}/state"},
            start_new_session=True,
        )

    def list_processes(self) -> dict[str, psutil.Process]:
        """Return the processes of this host by their part, once its server has answered."""
        import psutil

        from mcp_launch.errors import LaunchError

        assert self.process.stdout  # noqa: S101  # for the type checker: we asked for a pipe
        is_ready = select.select([self.process.stdout], [], [], _ANSWER_LIMIT)[0]
        line = self.process.stdout.readline() if is_ready else b""
        if not line:
            raise LaunchError(
                "the demo's server did not answer",
                fix="run `mcp-launch run --trace -- cat` and read its output",
            )
        pids = {"host": self.process.pid, **json.loads(line)}
        if self._is_wrapped:
            for part, below in (
                ("guardian", "server"),
                ("keeper", "guardian"),
                ("launcher", "keeper"),
            ):
                pids[part] = psutil.Process(pids[below]).ppid()
        self._processes = {part: psutil.Process(pids[part]) for part in _PARTS if part in pids}
        return self._processes

    def end(self) -> None:
        """End what is left."""
        self.process.kill()
        self.process.communicate()
        for process in self._processes.values():
            if _lives(process):
                process.kill()


def _tabulate(with_us: dict[str, psutil.Process], without: dict[str, psutil.Process]) -> object:
    from rich import box
    from rich.table import Table

    columns = ("process", "what it is", "with mcp-launch", "without")
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for part, what in _PARTS.items():
        states = (
            ("[red]alive[/red]" if _lives(processes[part]) else "gone") if part in processes else ""
            for processes in (with_us, without)
        )
        table.add_row(part, what, *states)
    return table


def _lives(process: psutil.Process) -> bool:
    import psutil

    try:
        # A zombie has ended; on some systems init is slow to reap it.
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait_for_all(processes: dict[str, psutil.Process]) -> list[str]:
    """Wait until all processes have ended; return the parts of those that have not in time."""
    deadline = time.monotonic() + _END_LIMIT
    while time.monotonic() < deadline and any(map(_lives, processes.values())):
        time.sleep(0.02)
    return [part for part, process in processes.items() if _lives(process)]


def _be_host(command: list[str]) -> None:
    """Start a server as a host does, print what it says, and stay until killed."""
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin  # noqa: S101  # for the type checker: we asked for a pipe
    assert server.stdout  # noqa: S101
    version, client = "2025-11-25", {"name": "stand-in", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    server.stdin.write(json.dumps(request).encode() + b"\n")
    server.stdin.flush()
    print(json.loads(server.stdout.readline())["result"]["instructions"], flush=True)  # noqa: T201
    sys.stdin.read()


def _be_server() -> None:
    """Start children, answer with their process ids, and outlive the end of the input."""
    child = subprocess.Popen(_SLEEP)
    own_session = subprocess.Popen(_SLEEP, start_new_session=True)
    with subprocess.Popen([sys.executable, "-c", _DAEMON], stdout=subprocess.PIPE) as starter:
        assert starter.stdout  # noqa: S101  # for the type checker: we asked for a pipe
        daemon = int(starter.stdout.readline())
    pids = {"server": os.getpid(), "child": child.pid, "own session": own_session.pid}
    request = json.loads(sys.stdin.readline())
    result = {
        "protocolVersion": request["params"]["protocolVersion"],
        "capabilities": {},
        "serverInfo": {"name": "demo", "version": "1"},
        "instructions": json.dumps(pids | {"daemon": daemon}),
    }
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
    print(json.dumps(answer), flush=True)  # noqa: T201  # its output is the wire
    while True:
        signal.pause()  # the most common fault of real servers: they outlive their input


if __name__ == "__main__":
    if sys.argv[1] == "host":
        _be_host(sys.argv[2:])
    else:
        _be_server()

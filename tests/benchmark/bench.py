"""The setting that everything is measured in: an installed copy, a project, a connection."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SERVER = str(HERE / "server.py")
RELAY = str(HERE / "minimal_relay.py")


def make_line(method: str, **members: object) -> bytes:
    """Return a request, members in the order given."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, **members}
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def make_call(meta: dict[str, object]) -> bytes:
    """Return a call as Codex writes it."""
    return make_line("tools/call", params={"_meta": meta, "name": "read", "arguments": {"n": 1}})


# A server of a profile.
PROFILE = """
[servers.server-{0}]
command = "some-server"
args = ["--number", "{0}"]
env = {{ SOME_URL = "https://localhost/{0}" }}
env_vars = ["HTTPS_PROXY", {{ name = "SOME_ROOT", source = "project_root" }}]
"""

# The command prefixes of others, printed beside us where they are installed.
PEERS = {"tini": ["tini", "-s", "--"], "dumb-init": ["dumb-init"], "envmcp": ["envmcp"]}


class Connection:
    """A server, bare or behind something, that was asked and has answered once."""

    def __init__(self, command: list[str], cwd: str, environ: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env=environ,
        )

    def ask(self, line: bytes) -> bytes:
        """Return the answer's line."""
        stdin, stdout = _streams(self.process)
        view = memoryview(line)
        while view:
            view = view[os.write(stdin.fileno(), view) :]
        answer = b""
        while not answer.endswith(b"\n"):
            part = os.read(stdout.fileno(), 1 << 20)
            if not part:
                raise SystemExit(f"no answer from {self.process.args!r}")
            answer += part
        return answer

    def close(self) -> None:
        """End it."""
        for stream in _streams(self.process):
            stream.close()
        self.process.wait(20)


class Bench:
    """Everything is started in one place, with one environment."""

    def __init__(self, directory: Path, before: Path | None, *, quick: bool) -> None:
        self.directory = directory
        self.codex = directory / "codex"
        self.quick = quick
        self.project = directory / "project"
        (self.project / ".git").mkdir(parents=True)
        (self.project / ".env.mcp").touch()  # envmcp will not start without one
        self.python = self._install(ROOT, "venv")
        self.environ = {
            "PATH": f"{self.python.parent}:{os.environ['PATH']}",
            "HOME": str(directory / "home"),
        }
        self.launcher = launcher = str(self.python.parent / "mcp-launch")
        self.server = [str(self.python), "-S", "-E", SERVER]
        self.behind: dict[str, list[str]] = {
            "bare": [],
            "guarded": [launcher, "run", "--"],
            "not recorded": [launcher, "run", "--no-record", "--"],
            "direct": [launcher, "run", "--direct", "--"],
            "minimal relay": [str(self.python), "-S", "-E", RELAY],
        }
        if before is not None:
            other = str(self._install(before, "before").parent / "mcp-launch")
            self.behind |= {"before": [other, "run", "--"]}
        path = self.environ["PATH"]
        self.behind |= {
            name: words for name, words in PEERS.items() if shutil.which(words[0], path=path)
        }

        # Differs at the start only: thirty servers in a file, one of them asked for by name.
        self.profiled = [launcher, "run", "--server", "server-7", "--"]
        file = directory / "home" / ".config" / "mcp-launch" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text("".join(PROFILE.format(number) for number in range(30)), encoding="utf-8")
        file.chmod(0o600)

    def connect(self, name: str) -> Connection:
        """Start the server behind something."""
        words = self.profiled if name == "profiled" else self.behind[name]
        return Connection([*words, *self.server], str(self.project), self.environ)

    def _install(self, checkout: Path, name: str) -> Path:
        venv.create(self.directory / name, with_pip=True)
        python = self.directory / name / "bin" / "python"
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        # A current pip, as pipx and uv have it: an old one writes a script that imports
        # `re` before it imports us, for two thirds of a Python start.
        for what in (["--upgrade", "pip"], ["--compile", str(checkout)]):
            pip = [str(python), "-m", "pip", "install", "--quiet", *what]
            subprocess.run(pip, check=True, env=environ, stderr=subprocess.DEVNULL)
        return python


def time_python(bench: Bench) -> float:
    """Time a Python that does nothing."""
    started = time.perf_counter()
    subprocess.run([bench.python, "-c", "pass"], check=True, cwd=bench.project, env=bench.environ)
    return time.perf_counter() - started


@contextlib.contextmanager
def on_one_core() -> Iterator[None]:
    """Keep all processes on one core: where the system puts them differs by more than we add."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def list_children(pid: int) -> list[int]:
    """Return the children of a process with one thread."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [int(child) for child in children.split()]


def _streams(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin
    assert process.stdout
    return process.stdin, process.stdout


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()

"""Start servers as their hosts would, but in a session that is thrown away.

What a launch needs of a host is not there: who asks for its thread gets the launch's own id,
and who refuses to start without a host is not asked to.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import hosts, state
from mcp_launch.errors import LaunchError
from mcp_launch.launch import options, profile
from mcp_launch.machine import host_environment
from mcp_launch.machine.preview import predict

if TYPE_CHECKING:
    from mcp_launch.machine.survey import Item, Survey

# The project, and what its servers' variables say to Python, must not change the launcher.
LAUNCHER = (sys.executable, "-P", "-E", "-m", "mcp_launch")

# How the launch differs from the one that the entry asks for, whatever a profile says: only the
# server writes to stderr, all that it does is seen, and no host is needed.
_TWINS = {
    "--trace": "0",
    "--strict": "0",
    "--direct": "0",
    "--stdout": "auto",
    "--restart": "off",
    "--when-unknown": "placeholder",
}

# What only a host can fill in, and asks its user for.
_QUESTION = re.compile(r"\$\{input:[^}]*\}")

# Stands for a session's id where a host would tell it; the same for all, as they are one session.
_SESSION = "00000000-0000-4000-8000-000000000000"


class Start(NamedTuple):
    """A launch that can be made; equal ones are made once."""

    words: tuple[str, ...]  # after `run`
    environ: tuple[tuple[str, str], ...]
    project: str


def prepare(survey: Survey, item: Item, home: str) -> Start:
    """Return how an entry is started; `home` holds what the launch leaves in the file system."""
    situation = predict(survey, item).situation
    environ = dict(situation.environ)
    variable = hosts.load(item.host.name).session_variable
    if variable and variable not in item.variables:
        environ[variable] = _SESSION
    environ |= {options.name_variable(option): text for option, text in _TWINS.items()}
    environ["MCP_LAUNCH_HOME"] = home
    given = _list_options(item)
    command = host_environment.spell_out(survey, item, item.command)
    command = ["--", *command] if command else []
    told = [name for name in hosts.IDENTITY_VARIABLES.get(item.host.name, ()) if name in environ]
    given += _adapt([*given, *command], environ, situation.cwd, told)
    project = host_environment.find_project(survey, item)
    return Start((*given, *command), tuple(sorted(environ.items())), project)


def tell_why_not_tried(survey: Survey, item: Item) -> str:
    """Return what a server cannot be started without, and only its host has; nothing if none."""
    title, texts = item.host.title, [*item.words, *item.variables.values()]
    for text in texts:
        if question := _QUESTION.search(text):
            return f"{title} would ask for {question[0]}"
        filled_in = item.host.quirks.texts.fills_in
        if found := filled_in and filled_in.search(text):
            return f"only {title} can fill in {found[0]}"
    for name in host_environment.list_of_keyring(item):
        if name not in predict(survey, item).situation.environ:
            return f"{title} would take {name} from the system's keyring"
    return ""


def bring_trust(state: str, home: str) -> None:
    """Let a launch in the other home know which profiles are trusted."""
    kept = os.path.join(state, "profiles")
    if os.path.isdir(kept):
        shutil.copytree(kept, os.path.join(home, "profiles"))


def _list_options(item: Item) -> list[str]:
    words = []
    for name, values in item.options.items():
        if name not in _TWINS:
            # Joined: a server's name may look like an option.
            words += [f"{name}={value}" for value in values] or [name]
    return words


def _adapt(words: list[str], environ: dict[str, str], cwd: str, of_host: list[str]) -> list[str]:
    """Return the options that stand in for what only a host could tell."""
    try:
        wanted = profile.load(words, environ, lambda: cwd)
    except LaunchError:
        return []  # the launch will say the same
    threads = [name for name, variable in wanted.env.items() if variable.source == "thread"]
    told = [word for name in threads for word in ("--env", f"{name}=launch")]
    # The launcher has another host, or none, and takes what this one tells for a stranger's.
    for name in of_host:
        told += ["--env", f"{name}=local"] if name not in wanted.env else []
    return [*told, "--cwd", cwd] if wanted.cwd == "session" else told


class StartedLaunch(NamedTuple):
    """A launch that was started."""

    process: subprocess.Popen[bytes]
    outcome: str  # the file with what became of it, once it is over


class Ward:
    """All launches that are on their way; none is left when it is closed."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._count = 0
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def start(self, start: Start) -> StartedLaunch | None:
        """Start a launch; None when it is too late for that."""
        with self._lock:
            if self._is_closed:
                return None
            self._count += 1
            outcome = f"{self._home}/outcome-{self._count}.jsonl"
            process = subprocess.Popen(
                [*LAUNCHER, "run", *start.words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=start.project,
                env=dict(start.environ) | {state.OUTCOME: outcome},
                bufsize=0,
            )
            self._running.add(process)
        return StartedLaunch(process, outcome)

    def discharge(self, process: subprocess.Popen[bytes]) -> None:
        """Forget a launch that has ended."""
        with self._lock:
            self._running.discard(process)

    def close(self) -> None:
        """Start nothing more, and end what runs: a launcher takes all below it with it."""
        with self._lock:
            self._is_closed = True
            for process in self._running:
                process.terminate()

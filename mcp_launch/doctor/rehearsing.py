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

from mcp_launch import options, profile
from mcp_launch.doctor import launches, surroundings
from mcp_launch.errors import LaunchError

if TYPE_CHECKING:
    from mcp_launch.doctor.survey import Item, Survey

# How the launch differs from the one that the entry asks for, whatever a profile says: all
# that it decides is told, all that the server does is seen, and no host is needed.
_TWINS = {
    "--trace": "1",
    "--strict": "0",
    "--direct": "0",
    "--stdout": "auto",
    "--restart": "off",
    "--when-unknown": "placeholder",
}

# What VS Code asks the user for.
_QUESTION = re.compile(r"\$\{(?:input|command):[^}]*\}")


class Start(NamedTuple):
    """A launch that can be made; equal ones are made once."""

    words: tuple[str, ...]  # after `run`
    environ: tuple[tuple[str, str], ...]
    project: str


def prepare(survey: Survey, item: Item, home: str) -> Start:
    """Return how an entry is started; `home` holds what the launch leaves in the file system."""
    environ = surroundings.give(survey, item)
    environ |= {options.name_twin(option): text for option, text in _TWINS.items()}
    environ["MCP_LAUNCH_HOME"] = home
    given = _list_options(item)
    command = [surroundings.expand(survey, item, word) for word in item.command]
    command = ["--", *command] if command else []
    project = launches.find_project(survey, item)
    places = launches.list_places(survey, item) or [project]
    given += _adapt([*given, *command], environ, places[-1])
    return Start((*given, *command), tuple(sorted(environ.items())), project)


def find_question(item: Item) -> str:
    """Return what only a user can answer before the server is started."""
    found = filter(None, map(_QUESTION.search, [*item.words, *item.variables.values()]))
    return next((one[0] for one in found), "")


def bring_trust(state: str, home: str) -> None:
    """Let a launch in the other home know which profiles are trusted."""
    kept = os.path.join(state, "profiles")
    if os.path.isdir(kept):
        shutil.copytree(kept, os.path.join(home, "profiles"))


def _list_options(item: Item) -> list[str]:
    words = []
    for name, values in item.options.items():
        if name not in _TWINS:
            words += [word for value in values for word in (name, value)] or [name]
    return words


def _adapt(words: list[str], environ: dict[str, str], cwd: str) -> list[str]:
    """Return the options that stand in for what only a host could tell."""
    try:
        wanted = profile.load(words, environ, lambda: cwd)
    except LaunchError:
        return []  # the launch will say the same
    threads = [name for name, variable in wanted.env.items() if variable.source == "thread"]
    told = [word for name in threads for word in ("--env", f"{name}=launch")]
    return [*told, "--cwd", cwd] if wanted.cwd == "session" else told


class Ward:
    """All launches that are on their way; none is left when it is closed."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def start(self, start: Start) -> subprocess.Popen[bytes] | None:
        """Start a launch; None when it is too late for that."""
        # The project, and what its servers' variables say to Python, must not change the launcher.
        launcher = [sys.executable, "-P", "-E", "-m", "mcp_launch", "run"]
        with self._lock:
            if self._is_closed:
                return None
            process = subprocess.Popen(
                [*launcher, *start.words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=start.project,
                env=dict(start.environ),
                bufsize=0,
            )
            self._running.add(process)
        return process

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

"""Start servers as their hosts would, but in a temporary session.

There is no host: a server that wants its thread gets the launch's own id, and options that
require a host are overridden.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import hosts, state
from mcp_launch.config_files import entry_script
from mcp_launch.errors import LaunchError, ProfileRefused
from mcp_launch.launch import environment, options, profile
from mcp_launch.machine import host_environment
from mcp_launch.machine.preview import predict

if TYPE_CHECKING:
    from mcp_launch.machine.survey import Item, Survey

# For entries without a launcher that could be started: as the script of wrapped entries does.
_START = f"""
import sys
sys.executable = {sys.executable!r}
sys.path += {entry_script.list_path()!r}
from mcp_launch import main
sys.exit(main())
"""
LAUNCHER = (sys.executable, "-I", "-S", "-c", _START)

# Options that override the entry and its profile, as environment variables: only the server
# writes to stderr, everything it does is seen, no host is needed, and a server of this launch
# itself answers, not what is remembered of it or one that sessions share.
_OVERRIDES = {
    "--trace": "0",
    "--strict": "0",
    "--direct": "0",
    "--restart": "off",
    "--start": "now",
    "--rest": "off",
    "--share": "off",
    "--when-unknown": "placeholder",
}

_ENV = "/usr/bin/env"

# What only a host can fill in, by asking the user.
_QUESTION = re.compile(r"\$\{input:[^}]*\}")

# The session id that the host would give; the same for all servers, as in one session.
_SESSION = "00000000-0000-4000-8000-000000000000"


class Start(NamedTuple):
    """How to start a server; equal ones are started once."""

    launcher: tuple[str, ...]
    words: tuple[str, ...]  # after `run`
    environ: tuple[tuple[str, str], ...]
    project: str


def prepare(survey: Survey, item: Item, home: str) -> Start:
    """Return how to start an entry's server; the launch keeps its files in `home`."""
    situation = predict(survey, item).situation
    environ = dict(situation.environ)
    variable = hosts.load(item.host.name).session_variable
    if variable and variable not in item.variables:
        environ[variable] = _SESSION
    environ |= {options.name_variable(option): text for option, text in _OVERRIDES.items()}
    environ["MCP_LAUNCH_HOME"] = home
    if not item.is_wrapped:  # nothing that [defaults] remove would be missing
        environ[options.name_variable("--pass-env")] = environment.ALL
    given = _list_options(item)
    command = host_environment.spell_out(survey, item, item.command)
    command = ["--", *command] if command else []
    own = [name for name in hosts.IDENTITY_VARIABLES.get(item.host.name, ()) if name in environ]
    given += _adapt([*given, *command], environ, situation.cwd, own)
    project = host_environment.find_project(survey, item)
    launcher = _find_launcher(survey, item, environ)
    return Start(launcher, (*given, *command), tuple(sorted(environ.items())), project)


def _find_launcher(survey: Survey, item: Item, environ: dict[str, str]) -> tuple[str, ...]:
    """Return the launcher of an entry, as its host would start it; ours if it has none."""
    if not item.is_wrapped:
        return LAUNCHER
    [first, *_] = host_environment.spell_out(survey, item, item.words)
    found = shutil.which(first, path=environ.get("PATH", ""))
    # By way of `env`, which says why a launcher cannot be executed.
    return (_ENV, found) if found else LAUNCHER


def explain_not_startable(survey: Survey, item: Item) -> str:
    """Return what a server needs that only its host can give; "" if nothing."""
    title, texts = item.host.title, [*item.words, *item.variables.values()]
    # ML013 reports the profile.
    if isinstance(predict(survey, item).refused, ProfileRefused):
        return "its profile cannot be used (ML013)"
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


def _list_options(item: Item) -> list[str]:
    words = []
    for name, values in item.options.items():
        if name not in _OVERRIDES:
            # Joined: a server's name may look like an option.
            words += [f"{name}={value}" for value in values] or [name]
    return words


def _adapt(words: list[str], environ: dict[str, str], cwd: str, of_host: list[str]) -> list[str]:
    """Return options that replace what only a host could provide."""
    try:
        wanted = profile.load(words, environ)
    except LaunchError:
        return []  # the launch will report it
    threads = [name for name, variable in wanted.env.items() if variable.source == "thread"]
    words = [word for name in threads for word in ("--env", f"{name}=launch")]
    # The launcher runs under another host, or none, and would drop this host's variables as leaked.
    for name in of_host:
        words += ["--env", f"{name}=local"] if name not in wanted.env else []
    return [*words, "--cwd", cwd] if wanted.cwd == "session" else words


class StartedLaunch(NamedTuple):
    """A launch that was started."""

    process: subprocess.Popen[bytes]
    outcome: str  # the file with its outcome, once it is over


class LaunchPool:
    """All running launches; none is left when the pool is closed."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._count = 0
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def start(self, start: Start) -> StartedLaunch | None:
        """Start a launch; return None if the pool is closed."""
        with self._lock:
            if self._is_closed:
                return None
            self._count += 1
            outcome = f"{self._home}/outcome-{self._count}.jsonl"
            process = subprocess.Popen(
                [*start.launcher, "run", *start.words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=start.project,
                env=dict(start.environ) | {state.OUTCOME: outcome},
                bufsize=0,
            )
            self._running.add(process)
        return StartedLaunch(process, outcome)

    def forget(self, process: subprocess.Popen[bytes]) -> None:
        """Forget a launch that has ended."""
        with self._lock:
            self._running.discard(process)

    def close(self) -> None:
        """Start nothing more, and end all launches; each ends its own processes."""
        with self._lock:
            self._is_closed = True
            for process in self._running:
                process.terminate()

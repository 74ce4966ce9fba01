"""The real programs: pinned, installed on first use, kept outside the repository."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

HERE = Path(__file__).parent

# In characters: npm and uv begin with what went wrong, and then add advice.
_LONGEST_REASON = 300

# npm's names for processors.
_PROCESSORS = {"x86_64": "x64", "aarch64": "arm64"}

# Settings by an administrator or a vendor's cloud, which hosts read whatever their home is.
_READ_BY_HOSTS = (
    "/etc/claude-code",
    "/etc/codex",
    "/etc/gemini-cli",
    "/etc/opencode",
    "/etc/qwen-code",
    "/home/claude/.claude",
)


class InstallFailed(Exception):
    """A program is not available on this machine."""


class Program(NamedTuple):
    """One release of one program."""

    title: str
    package: str
    version: str
    executable: str
    python: str = ""  # which Python it needs; empty: it comes from npm
    inside: str = ""  # where it has packages of its own to install; empty: it has none
    finish: str = ""  # a program for Node that finishes the installation

    @property
    def full_title(self) -> str:
        return f"{self.title} {self.version}"


def read_pins() -> dict[str, Program]:
    """Return every program that the tests may use, by name."""
    cpu = _PROCESSORS.get(platform.machine(), platform.machine())
    with (HERE / "versions.toml").open("rb") as file:
        pins = {name: Program(**pin) for name, pin in tomllib.load(file).items()}
    return {
        name: pin._replace(package=pin.package.replace("{cpu}", cpu)) for name, pin in pins.items()
    }


def locate_cache() -> Path:
    """Return where programs are kept; call it while HOME is still the developer's."""
    if given := os.environ.get("MCP_LAUNCH_TEST_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcp-launch-tests"


def find_obstacle() -> str:
    """Return why the real programs cannot be run here; empty if they can."""
    if not os.path.exists("/proc/self/stat"):
        return "they need Linux"
    for path in _READ_BY_HOSTS:
        if os.path.exists(path):
            return f"hosts would read your {path}"
    missing = [name for name in ("npm", "node", "git") if not shutil.which(name)]
    return f"{missing[0]} is not installed" if missing else ""


class Programs:
    """The programs by name, each installed when a test asks for it.

    Make it while the network, HOME and the environment are still the developer's.
    """

    def __init__(self, leave_out: Callable[[str], NoReturn]) -> None:
        self._leave_out = leave_out
        self._cache = locate_cache()
        self._env = dict(os.environ)
        self._pins = read_pins()
        self._found: dict[str, Path | InstallFailed] = {}
        # A test has no network but loopback, and a thread has that of the thread that starts it.
        self._networked = ThreadPoolExecutor(1)
        self._networked.submit(int).result()

    def __getitem__(self, name: str) -> Path:
        """Return the executable, or leave the test out with the reason."""
        if name not in self._found:
            self._found[name] = self._networked.submit(self._find, self._pins[name]).result()
        found = self._found[name]
        if isinstance(found, InstallFailed):
            self._leave_out(f"{self._pins[name].full_title} could not be installed: {found}")
        return found

    def close(self) -> None:
        """End the thread."""
        self._networked.shutdown()

    def _find(self, program: Program) -> Path | InstallFailed:
        try:
            return install(program, self._cache, self._env)
        except InstallFailed as failure:
            return failure


def install(program: Program, cache: Path, env: Mapping[str, str]) -> Path:
    """Return the executable, installing it if needed; safe with several processes."""
    place = cache / f"{program.package.replace('/', '+')}@{program.version}"
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = Path(f"{place}.unfinished")
    with _lock(Path(f"{place}.lock")):
        if unfinished.exists() or not place.exists():
            shutil.rmtree(place, ignore_errors=True)
            unfinished.touch()
            place.mkdir()
            # Scripts name the Python beside them, so nothing may be moved afterwards.
            (_install_from_pypi if program.python else _install_from_npm)(place, program, env)
            _find_executable(place, program)
            unfinished.unlink()
    return _find_executable(place, program)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    # One for each program, so that several are installed at the same time.
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _find_executable(place: Path, program: Program) -> Path:
    directory = "bin" if program.python else "node_modules"
    found = sorted(place.glob(f"{directory}/{program.executable}"))
    if not found:
        raise InstallFailed(f"{program.package} has nothing to run on this machine")
    return found[0]


def _install_from_npm(place: Path, program: Program, env: Mapping[str, str]) -> None:
    npm_cache = f"{place}/npm-cache"  # do not fill the user's cache
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--omit=dev"]

    def run_npm(where: Path, *wanted: str) -> None:
        command = ["npm", "install", "--prefix", str(where), "--cache", npm_cache, *options]
        _run([*command, *wanted], where, env)

    run_npm(place, f"{program.package}@{program.version}")
    if program.inside:
        run_npm(place / "node_modules" / program.inside)
    if program.finish:
        _run(["node", "--input-type=module", "--eval", program.finish], place, env)
    shutil.rmtree(npm_cache)


def _install_from_pypi(place: Path, program: Program, env: Mapping[str, str]) -> None:
    uv = [str(Path(sys.executable).parent / "uv"), "--no-cache", "--quiet"]
    # pyenv keeps its interpreters off PATH; a shim without a version set only complains.
    pyenv = Path(env.get("PYENV_ROOT") or Path(env.get("HOME", "/")) / ".pyenv")
    searched = [env.get("PATH", ""), *map(str, sorted(pyenv.glob("versions/*/bin")))]
    known = {**env, "PATH": os.pathsep.join(searched)}
    made = [*uv, "venv", "--clear", "--no-python-downloads", "--python", program.python]
    _run([*made, str(place)], place.parent, known)
    wanted = f"{program.package}=={program.version}"
    _run([*uv, "pip", "install", "--python", str(place), wanted], place, known)


def _run(command: list[str], cwd: Path, env: Mapping[str, str]) -> None:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        check=False,
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise InstallFailed(" ".join(done.stderr.split())[:_LONGEST_REASON])

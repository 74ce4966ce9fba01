"""The real programs: pinned, installed from npm on first use, kept outside the repository."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent

# Where each package keeps its executable; we bypass npm's wrappers around it.
_EXECUTABLES = {
    "@openai/codex": "@openai/codex-*/vendor/*/*/codex",
    "@anthropic-ai/claude-code": "@anthropic-ai/claude-code-*/claude",
    "@modelcontextprotocol/server-everything": "@modelcontextprotocol/*/dist/index.js",
}

_TITLES = {
    "@openai/codex": "Codex",
    "@anthropic-ai/claude-code": "Claude Code",
    "@modelcontextprotocol/server-everything": "server-everything",
}


_INSTALLING = "installing-"

# Settings by an administrator or a vendor's cloud, which hosts read whatever their home is.
_READ_BY_HOSTS = ("/etc/claude-code", "/etc/codex", "/home/claude/.claude")


class Program(NamedTuple):
    """One release of one program."""

    package: str
    version: str

    @property
    def title(self) -> str:
        return f"{_TITLES[self.package]} {self.version}"


def read_pins() -> dict[str, Program]:
    """Return every program that the tests may use, by name."""
    with (HERE / "versions.toml").open("rb") as file:
        return {name: Program(**pin) for name, pin in tomllib.load(file).items()}


def locate_cache() -> Path:
    """Return where programs are kept; call it while HOME is still the developer's."""
    if given := os.environ.get("MCP_LAUNCH_TEST_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcp-launch-tests"


def tell_what_is_missing() -> str:
    """Return why the real programs cannot be run here; empty if they can."""
    if not os.path.exists("/proc/self/stat"):
        return "they need Linux"
    for path in _READ_BY_HOSTS:
        if os.path.exists(path):
            return f"hosts would read your {path}"
    missing = [name for name in ("npm", "node", "git") if not shutil.which(name)]
    return f"{missing[0]} is not installed" if missing else ""


def install(program: Program, cache: Path) -> Path:
    """Return the executable, installing it if needed; safe with several processes."""
    place = cache / f"{program.package.replace('/', '+')}@{program.version}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            for left in cache.glob(f"{_INSTALLING}*"):
                shutil.rmtree(left)
            _install_into(place, program)
    return _find_executable(place, program)


def _find_executable(place: Path, program: Program) -> Path:
    found = sorted(place.glob(f"node_modules/{_EXECUTABLES[program.package]}"))
    assert found, f"npm installed {program.title} without anything to run on this machine"
    return found[0]


def _install_into(place: Path, program: Program) -> None:
    # Installed beside its place and then renamed, so that its place is never incomplete.
    with tempfile.TemporaryDirectory(prefix=_INSTALLING, dir=place.parent) as directory:
        npm = shutil.which("npm")
        assert npm
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        options += ["--cache", f"{directory}/npm-cache"]  # do not fill the user's cache
        wanted = f"{program.package}@{program.version}"
        done = subprocess.run(
            [npm, "install", "--prefix", directory, *options, wanted],
            cwd=directory,
            check=False,
            capture_output=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, (
            f"npm could not install {wanted}; pytest -m 'not hosts' leaves these tests out\n"
            + done.stderr
        )
        _find_executable(Path(directory), program)
        shutil.rmtree(f"{directory}/npm-cache")
        os.rename(directory, place)
        os.mkdir(directory)  # for TemporaryDirectory to remove

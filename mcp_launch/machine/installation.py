"""Where programs are installed: the launcher, by a path that lasts, and hosts."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.errors import UsageError
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.values import expand_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.config_files.host_quirks import HostProgram
    from mcp_launch.config_files.site import Site

_FILE = "mcp-launch.exe" if sys.platform == "win32" else "mcp-launch"

# Its name where a path cannot be used.
NAME = "mcp-launch"

# Where installers put their shims, which stay when the program is upgraded.
_SHIM_VARIABLES = ("UV_TOOL_BIN_DIR", "PIPX_BIN_DIR", "XDG_BIN_HOME")
_SHIM_PLACES = ("~/.local/bin", "/usr/local/bin", "/opt/homebrew/bin")

# Parts of paths that may be emptied at any time.
_CACHES = ("/.cache/", "/Caches/", "/archive-v0/", "/var/folders/", "/tmp/")  # noqa: S108

# Directories of hosts that may not be on PATH, below the home directory.
_PLACES_OF_HOSTS = (
    *(".local/bin", ".claude/local", ".opencode/bin", ".npm-global/bin"),
    *(".bun/bin", ".volta/bin", "bin"),
)


class ShortLived(NamedTuple):
    """Why a path will not last, and what to do about it."""

    problem: str
    fix: str


def find(environ: Mapping[str, str], home: str) -> str:
    """Return the launcher's path, a shim if there is one.

    Raises:
        UsageError: It is not installed but run from its source.

    """
    own = os.path.join(os.path.dirname(sys.executable), _FILE)
    if not os.path.exists(own):
        raise UsageError(
            f"there is no {own}: mcp-launch is not installed",
            fix="run pipx install . or uv tool install . in a clone, then run the installed one",
        )
    places = [environ[name] for name in _SHIM_VARIABLES if environ.get(name)]
    places += [expand_home(place, home) for place in _SHIM_PLACES]
    shims = [os.path.join(place, _FILE) for place in places]
    named = shutil.which(_FILE, path=environ.get("PATH"))
    for shim in (*shims, *([named] if named else [])):
        if os.path.realpath(shim) == os.path.realpath(own):
            return shim
    return own


def warn(launcher: str) -> ShortLived | None:
    """Return why a path will not last; None if it will."""
    how = "run `pipx install .` or `uv tool install .` in a clone, then wrap again"
    real = os.path.realpath(launcher)
    if any(part in path for part in _CACHES for path in (launcher, real)):
        return ShortLived(f"{launcher} is in a directory that is cleaned from time to time", how)
    environment = os.path.dirname(os.path.dirname(launcher))
    if os.path.exists(os.path.join(environment, "pyvenv.cfg")):
        return ShortLived(f"{launcher} is in a virtual environment and goes away with it", how)
    return None


def find_hosts(site: Site) -> dict[str, str]:
    """Return the paths of the installed hosts, by name."""
    found = {name: _find_host(host.quirks.program, site) for name, host in HOSTS.items()}
    return {name: path for name, path in found.items() if path}


def _find_host(program: HostProgram, site: Site) -> str:
    places = [os.path.join(site.home, place) for place in _PLACES_OF_HOSTS]
    if site.platform == "darwin":
        places += ["/opt/homebrew/bin", "/usr/local/bin"]
    path = os.pathsep.join([site.environ.get("PATH", ""), *places])
    # A relative part of PATH is in the project, whose programs may be anything.
    path = os.pathsep.join(part for part in path.split(os.pathsep) if os.path.isabs(part))
    if program.command and (found := shutil.which(program.command, path=path)):
        return found
    for directory in ("/Applications", os.path.join(site.home, "Applications")):
        bundle = os.path.join(directory, f"{program.bundle}.app")
        if program.bundle and site.platform == "darwin" and os.path.isdir(bundle):
            return bundle
    return ""

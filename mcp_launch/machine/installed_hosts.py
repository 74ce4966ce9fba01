"""Find the hosts that are installed on this machine, and their versions.

A host is run with `--version` only if no file beside it gives the version, and never if that
takes long or opens a window.
"""

from __future__ import annotations

import json
import os
import plistlib
import re
import shutil
import signal
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import Version

from mcp_launch.hosts.configured import HOSTS
from mcp_launch.launch import versions
from mcp_launch.values import walk_upward

if TYPE_CHECKING:
    from mcp_launch.config_files.site import Site

# Directories of programs that may not be on PATH, below the home directory.
_PLACES = (
    *(".local/bin", ".claude/local", ".opencode/bin", ".npm-global/bin"),
    *(".bun/bin", ".volta/bin", "bin"),
)

_VERSION = re.compile(r"\d+\.\d+\.\d+(?:-(?!linux|darwin|win32)[\w.]+)?")
_IN_PATH = re.compile(
    r"/(?:claude/versions|releases|Cellar/[\w-]+|Caskroom/[\w-]+)/([\d.]+)(?:/|$)"
)

# How many directories above a program its package file may be: `vendor/x86_64…/bin/codex`.
_LEVELS = 5

# How long a host may take to print its version; all are run at once.
_PATIENCE = 0.4


class Program(NamedTuple):
    """An installed host."""

    path: str
    version: str  # empty: unknown


def find_all(site: Site, patience: float = _PATIENCE) -> dict[str, Program]:
    """Return the installed hosts, by name."""
    found = {name: _find(name, site) for name in HOSTS if HOSTS[name].quirks.program.command}
    paths = {name: path for name, path in found.items() if path}
    by_name = {name: read_version(name, path) for name, path in paths.items()}
    asked = [
        name
        for name, version in by_name.items()
        if HOSTS[name].quirks.program.tells_version and not version
    ]
    if asked and site.platform != "win32":  # there we could not be sure to end them again
        with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(len(asked)) as threads:
            environ = _make_environ(site, home)
            answers = threads.map(lambda name: _ask(paths[name], environ, home, patience), asked)
            by_name |= dict(zip(asked, answers, strict=True))
    return {name: Program(path, by_name[name]) for name, path in paths.items()}


def tell_tried(name: str, version: str) -> str:
    """Return a phrase on how a version relates to those that our tests run against."""
    tried = HOSTS[name].quirks.program.tried
    if not tried:
        return "our tests do not run against it"
    if not version:
        return f"our tests run against {' and '.join(tried)}"
    if version in tried:
        return "our tests run against it"
    oldest, newest = min(tried, key=Version), max(tried, key=Version)
    release = versions.parse(version)
    if release and release > Version(newest):
        return f"newer than {newest}, which our tests run against"
    if release and release < Version(oldest):
        return f"older than {oldest}, which our tests run against"
    return f"between {oldest} and {newest}, which our tests run against"


def _find(name: str, site: Site) -> str:
    program = HOSTS[name].quirks.program
    places = [os.path.join(site.home, place) for place in _PLACES]
    if site.platform == "darwin":
        places += ["/opt/homebrew/bin", "/usr/local/bin"]
    path = os.pathsep.join([site.environ.get("PATH", ""), *places])
    # A relative part of PATH is in the project, whose programs must not be run here.
    path = os.pathsep.join(part for part in path.split(os.pathsep) if os.path.isabs(part))
    if found := shutil.which(program.command, path=path):
        return found
    for directory in ("/Applications", os.path.join(site.home, "Applications")):
        bundle = os.path.join(directory, f"{program.bundle}.app")
        if program.bundle and site.platform == "darwin" and os.path.isdir(bundle):
            return bundle
    return ""


def read_version(name: str, path: str) -> str:
    """Return a program's version from its path or files, without starting it; empty: unknown."""
    real = os.path.realpath(path)
    if found := _IN_PATH.search(real):
        return found.group(1)
    directory = real if os.path.isdir(real) else os.path.dirname(real)
    for above in islice(walk_upward(directory), _LEVELS):
        for read in (_read_package, _read_bundle):
            if version := read(name, above):
                return version
    return ""


def _read_package(name: str, directory: str) -> str:
    """Return the version in the package file that npm or an editor put beside a program."""
    package = HOSTS[name].quirks.program.package
    if package:
        told = _read_json(os.path.join(directory, "package.json"))
        is_it = str(told.get("name", "")).startswith(package)
        return _pick(told.get("version")) if is_it else ""
    for below in ("resources/app", "Contents/Resources/app"):
        product = _read_json(os.path.join(directory, below, "product.json"))
        told = _read_json(os.path.join(directory, below, "package.json"))
        # Editors made from VS Code have its version in one of the two.
        known = (product.get("windsurfVersion"), product.get("version"), told.get("version"))
        if version := next((_pick(one) for one in known if one), ""):
            return version
    return ""


def _read_bundle(name: str, directory: str) -> str:
    if not HOSTS[name].quirks.program.bundle:
        return ""
    try:
        with open(os.path.join(directory, "Contents/Info.plist"), "rb") as file:
            return _pick(plistlib.load(file).get("CFBundleShortVersionString"))
    except (OSError, ValueError, AttributeError, plistlib.InvalidFileException):
        return ""


def _read_json(path: str) -> dict[str, object]:
    try:
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _pick(text: object) -> str:
    found = _VERSION.search(text) if isinstance(text, str) else None
    return found.group() if found else ""


def _make_environ(site: Site, home: str) -> dict[str, str]:
    """Return the variables that a program needs to print its version, and no others."""
    programs = [host.quirks.program for host in HOSTS.values()]
    kept = {name: site.environ[name] for name in ("PATH", "HOME") if name in site.environ}
    kept |= {program.litters: home for program in programs if program.litters}
    return kept | {program.calming: "1" for program in programs if program.calming}


def _ask(path: str, environ: dict[str, str], home: str, patience: float) -> str:
    try:
        process = subprocess.Popen(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            cwd=home,
            start_new_session=True,
        )
    except OSError:
        return ""
    with process:
        try:
            said, _ = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # and its children
            return ""
    return _pick(said.decode("utf-8", "replace"))

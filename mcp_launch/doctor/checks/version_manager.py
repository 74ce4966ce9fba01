"""Version managers, which come between a command and the program that runs.

Reports only what is certain: that a path belongs to one version, or that a shim would fail.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.values import walk_upward

if TYPE_CHECKING:
    from collections.abc import Mapping

# Paths of a single version, by version manager.
_VERSIONED = {
    "nvm": re.compile(r"/\.?nvm/versions/node/(v[\d.]+)/"),
    "fnm": re.compile(r"/\.?fnm/node-versions/(v[\d.]+)/"),
    "volta": re.compile(r"/\.?volta/tools/image/\w+/([\d.]+)/"),
    "mise": re.compile(r"/mise/installs/[^/]+/([\d.]+)/"),
    "asdf": re.compile(r"/\.?asdf/installs/[^/]+/([\d.]+)/"),
    "pyenv": re.compile(r"/\.?pyenv/versions/([^/]+)/"),
    "rbenv": re.compile(r"/\.?rbenv/versions/([^/]+)/"),
}
_TEMPORARY = "/fnm_multishells/"

_SHIM = re.compile(r"/\.?(pyenv|rbenv|asdf)/shims/")

# The files that choose a version for a directory and those below it.
_CHOOSING = {"pyenv": ".python-version", "rbenv": ".ruby-version", "asdf": ".tool-versions"}
_OF_ASDF = (".tool-versions", ".asdfrc")


class Pinned(NamedTuple):
    """The single version that a path belongs to."""

    manager: str
    version: str  # empty: made for one shell


def find_pinned(path: str) -> Pinned | None:
    """Return the single version that a path belongs to; None if it lasts."""
    if _TEMPORARY in path:
        return Pinned("fnm", "")
    for manager, pattern in _VERSIONED.items():
        found = pattern.search(path)
        # `22` may be a link to the newest 22.x, and that path lasts.
        if found and not os.path.islink(path[: found.end() - 1]):
            return Pinned(manager, found.group(1))
    return None


def explain_shim_failure(file: str, place: str, environ: Mapping[str, str], home: str) -> str:
    """Return why a shim would fail in a directory; "" if it may work."""
    found = _SHIM.search(file)
    if not found:
        return ""
    manager = found.group(1)
    chosen = _find_above(place, _CHOOSING[manager])
    if manager == "asdf":
        # Its settings may name other files that choose a version.
        is_set = chosen or any(os.path.exists(f"{home}/{name}") for name in _OF_ASDF)
        is_configured = is_set or any(name.startswith("ASDF_") for name in environ)
        return "" if is_configured else f"asdf has no version for {place}, and no global one"
    root = file[: found.end() - len("/shims/")]
    text = environ.get(f"{manager.upper()}_VERSION") or _read(chosen or f"{root}/version")
    versions = re.findall(r"[^\s:#]+", text)
    name = os.path.basename(file)
    if not versions or "system" in versions or any(_has(root, one, name) for one in versions):
        return ""
    return (
        f"{manager} chooses {' and '.join(versions)} for {place}"
        f"{f' ({chosen})' if chosen else ''}, which has no {name}"
    )


def _find_above(place: str, name: str) -> str:
    files = (os.path.join(directory, name) for directory in walk_upward(place))
    return next(filter(os.path.isfile, files), "")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(1000)
    except (OSError, ValueError):
        return ""


def _has(root: str, version: str, name: str) -> bool:
    """Return whether a version has a program; `3.11` may mean any 3.11.x."""
    try:
        installed = os.listdir(f"{root}/versions")
    except OSError:
        return True  # kept somewhere else
    meant = [one for one in installed if one == version or one.startswith(f"{version}.")]
    return any(os.path.exists(f"{root}/versions/{one}/bin/{name}") for one in meant)

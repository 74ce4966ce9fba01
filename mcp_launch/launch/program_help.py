"""Explain why there is no command, or its program was not found, and suggest what to do.

Imported only then. Hosts hide what went wrong ("Tools: (none)"), so the fix has to be good.
"""

from __future__ import annotations

import os

from mcp_launch.errors import CommandNotFound, NotExecutable, UsageError, suggest
from mcp_launch.values import find_home_directory

# How many directories of PATH a message shows.
_DIRECTORIES_SHOWN = 4

# Programs that version managers install outside the PATH of a desktop application.
_MANAGED = {
    "npx": "node",
    "node": "node",
    "npm": "node",
    "bunx": "bun",
    "uvx": "uv",
    "uv": "uv",
    "pipx": "pipx",
}


def explain(name: str, directories: list[str], files: list[str]) -> CommandNotFound | NotExecutable:
    """Return the error for a program that is not among the files of these directories."""
    if not name.strip():
        return CommandNotFound(
            "the server's command is empty", fix="name the program that starts the server"
        )
    if not directories:
        return _explain_file(files[0], name)
    if blocked := next((file for file in files if os.path.isfile(file)), None):
        return _explain_file(blocked, name)
    return CommandNotFound(
        f"the server's command {name} was not found on PATH ({_shorten(directories)})",
        fix=_suggest(name, [os.path.dirname(file) for file in files]),
    )


def _explain_file(file: str, name: str) -> CommandNotFound | NotExecutable:
    if os.path.isdir(file):
        return NotExecutable(f"{name} is a directory: {file}", fix="name the program in it")
    if not os.path.exists(file):
        near = _list_near(os.path.basename(file), [os.path.dirname(file)])
        where = "" if file == name else f": no file {file}"
        return CommandNotFound(
            f"the server's command {name} does not exist{where}",
            fix=f"did you mean {' or '.join(near)}?" if near else "correct the path",
        )
    if not os.path.isfile(file):
        return NotExecutable(f"{file} is not a regular file", fix="name the program's file")
    return NotExecutable(f"{file} is not executable", fix=f"run: chmod +x {file}")


def _suggest(name: str, directories: list[str]) -> str:
    ways = []
    first, *rest = name.split()
    if rest and any(os.path.isfile(f"{directory}/{first}") for directory in directories):
        return f"set the command to {first}, and move the rest to its arguments"
    near = _list_near(name, directories)
    if near:
        ways.append(f"did you mean {' or '.join(near)}?")
    if name in _MANAGED:
        elsewhere = _find_managed(name)
        ways.append(
            f"the host's PATH lacks the directory of {_MANAGED[name]}: use {elsewhere}, "
            "or add a PATH to the entry's `env`"
            if elsewhere
            else f"install {_MANAGED[name]}; if it is installed, use its absolute path "
            f"(`command -v {name}`), or add a PATH to the entry's `env`"
        )
    return " ".join(ways) or "install it, or give its absolute path"


def _shorten(directories: list[str]) -> str:
    """Return enough of PATH to recognise it; all of it would bury the fix."""
    rest = len(directories) - _DIRECTORIES_SHOWN
    shown = ":".join(directories[:_DIRECTORIES_SHOWN])
    return f"{shown} and {rest} more" if rest > 0 else shown


def _list_near(name: str, directories: list[str]) -> list[str]:
    from difflib import get_close_matches

    names: set[str] = set()
    for directory in directories:
        try:
            names.update(os.listdir(directory))
        except (OSError, ValueError):
            continue  # PATH often names directories that do not exist, or cannot (a NUL)
    return get_close_matches(name, sorted(names), 2, 0.75)


def _find_managed(name: str) -> str | None:
    """Return the program as nvm, fnm, volta, mise, asdf, uv or Homebrew install it."""
    home = find_home_directory(os.environ)
    places = [
        *_newest(f"{home}/.nvm/versions/node", "bin"),
        *_newest(f"{home}/.local/share/fnm/node-versions", "installation/bin"),
        f"{home}/.volta/bin",
        f"{home}/.local/share/mise/shims",
        f"{home}/.asdf/shims",
        f"{home}/.local/bin",
        f"{home}/.cargo/bin",
        f"{home}/.bun/bin",
        "/opt/homebrew/bin",
        "/usr/local/bin",
    ]
    files = (f"{place}/{name}" for place in places)
    return next((file for file in files if os.access(file, os.X_OK)), None)


def _newest(directory: str, below: str) -> list[str]:
    import re

    try:
        names = os.listdir(directory)
    except OSError:
        return []  # this manager is not installed
    versions = {name: [int(part) for part in re.findall(r"\d+", name)] for name in names}
    newest_first = sorted(versions, key=lambda name: versions[name], reverse=True)
    return [f"{directory}/{name}/{below}" for name in newest_first]


def explain_missing(server: str, known: list[str], *, has_profile: bool) -> UsageError:
    """Return the error for a launch whose command nobody names; `known` servers have profiles."""
    how = "write the command after the options: mcp-launch run -- npx -y some-server"
    if not server:
        return UsageError("no server command was given", fix=how)
    if has_profile:
        return UsageError(f"the profile of {server} has no command", fix=f"add one, or {how}")
    return UsageError(
        f"no profile defines the server {server}, and no command was given",
        fix=f"{suggest(server, known)}"
        f"add [servers.{server}] to ~/.config/mcp-launch/config.toml, or {how}",
    )

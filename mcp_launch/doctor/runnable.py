"""Why a script that exists would not run: its first line.

The system's error ("No such file or directory" for a file that exists) explains nothing, and
hosts do not even show that. Only what is certain is reported.
"""

from __future__ import annotations

import os
import shlex
from typing import NamedTuple

from mcp_launch.errors import LaunchError
from mcp_launch.launch import plan

# How many levels of interpreters Linux follows.
_DEPTH = 4

# A longer PATH is not shown whole in a message, but its first parts.
_LONGEST_PATH = 60
_PARTS_SHOWN = 3

_BOM = b"\xef\xbb\xbf"

# How much of a file to read.
_HEAD = 4096


class Fault(NamedTuple):
    """Why a file cannot be run."""

    problem: str
    fix: str


def shorten_path(path: str) -> str:
    """Return a PATH for a message: all of a short one, the first parts of a long one."""
    parts = path.split(os.pathsep)
    if len(path) <= _LONGEST_PATH or len(parts) <= _PARTS_SHOWN:
        return path or "it is empty"
    rest = len(parts) - _PARTS_SHOWN
    return f"{os.pathsep.join(parts[:_PARTS_SHOWN])} and {rest} more"


def find_fault(
    file: str, path: str, platform: str, *, has_shell: bool, depth: int = 0
) -> Fault | None:
    """Return why a file cannot be run with this PATH; None if it probably can.

    With `has_shell`, a text without `#!` is passed to the shell.
    """
    try:
        with open(file, "rb") as stream:
            head = stream.read(_HEAD)
    except OSError:
        return None  # it may still be executable
    if head.startswith(b"#!"):
        return _check_first_line(file, head) or _follow(file, head, path, platform, depth)
    return _check_text(file, head, has_shell=has_shell)


def _check_text(file: str, head: bytes, *, has_shell: bool) -> Fault | None:
    if not head:
        return Fault(f"{file} is empty", "reinstall it")
    if head.startswith(_BOM + b"#!"):
        problem = f"{file} has a byte order mark before its #!, which hides it"
        return Fault(problem, "save it as UTF-8 without a byte order mark")
    if has_shell or b"\0" in head:
        return None
    return Fault(
        f"{file} does not begin with #! and the path of an interpreter",
        "add a first line with its interpreter, such as #!/bin/sh",
    )


def _check_first_line(file: str, head: bytes) -> Fault | None:
    """Check the first line of a script, but not yet the interpreter that it names."""
    line = _read_line(head)
    interpreter = line.split()[0] if line.split() else ""
    if line.endswith("\r"):
        return Fault(
            f"the first line of {file} has a Windows line end, so its interpreter is not found",
            f"run: sed -i.bak 's/\\r$//' {shlex.quote(file)}",
        )
    if not os.path.isabs(interpreter):
        problem = f"the first line of {file} has no absolute path after its #!"
        return Fault(problem, f"change it to #!/usr/bin/env {interpreter or 'and a program'}")
    if os.path.isfile(interpreter) and os.access(interpreter, os.X_OK):
        return None
    is_there = os.path.exists(interpreter)
    what = "is not a program" if is_there else "does not exist"
    name = os.path.basename(interpreter)
    is_python = name.startswith("python") and not is_there
    return Fault(
        f"{file} is run by {interpreter}, which {what}",
        "reinstall it: its virtual environment was moved or removed"
        if is_python
        else f"install {name}, or correct the first line",
    )


def _read_line(head: bytes) -> str:
    return head.split(b"\n")[0][2:].decode("utf-8", "replace")


def _follow(file: str, head: bytes, path: str, platform: str, depth: int) -> Fault | None:
    """Check the interpreter that the first line of a script names."""
    line = _read_line(head).strip()
    interpreter = line.split()[0]
    if os.path.basename(interpreter) == "env":
        return _check_env(file, line[len(interpreter) :].strip(), path, platform)
    if depth >= _DEPTH:
        return None
    return find_fault(interpreter, path, platform, has_shell=False, depth=depth + 1)


def _check_env(file: str, rest: str, path: str, platform: str) -> Fault | None:
    """Check the program that `env` should start."""
    words = rest.split()
    if rest.startswith("-S"):
        words = rest[2:].split()
    elif len(words) > 1 and platform == "linux":
        # On Linux all that follows is one word; macOS splits it.
        problem = f'the first line of {file} makes env look for a single program "{rest}"'
        return Fault(problem, f"change it to #!/usr/bin/env -S {rest}")
    name = next((word for word in words if word[0] != "-" and "=" not in word), "")
    if not name:
        return None
    try:
        plan.find_program(name, path, "/")
    except LaunchError:
        return Fault(
            f"{file} is run by {name}, which is not on the PATH that it gets "
            f"({shorten_path(path)})",
            f"add the directory of {name} to PATH in the entry, or use the absolute path of "
            f"{name} as the command, with {file} as its first argument",
        )
    return None

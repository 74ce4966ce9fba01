"""Why a file that may be executed would not run: what its first line says, or its machine.

What systems say of it ("No such file or directory" of a file that is there) explains nothing,
and hosts do not even show that.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from mcp_launch.doctor.checks import binary_format
from mcp_launch.doctor.checks.binary_format import Fault
from mcp_launch.errors import LaunchError
from mcp_launch.launch import plan

if TYPE_CHECKING:
    from mcp_launch.doctor.checks.binary_format import System

# How many interpreters of interpreters Linux follows.
_DEPTH = 4

_BOM = b"\xef\xbb\xbf"


def find_fault(
    file: str, path: str, system: System, *, has_shell: bool, depth: int = 0
) -> Fault | None:
    """Return why a file cannot be run with this PATH; None if nothing speaks against it.

    With `has_shell`, whoever starts it hands a text without `#!` to the shell.
    """
    try:
        with open(file, "rb") as stream:
            head = stream.read(binary_format.HEAD)
    except OSError:
        return None  # it may be executed all the same
    if head.startswith(b"#!"):
        return _find_fault_of_line(file, head) or _follow(file, head, path, system, depth)
    if binary_format.is_binary(head):
        return binary_format.find_fault(file, head, system)
    return _find_fault_of_text(file, head, has_shell=has_shell)


def _find_fault_of_text(file: str, head: bytes, *, has_shell: bool) -> Fault | None:
    if not head:
        return Fault(f"{file} is empty", "install it again")
    if head.startswith(_BOM + b"#!"):
        problem = f"{file} has a byte order mark before its #!, which is then not seen"
        return Fault(problem, "save it as UTF-8 without that mark")
    if has_shell or b"\0" in head:
        return None
    return Fault(
        f"{file} does not begin with #! and the path of an interpreter",
        "make #!/bin/sh, or what it is written for, its first line",
    )


def _find_fault_of_line(file: str, head: bytes) -> Fault | None:
    """Look at the first line of a script, but not yet at what it names."""
    line = _read_line(head)
    interpreter = line.split()[0] if line.split() else ""
    if line.endswith("\r"):
        return Fault(
            f"the first line of {file} ends as on Windows, so that its interpreter is not found",
            f"run: sed -i.bak 's/\\r$//' {shlex.quote(file)}",
        )
    if not os.path.isabs(interpreter):
        problem = f"the first line of {file} has no absolute path behind its #!"
        return Fault(problem, f"write #!/usr/bin/env {interpreter or 'and a program'} there")
    if os.path.isfile(interpreter) and os.access(interpreter, os.X_OK):
        return None
    is_there = os.path.exists(interpreter)
    what = "is not a program" if is_there else "does not exist"
    name = os.path.basename(interpreter)
    is_python = name.startswith("python") and not is_there
    return Fault(
        f"{file} is run by {interpreter}, which {what}",
        "install it again: the virtual environment that it belongs to was moved or removed"
        if is_python
        else f"install {name}, or correct the first line",
    )


def _read_line(head: bytes) -> str:
    return head.split(b"\n")[0][2:].decode("utf-8", "replace")


def _follow(file: str, head: bytes, path: str, system: System, depth: int) -> Fault | None:
    """Look at the interpreter that the first line of a script names."""
    line = _read_line(head).strip()
    interpreter = line.split()[0]
    if os.path.basename(interpreter) == "env":
        return _find_fault_of_env(file, line[len(interpreter) :].strip(), path, system)
    if depth >= _DEPTH:
        return None
    return find_fault(interpreter, path, system, has_shell=False, depth=depth + 1)


def _find_fault_of_env(file: str, rest: str, path: str, system: System) -> Fault | None:
    """Look for what `env` is to start."""
    words = rest.split()
    if rest.startswith("-S"):
        words = rest[2:].split()
    elif len(words) > 1 and system.platform == "linux":
        # There all that follows is one word; macOS takes it apart.
        problem = f'the first line of {file} has env look for one program "{rest}"'
        return Fault(problem, f"write #!/usr/bin/env -S {rest}")
    name = next((word for word in words if word[0] != "-" and "=" not in word), "")
    if not name:
        return None
    try:
        plan.find_program(name, path, "/")
    except LaunchError:
        return Fault(
            f"{file} is run by {name}, which is not on the PATH that it gets ({path})",
            f"add the directory of {name} to PATH in the entry, or make {name} by its absolute "
            f"path the command, and {file} its first argument",
        )
    return None

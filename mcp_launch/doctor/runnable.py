"""Why a program that exists would not run: its first line, its machine, or its version manager.

The system's error ("No such file or directory" for a file that exists) explains nothing, and
hosts do not even show that. Only what is certain is reported.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import struct
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.errors import LaunchError
from mcp_launch.launch import plan
from mcp_launch.system import linux
from mcp_launch.values import walk_upward

if TYPE_CHECKING:
    from collections.abc import Mapping

# How many levels of interpreters Linux follows.
_DEPTH = 4

# A longer PATH is not shown whole in a message, but its first parts.
_LONGEST_PATH = 60
_PARTS_SHOWN = 3

_BOM = b"\xef\xbb\xbf"


# How much of a file to read: its headers, and the part in which an ELF file names its loader.
_HEAD = 4096

_ELF, _WINDOWS = b"\x7fELF", b"MZ"
_MACHO = (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_OF_PLATFORMS = {"linux": (_ELF,), "darwin": _MACHO}

_ELF_MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_MACHO_MACHINES = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
_SPELLINGS = {"amd64": "x86_64", "arm64": "aarch64", "i686": "i386"}

# Machines that also run programs of another one: of their predecessor, or on Macs with Rosetta.
_ALSO_RUN = {
    ("linux", "x86_64"): "i386",
    ("linux", "aarch64"): "arm",
    ("darwin", "aarch64"): "x86_64",
}

# The interpreters for foreign programs; in WSL it is Windows.
_EMULATORS = ("qemu", "WSLInterop", "rosetta", "wine")

# Shorter than any header.
_TOO_SHORT = 64

# The type of the ELF segment that names the loader.
_PT_INTERP = 3


_SHIM = re.compile(r"/\.?(pyenv|rbenv|asdf)/shims/")

# Directories of version managers, in which a path may be gone with a version, or with a shell.
_MANAGED = re.compile(r"/\.?(nvm|fnm|volta|mise|asdf|pyenv|rbenv)(?:/|_multishells/)")

# The files that choose a version for a directory and those below it.
_CHOOSING = {"pyenv": ".python-version", "rbenv": ".ruby-version", "asdf": ".tool-versions"}
_OF_ASDF = (".tool-versions", ".asdfrc")


class System(NamedTuple):
    """What programs must be built for."""

    platform: str
    machine: str
    has_emulators: bool = False


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


def find_system(name: str) -> System:
    """Return this system, by the name of its platform."""
    machine = platform.machine().lower()
    has_emulators = any(one.startswith(_EMULATORS) for one in linux.list_foreign_formats())
    return System(name, _SPELLINGS.get(machine, machine), has_emulators)


def find_fault(
    file: str, path: str, system: System, *, has_shell: bool, depth: int = 0
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
        return _find_fault_of_line(file, head) or _follow(file, head, path, system, depth)
    if _is_binary(head):
        return _find_fault_of_binary(file, head, system)
    return _find_fault_of_text(file, head, has_shell=has_shell)


def _find_fault_of_text(file: str, head: bytes, *, has_shell: bool) -> Fault | None:
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


def _find_fault_of_line(file: str, head: bytes) -> Fault | None:
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


def _follow(file: str, head: bytes, path: str, system: System, depth: int) -> Fault | None:
    """Check the interpreter that the first line of a script names."""
    line = _read_line(head).strip()
    interpreter = line.split()[0]
    if os.path.basename(interpreter) == "env":
        return _find_fault_of_env(file, line[len(interpreter) :].strip(), path, system)
    if depth >= _DEPTH:
        return None
    return find_fault(interpreter, path, system, has_shell=False, depth=depth + 1)


def _find_fault_of_env(file: str, rest: str, path: str, system: System) -> Fault | None:
    """Check the program that `env` should start."""
    words = rest.split()
    if rest.startswith("-S"):
        words = rest[2:].split()
    elif len(words) > 1 and system.platform == "linux":
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


def _is_binary(head: bytes) -> bool:
    """Return whether a file is a compiled program, for any machine."""
    return head.startswith((_ELF, _WINDOWS, *_MACHO))


def _find_fault_of_binary(file: str, head: bytes, system: System) -> Fault | None:
    """Return why a program does not run here; None if it probably does."""
    if system.has_emulators or system.platform not in _OF_PLATFORMS:
        return None
    fix = "install the one for this machine"
    if not head.startswith(_OF_PLATFORMS[system.platform]):
        return Fault(f"{file} is a program for {_name_platform(head)}", fix)
    machines = _list_machines(head)
    also = _ALSO_RUN.get((system.platform, system.machine), "")
    if machines and not machines & {system.machine, also}:
        names = " and ".join(sorted(machines))
        return Fault(f"{file} is a program for {names}, but this machine is {system.machine}", fix)
    loader = _read_loader(head)
    if loader and not os.path.exists(loader):
        problem = f"{file} needs {loader}, which this system does not have"
        return Fault(problem, "install the one for this system's C library (glibc or musl)")
    return None


def _name_platform(head: bytes) -> str:
    if head.startswith(_WINDOWS):
        return "Windows"
    return "Linux" if head.startswith(_ELF) else "macOS"


def _list_machines(head: bytes) -> set[str]:
    """Return the machines that a program is for; empty if unclear."""
    if len(head) < _TOO_SHORT:
        return set()
    if head.startswith(_ELF):
        order = "<" if head[5] == 1 else ">"
        known, numbers = _ELF_MACHINES, struct.unpack_from(f"{order}H", head, 18)
    elif head.startswith(_MACHO[0]):
        known, numbers = _MACHO_MACHINES, struct.unpack_from("<I", head, 4)
    else:
        # One file for several machines: their number, then 20 bytes about each.
        count = min(struct.unpack_from(">I", head, 4)[0], 2)
        parts = [struct.unpack_from(">I", head, 8 + 20 * at)[0] for at in range(count)]
        known, numbers = _MACHO_MACHINES, tuple(parts)
    return {known[number] for number in numbers} if set(numbers) <= set(known) else set()


def _read_loader(head: bytes) -> str:
    """Return the loader of a 64-bit ELF file; "" if it has none, or it is unclear."""
    if not head.startswith(_ELF + b"\x02\x01") or len(head) < _HEAD:
        return ""
    (offset,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for at in range(offset, min(offset + size * count, _HEAD - _TOO_SHORT), max(size, 1)):
        kind, _, begin = struct.unpack_from("<IIQ", head, at)
        if kind == _PT_INTERP and begin < _HEAD:
            name, end, _ = head[begin:].partition(b"\0")
            return name.decode("utf-8", "replace") if end else ""
    return ""


def find_manager(path: str) -> str:
    """Return the version manager in whose directory a path is; "" if in none."""
    found = _MANAGED.search(path)
    return found.group(1) if found else ""


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

"""Find out from the first bytes of a program whether it is for this machine."""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from mcp_launch.system import linux

# How much of a file to read: its headers, and the part in which an ELF file names its loader.
HEAD = 4096

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


class System(NamedTuple):
    """What programs must be built for."""

    platform: str
    machine: str
    has_emulators: bool = False


class Fault(NamedTuple):
    """Why a file cannot be run."""

    problem: str
    fix: str


def look_at_system(platform: str, machine: str) -> System:
    """Return this system."""
    has_emulators = any(name.startswith(_EMULATORS) for name in linux.list_foreign_formats())
    return System(platform, _SPELLINGS.get(machine.lower(), machine.lower()), has_emulators)


def is_binary(head: bytes) -> bool:
    """Return whether a file is a compiled program, for any machine."""
    return head.startswith((_ELF, _WINDOWS, *_MACHO))


def find_fault(file: str, head: bytes, system: System) -> Fault | None:
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
    if not head.startswith(_ELF + b"\x02\x01") or len(head) < HEAD:
        return ""
    (offset,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for at in range(offset, min(offset + size * count, HEAD - _TOO_SHORT), max(size, 1)):
        kind, _, begin = struct.unpack_from("<IIQ", head, at)
        if kind == _PT_INTERP and begin < HEAD:
            name, end, _ = head[begin:].partition(b"\0")
            return name.decode("utf-8", "replace") if end else ""
    return ""

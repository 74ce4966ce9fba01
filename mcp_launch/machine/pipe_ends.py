"""Find which processes hold the other end of a process's stdin or stdout.

Three answers, as everywhere: held (with the holders among the given processes), gone,
unknown. "Gone" comes from the kernel, not from a search without a result: another user's
process may hold an end, and we cannot read its descriptors.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from mcp_launch.system import linux

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# <linux/netlink.h>, <linux/sock_diag.h>, <linux/unix_diag.h>
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_DONE, _ERROR = 3, 2
_SHOW_PEER = 4
_PEER, _SHUTDOWN = 2, 6
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, pid
_QUESTION = struct.Struct("=BBHIIIII")  # family, protocol, pad, states, inode, show, cookie
_ANSWER = struct.Struct("=BBBBIII")  # family, type, state, pad, inode, cookie
_ATTRIBUTE = struct.Struct("=HH")  # length, type

# Both directions are shut down.
_BOTH_WAYS = 3

# The kernel answers at once; this limit is for a sandbox that swallows the request.
_ANSWER_LIMIT = 1.0


class End(NamedTuple):
    """The other end of a descriptor."""

    state: Literal["held", "gone", "unknown"]
    name: str = ""  # the kernel's name for the descriptor; empty: neither pipe nor socket
    holders: tuple[int, ...] = ()


class Endpoints:
    """Finds the other ends of pipes and sockets; /proc and the socket table are read once."""

    def __init__(self, holders: Iterable[int]) -> None:
        self._pids = list(holders)  # only these are searched as holders

    def look(self, pid: int, fd: int) -> End:
        """Return the other end of a process's stdin (0) or stdout (1)."""
        name = linux.read_link(pid, fd)
        if name.startswith("pipe:"):
            mode = os.O_WRONLY if fd else os.O_RDONLY
            if is_pipe_left(pid, fd, mode, name):
                return End("gone", name)
            holders = self.list_pipe_holders(name, mode)
        elif name.startswith("socket:"):
            peer = self._sockets.get(name)  # None: unknown
            if peer == "":
                return End("gone", name)
            holders = {holder for holder, _ in self._held.get(peer or "", [])}
        else:
            return End("unknown")
        return End("held" if holders else "unknown", name, tuple(sorted(holders)))

    def list_pipe_holders(self, name: str, mode: int) -> set[int]:
        """Return the pids that hold the other end of a pipe whose near end has this mode."""
        wanted = {os.O_RDWR, os.O_RDONLY if mode == os.O_WRONLY else os.O_WRONLY}
        return {
            holder
            for holder, number in self._held.get(name, [])
            if linux.read_access_mode(holder, number) in wanted
        }

    @cached_property
    def _held(self) -> dict[str, list[tuple[int, str]]]:
        """Return, for each pipe and socket, the pids that have it open and their descriptors."""
        held: dict[str, list[tuple[int, str]]] = {}
        for pid in self._pids:
            for number, name in linux.list_links(pid):
                if name.startswith(("pipe:", "socket:")):
                    held.setdefault(name, []).append((pid, number))
        return held

    @cached_property
    def _sockets(self) -> dict[str, str]:
        """Return the name of each Unix socket's peer; empty: it was closed."""
        try:
            return dict(_ask_kernel())
        except (OSError, struct.error, AttributeError):
            return {}  # a sandbox without netlink: every peer is unknown


def is_pipe_left(process: int | str, number: int | str, mode: int, name: str) -> bool:
    """Return whether no process at all has the other end of a pipe open.

    We reopen the process's own end and poll it: the kernel reports POLLHUP to a reader
    without writers, and POLLERR to a writer without readers. Nothing is read or written.
    """
    try:
        ours = linux.reopen(process, number, mode | os.O_NONBLOCK)
    except OSError:
        return False  # gone, or not readable by us
    try:
        poll = select.poll()
        poll.register(ours, 0)
        is_left = any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))
        return is_left and name == f"pipe:[{os.fstat(ours).st_ino}]"
    finally:
        os.close(ours)


def _ask_kernel() -> Iterator[tuple[str, str]]:
    """Yield every Unix socket with its peer."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_LIMIT)
        question = _QUESTION.pack(socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, _SHOW_PEER, 0, 0)
        length = _HEADER.size + len(question)
        kernel.send(_HEADER.pack(length, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + question)
        while True:
            data = kernel.recv(1 << 16)
            while data:
                length, kind, *_ = _HEADER.unpack_from(data)
                if kind in {_DONE, _ERROR}:
                    return
                yield from _read_answer(data[_HEADER.size : length])
                data = data[_align(length) :]


def _read_answer(data: bytes) -> Iterator[tuple[str, str]]:
    *_, inode, _, _ = _ANSWER.unpack_from(data)
    attributes = {}
    data = data[_ANSWER.size :]
    while data:
        length, kind = _ATTRIBUTE.unpack_from(data)
        attributes[kind] = int.from_bytes(data[_ATTRIBUTE.size : length], sys.byteorder)
        data = data[_align(length) :]
    if peer := attributes.get(_PEER):
        yield f"socket:[{inode}]", f"socket:[{peer}]"
    elif peer == 0 and attributes.get(_SHUTDOWN) == _BOTH_WAYS:
        # A missing inode alone could also mean a peer that was not accepted yet.
        yield f"socket:[{inode}]", ""


def _align(length: int) -> int:
    return max(length + 3 & ~3, _ATTRIBUTE.size)

"""All processes of all servers in a test: who has started, who is left, and their last words.

Every one connects to one socket and stays connected until it ends.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import psutil
from hosts.fake_models import LIMIT
from hosts.survivors import PATIENCE, ROLES

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


class Member(NamedTuple):
    """One process."""

    role: str
    pid: int
    connection: socket.socket


class Company:
    """The processes of servers that were started with the path of this socket."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "company")
        self._members: list[Member] = []
        self._changed = threading.Condition()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_for(self, servers: Collection[int]) -> None:
        """Wait until these servers are there, and everything that any server started."""
        deadline = time.monotonic() + LIMIT
        with self._changed:
            while not self._is_complete(servers):
                told = [(one.role, one.pid) for one in self._members]
                assert self._changed.wait(deadline - time.monotonic()), f"{servers} of {told}"

    def list_survivors(self) -> list[str]:
        """Return the roles that are still alive after a generous wait."""
        processes = {}
        for member in self._members:
            try:
                processes[psutil.Process(member.pid)] = member.role
            except psutil.NoSuchProcess:
                continue
        _, alive = psutil.wait_procs(processes, timeout=PATIENCE)
        return [processes[process] for process in alive]

    def read_last_words(self, pid: int) -> bytes:
        """Return what a process wrote until it ended."""
        [connection] = [one.connection for one in self._members if one.pid == pid]
        connection.settimeout(LIMIT)
        words = b""
        try:
            while data := connection.recv(100):
                words += data
        except ConnectionResetError:
            pass  # it ended with unread input, but it ended
        return words

    def close(self) -> None:
        """Close everything; orphans are ended by whoever adopted them."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for member in self._members:
            member.connection.close()

    def _is_complete(self, servers: Collection[int]) -> bool:
        roles = [one.role for one in self._members]
        there = {one.pid for one in self._members}
        return set(servers) <= there and len({roles.count(role) for role in ROLES}) == 1

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # closed
            role, pid = connection.recv(100).decode().split()
            with self._changed:
                self._members.append(Member(role, int(pid), connection))
                self._changed.notify_all()

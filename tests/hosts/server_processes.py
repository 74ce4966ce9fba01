"""All processes of all servers in a test: which have started, which are left, what they wrote last.

Each connects to one socket and stays connected until it ends.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from hosts.fake_models import LIMIT
from hosts.survivors import ROLES, wait_for_ends
from hosts.workspace import Observation
from launches import read_until_end

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from hosts.workspace import Workspace


class ServerProcess(NamedTuple):
    """A server, or a process that it started."""

    role: str
    pid: int
    connection: socket.socket


class ServerProcesses:
    """The processes of servers that were started with the path of this socket."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "processes")
        self._known: list[ServerProcess] = []
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
                told = [(one.role, one.pid) for one in self._known]
                assert self._changed.wait(deadline - time.monotonic()), f"{servers} of {told}"

    def delay_calls(self, workspace: Workspace) -> None:
        """Have no call made before every server that answered one is there with its processes."""
        workspace.models.before_call = lambda: self.wait_for(
            [Observation(answer).pid for answer in workspace.models.answers]
        )

    def list_survivors(self) -> list[str]:
        """Return the roles that are still alive after a generous wait."""
        return wait_for_ends([(one.role, one.pid) for one in self._known])

    def read_last_words(self, pid: int) -> bytes:
        """Return what a process wrote until it ended."""
        [connection] = [one.connection for one in self._known if one.pid == pid]
        connection.settimeout(LIMIT)
        return read_until_end(connection)

    def close(self) -> None:
        """Close everything; the process that adopts orphans ends them."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for one in self._known:
            one.connection.close()

    def _is_complete(self, servers: Collection[int]) -> bool:
        roles = [one.role for one in self._known]
        there = {one.pid for one in self._known}
        return set(servers) <= there and len({roles.count(role) for role in ROLES}) == 1

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # closed
            role, pid = connection.recv(100).decode().split()
            with self._changed:
                self._known.append(ServerProcess(role, int(pid), connection))
                self._changed.notify_all()

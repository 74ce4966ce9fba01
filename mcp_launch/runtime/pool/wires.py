"""What a pool's process is made of: its launches, its servers, and the pipes to both."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp_launch.broker.pool import Pool
    from mcp_launch.runtime.loop import Loop
    from mcp_launch.runtime.streams import PipedServer, Writer


class Client:
    """One launch: its socket, and the ends of its pipes."""

    __slots__ = (
        "backend",
        "errors",
        "is_behind",
        "is_ending",
        "is_paused",
        "is_restarting",
        "launch",
        "link",
        "name",
        "out",
        "source",
    )

    def __init__(self, name: str, link: int) -> None:
        self.name = name
        self.link = link  # orders come in
        self.launch = ""  # empty until it has said who it is
        self.backend = ""  # whose server was reported to it
        self.source = -1  # requests come in; -1: closed
        self.out: Writer  # answers go out
        self.errors: Writer  # the server's stderr goes out
        self.is_paused = False  # by the broker: too much of it waits
        self.is_behind = False  # too much of what it was sent waits for it
        self.is_ending = False  # only what was written is still sent
        self.is_restarting = False  # it has nothing open, and waits for another server


class Wires:
    """The state that all parts of the process share."""

    pool: Pool
    _loop: Loop
    _job: dict[str, Any]
    _listening: int
    _spare: int  # a descriptor that can be given up, see `_turn_away`
    _is_over: bool  # nobody can join any more
    _clients: dict[str, Client]
    _reports: dict[str, Writer]  # to each client
    _servers: dict[str, PipedServer]
    _held: set[str]  # servers whose output waits for a reader
    _used: set[str]  # servers that were called, as the launches know

    def _notify(self, event: Callable[[], None]) -> None:
        """Report an event to the broker, and do what it says."""
        raise NotImplementedError

    def _run_commands(self) -> None:
        raise NotImplementedError

    def _end_if_unused(self) -> None:
        """End the server if nobody uses it, and nobody is about to."""
        raise NotImplementedError

    def _write_record(self) -> None:
        raise NotImplementedError

    def _watch_all(self) -> None:
        raise NotImplementedError

    def _send_to_client(self, name: str, data: bytes) -> None:
        raise NotImplementedError

    def _report(self, name: str, line: str) -> None:
        """Report something to a launch, as a guardian would."""
        if name in self._reports:
            self._reports[name].put(f"{line}\n".encode())

    def _report_server(self, client: Client) -> None:
        """Report the server of a launch, if it runs."""
        connection = self.pool.connections.get(client.name)
        client.backend = connection.backend if connection is not None else ""
        server = self._servers.get(client.backend)
        if server is not None and server.guardian.server:
            self._report(client.name, f"started {server.guardian.server}")

"""What is promised for the end of a host, and what is checked with every one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.workspace import promise

if TYPE_CHECKING:
    from hosts.server_processes import ServerProcesses


def check_killed_host(processes: ServerProcesses) -> None:
    """Check that nothing is left of hostile servers whose host was killed during a call."""
    # Nothing is left when a host is killed while a hostile server works.
    promise(not processes.list_survivors(), "the server and everything it started live on")


def check_polite_end(processes: ServerProcesses, server: int) -> None:
    """Check that a slow server has finished after its host ended, and that nothing is left."""
    # A server may finish when its host ends.
    survivors = processes.list_survivors()
    assert "server" not in survivors
    finished = processes.read_last_words(server) == b"finished"
    promise(finished, "the server is killed before it finished")
    promise(not survivors, "what the server started lives on")

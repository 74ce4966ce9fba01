"""The records of pools: processes that keep a server which several launches use.

A pool has three files, named after its key: the record (`KEY.json`), the socket to which launches
connect (`KEY.sock`), and a lock (`KEY.lock`). It removes them when it ends. What remains of one
that was killed is reclaimed only on proof of death, as a lease is (see `leases`).

The keys of a record:

    version      the version of this format
    pool         the pool's id
    server       the name of the server
    mark         a hash of the server's command, as in a lease
    cwd          the directory in which the server runs
    started      when, in seconds since 1970
    namespace    the pid namespace; the pids mean nothing in another one
    boot         the id of this boot of the machine
    processes    pid and start of pool, keeper, guardian and server
    sessions     the ids of the launches that use it
"""

from __future__ import annotations

import os

from mcp_launch import state
from mcp_launch.state import leases
from mcp_launch.system.pool_client import LOCK, SOCKET, take_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.protocol.json_text import Json
    from mcp_launch.system import ProcessTable

# How the name of a pool's record ends.
RECORD = ".json"


def find_directory(environ: Mapping[str, str]) -> str:
    """Return the directory of the pools."""
    return f"{state.find_directory(environ)}/pools"


def read_all(directory: str) -> dict[str, dict[str, Json]]:
    """Return every trustworthy record by its path."""
    return leases.read_all(directory)


def is_alive(table: ProcessTable, record: dict[str, Json]) -> bool:
    """Return whether a pool's own process provably runs."""
    processes = record.get("processes")
    if not isinstance(processes, dict) or leases.is_of_other_namespace(record):
        return False
    return leases.judge(table, processes.get("pool")) == "same"


def is_stale(table: ProcessTable, record: dict[str, Json]) -> bool:
    """Return whether a pool is proven dead: another boot, or all of its processes gone.

    While its server lives, the record says what that is, also if the pool itself was killed.
    """
    if leases.is_of_earlier_boot(table, record):
        return True
    processes = record.get("processes")
    if leases.is_of_other_namespace(record) or not isinstance(processes, dict):
        return False
    if leases.judge(table, processes.get("pool")) != "different":
        return False
    parts = [processes[part] for part in ("guardian", "server") if part in processes]
    return all(leases.is_gone(table, one) for one in parts)


def reclaim_stale(table: ProcessTable, directory: str) -> None:
    """Remove the files of pools that are proven dead."""
    for path, record in read_all(directory).items():
        if is_stale(table, record):
            _remove(table, path)


def _remove(table: ProcessTable, path: str) -> None:
    """Remove a record and its socket, unless another process is at work on this pool."""
    stem = path.removesuffix(RECORD)
    try:
        lock = take_lock(stem + LOCK, 0.0)
    except OSError:
        return  # the directory cannot be changed
    if lock is None:
        return  # the next pool is being started
    try:
        record = leases.read(path)
        # The next pool may have written its own since.
        if record is not None and is_stale(table, record):
            remove_files(stem)
    finally:
        os.close(lock)


def remove_files(stem: str) -> None:
    """Remove the files of a pool, whose lock we hold; the lock last."""
    for suffix in (SOCKET, RECORD, LOCK):
        state.remove(stem + suffix)

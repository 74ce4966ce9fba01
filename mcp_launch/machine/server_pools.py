"""Find the pools: processes that keep a server which several launches use.

A pool outlives the launch that has started it, and nothing about its process shows that it is
needed: it has no host above it, and its stdin is closed. So everything that belongs to a pool is
spared by all who look for orphans, as long as the pool lives or a living launch uses it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.machine.process_snapshot import KnownPool
from mcp_launch.protocol import get_member
from mcp_launch.state import leases, pools
from mcp_launch.values import ProcessIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.process_snapshot import Population
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.system import ProcessTable


def find_all(population: Population, state: str) -> dict[str, KnownPool]:
    """Return the pools that live or are used, by their keys; spare all their processes."""
    pools.reclaim_stale(population.table, f"{state}/pools")
    records = _read_records(state)
    servers: dict[str, set[int]] = {}
    parts = _list_parts(population.table, state, servers)
    population.spared |= {root.pid for roots in parts.values() for root in roots.values()}
    found = {}
    for key, roots in parts.items():
        pool = roots.get("pool")
        used = get_member(records.get(key), "sessions")
        sessions = len(used) if isinstance(used, list) else 0
        tree = population.list_tree(roots.values())
        branches = _split(population, tree, pool.pid, servers[key]) if pool else {}
        found[key] = KnownPool(key, pool.pid if pool else 0, sessions, tree, branches)
    return found


def _split(
    population: Population, tree: tuple[int, ...], pool: int, servers: set[int]
) -> dict[int, tuple[int, ...]]:
    """Return the part of a pool's tree that belongs to each of its servers.

    That is what is below the same child of the pool: its keeper, guardian and server.
    """

    def find_top(pid: int) -> int:
        parent = population.processes[pid].parent
        return find_top(parent) if parent in tree and parent != pool else pid

    tops = {pid: find_top(pid) for pid in tree if pid != pool}
    return {
        server: tuple(pid for pid, top in tops.items() if top == tops[server])
        for server in servers
        if server in tops
    }


def list_spared(table: ProcessTable, state: str) -> set[int]:
    """Return the pids of pools that live or are used, and of what they have started themselves."""
    parts = _list_parts(table, state)
    return {root.pid for roots in parts.values() for root in roots.values()}


def _list_parts(
    table: ProcessTable, state: str, servers: dict[str, set[int]] | None = None
) -> dict[str, dict[str, ProcessIdentity]]:
    """Return the living processes of each pool, by its key and their roles.

    A pool may have several servers, and its record names one: `servers` gets the pids of all.
    """
    found: dict[str, dict[str, ProcessIdentity]] = {}
    all_servers = servers if servers is not None else {}
    for key, record in _read_records(state).items():
        if pools.is_alive(table, record):
            found[key] = dict(_list_alive(table, record.get("processes")))
    for lease in leases.read_all(f"{state}/leases").values():
        name = get_member(lease, "shared", "key")
        launcher = get_member(lease, "processes", "launcher")
        if isinstance(name, str) and leases.judge(table, launcher) == "same":
            # The pool's own record may be missing: the disk may be full.
            used: Json = {
                "pool": get_member(lease, "shared", "pool"),
                "server": get_member(lease, "processes", "server"),
            }
            alive = dict(_list_alive(table, used))
            if "server" in alive:
                all_servers.setdefault(name, set()).add(alive["server"].pid)
            found[name] = alive | found.get(name, {})
    for key, roots in found.items():
        known = all_servers.setdefault(key, set())
        known |= {roots["server"].pid} if "server" in roots else set()
    return found


def _read_records(state: str) -> dict[str, dict[str, Json]]:
    """Return the records of all pools by their keys."""
    records = pools.read_all(f"{state}/pools")
    return {os.path.basename(path).removesuffix(pools.RECORD): one for path, one in records.items()}


def _list_alive(table: ProcessTable, processes: Json) -> Iterator[tuple[str, ProcessIdentity]]:
    for part, recorded in processes.items() if isinstance(processes, dict) else ():
        pid, start = get_member(recorded, "pid"), get_member(recorded, "start")
        if isinstance(pid, int) and leases.judge(table, recorded) == "same":
            yield part, ProcessIdentity(pid, str(start))

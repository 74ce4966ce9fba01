"""Find the servers that we started, from their leases and the records of pools."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from mcp_launch import masking
from mcp_launch.launch import ended
from mcp_launch.machine.process_snapshot import KnownPool, LeasedLaunch, Server, is_old_enough
from mcp_launch.machine.recognize_server import prefer
from mcp_launch.protocol import get_member
from mcp_launch.state import leases, pools
from mcp_launch.system import linux

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_launch.machine.pipe_ends import End
    from mcp_launch.machine.process_snapshot import Population
    from mcp_launch.machine.recognize_server import Configured
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.values import ProcessIdentity

# The processes that a server has of its own.
_OF_SERVER = ("keeper", "guardian", "server")

# Later than any event, in seconds since 1970: what a damaged lease may have is not a time.
_LATEST = 1e11


def find_all(
    population: Population,
    directory: str,
    configured: list[Configured],
    known: Mapping[str, KnownPool],
) -> Iterator[tuple[int, str, Server]]:
    """Yield every server of a living launch, running or not, with its host's pid and name.

    `known` has the pools that live or are used, by their keys.
    """
    for record in ended.read_living(population.table, directory).values():
        host = get_member(record, "processes", "host", "pid")
        name = _text(get_member(record, "context", "host", "value"))
        launch = _Launch(population, record, _find_name(record, configured))
        for server in launch.list_servers(known):
            yield host if isinstance(host, int) else 0, name, server


def find_left(
    population: Population,
    directory: str,
    configured: list[Configured],
    known: Mapping[str, KnownPool],
) -> Iterator[Server]:
    """Yield the servers of pools that are gone and that no living launch uses."""
    for path, record in pools.read_all(directory).items():
        key = os.path.basename(path).removesuffix(pools.RECORD)
        pool = get_member(record, "processes", "pool")
        if key in known or leases.judge(population.table, pool) != "different":
            continue
        roots = dict(_list_roots(population, record, _OF_SERVER))
        own = roots.get("server")
        ends = population.look_at_ends(own.pid) if own else None
        if own and ends and _is_abandoned(population, list(roots.values()), ends):
            argv = population.table.read_argv(own.pid)
            yield Server(
                name=_find_name(record, configured),
                pid=own.pid,
                roots=tuple(roots.values()),
                processes=population.list_tree(roots.values()),
                command=tuple(masking.mask(argv)),
                project=_text(record.get("cwd")),
                age=population.table.started_seconds_ago(own.pid),
                stdin=ends[0],
                stdout=ends[1],
                why_ownerless=f"its pool, process {get_member(pool, 'pid')}, is gone",
            )


def _list_roots(
    population: Population, record: dict[str, Json], parts: tuple[str, ...]
) -> Iterator[tuple[str, ProcessIdentity]]:
    """Yield the processes of a record that are proven to be alive, by their roles."""
    for part in parts:
        recorded = get_member(record, "processes", part)
        pid = get_member(recorded, "pid")
        if isinstance(pid, int) and leases.judge(population.table, recorded) == "same":
            process = population.processes.get(pid)
            if process is not None:
                yield part, process.identity


class _Launch:
    """A living launch: what its lease says of each of its servers, and which processes run."""

    def __init__(self, population: Population, record: dict[str, Json], name: str) -> None:
        self._population = population
        self._record = record
        self._name = name
        self._is_shared = isinstance(record.get("shared"), dict)
        # A server that a pool keeps is not the launch's own.
        parts = () if self._is_shared else _OF_SERVER
        self._servers = [(one, self._list_roots(one, parts)) for one in leases.list_servers(record)]
        self._launcher = self._list_roots(record, ("launcher",)).get("launcher")

    def _list_roots(
        self, record: dict[str, Json], parts: tuple[str, ...]
    ) -> dict[str, ProcessIdentity]:
        return dict(_list_roots(self._population, record, parts))

    def list_servers(self, known: Mapping[str, KnownPool]) -> Iterator[Server]:
        """Yield its servers, each with its own processes.

        One without a host is yielded as a whole: its processes can only be ended together.
        """
        if not self._roots:
            return
        if why := self._prove_ownerless():
            yield replace(self._describe_whole(), why_ownerless=why)
        elif self._is_shared:
            (server,) = self._describe_each()
            yield self._add_pool(server, known)
        else:
            yield from self._describe_each()

    @cached_property
    def _roots(self) -> list[ProcessIdentity]:
        """All its processes, the launcher first."""
        launcher = [self._launcher] if self._launcher else []
        return [*launcher, *(root for _, roots in self._servers for root in roots.values())]

    @cached_property
    def _ends(self) -> tuple[End, End]:
        """What its host holds: the other ends of the launcher's stdin and stdout."""
        servers = (roots["server"] for _, roots in self._servers if "server" in roots)
        contact = self._launcher or next(servers, self._roots[0])
        return self._population.look_at_ends(contact.pid)

    def _describe_whole(self) -> Server:
        running = [one for one in self._servers if one[1]]
        record, roots = running[0] if running else self._servers[0]
        tree = self._population.list_tree(self._roots)
        return replace(self._describe(record, roots, tree), roots=tuple(self._roots))

    def _describe_each(self) -> Iterator[Server]:
        """Yield each server; the launcher is counted with the first."""
        (first, own), *others = self._servers
        further = [self._population.list_tree(roots.values()) for _, roots in others]
        others_pids = {pid for tree in further for pid in tree}
        launcher = {"launcher": self._launcher} if self._launcher else {}
        if parts := launcher | own:
            tree = self._population.list_tree(parts.values())
            yield self._describe(first, parts, tuple(one for one in tree if one not in others_pids))
        for (record, roots), tree in zip(others, further, strict=True):
            is_damaged = record.get("processes") is None
            if roots or (self._launcher and not is_damaged):
                yield self._describe(record, roots, tree)

    def _describe(
        self,
        record: dict[str, Json],
        roots: dict[str, ProcessIdentity],
        tree: tuple[int, ...],
    ) -> Server:
        table, launch = self._population.table, _read_launch(record)
        # Without a server only the launcher runs; after its death perhaps only the guardian.
        own = roots.get("server") or self._launcher or next(iter(roots.values()))
        root = _text(get_member(record, "context", "project_root", "value"))
        return Server(
            name=self._name,
            pid=own.pid,
            roots=tuple(roots.values()),
            processes=tree,
            command=tuple(masking.mask(table.read_argv(launch.server))),
            project=root or _text(get_member(record, "context", "cwd", "value")),
            age=table.started_seconds_ago(own.pid),
            stdin=self._ends[0],
            stdout=self._ends[1],
            session=_text(get_member(record, "binding", "session")),
            thread=_text(get_member(record, "binding", "thread")),
            launcher=self._launcher.pid if self._launcher else 0,
            launch=launch,
        )

    def _add_pool(self, server: Server, known: Mapping[str, KnownPool]) -> Server:
        """Return a server that a pool keeps with its own process, and the pool."""
        shared = self._record["shared"]
        key, told = _text(get_member(shared, "key")), _number(get_member(shared, "sessions"))
        pool = known.get(key, KnownPool(key, 0, told))
        pool = pool if pool.sessions else pool._replace(sessions=told)
        own = self._list_roots(self._record, ("server",)).get("server")
        if own is None:
            return replace(server, pool=pool)
        age = self._population.table.started_seconds_ago(own.pid)
        return replace(server, pid=own.pid, age=age, pool=pool)

    def _prove_ownerless(self) -> str:
        """Return the proof that the host is gone and no other process replaced it; empty: none."""
        host = get_member(self._record, "processes", "host")
        if _find_installation(self._record):
            return ""  # its guardian ends it in time
        if leases.judge(self._population.table, host) != "different":
            return ""
        if not _is_abandoned(self._population, self._roots, self._ends):
            return ""
        return f"its host, process {get_member(host, 'pid')}, is gone"


def _read_launch(record: dict[str, Json]) -> LeasedLaunch:
    runner = record.get("runner")
    return LeasedLaunch(
        id=_text(record.get("launch")),
        server=_number(get_member(record, "processes", "server", "pid")),
        state=_text(get_member(record, "binding", "state")),
        evidence=_text(get_member(record, "binding", "evidence")),
        calls=_number(record.get("calls")),
        last_call=_moment(record.get("last_call")),
        restarts=_number(record.get("restarts")),
        refusals=_number(record.get("refusals")),
        noise=_number(record.get("noise")),
        place_note=_text(record.get("place_note")),
        is_host_directory=record.get("is_host_directory") is True,
        outer=os.path.basename(_text(record.get("outer"))).removesuffix(".json"),
        runner=runner if isinstance(runner, dict) else None,
        server_state=_read_state(record),
        since=_moment(record.get("since")),
        saved=_number(record.get("saved")) or None,
        starts=_number(record.get("starts")) if "starts" in record else None,
        wire=_text(record.get("wire")),
        installs=_find_installation(record),
        failure=_read_failure(record),
        backend=_text(record.get("name")),
    )


def _read_failure(record: dict[str, Json]) -> dict[str, str] | None:
    """Return why a server could not be started; None if it could, or this is not recorded."""
    if record.get("state") != leases.FAILED or not isinstance(record.get("failure"), dict):
        return None
    return {name: _text(get_member(record, "failure", name)) for name in ("problem", "fix")}


def _read_state(record: dict[str, Json]) -> str:
    """Return whether a launch has a server, in the words of its lease."""
    state = _text(record.get("state"))
    is_recorded = get_member(record, "processes", "server") is not None
    return state if is_recorded or state != "running" else "starting"


def _find_installation(record: dict[str, Json]) -> str:
    """Return the package whose installation may go on without a host; empty: there is none."""
    until = record.get("until")
    is_timely = isinstance(until, (int, float)) and time.time() < until
    return _text(record.get("package")) if is_timely else ""


def _find_name(record: dict[str, Json], configured: list[Configured]) -> str:
    """Return the name that was given to a launch, or else the one in its host's file.

    Without a given name, a lease has the program's.
    """
    mark, told = record.get("mark"), _text(record.get("server"))
    known = prefer(configured, _text(get_member(record, "context", "host", "value")))
    same = [one for one in known if leases.mark_command(list(one.words)) == mark]
    if not same or told in [one.name for one in same]:
        return told
    is_given = told != os.path.basename(same[0].words[0])
    return told if is_given and told else same[0].name


def _is_abandoned(
    population: Population, roots: list[ProcessIdentity], ends: tuple[End, End]
) -> bool:
    """Return whether processes that a gone process has started are provably nobody's.

    A lease may name a shell that started us and has exited while the real host lives on. So
    the proof needs the other ends of stdin and stdout to be closed.
    """
    ages = [population.table.started_seconds_ago(root.pid) for root in roots]
    if not all(map(is_old_enough, ages)):
        return False
    if any(population.has_host_above(root.pid) for root in roots):
        return False
    # Outside Linux the kernel does not show this: the lease and the parents have to do.
    excused = set() if linux.shows_descriptors() else {"unknown"}
    return all(end.state in {"gone", *excused} for end in ends)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _moment(value: Json) -> float | None:
    if isinstance(value, (int, float)) and 0 <= value < _LATEST:
        return float(value)
    return None

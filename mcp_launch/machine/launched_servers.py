"""Find the servers that we started, from their leases."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from mcp_launch import masking
from mcp_launch.machine.process_snapshot import LeasedLaunch, Server, is_old_enough
from mcp_launch.machine.recognize_server import prefer
from mcp_launch.protocol import get_member
from mcp_launch.state import leases
from mcp_launch.system import linux

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.pipe_ends import End
    from mcp_launch.machine.process_snapshot import Population
    from mcp_launch.machine.recognize_server import Configured
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.values import ProcessIdentity

_PARTS = ("launcher", "keeper", "guardian", "server")

# Later than any event, in seconds since 1970: what a damaged lease may have is not a time.
_LATEST = 1e11


def find_all(
    population: Population, directory: str, configured: list[Configured]
) -> Iterator[tuple[int, str, Server]]:
    """Yield the server of every living launch, running or not, with its host's pid and name."""
    for record in leases.read_all(directory).values():
        if leases.is_stale(population.table, record):
            continue
        roots = dict(_list_roots(population, record))
        if roots:
            host = get_member(record, "processes", "host", "pid")
            name = _text(get_member(record, "context", "host", "value"))
            server = _describe(population, record, roots, configured)
            yield host if isinstance(host, int) else 0, name, server


def _list_roots(
    population: Population, record: dict[str, Json]
) -> Iterator[tuple[str, ProcessIdentity]]:
    """Yield the processes of a launch that are proven to be alive, by their roles."""
    for part in _PARTS:
        recorded = get_member(record, "processes", part)
        pid = get_member(recorded, "pid")
        if isinstance(pid, int) and leases.judge(population.table, recorded) == "same":
            process = population.processes.get(pid)
            if process is not None:
                yield part, process.identity


def _describe(
    population: Population,
    record: dict[str, Json],
    roots: dict[str, ProcessIdentity],
    configured: list[Configured],
) -> Server:
    table, launch = population.table, _read_launch(record)
    pids = {part: root.pid for part, root in roots.items()}
    # Without a server only the launcher runs; after its death perhaps only the guardian.
    pid = pids.get("server") or next(iter(pids.values()))
    launcher = pids.get("launcher", 0)
    ends = population.look_at_ends(launcher or pid)
    root = _text(get_member(record, "context", "project_root", "value"))
    return Server(
        name=_find_name(record, configured),
        pid=pid,
        roots=tuple(roots.values()),
        processes=population.list_tree(roots.values()),
        command=tuple(masking.mask(table.read_argv(launch.server))),
        project=root or _text(get_member(record, "context", "cwd", "value")),
        age=table.started_seconds_ago(pid),
        stdin=ends[0],
        stdout=ends[1],
        session=_text(get_member(record, "binding", "session")),
        thread=_text(get_member(record, "binding", "thread")),
        launcher=launcher,
        launch=launch,
        why_ownerless=_prove_ownerless(population, record, list(roots.values()), ends),
    )


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
    )


def _read_failure(record: dict[str, Json]) -> dict[str, str] | None:
    """Return why a server could not be started; None if it could, or this is not recorded."""
    if record.get("state") != leases.FAILED or not isinstance(record.get("failure"), dict):
        return None
    return {name: _text(get_member(record, "failure", name)) for name in ("problem", "fix")}


def _read_state(record: dict[str, Json]) -> str:
    """Return whether a launch has a server, in the words of its lease."""
    state = _text(record.get("state"))
    if not state:
        return "running"  # the lease is an earlier version's, whose servers always ran
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


def _prove_ownerless(
    population: Population,
    record: dict[str, Json],
    roots: list[ProcessIdentity],
    ends: tuple[End, End],
) -> str:
    """Return the proof that the host is gone and no other process replaced it; empty: none.

    A lease may name a shell that started us and has exited while the real host lives on. So
    the proof needs the other ends of stdin and stdout to be closed.
    """
    host = get_member(record, "processes", "host")
    if _find_installation(record):
        return ""  # its guardian ends it in time
    if leases.judge(population.table, host) != "different":
        return ""
    ages = [population.table.started_seconds_ago(root.pid) for root in roots]
    if not all(map(is_old_enough, ages)):
        return ""
    if any(population.has_host_above(root.pid) for root in roots):
        return ""
    # Outside Linux the kernel does not show this: the lease and the parents have to do.
    excused = set() if linux.shows_descriptors() else {"unknown"}
    if any(end.state not in {"gone", *excused} for end in ends):
        return ""
    return f"its host, process {get_member(host, 'pid')}, is gone"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _moment(value: Json) -> float | None:
    if isinstance(value, (int, float)) and 0 <= value < _LATEST:
        return float(value)
    return None

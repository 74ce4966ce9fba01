"""Find the servers that we did not start: below a host, or orphaned by one.

No sign is trusted alone, because `reap` ends the orphans found here. A host's server is a
child of a host, hosts hold the other ends of its stdin and stdout, and its command is a
server's. An orphan was adopted, the other ends of its stdin and stdout are closed, and its
command is a server's. It must also be old enough, not be a shell's job, and neither it nor any
descendant may be reachable through another channel.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_launch import masking, state
from mcp_launch.config_files import wrap
from mcp_launch.errors import UsageError
from mcp_launch.launch import options
from mcp_launch.machine import open_channels, process_titles
from mcp_launch.machine.process_snapshot import Server, is_old_enough
from mcp_launch.machine.recognize_server import prefer, recognize, runs_what_follows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.pipe_ends import End
    from mcp_launch.machine.process_snapshot import Population
    from mcp_launch.machine.recognize_server import Configured

# What our process is called that has started a server.
_GUARDIAN = "mcp-guardian"


def find_hosted(
    population: Population, taken: set[int], configured: list[Configured], ours: str
) -> Iterator[tuple[int, Server]]:
    """Yield the servers of hosts, each with its host's pid; `ours` is our state directory."""
    for host, facts in population.hosts.items():
        known = prefer(configured, facts.name)
        for pid in population.children.get(host, []):
            name = None if pid in taken else _find_name(population, pid, known)
            if name and _is_own(population, pid):
                ends = population.look_at_ends(pid)
                if all(end.state == "held" for end in ends):
                    server = _describe(population, pid, name, ends)
                    yield host, _look_behind(population, server, ours)


def find_unrecorded(
    population: Population, taken: set[int], ours: str
) -> Iterator[tuple[int, Server]]:
    """Yield the servers of launchers that have no lease, with their hosts or else their parents.

    A lease cannot be written where the disk is full or the state directory is read-only.
    """
    found: set[int] = set()
    for pid, process in population.processes.items():
        if pid in taken or pid in found:
            continue
        argv = population.table.read_argv(pid)
        name = _name_launched(argv) if _is_launcher(argv) else ""
        if not name or not _is_own(population, pid):
            continue
        if _is_below_launcher(population, process.parent):
            continue
        server = _describe(population, pid, name, population.look_at_ends(pid))
        if not taken.isdisjoint(server.processes):
            continue  # a wrapper around a launcher with a lease
        found.update(server.processes)
        host = population.find_host_above(pid) or process.parent
        yield host, _look_behind(population, server, ours)


def _is_launcher(argv: list[str]) -> bool:
    """Return whether a command line runs a launcher: others may only have one among their words."""
    at = wrap.find_run(argv)
    return at is not None and runs_what_follows(argv[: at - 2])


def _is_below_launcher(population: Population, pid: int) -> bool:
    while pid in population.processes:
        if _is_launcher(argv := population.table.read_argv(pid)) and _name_launched(argv):
            return True
        pid = population.processes[pid].parent
    return False


def _look_behind(population: Population, server: Server, ours: str) -> Server:
    """Return a server with its own process, if what is known of it is its launcher."""
    if not server.state:
        return server
    is_unrecorded = server.state == ours and is_old_enough(server.age)
    for pid in server.processes:
        children = population.children.get(pid, [])
        if population.processes[pid].name == _GUARDIAN and children:
            own = children[0]
            age = population.table.started_seconds_ago(own)
            server = replace(server, pid=own, launcher=server.pid, age=age)
            break
    return replace(server, is_unrecorded=is_unrecorded)


def find_left(
    population: Population, taken: set[int], configured: list[Configured]
) -> Iterator[Server]:
    """Yield the servers that seem orphaned, each with the proof or the doubt."""
    found = list(_find_left(population, taken, configured))
    below = {pid for server in found for pid in server.processes if pid != server.pid}
    for server in found:
        if not server.doubt or server.pid not in below:
            yield server


def _find_left(
    population: Population, taken: set[int], configured: list[Configured]
) -> Iterator[Server]:
    named = _list_named(population, configured)
    for pid, process in population.processes.items():
        if pid in taken or pid in population.hosts or not _may_be_left(population, pid):
            continue
        tree = population.list_tree([process.identity])
        if named.isdisjoint(tree) or not _is_own(population, pid):
            continue
        ends = population.look_at_ends(pid)
        if any(end.state != "gone" for end in ends) or _is_anothers(population, pid, ends):
            continue
        if os.getpid() in tree or not population.hosts.keys().isdisjoint(tree):
            continue  # we or a host run below it
        name = _find_name_behind(population, pid, ends, configured)
        if name:
            adopter = _name_adopter(population, process.parent)
            why = (
                f"process {process.parent} ({adopter}) adopted it, and the other ends of its "
                "stdin and stdout are closed"
            )
            doubt = _find_doubt(population, pid, tree)
            server = _describe(population, pid, name, ends)
            yield replace(server, why_ownerless="" if doubt else why, doubt=doubt)


def _list_named(population: Population, configured: list[Configured]) -> set[int]:
    """Return the pids of processes whose command is a server's."""
    pids = population.processes
    return {pid for pid in pids if _find_name(population, pid, configured, is_proof=True)}


def _may_be_left(population: Population, pid: int) -> bool:
    """Return whether a process was adopted, or may have been.

    Any program can adopt: as the first process of a container, or as a subreaper. Linux does
    not show which processes are subreapers.
    """
    if population.is_adopted(pid):
        return True
    return population.processes[pid].parent in population.processes and not (
        population.has_host_above(pid)
    )


def _is_anothers(population: Population, pid: int, ends: tuple[End, End]) -> bool:
    """Return whether a process shares its stdin and stdout with its parent, which is judged."""
    if population.is_adopted(pid):
        return False
    theirs = population.look_at_ends(population.processes[pid].parent)
    return [end.name for end in theirs] == [end.name for end in ends]


def _find_doubt(population: Population, pid: int, tree: tuple[int, ...]) -> str:
    """Return why a server that seems orphaned may not be; empty: no doubt."""
    if not population.is_adopted(pid):
        parent = population.processes[pid].parent
        name = _name_adopter(population, parent)
        return f"its parent, process {parent} ({name}), may have started it"
    if not is_old_enough(population.table.started_seconds_ago(pid)):
        return "it has just started"
    jobs = filter(None, map(open_channels.find_shell, tree))
    return next(jobs, "") or population.channels.find_way(tree)


def _name_adopter(population: Population, pid: int) -> str:
    process = population.processes[pid]
    if population.is_adopter(process):
        return process.name
    return process_titles.name_process(population.table, process)


def _find_name(
    population: Population, pid: int, configured: list[Configured], *, is_proof: bool = False
) -> str | None:
    argv = population.table.read_argv(pid)
    if launched := _name_launched(argv):
        return launched
    return recognize(argv, configured, is_host=pid in population.hosts, is_proof=is_proof)


def _name_launched(argv: list[str]) -> str:
    """Return the name of the server that a launcher runs; empty if this is not a launcher."""
    at = wrap.find_run(argv)
    if at is None:
        return ""
    try:
        given, words = options.split(argv[at:])
    except UsageError:
        return ""  # its options are invalid, so it is about to exit
    names = given.get("--server") or [os.path.basename(word) for word in words[:1]]
    return names[-1] if names else ""


def _find_state(population: Population, pid: int) -> str:
    """Return the state directory of a launcher whose lease is not in ours."""
    if not _name_launched(population.table.read_argv(pid)):
        return ""
    environ = population.table.read_environ(pid)
    return state.find_directory(environ) if environ else "a directory that cannot be read"


def _is_own(population: Population, pid: int) -> bool:
    # Windows has no user ids.
    return hasattr(os, "getuid") and population.table.read_owner(pid) == os.getuid()


def _describe(population: Population, pid: int, name: str, ends: tuple[End, End]) -> Server:
    roots = (population.processes[pid].identity,)
    return Server(
        name=masking.mask_text(name),
        pid=pid,
        roots=roots,
        processes=population.list_tree(roots),
        command=tuple(masking.mask(population.table.read_argv(pid))),
        project=population.table.read_cwd(pid),
        age=population.table.started_seconds_ago(pid),
        stdin=ends[0],
        stdout=ends[1],
        state=_find_state(population, pid),
    )


def _find_name_behind(
    population: Population, pid: int, ends: tuple[End, End], configured: list[Configured]
) -> str | None:
    """Return the name of the server that uses these ends: the process or one that it runs.

    A runner (npx, a shell) passes its own stdin and stdout on to the server. A child with
    different ones is skipped: its parent may be a host that we do not know.
    """
    name = _find_name(population, pid, configured, is_proof=True)
    for child in population.children.get(pid, []):
        theirs = population.look_at_ends(child)
        if not name and [end.name for end in theirs] == [end.name for end in ends]:
            name = _find_name_behind(population, child, ends, configured)
    return name

"""The servers that somebody else started: below a host, or left by one.

No sign is trusted alone, for `reap` ends what is found to be left. A host's server is a child
of a host, hosts hold the other ends of its stdin and stdout, and its command is a server's.
One that was left has been adopted, nobody holds these ends, and its command is a server's; and
nothing speaks against it: it is not young, not a shell's job, and nobody can reach it or
anything below it in another way.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil

from mcp_launch import channels, masking, titles
from mcp_launch.likeness import name_server, prefer
from mcp_launch.population import Server, is_settled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.endpoints import End
    from mcp_launch.likeness import Configured
    from mcp_launch.population import Population


def find_hosted(
    population: Population, taken: set[int], configured: list[Configured]
) -> Iterator[tuple[int, Server]]:
    """Return the servers of hosts, with their hosts' processes."""
    for host, facts in population.hosts.items():
        known = prefer(configured, facts.name)
        for pid in population.children.get(host, []):
            name = None if pid in taken else _find_name(population, pid, known)
            if name and _is_own(pid):
                ends = population.look_at_ends(pid)
                if all(end.state == "held" for end in ends):
                    yield host, _describe(population, pid, name, ends)


def find_left(
    population: Population, taken: set[int], configured: list[Configured]
) -> Iterator[Server]:
    """Return the servers that their hosts left, each with the proof, or with what it lacks."""
    for pid, process in population.processes.items():
        if pid in taken or pid in population.hosts or not population.is_adopted(pid):
            continue
        ends = population.look_at_ends(pid)
        if any(end.state != "gone" for end in ends) or not _is_own(pid):
            continue
        tree = population.list_tree([process.identity])
        if os.getpid() in tree or not population.hosts.keys().isdisjoint(tree):
            continue  # somebody works below it
        name = _find_name_behind(population, pid, ends, configured)
        if name:
            adopter = _name_adopter(population, process.parent)
            why = (
                f"process {process.parent} ({adopter}) adopted it, and nobody holds "
                "the other ends of its stdin and stdout"
            )
            doubt = _find_doubt(population, pid, tree)
            server = _describe(population, pid, name, ends)
            yield replace(server, why_ownerless="" if doubt else why, doubt=doubt)


def _find_doubt(population: Population, pid: int, tree: tuple[int, ...]) -> str:
    """Return what speaks against ending a server that seems to be left; empty: nothing does."""
    if not is_settled(population.table.started_seconds_ago(pid)):
        return "it was started a moment ago"
    jobs = filter(None, map(channels.find_shell, tree))
    return next(jobs, "") or population.channels.find_way(tree)


def _name_adopter(population: Population, pid: int) -> str:
    process = population.processes[pid]
    if population.is_adopter(process):
        return process.name
    return titles.name_process(population.table, process)


def _find_name(
    population: Population, pid: int, configured: list[Configured], *, is_proof: bool = False
) -> str | None:
    argv = population.table.read_argv(pid)
    return name_server(argv, configured, is_host=pid in population.hosts, is_proof=is_proof)


def _is_own(pid: int) -> bool:
    try:
        return psutil.Process(pid).uids().real == os.getuid()
    except (psutil.Error, AttributeError):
        return False  # gone; or Windows, which has neither


def _describe(population: Population, pid: int, name: str, ends: tuple[End, End]) -> Server:
    roots = (population.processes[pid].identity,)
    return Server(
        name=masking.mask_text(name),
        pid=pid,
        roots=roots,
        processes=population.list_tree(roots),
        command=tuple(masking.mask(population.table.read_argv(pid))),
        project=_read_cwd(pid),
        age=population.table.started_seconds_ago(pid),
        stdin=ends[0],
        stdout=ends[1],
    )


def _read_cwd(pid: int) -> str:
    try:
        return psutil.Process(pid).cwd()
    except psutil.Error:
        return ""


def _find_name_behind(
    population: Population, pid: int, ends: tuple[End, End], configured: list[Configured]
) -> str | None:
    """Return the name of the server that uses these ends, a process or what it runs.

    A runner (npx, a shell) hands its own stdin and stdout on to the server. A child with other
    ones is not looked at: its parent may be a host that we do not know.
    """
    name = _find_name(population, pid, configured, is_proof=True)
    for child in population.children.get(pid, []):
        theirs = population.look_at_ends(child)
        if not name and [end.name for end in theirs] == [end.name for end in ends]:
            name = _find_name_behind(population, child, ends, configured)
    return name

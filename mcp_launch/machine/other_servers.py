"""Find the servers that we did not start: below a host, or orphaned by one.

Hosts also run shells, linters and each other through pipes. A process is a server if its command
is that of an entry in a host's file. It is a host's if it is a child of the host and hosts hold
the other ends of its stdin and stdout. It is an orphan, which `reap` ends, if an init has adopted
it and the other ends of its stdin and stdout are closed, so that nobody can reach it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_launch import masking
from mcp_launch.config_files import wrap
from mcp_launch.errors import UsageError
from mcp_launch.launch import options
from mcp_launch.machine.process_snapshot import Server, is_old_enough
from mcp_launch.machine.recognize_server import prefer, recognize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.process_snapshot import Population
    from mcp_launch.machine.recognize_server import Configured


def find_hosted(
    population: Population, taken: set[int], configured: list[Configured]
) -> Iterator[tuple[int, Server]]:
    """Yield the servers of hosts, each with its host's pid."""
    for host, facts in population.hosts.items():
        known = prefer(configured, facts.name)
        for pid in population.children.get(host, []):
            if pid in taken or not _is_own(population, pid):
                continue
            launched, words = _split(population.table.read_argv(pid))
            name = launched or recognize(words, known)
            ends = population.look_at_ends(pid) if name else ()
            if name and all(end.state == "held" for end in ends):
                # A launcher among them has its lease elsewhere, or could not write it.
                yield host, replace(_describe(population, pid, name), is_unrecorded=bool(launched))


def find_orphans(
    population: Population, taken: set[int], configured: list[Configured]
) -> Iterator[Server]:
    """Yield the servers that are provably orphaned, each with the proof."""
    for pid, process in population.processes.items():
        if pid in taken or not population.is_adopted(pid) or not _is_own(population, pid):
            continue
        launched, words = _split(population.table.read_argv(pid))
        name = recognize(words, configured, is_proof=True)
        if not name or not is_old_enough(population.table.started_seconds_ago(pid)):
            continue
        tree = {pid, *population.list_tree([process.identity])}
        if os.getpid() in tree or not population.hosts.keys().isdisjoint(tree):
            continue  # we or a host run below it
        if all(end.state == "gone" for end in population.look_at_ends(pid)):
            adopter = population.processes[process.parent].name
            why = (
                f"process {process.parent} ({adopter}) adopted it, and the other ends of its "
                "stdin and stdout are closed"
            )
            yield replace(_describe(population, pid, launched or name), why_ownerless=why)


def _split(argv: list[str]) -> tuple[str, list[str]]:
    """Return a server's name, if this is a launcher's command line, and the server's command."""
    at = wrap.find_run(argv)
    if at is None:
        return "", argv
    try:
        given, words = options.split(argv[at:])
    except UsageError:
        return "", []  # its options are invalid, so it is about to exit
    names = given.get("--server") or [os.path.basename(word) for word in words[:1]]
    return (names[-1] if names else ""), words


def _is_own(population: Population, pid: int) -> bool:
    # Windows has no user ids.
    return hasattr(os, "getuid") and population.table.read_owner(pid) == os.getuid()


def _describe(population: Population, pid: int, name: str) -> Server:
    roots = (population.processes[pid].identity,)
    stdin, stdout = population.look_at_ends(pid)
    return Server(
        name=masking.mask_text(name),
        pid=pid,
        roots=roots,
        processes=population.list_tree(roots),
        command=tuple(masking.mask(population.table.read_argv(pid))),
        project=population.table.read_cwd(pid),
        age=population.table.started_seconds_ago(pid),
        stdin=stdin,
        stdout=stdout,
    )

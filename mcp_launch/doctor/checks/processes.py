"""Checks of what runs now: orphaned or surplus servers, shared pipes."""

from __future__ import annotations

import shlex
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import hosts
from mcp_launch.doctor.checks import (
    identity_of_processes,
    idle_servers,
    shareable_servers,
    shared_servers,
)
from mcp_launch.doctor.finding import Finding, Repair
from mcp_launch.errors import printable
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine import end_server, units
from mcp_launch.machine.process_snapshot import is_old_enough
from mcp_launch.machine.subject import Subject
from mcp_launch.machine.units import tell_age

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import HostProcess, Session
    from mcp_launch.machine.survey import Survey
    from mcp_launch.machine.units import Memory


class Share(NamedTuple):
    """The memory of one server, with its host and session."""

    host: str
    session: str
    server: str
    memory: Memory
    shared_by: int = 1  # how many sessions have this server


def check(survey: Survey) -> Iterator[Finding]:
    """Check all running servers."""
    for server in _list_ownerless(survey):
        yield _report_ownerless(survey, server)
    for host in _list_hosts(survey):
        yield from _check_generations(survey, host)
        yield from _check_writers(survey, host)
        yield from identity_of_processes.check(survey, host)
        yield from _check_places(host)
        yield from _check_agent(survey, host)
    yield from _check_readers(survey)
    yield from shared_servers.check(survey)
    yield from idle_servers.check(survey)
    yield from shareable_servers.check(survey)


def list_memory(survey: Survey) -> list[Share]:
    """Return the memory of every server, by host and session; a shared one is listed once."""
    running = [
        (host, session, server)
        for host in _list_hosts(survey)
        for session in host.sessions
        for server in session.servers
    ]
    rows: dict[object, list[tuple[HostProcess, Session, Server]]] = {}
    for row in running:
        rows.setdefault(row[2].shared_as or id(row[2]), []).append(row)
    # A server without memory has ended in the meantime.
    shares = [one for alike in rows.values() if (one := _join(alike)).memory.amount]
    left = [
        Share("no host", "", str(one), one.memory)
        for one in _list_ownerless(survey)
        if one.memory.amount
    ]
    return shares + left


def _join(alike: list[tuple[HostProcess, Session, Server]]) -> Share:
    """Return one server, which may be in the rows of several sessions."""
    host, session, server = alike[0]
    whose = printable(session.id) if len(alike) == 1 else ""
    # What the sessions have of their own are their launchers.
    memory = units.add_up(server.memory for _, _, server in alike)
    return Share(str(host), whose, _name(server), memory, len(alike))


def _name(server: Server) -> str:
    """Return a server's name, with its process if it has one."""
    if server.launch is not None and server.is_absent:
        return f"{printable(server.name)} ({server.launch.server_state})"
    return str(server)


def _list_hosts(survey: Survey) -> list[HostProcess]:
    """Return the running hosts to look at."""
    return [host for host in survey.census.hosts if survey.covers(host.name)]


def _list_ownerless(survey: Survey) -> list[Server]:
    """Return the servers without a host; of some hosts only those that their files name."""
    names = {item.name for item in survey.items}
    ownerless = survey.census.ownerless
    return [one for one in ownerless if not survey.is_narrowed or one.name in names]


def _report_ownerless(survey: Survey, server: Server) -> Finding:
    return Finding(
        "ML401",
        Subject(server=server.name, pid=server.pid),
        f"{server} has run for {tell_age(server.age)} and uses {server.memory}, "
        f"but nothing needs it: {printable(server.why_ownerless)}",
        "end it: mcp-launch reap",
        Repair(f"end {server}", partial(end_server.reap, survey, server)),
    )


def _check_generations(survey: Survey, host: HostProcess) -> Iterator[Finding]:
    # A launch may have a server for each session: that is one instance for its host.
    settled = [one for one in _keep_one_of_each_launch(host.servers) if is_old_enough(one.age)]
    for name in dict.fromkeys(server.name for server in settled):
        same = [server for server in settled if server.name == name]
        most = _count_expected(survey, host, name)
        ages = ", ".join(f"process {one.pid} ({tell_age(one.age)})" for one in same)
        if most and len(same) > most:
            yield Finding(
                "ML402",
                Subject(host.name, name),
                f"{host} needs {most} of {printable(name)} and runs {len(same)}: {ages}",
                f"restart {host.title} when none of its sessions is busy",
            )
        elif twice := _find_thread_served_twice(same):
            yield Finding(
                "ML402",
                Subject(host.name, name),
                f"more than one {printable(name)} serves thread {printable(twice)} "
                f"of {host}: {ages}",
                f"restart {host.title} when none of its sessions is busy",
            )


def _count_expected(survey: Survey, host: HostProcess, name: str) -> int:
    """Return how many instances of a server a host should run; 0 if unknown."""
    expected = HOSTS[host.name].quirks.processes if host.name in HOSTS else "unknown"
    if expected == "one for each thread":
        return len(host.threads)  # none: ephemeral threads, or Codex before its locks
    if expected == "unknown":
        return 0
    configured = survey.configured
    commands = {one.words for one in configured if one.name == name}
    # Entries with other names but the same command cannot be distinguished from this one.
    return max(1, len({one.name for one in configured if one.words in commands}))


def _find_thread_served_twice(servers: list[Server]) -> str:
    threads = [one.thread for one in servers if one.launch and one.launch.state == "confirmed"]
    return next((thread for thread in threads if thread and threads.count(thread) > 1), "")


def _check_writers(survey: Survey, host: HostProcess) -> Iterator[Finding]:
    """Find servers to which several host processes can write."""
    for server in _keep_one_of_each_launch(host.servers):
        ages = {pid: survey.table.started_seconds_ago(pid) for pid in server.stdin.holders}
        settled = [pid for pid, age in ages.items() if is_old_enough(age)]
        if len(settled) > 1:
            writers = " and ".join(
                identity_of_processes.describe_process(survey, pid) for pid in settled
            )
            yield Finding(
                "ML403",
                Subject(host.name, server.name, pid=server.pid),
                f"{writers} can write to the stdin of {server}",
                f"end process {server.contact}, and let only one host start it",
            )


def _keep_one_of_each_launch(servers: list[Server]) -> list[Server]:
    """Return servers without those that have the same stdin as another: their launcher's."""
    return [one for one in servers if not (one.launch and one.launch.is_further)]


def _check_places(host: HostProcess) -> Iterator[Finding]:
    """Find servers that run in a home or in `/` without having been configured so.

    Those of an editor's agent have a finding of their own (ML410).
    """
    for server in host.servers:
        launch = server.launch
        home = launch.place_note if launch and not launch.is_host_directory else ""
        if home and not server.is_absent:
            yield Finding(
                "ML408",
                Subject(host.name, server.name, pid=server.pid),
                f"{server} of {host} runs in {printable(home)}, not in a project",
                f"if the server works on files, start {host.title} in a project, or name a "
                "directory with --cwd DIR",
            )


def _check_agent(survey: Survey, host: HostProcess) -> Iterator[Finding]:
    """Find servers that an editor's agent has started in its own directory (ML410)."""
    facts = hosts.load(host.name)
    if not facts.starts_in_own_directory(survey.table, host.pid):
        return
    for server in host.servers:
        if server.is_absent or (server.launch and not server.launch.is_host_directory):
            continue  # its session's directory is known
        wrap = f"mcp-launch wrap --host {host.name} {printable(shlex.quote(server.name))}"
        name_it = f"if it works on files: {wrap} -- --cwd DIR, or start {host.title} in the project"
        learns = facts.answers_roots and not server.launch
        yield Finding(
            "ML410",
            Subject(host.name, server.name, pid=server.pid),
            f"{server} of {host} runs where {host.title} was started, "
            "regardless of where its sessions work",
            f"{wrap}: then it gets its session's directory" if learns else name_it,
        )


def _check_readers(survey: Survey) -> Iterator[Finding]:
    """Find servers of different hosts that read from the same pipe."""
    hosted = [(host, server) for host in survey.census.hosts for server in host.servers]
    for (host, server), (other_host, other) in combinations(hosted, 2):
        is_covered = survey.covers(host.name) or survey.covers(other_host.name)
        is_shared = host.pid != other_host.pid and server.stdin.name == other.stdin.name != ""
        if is_shared and is_covered:
            yield Finding(
                "ML403",
                Subject(host.name, server.name, pid=server.pid),
                f"{server} of {host} and {other} of {other_host} read from the same pipe",
                f"end processes {server.contact} and {other.contact}, then start both again",
            )

"""Checks of what runs now: servers without a host, surplus ones, pipes, identities, directories."""

from __future__ import annotations

import shlex
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

from mcp_launch import hosts
from mcp_launch.doctor.check import Finding, Repair, check
from mcp_launch.errors import printable
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine import end_server, process_titles
from mcp_launch.machine.preview import predict
from mcp_launch.machine.process_snapshot import is_old_enough
from mcp_launch.machine.survey import Subject
from mcp_launch.machine.units import tell_age
from mcp_launch.machine.wrap_warnings import tell_how
from mcp_launch.system import list_ancestors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import HostProcess
    from mcp_launch.machine.survey import Survey


def list_hosts(survey: Survey) -> list[HostProcess]:
    """Return the running hosts to look at."""
    return [host for host in survey.census.hosts if survey.covers(host.name)]


def list_ownerless(survey: Survey) -> list[Server]:
    """Return the servers without a host; of some hosts only those that their files name."""
    names = {item.name for item in survey.items}
    ownerless = survey.census.ownerless
    return [one for one in ownerless if not survey.is_narrowed or one.name in names]


def _report(code: str, host: HostProcess, server: Server, message: str, fix: str) -> Finding:
    subject = Subject(host.name, server.name, pid=server.pid)
    return Finding(code, subject, message, fix)


@check("ML401", "warning", "the host of a server is gone")
def check_ownerless(survey: Survey) -> Iterator[Finding]:
    """A server is still running although its host is gone.

    It serves nobody, and holds memory, ports, locks or a browser until it is ended or the machine
    restarts. It is reported only with proof: its command is in a host's file, its parent has
    exited, and the other ends of its stdin and stdout are closed. The host crashed or was killed
    and the server ignores the end of its input, or the host signalled only `npx`, and the real
    server below it stayed. Wrapped servers end by themselves; one that is listed here is almost
    always from before you wrapped it.

    `mcp-launch reap` lists such servers and asks before it ends them; `mcp-launch doctor --fix`
    offers the same. All proof is checked once more right before the first signal. `mcp-launch wrap`
    keeps it from happening again.
    """
    for server in list_ownerless(survey):
        yield Finding(
            "ML401",
            Subject(server=server.name, pid=server.pid),
            f"{server} has run for {tell_age(server.age)} and uses {server.memory}, "
            f"but nothing needs it: {printable(server.why_ownerless)}",
            "end it: mcp-launch reap",
            Repair(f"end {server}", partial(end_server.reap, survey, server)),
        )


@check("ML402", "warning", "several generations of a server run under one host")
def check_generations(survey: Survey) -> Iterator[Finding]:
    """One host process runs more copies of a server than it needs, or several for one thread.

    The extra copies take memory, and since they work on the same files and accounts, they can get
    into each other's way: a lock, a port, a browser profile. The host started the server again,
    after a change of its configuration, a timeout or a reconnect, and did not end the former one.
    Claude Code needs one process of each server, Codex one for each open thread. Processes younger
    than ten seconds are not counted, since a replacement takes a moment.

    Restart the host when none of its sessions is busy; that ends them all. Do not kill single
    copies: it is not visible from outside which one the host still uses. Wrapped servers are
    replaced only after the former one has ended, so `mcp-launch wrap docs` prevents most cases.
    `mcp-launch ps` shows which servers run, for which session.
    """
    for host in list_hosts(survey):
        # A launch may have a server for each session: that is one instance for its host.
        settled = [one for one in _keep_one_of_each_launch(host) if is_old_enough(one.age)]
        for name in dict.fromkeys(server.name for server in settled):
            same = [server for server in settled if server.name == name]
            most = _count_expected(survey, host, name)
            ages = ", ".join(f"process {one.pid} ({tell_age(one.age)})" for one in same)
            if most and len(same) > most:
                problem = f"{host} needs {most} of {printable(name)} and runs {len(same)}"
            elif twice := _find_thread_served_twice(same):
                thread = f"thread {printable(twice)} of {host}"
                problem = f"more than one {printable(name)} serves {thread}"
            else:
                continue
            yield Finding(
                "ML402",
                Subject(host.name, name),
                f"{problem}: {ages}",
                f"restart {host.title} when none of its sessions is busy",
            )


def _keep_one_of_each_launch(host: HostProcess) -> list[Server]:
    """Return servers without those that have the same stdin as another: their launcher's."""
    return [one for one in host.servers if not (one.launch and one.launch.is_further)]


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


@check("ML403", "error", "servers of different hosts share a pipe")
def check_pipes(survey: Survey) -> Iterator[Finding]:
    """Two host processes can write to one server's stdin, or servers of two hosts read one pipe.

    A stdio connection belongs to one host. With two writers, messages mix in the middle of a line,
    and answers reach whichever reads first: a session may get another session's results. With two
    readers, each gets some of the requests, and both hosts seem to hang. A host has started another
    process without closing the descriptors of its servers, or a script connects processes with
    named pipes or copied descriptors.

    End the process that the finding names, and let only one host start the server; the host may
    offer to reconnect it. If it comes back, look for what starts the second host. `mcp-launch run`
    refuses a launch if the other end of its stdin belongs to a host that did not start it, so
    wrapped servers are safe from most of this.
    """
    for host in list_hosts(survey):
        for server in _keep_one_of_each_launch(host):
            ages = {pid: survey.table.started_seconds_ago(pid) for pid in server.stdin.holders}
            settled = [pid for pid, age in ages.items() if is_old_enough(age)]
            if len(settled) > 1:
                writers = " and ".join(_name_process(survey, pid) for pid in settled)
                message = f"{writers} can write to the stdin of {server}"
                fix = f"end process {server.contact}, and let only one host start it"
                yield _report("ML403", host, server, message, fix)
    hosted = [(host, server) for host in survey.census.hosts for server in host.servers]
    for (host, server), (other_host, other) in combinations(hosted, 2):
        is_covered = survey.covers(host.name) or survey.covers(other_host.name)
        is_shared = host.pid != other_host.pid and server.stdin.name == other.stdin.name != ""
        if is_shared and is_covered:
            message = f"{server} of {host} and {other} of {other_host} read from the same pipe"
            fix = f"end processes {server.contact} and {other.contact}, then start both again"
            yield _report("ML403", host, server, message, fix)


def _name_process(survey: Survey, pid: int) -> str:
    """Return the name of a host process for a message."""
    return f"{printable(process_titles.name_pid(survey.table, pid))} (process {pid})"


@check("ML404", "error", "a server's identity is contradictory")
def check_identities(survey: Survey) -> Iterator[Finding]:
    """What a server can see of its session is wrong.

    Its environment names a session of another host, or a thread that is not open, or another
    process than the one that started it is connected to it. A server that trusts its environment
    writes notes, locks or files for the wrong session; nothing fails, so it is noticed late, if
    ever. Hosts pass on what they were started with: a Claude Code that was started in a shell of
    Codex inherits `CODEX_THREAD_ID` and hands it to its servers, and one Claude Code gives its
    `CLAUDE_CODE_SESSION_ID` to another.

    Wrap the server (`mcp-launch wrap docs`): mcp-launch removes identity variables of other hosts,
    and puts the right session into each call. If the finding says that another process talks to the
    server, end the server and start it from the host that should use it.
    """
    for host in list_hosts(survey):
        for server in _keep_one_of_each_launch(host):
            yield from _check_stdin(survey, host, server)
        for server in host.servers:
            # With a launcher, the server has what that gives it; a pool's serves several sessions.
            if server.launch is None and not server.is_unrecorded and not server.pool:
                environ = survey.table.read_environ(server.pid)
                yield from _check_foreign(host, server, environ)
                yield from _check_own(survey, host, server, environ)


def _check_stdin(survey: Survey, host: HostProcess, server: Server) -> Iterator[Finding]:
    above = {one.identity.pid for one in list_ancestors(survey.table, server.contact)}
    if server.stdin.holders and above.isdisjoint(server.stdin.holders):
        holders = " and ".join(_name_process(survey, pid) for pid in server.stdin.holders)
        message = f"{holders} talks to {server}, which {host} started"
        fix = f"end process {server.contact}, and start it from the host that talks to it"
        yield _report("ML404", host, server, message, fix)


def _check_foreign(host: HostProcess, server: Server, environ: dict[str, str]) -> Iterator[Finding]:
    """Find identity variables of another host."""
    foreign = hosts.list_foreign_variables(host.name)
    for owner, names in hosts.IDENTITY_VARIABLES.items():
        leaked = [
            name for name in names if name in foreign and name.endswith("_ID") and environ.get(name)
        ]
        if owner != host.name and leaked:
            what = f"a session of {hosts.load(owner).title}"
            yield _contradict(host, server, leaked[0], environ[leaked[0]], what)


def _check_own(
    survey: Survey, host: HostProcess, server: Server, environ: dict[str, str]
) -> Iterator[Finding]:
    """Compare the ids that a host gave a server with the host's current ones."""
    facts = hosts.load(host.name)
    variable = facts.session_variable
    thread, session = environ.get(facts.thread_variable), environ.get(variable)
    if thread and host.threads and thread not in host.threads:
        what = "which is not an open thread there"
        yield _contradict(host, server, facts.thread_variable, thread, what)
    is_other = session and host.session and session != host.session
    # An id that the host itself was started with belongs to the session in whose shell that was.
    if is_other and survey.table.read_variable(host.pid, variable) == session:
        what = f"the session in which {host.title} was started"
        yield _contradict(host, server, variable, session or "", what)


def _contradict(host: HostProcess, server: Server, name: str, value: str, what: str) -> Finding:
    return _report(
        "ML404",
        host,
        server,
        f"{server} runs for {host}, but its environment has {name}={printable(value)}, {what}",
        f"mcp-launch wrap {printable(server.name)}: then it gets only its own host's variables",
    )


@check("ML408", "note", "a server starts in a home, in /, or where its host was started")
def check_places(survey: Survey) -> Iterator[Finding]:
    """A server runs, or would be started, in no project, and nobody asked for that with `--cwd`.

    For a server that only talks to a web service, this is fine. One that works on files sees the
    whole home directory, or nothing that it can use. Claude Desktop, Cursor, Windsurf and Cline
    start servers in `/` or the home directory whatever you work on; other hosts do so when they are
    started there. An editor starts Gemini CLI, Mistral Vibe or Cline's hub as an agent, once for
    all its projects, and the agent starts servers in its own directory. mcp-launch starts the
    server where its host does, and says so here.

    Start the host in a project, or name a directory for the server, then restart the session:
    `mcp-launch wrap --host cursor files -- --cwd /home/me/app`. For Gemini CLI and Cline, wrapping
    is enough: they name the session's directory when they are asked. If a server must never start
    in such a place, give it `--strict`. For servers that do not use files, ignore the code: `ignore
    = ["ML408:docs"]` below `[doctor]` in `~/.config/mcp-launch/config.toml`.
    """
    running = set()
    for host in list_hosts(survey):
        for finding in _check_places_of(survey, host):
            running.add((host.name, finding.subject.server))
            yield finding
    for item in survey.servers:
        homes = predict(survey, item).list_homes()
        wanted = predict(survey, item).profile
        # With --strict, the launch is refused: ML121.
        is_known = (item.running_as, item.name) in running or wanted is None or wanted.strict
        if homes and not is_known:
            yield Finding(
                "ML408",
                item.point("args"),
                f"{item.host.title} starts '{item.name}' in {' or '.join(homes)}, not in a project",
                f"if it works on files, give it a directory: {tell_how(item, '--cwd DIR')}",
            )


def _check_places_of(survey: Survey, host: HostProcess) -> Iterator[Finding]:
    is_agent = hosts.load(host.name).starts_in_own_directory(survey.table, host.pid)
    for server in host.servers:
        launch = server.launch
        if server.is_absent:
            continue
        if is_agent and (launch is None or launch.is_host_directory):
            yield _report_agent(host, server)
        elif launch and launch.place_note and not launch.is_host_directory:
            message = f"{server} of {host} runs in {printable(launch.place_note)}, not in a project"
            fix = (
                f"if the server works on files, start {host.title} in a project, or name a "
                "directory with --cwd DIR"
            )
            yield _report("ML408", host, server, message, fix)


def _report_agent(host: HostProcess, server: Server) -> Finding:
    """Report a server that an editor's agent has started in its own directory."""
    wrap = f"mcp-launch wrap --host {host.name} {printable(shlex.quote(server.name))}"
    name_it = f"if it works on files: {wrap} -- --cwd DIR, or start {host.title} in the project"
    learns = hosts.load(host.name).answers_roots and not server.launch
    return _report(
        "ML408",
        host,
        server,
        f"{server} of {host} runs where {host.title} was started, "
        "regardless of where its sessions work",
        f"{wrap}: then it gets its session's directory" if learns else name_it,
    )

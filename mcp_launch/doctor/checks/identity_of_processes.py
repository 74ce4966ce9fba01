"""Check that a server's pipes and environment agree about which host and session it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch import hosts
from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import printable
from mcp_launch.machine import process_titles
from mcp_launch.machine.subject import Subject
from mcp_launch.system import list_ancestors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import HostProcess
    from mcp_launch.machine.survey import Survey


def check(survey: Survey, host: HostProcess) -> Iterator[Finding]:
    """Check the servers of one host process."""
    for server in host.servers:
        if not (server.launch and server.launch.is_further):  # its stdin is its launcher's
            yield from _check_stdin(survey, host, server)
        if server.is_unrecorded:
            continue  # what its process shows is the launcher's environment, not the server's
        if server.pool:
            continue  # it serves several sessions on purpose
        if server.launch is None:
            environ = survey.table.read_environ(server.pid)
            yield from _check_foreign(host, server, environ)
            yield from _check_own(survey, host, server, environ)
        else:
            yield from _check_ours(survey, host, server)


def describe_process(survey: Survey, pid: int) -> str:
    """Return the name of a host process for a message."""
    return f"{printable(process_titles.name_pid(survey.table, pid))} (process {pid})"


def _check_stdin(survey: Survey, host: HostProcess, server: Server) -> Iterator[Finding]:
    above = {one.identity.pid for one in list_ancestors(survey.table, server.contact)}
    if server.stdin.holders and above.isdisjoint(server.stdin.holders):
        holders = " and ".join(describe_process(survey, pid) for pid in server.stdin.holders)
        yield Finding(
            "ML404",
            Subject(host.name, server.name, pid=server.pid),
            f"{holders} talks to {server}, which {host} started",
            f"end process {server.contact}, and start it from the host that talks to it",
        )


def _check_foreign(host: HostProcess, server: Server, environ: dict[str, str]) -> Iterator[Finding]:
    """Find identity variables of another host."""
    foreign = hosts.list_foreign_variables(host.name)
    for owner, names in hosts.IDENTITY_VARIABLES.items():
        leaked = [
            name for name in names if name in foreign and name.endswith("_ID") and environ.get(name)
        ]
        if owner != host.name and leaked:
            yield _contradict(
                host,
                server,
                f"{leaked[0]}={printable(environ[leaked[0]])}, "
                f"a session of {hosts.load(owner).title}",
            )


def _check_own(
    survey: Survey, host: HostProcess, server: Server, environ: dict[str, str]
) -> Iterator[Finding]:
    """Compare the ids that a host gave a server with the host's current ones."""
    facts = hosts.load(host.name)
    variable = facts.session_variable
    thread, session = environ.get(facts.thread_variable), environ.get(variable)
    if thread and host.threads and thread not in host.threads:
        what = f"{facts.thread_variable}={printable(thread)}, which is not an open thread there"
        yield _contradict(host, server, what)
    if not session or not host.session or session == host.session:
        return
    # An id that the host itself was started with belongs to the session in whose shell that was.
    if survey.table.read_variable(host.pid, variable) == session:
        what = f"{variable}={printable(session)}, the session in which {host.title} was started"
        yield _contradict(host, server, what)
    else:
        yield _report_change(host, server, variable, session, host.session)


def _contradict(host: HostProcess, server: Server, what: str) -> Finding:
    return Finding(
        "ML404",
        Subject(host.name, server.name, pid=server.pid),
        f"{server} runs for {host}, but its environment has {what}",
        f"mcp-launch wrap {printable(server.name)}: then it gets only its own host's variables",
    )


def _check_ours(survey: Survey, host: HostProcess, server: Server) -> Iterator[Finding]:
    environ = survey.table.read_environ(server.launch.server) if server.launch else {}
    for name, now in (
        ("MCP_LAUNCH_SESSION_ID", server.session),
        ("MCP_LAUNCH_THREAD_ID", server.thread),
    ):
        at_start = environ.get(name)
        if at_start and now and at_start != now:
            yield _report_change(host, server, name, at_start, now)
            return


def _report_change(
    host: HostProcess, server: Server, variable: str, at_start: str, now: str
) -> Finding:
    command = "mcp-launch run --env NAME=session"
    fix = f'read _meta["mcp-launch/context"] of each call, or start the server with {command}'
    wrap = "" if server.launch else f"mcp-launch wrap {printable(server.name)}, then "
    return Finding(
        "ML405",
        Subject(host.name, server.name, pid=server.pid),
        f"{server} now serves {printable(now)}, but was started with "
        f"{variable}={printable(at_start)}",
        wrap + fix,
    )

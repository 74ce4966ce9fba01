"""A launch that failed before there was a server: answers its host with the reason.

Hosts do not show a launcher's stderr, but Codex and Claude Code show an error answer to
`initialize` word for word: they get it, and the launch ends. For a host that would swallow it, the
launch stays, with a lease and a tool (`broker.error_tool`), until the host leaves.
"""

from __future__ import annotations

import os
import time

from mcp_launch import state
from mcp_launch.broker import Broker
from mcp_launch.broker.commands import Settings
from mcp_launch.hosts import Callers
from mcp_launch.launch.context import is_inside, read_cwd
from mcp_launch.runtime.lease import describe_duration
from mcp_launch.runtime.lease import explain_end as explain_launch_end
from mcp_launch.runtime.loop import Loop
from mcp_launch.runtime.streams import explain_early_end, explain_end
from mcp_launch.runtime.supervisor import Supervisor
from mcp_launch.state import launch_log, leases
from mcp_launch.system import kernel
from mcp_launch.system.kernel import HostWatch
from mcp_launch.values import END, Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker.routing import Served
    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.failed_launch import FailedLaunch
    from mcp_launch.launch.plan import Plan
    from mcp_launch.protocol.json_text import Json


def answer_failure(
    error: LaunchError, unread: bytes = b"", found: FailedLaunch | None = None
) -> None:
    """Answer the host's requests with the reason why there is no server.

    `unread` is what the host has sent so far. If nothing was found out, the host gets an error.
    """
    try:
        os.fstat(0)
        if os.isatty(0):
            return
    except OSError:
        return  # our stdin is closed: there is no request to answer
    if found is not None and found.answer != "error":
        try:
            wake, _ = kernel.listen(kernel.ENDING)
        except OSError:
            pass  # out of descriptors: an error needs none
        else:
            _stay(error, unread, found, wake)
            return
    supervisor = _make_supervisor("", "error", -1, _do_nothing)
    supervisor.fail(error, unread)
    supervisor.run()


def _stay(error: LaunchError, unread: bytes, found: FailedLaunch, wake: int) -> None:
    """Stand in for the server until the host leaves."""
    began = time.monotonic()
    record = leases.open_record(found.launch, found.command)
    lease = leases.Lease(state.name_lease(os.environ, found.launch), record)
    record.update(_describe(found, error))
    supervisor = _make_supervisor(found.server, found.answer, wake, lease.write)
    try:
        supervisor.fail(error, unread)
        supervisor.watch_hosts(HostWatch(found.table, found.hosts, parent=found.hosts[0]))
        supervisor.run()
    finally:
        kernel.ignore_restart()
        lease.remove()
    lasted = describe_duration(time.monotonic() - began)
    why = explain_launch_end(supervisor.broker, found.lineage.host)
    state.note(f"ended: {why}; no server was started; after {lasted}", END)


def _describe(found: FailedLaunch, error: LaunchError) -> dict[str, object]:
    """Return the facts of a failed launch for its lease."""
    lineage, table = found.lineage, found.table
    host = lineage.process.identity.pid if lineage.process is not None else None
    return {
        "server": found.server,
        "wire": "guarded",
        "boot": table.boot_id(),
        "lineage": {"verdict": lineage.verdict, "evidence": lineage.evidence},
        "processes": leases.describe_processes(table, launcher=os.getpid(), host=host),
        "context": leases.describe_facts(
            host=Found(lineage.host.name, "above us"),
            cwd=Found(read_cwd(os.environ), "inherited"),
        ),
        "binding": {"state": "unbound"},
        "calls": 0,
        "starts": 0,
        "restarts_on": None,
        "state": leases.FAILED,
        "since": time.time(),
        "failure": leases.describe_failure(error),
    }


def _make_supervisor(
    server: str, on_failure: str, wake: int, write_lease: Callable[[], None]
) -> Supervisor:
    broker = Broker(
        Settings(
            server=server,
            launch="",
            carries="one session at a time",
            callers=Callers(),
            plan_for=_refuse,
            is_inside=is_inside,
            describe=_describe_nothing,
            explain_end=explain_end,
            explain_early_end=lambda code, words: explain_early_end(server, code, words),
            on_failure=on_failure,
        )
    )
    return Supervisor(
        broker,
        Loop(is_frugal=True),
        wake=wake,
        log=launch_log.open_log("", {}),
        report=_do_nothing,
        write_lease=write_lease,
        note_server=_do_nothing,
        starter=None,
    )


def _do_nothing(*_: object) -> None:
    """Ignore an event of a launch without a server."""


def _describe_nothing(_served: Served, _place: Found | None) -> dict[str, Json]:
    return {}


def _refuse(context: Context, place: Found | None) -> tuple[Context, Plan]:
    raise NotImplementedError

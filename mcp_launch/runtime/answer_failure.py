"""A launch that failed before there was a server: answers its host with the reason.

Hosts do not show a launcher's stderr, but Codex and Claude Code show an error answer to
`initialize` word for word: they get it, and the launch ends. For a host that would swallow it, the
launch stays, with a lease and a tool (`broker.ending`), until the host leaves.
"""

from __future__ import annotations

import os
import time

from mcp_launch import state
from mcp_launch.broker.commands import Settings
from mcp_launch.broker.core import Core
from mcp_launch.hosts import Callers
from mcp_launch.launch.context import read_cwd
from mcp_launch.runtime.edge import ClientWire
from mcp_launch.runtime.launcher import Launcher
from mcp_launch.runtime.lease import HOST, describe_duration, explain_launch_end
from mcp_launch.runtime.loop import Loop
from mcp_launch.runtime.writer import Writer
from mcp_launch.state import launch_log, leases
from mcp_launch.system import kernel
from mcp_launch.system.kernel import HostWatch
from mcp_launch.values import END, Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.failed_launch import FailedLaunch


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
    launcher = _make_launcher("", "error")
    launcher.fail_first(error, unread)
    launcher.run()


def _stay(error: LaunchError, unread: bytes, found: FailedLaunch, wake: int) -> None:
    """Stand in for the server until the host leaves."""
    began = time.monotonic()
    record = leases.open_record(found.launch, found.command)
    lease = leases.Lease(state.name_lease(os.environ, found.launch), record)
    record.update(_describe(found, error))
    launcher = _make_launcher(found.server, found.answer)
    loop = launcher.edge.loop
    loop.watch(wake, lambda: launcher.handle_signals(wake))
    try:
        lease.write()
        launcher.fail_first(error, unread)
        hosts = HostWatch(found.table, found.hosts, parent=found.hosts[0])
        loop.watch_hosts(hosts, launcher.lose_host)
        launcher.run()
    finally:
        kernel.ignore_restart()
        lease.remove()
    lasted = describe_duration(time.monotonic() - began)
    why = explain_launch_end(launcher.core, found.lineage.host)
    state.note(f"ended: {why}; no server was started; after {lasted}", END)


def _describe(found: FailedLaunch, error: LaunchError) -> dict[str, object]:
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


def _make_launcher(server: str, on_failure: str) -> Launcher:
    """Return a launcher that starts no server."""
    settings = Settings(server=server, callers=Callers(), on_failure=on_failure, no_meta=True)
    loop = Loop(is_frugal=True)
    wire = ClientWire(HOST, 0, Writer(loop, 1))
    return Launcher(Core(settings), loop, launch_log.open_log("", {}), wire)

"""Who started us, and who is at the other end of our stdin.

Three answers, never two: "same" when the kernel confirms it, "different" when it
contradicts, "unknown" when it does not say. The launch goes on with "unknown" unless
`--strict`, and never with a host at the other end that is not our ancestor.
"""

from __future__ import annotations

import os
import stat

from mcp_launch import hosts
from mcp_launch.errors import LineageContradicted
from mcp_launch.system import kernel, list_ancestors, name_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts.host import HostIdentity
    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Process, Verdict


class Lineage:
    """The ancestors of a launch, its host, and the verdict on its stdin."""

    __slots__ = ("ancestors", "evidence", "holder", "host", "process", "verdict")

    def __init__(
        self, ancestors: list[Process], host: HostIdentity, process: Process | None
    ) -> None:
        self.ancestors = ancestors
        self.host = host
        # The host's process: the nearest ancestor that we know, else the direct parent.
        self.process = process
        self.holder: int | None = None  # the pid at the other end of stdin
        self.verdict: Verdict = "unknown"
        self.evidence = "stdin is neither a pipe nor a socket"

    def started_us(self) -> bool:
        """Tell whether the host itself started us, not a program it runs in a shell."""
        if self.process is None:
            return False
        pid = self.process.identity.pid
        return pid == self.holder or (
            self.holder is None and bool(self.ancestors) and self.ancestors[0].identity.pid == pid
        )


def trace_back(table: ProcessTable, pid: int, stdin: int = 0) -> Lineage:
    """Find the host among our ancestors and ask the kernel about stdin."""
    ancestors = list_ancestors(table, pid)
    lineage = Lineage(ancestors, hosts.UNKNOWN, ancestors[0] if ancestors else None)
    for ancestor in ancestors:
        host = hosts.recognise(table, ancestor)
        if host is not None:
            lineage.host, lineage.process = host, ancestor
            break
    _judge_stdin(table, lineage, stdin)
    return lineage


def verify(table: ProcessTable, lineage: Lineage, *, strict: bool) -> None:
    """Refuse a contradiction always, and what cannot be verified when asked to.

    Raises:
        LineageContradicted: Another host holds the other end of our stdin.

    """
    if lineage.verdict == "different" and lineage.holder is not None:
        raise LineageContradicted(
            f"the other end of stdin belongs to {_name(table, lineage.holder)}, "
            f"which did not start this launch ({_chain(table, lineage)})",
            fix="start the server from the host that talks to it; "
            "a pool or a relay between two hosts must not pass one's connection to the other",
        )
    if strict and lineage.verdict == "unknown":
        raise LineageContradicted(
            f"--strict: cannot verify who holds the other end of stdin ({lineage.evidence})",
            fix="leave out --strict, or start the server directly from its host",
        )


def _judge_stdin(table: ProcessTable, lineage: Lineage, stdin: int) -> None:
    try:
        mode = os.fstat(stdin).st_mode
    except OSError:
        lineage.evidence = "stdin is closed"
        return
    if stat.S_ISSOCK(mode):
        _judge_socket(table, lineage, stdin)
    elif stat.S_ISFIFO(mode):
        _judge_pipe(table, lineage, stdin)


def _judge_socket(table: ProcessTable, lineage: Lineage, stdin: int) -> None:
    holder = kernel.read_peer(stdin)
    if holder is None:
        lineage.evidence = "the kernel does not name the peer of our socket"
        return
    if any(ancestor.identity.pid == holder for ancestor in lineage.ancestors):
        _accept(lineage, holder, "SO_PEERCRED")
        return
    process = table.look(holder)
    if process is not None and hosts.recognise(table, process) is not None:
        lineage.holder, lineage.verdict = holder, "different"
        lineage.evidence = f"SO_PEERCRED names process {holder}"
    else:
        # The maker of a socket pair may have ended, or given its end away.
        lineage.evidence = f"process {holder} made our socket and is not an ancestor"


def _judge_pipe(table: ProcessTable, lineage: Lineage, stdin: int) -> None:
    for ancestor in lineage.ancestors:
        pid = ancestor.identity.pid
        if table.holds_writing_end(pid, stdin) == "same":
            _accept(lineage, pid, "the pipe's inode")
            return
    if not table.SEES_ALL:
        lineage.evidence = "the process table of this system cannot be read"
        return
    lineage.evidence = "no ancestor of ours is seen to hold the other end of the pipe"
    # Only here, where something is odd, is it worth a walk over all processes.
    for pid in table.list_pids():
        process = table.look(pid)
        if process is None or table.holds_writing_end(pid, stdin) != "same":
            continue
        if hosts.recognise(table, process) is not None:
            lineage.holder, lineage.verdict = pid, "different"
            lineage.evidence = f"process {pid} holds the other end of the pipe"
            return


def _accept(lineage: Lineage, holder: int, evidence: str) -> None:
    lineage.holder = holder
    lineage.verdict = "same"
    lineage.evidence = evidence
    if lineage.host is hosts.UNKNOWN:
        # Nobody we know by name: then the host is whoever talks to us.
        lineage.process = next(one for one in lineage.ancestors if one.identity.pid == holder)


def _name(table: ProcessTable, pid: int) -> str:
    process = table.look(pid)
    host = hosts.recognise(table, process) if process else None
    return f"{host.title if host else 'a program'} (process {pid})"


def _chain(table: ProcessTable, lineage: Lineage) -> str:
    nearest = lineage.ancestors[:4]
    names = (f"{name_program(table, one)} {one.identity.pid}" for one in nearest)
    return "started by " + ", below ".join(names)

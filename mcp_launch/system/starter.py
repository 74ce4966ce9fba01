"""Start a server below a guardian of its own, and say what is wrong if that fails."""

from __future__ import annotations

import os
from errno import E2BIG, EINVAL, ENOENT, ENOEXEC

from mcp_launch.errors import LaunchError, NotExecutable, PlaceRefused
from mcp_launch.system import guardian
from mcp_launch.system.guardian_process import Errand
from mcp_launch.system.spawn import Pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.system import ProcessTable
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.guardian_process import Tidy
    from mcp_launch.system.spawn import ServerPlan


class Starter:
    """What every server of one launch has in common."""

    __slots__ = ("hosts", "lease", "table", "tidy")

    def __init__(self, table: ProcessTable, hosts: list[int], lease: str, tidy: Tidy) -> None:
        self.table = table
        self.hosts = hosts  # processes whose end is the host's
        self.lease = lease
        self.tidy = tidy  # what a guardian does when it has time for it

    def begin(self, plan: ServerPlan, pipes: Pipes | None) -> Guardian:
        """Fork the guardian, which starts the server; do not wait for that."""
        errand = Errand(
            plan,
            pipes.servers if pipes else (0, 1, 2),
            hosts=self.hosts,
            lease=self.lease,
            tidy=self.tidy,
            input_is_ours=pipes is not None,
        )
        return guardian.fork(errand, self.table)

    def start(self, plan: ServerPlan) -> tuple[Guardian, Pipes]:
        """Start a server on the guarded wire.

        Raises:
            LaunchError: It cannot be started.

        """
        pipes = Pipes()
        started = self.begin(plan, pipes)
        pipes.close_servers()
        try:
            wait_for(started, plan)
        except LaunchError:
            pipes.close_ours()
            raise
        return started, pipes


def wait_for(started: Guardian, plan: ServerPlan) -> None:
    """Return when the server has been started.

    Raises:
        LaunchError: It cannot be started.

    """
    started.wait_for_start()
    if started.server is not None:
        return
    step, number = started.failure or ("guardian", 0)
    reason = os.strerror(number)
    started.failure = (step, number)
    started.finish()
    if step == "chdir":
        raise PlaceRefused(
            f"cannot change to the server's directory {plan.cwd.value}: {reason}",
            fix="make it accessible, or name another one: --cwd DIR",
        )
    if step == "exec":
        raise NotExecutable(
            f"{plan.program} cannot be started: {reason}",
            fix=_explain_exec(plan.program, number),
        )
    if step == "time":
        raise LaunchError(
            f"{plan.program} could not be started within {guardian.START_LIMIT:.0f} s",
            fix="see whether it, or its directory, is on a file system that does not answer",
        )
    raise LaunchError(
        f"the guardian of {plan.program} ended before the server was started",
        fix="look at the system's limits on processes and memory (ulimit -a)",
    )


def _explain_exec(program: str, number: int) -> str:
    if number == E2BIG:
        return "its arguments and variables are longer than the system allows: shorten them"
    if number == EINVAL:
        return "an argument or a variable has a name or a value that no program can be given"
    if number not in {ENOENT, ENOEXEC}:
        return f"see to what the system says of {program}, or of what its first line names"
    try:
        with open(program, "rb") as file:
            first = file.readline(256)
    except OSError:
        first = b""
    if first.startswith(b"#!"):
        interpreter = first[2:].strip().decode(errors="replace")
        return f"its first line names the interpreter `{interpreter}`: install it or correct it"
    return "it is built for another system or processor: install the one for this machine"

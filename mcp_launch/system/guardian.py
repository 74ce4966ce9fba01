"""Start a server below a guardian, and make sure that nothing of it is left.

    host ── launcher ── keeper ── guardian (subreaper, own session) ── server (own group) ── …

The guardian is a fork of the launcher with almost nothing in it. Everything below it
stays below it: an orphan is adopted, a child in a session of its own is still a child,
a daemon that forked twice and emptied its environment too. So "nothing is left" has a
plain meaning, `wait` says that there are no children, and whoever dies first leaves
somebody behind who knows what to do:

* the host dies or is done: the launcher notices and tells the guardian;
* the launcher dies, even of SIGKILL: the guardian's pipe from it closes;
* the guardian dies: the kernel ends the server, and the keeper (see `keeper_process`), a
  subreaper too, inherits and ends the rest, whether the launcher is alive or not;
* the keeper dies: the guardian is adopted by the launcher, a subreaper as well, and goes
  on; the launcher does what the keeper would do.

No wait for the guardian is without an end: one that does not do in time what it was told
is killed by the launcher, with everything below it.

Why not the launcher alone? Hosts SIGKILL their direct child within half a second
(Claude Code) or within milliseconds (Codex at its own exit). Why not PDEATHSIG alone?
It reaches one process, and `npx` and `uvx` put the real server one level further down.
"""

from __future__ import annotations

import os
import select
import time
from errno import E2BIG, EINVAL, ENOENT, ENOEXEC, ETIMEDOUT

from mcp_launch import trace
from mcp_launch.errors import LaunchError, NotExecutable, PlaceRefused
from mcp_launch.system import guardian_process, kernel
from mcp_launch.system.guardian_process import Errand
from mcp_launch.system.spawn import Pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.system import ProcessTable
    from mcp_launch.system.guardian_process import Tidy
    from mcp_launch.system.spawn import ServerPlan

# How much later than its own plan says a guardian may have done something: a busy machine.
_LATENESS = 1.0

# How long starting a server may take. It is an exec; only a network file system that does
# not answer makes it long, and no host waits longer for a server.
START_LIMIT = 60.0

# How long the keeper may take to follow the guardian: it may have all its work to do.
_KEEPER_LIMIT = guardian_process.UNKILLABLE_AFTER + _LATENESS

# When the keeper takes up its work, unless something has happened to the guardian by then.
# Until a server has started, launcher and server need both processors of a small machine:
# half of what the keeper added to a start was its own work at the same time (measured).
_KEEPER_BEGINS_MS = 100

# How often to look whether the keeper has ended: nearly always it is a matter of microseconds.
_KEEPER_INTERVAL = 0.001


class Guardian:
    """The launcher's view: tell the guardian, hear what became of the server."""

    __slots__ = (
        "_heard",
        "_is_left",
        "_table",
        "control",
        "exit_code",
        "expect_end",
        "failure",
        "keeper",
        "left_behind",
        "pid",
        "report",
        "server",
    )

    def __init__(self, keeper: int, control: int, report: int, table: ProcessTable) -> None:
        self._table = table
        self._is_left = False
        # Is called with how long the guardian may take from now on to be gone.
        self.expect_end: Callable[[float], None] | None = None
        self.keeper = keeper
        self.pid: int | None = None
        self.control = control
        self.report = report
        self.server: int | None = None
        self.failure: tuple[str, int] | None = None  # what failed, errno
        self.exit_code: int | None = None
        self.left_behind = 0  # processes that were still there when the server had ended
        self._heard = b""

    def wait_for_start(self) -> None:
        """Return when the server has been started, or that has failed."""
        poll = select.poll()
        poll.register(self.report, select.POLLIN)
        deadline = time.monotonic() + START_LIMIT
        while self.server is None and self.failure is None:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                self.failure = ("time", ETIMEDOUT)
                self.end_by_force()
            elif not self.hear():
                return

    def tell(self, what: int) -> None:
        """Have the guardian pass on a signal, or (INPUT_ENDED, REPLACED) end the server."""
        if self._is_left:
            return  # it has finished
        try:
            os.write(self.control, bytes([what]))
        except BrokenPipeError:
            return  # the guardian has finished; its last report is on its way
        # If the keeper is stopped, the guardian may be, too: then the keeper continues it.
        os.kill(self.keeper, kernel.SIGCONT)
        self._expect_end(_TIMES.get(what, guardian_process.SIGNALLED_END))

    def hear(self) -> bool:
        """Read one report; False when the guardian is gone, and all below it."""
        data = os.read(self.report, 256)
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            word, *numbers = line.split()
            if word == b"started":
                self.server, self.pid = map(int, numbers)
            elif word == b"exited":
                self.exit_code = int(numbers[0])
                self._expect_end(guardian_process.LEFT_BEHIND_GRACE)
            elif word == b"left":
                count = int(numbers[0])
                self.left_behind += count
                trace.note(f"the server left {count} process{'es' if count > 1 else ''} behind")
            else:
                self.failure = (word.decode(), int(numbers[0]))
        return bool(data)

    def leave(self) -> None:
        """Go without waiting: whatever is left to do, the guardian does it alone."""
        if not self._is_left:
            self._is_left = True
            os.close(self.control)
            os.close(self.report)

    def finish(self) -> None:
        """Collect the keeper, the guardian being gone; do what is left to do, if anything is."""
        if self._is_left:
            return
        self.leave()
        # It certifies that nothing is left, unless it was killed as well, or hangs.
        if self._wait_for_keeper() != 0:
            guardian_process.end_all(self._table)
        if self.exit_code is None and self.failure is None:
            self.exit_code = 128 + kernel.SIGKILL  # the kernel did that, for the guardian's death

    def end_by_force(self) -> None:
        """End keeper, guardian, and all that is below them: they do not do it themselves."""
        self.leave()
        guardian_process.end_all(self._table)
        if self.exit_code is None and self.failure is None:
            self.exit_code = 128 + kernel.SIGKILL

    def _wait_for_keeper(self) -> int | None:
        """Return how the keeper ended, None if it has not in time."""
        deadline = time.monotonic() + _KEEPER_LIMIT
        os.kill(self.keeper, kernel.SIGCONT)
        while True:
            pid, status = os.waitpid(self.keeper, os.WNOHANG)
            if pid:
                return status
            if time.monotonic() >= deadline:
                return None
            time.sleep(_KEEPER_INTERVAL)

    def _expect_end(self, seconds: float) -> None:
        if self.expect_end is not None:
            self.expect_end(seconds + guardian_process.UNKILLABLE_AFTER + _LATENESS)


# What the guardian's own plan is when it is told this, from then to its first SIGKILL.
_TIMES = {
    guardian_process.INPUT_ENDED: guardian_process.TERMINATED_GRACE,
    guardian_process.REPLACED: guardian_process.REPLACED_END,
}


def fork(errand: Errand, table: ProcessTable) -> Guardian:
    """Fork the keeper, which forks the guardian, which starts the server; wait for nothing."""
    kernel.become_subreaper()
    control = os.pipe()
    report = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1  # unless it can certify that nothing is left
        try:
            os.close(control[1])
            os.close(report[0])
            _become_keeper(control[0], report[1], errand, table)
            code = 0
        finally:
            os._exit(code)
    os.close(control[0])
    os.close(report[1])
    return Guardian(pid, control[1], report[0], table)


def _become_keeper(control: int, report: int, errand: Errand, table: ProcessTable) -> None:
    os.setsid()  # no terminal and no host that signals its group reaches us
    kernel.become_subreaper()
    pid = os.fork()
    if pid == 0:
        code = 1  # unless it has done all that it could
        try:
            guardian_process.Watch(control, report, errand, table).run()
            code = 0
        finally:
            os._exit(code)
    # The guardian is on its way. What ends or stops it before we listen is seen later.
    wake = kernel.listen((kernel.SIGCHLD, *kernel.ENDING))
    poll = select.poll()
    poll.register(wake[0], select.POLLIN)
    poll.poll(_KEEPER_BEGINS_MS)
    from mcp_launch.system import keeper_process

    keeper_process.Keeper(pid, control, wake, errand.lease, table).run()


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
        return fork(errand, self.table)

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
            f"{plan.program} could not be started within {START_LIMIT:.0f} s",
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

"""Start a server below a guardian, and make sure that none of its processes is left.

    host ── launcher ── keeper ── guardian (subreaper, own session) ── server (own group) ── …

The guardian is a fork of the launcher that does nothing but watch. Every process below it
stays below it: it adopts orphans, and a child that starts its own session, or a daemon that
forks twice and empties its environment, is still a descendant. So "nothing is left" has an
exact meaning: `waitpid` reports that there are no children. Whichever process dies first, one
that knows what to do survives it:

* the host dies or closes our stdin: the launcher notices and instructs the guardian;
* the launcher dies, even of SIGKILL: the guardian reads end-of-file from its control pipe;
* the guardian dies: the kernel kills the server (PDEATHSIG), and the keeper, also a subreaper,
  adopts and kills the rest, whether or not the launcher is alive (see `keeper_process`);
* the keeper dies: the launcher, also a subreaper, adopts the guardian, which carries on, and
  takes over the keeper's work.

Every wait for the guardian is bounded. If it misses a deadline, the launcher kills it and
everything below it.

Why not the launcher alone? Hosts SIGKILL their direct child within half a second
(Claude Code) or within milliseconds (Codex at its own exit). Why not PDEATHSIG alone?
It covers one process, and `npx` and `uvx` put the real server one level further down. Why not
a process group? A child leaves it with one call (`setsid`), and shells and runners do.
"""

from __future__ import annotations

import os
import select
import time
from errno import ETIMEDOUT

from mcp_launch.errors import OutOfResources
from mcp_launch.system import guardian_process, kernel, sweep
from mcp_launch.system.guardian_process import GuardianTask
from mcp_launch.system.spawn import Pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.system import ProcessTable
    from mcp_launch.system.guardian_process import NoteKilled, Tidy
    from mcp_launch.system.spawn import ServerPlan

# How far behind its own schedule a guardian may be on a busy machine.
_LATENESS = 1.0

# How long starting a server may take. It is one exec, slow only on a network file system that
# does not answer, and no host waits longer than this for a server.
START_LIMIT = 60.0

# How long the keeper may take to exit after the guardian: it may have the whole tree to kill.
_KEEPER_LIMIT = guardian_process.UNKILLABLE_AFTER + _LATENESS

# How long the keeper waits before it sets itself up, unless a signal arrives first. Until the
# server has started, launcher and server need both processors of a small machine: half of the
# time that the keeper added to a start was its own work at the same moment (measured).
_KEEPER_BEGINS_MS = 100

# How many descriptors the launcher opens for a server and its guardian: five pipes.
_DESCRIPTORS = 10

# How often to check whether the keeper has exited; it nearly always has within microseconds.
_KEEPER_INTERVAL = 0.001


class Guardian:
    """The launcher's handle on a guardian: send it instructions, read its reports.

    Two pipes connect them. Control carries one byte per instruction: a signal number, or
    INPUT_ENDED, REPLACED or ANSWERED, which are not signals. Report carries lines: `started SERVER
    GUARDIAN`, `exited CODE`, `left COUNT`, `installs CODE` (it puts off the end of a runner that
    still installs its package), or a failed step with its errno. The end of a pipe
    is a message too: each side learns that the other is gone by end-of-file or EPIPE, which
    the kernel delivers even after SIGKILL.
    """

    __slots__ = (
        "_is_released",
        "_table",
        "_unfinished",
        "can_try_again",
        "control",
        "exit_code",
        "expect_end",
        "failure",
        "goes_on",
        "is_used",
        "keeper",
        "left_behind",
        "list_spared",
        "may_install",
        "on_restart",
        "pid",
        "report",
        "server",
        "shared",
        "start_limit",
        "unread",
    )

    # The order to end the server because a user wants another one.
    RESTART = guardian_process.REPLACED

    def __init__(self, keeper: int, control: int, report: int, table: ProcessTable) -> None:
        self._table = table
        self._is_released = False
        self.start_limit = START_LIMIT
        self.can_try_again = False  # another attempt to start the server may succeed
        self.goes_on = False  # without us, for minutes perhaps
        # Called with the seconds within which the guardian must now be gone.
        self.expect_end: Callable[[float], None] | None = None
        # Called when another launch that shares the server has asked for a fresh one.
        self.on_restart: Callable[[], None] | None = None
        # Returns other children of ours, which must go on if this one has to be cleaned up after.
        self.list_spared: Callable[[], list[int]] = list
        self.keeper = keeper
        self.pid: int | None = None
        self.control = control
        self.report = report
        self.server: int | None = None
        self.failure: tuple[str, int] | None = None  # what failed, errno
        self.exit_code: int | None = None
        self.left_behind = 0  # processes that outlived the server
        # The server's command is a runner that may be at work on its package. The guardian then
        # may go on without us, and removes the lease itself.
        self.may_install = False
        # The pid and the key of a pool that keeps the server, and how many sessions use it.
        self.shared: tuple[int, str, int] | None = None
        self.is_used = False  # somebody has called the server of that pool
        self.unread = b""  # lines that were read from the server's stdin, but not by the server
        self._unfinished = b""  # the beginning of the next report

    def wait_for_report(self, seconds: float) -> None:
        """Wait until there is a report to read, but not longer than this."""
        poll = select.poll()
        poll.register(self.report, select.POLLIN)
        poll.poll(seconds * 1000)

    def give_up_start(self) -> None:
        """End a guardian that has not started its server in time."""
        self.failure = ("time", ETIMEDOUT)
        self.end_by_force()

    def send(self, instruction: int) -> None:
        """Have the guardian forward a signal, or end the server (INPUT_ENDED, REPLACED)."""
        if self._is_released:
            return  # it has finished
        try:
            os.write(self.control, bytes([instruction]))
        except BrokenPipeError:
            return  # the guardian has finished; its last report is still in the pipe
        # Somebody may have stopped both keeper and guardian (SIGSTOP). A stopped process cannot
        # continue itself; once the keeper runs, it sees the guardian stopped and continues it.
        os.kill(self.keeper, kernel.SIGCONT)
        self._expect_end(_TIME_TO_SIGKILL.get(instruction, guardian_process.SIGNALLED_END))

    def note_output(self, data: bytes) -> None:
        """Tell the guardian if this is a message: then nothing is being installed any more."""
        if not data.lstrip().startswith((b"{", b"[")):
            return
        self.may_install = False
        try:
            os.write(self.control, bytes([guardian_process.ANSWERED]))
        except BrokenPipeError:
            pass  # the guardian has finished

    def read_report(self) -> bool:
        """Read what the guardian reports; return False once it is gone with all below it."""
        data = os.read(self.report, 256)
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        for line in lines:
            word, *numbers = line.split()
            if word == b"started":
                self.server, self.pid = map(int, numbers)
            elif word == b"exited":
                self.exit_code = int(numbers[0])
                self._expect_end(guardian_process.LEFT_BEHIND_GRACE)
            elif word == b"left":
                self.left_behind += int(numbers[0])
            elif word == b"installs":
                self.exit_code = int(numbers[0])
                self.goes_on = True
                return False
            else:
                self.failure = (word.decode(), int(numbers[0]))
        return bool(data)

    @property
    def is_released(self) -> bool:
        """Whether the guardian is gone, or finishes its work alone."""
        return self._is_released

    def leave(self) -> None:
        """Release the guardian without waiting; it finishes its work alone."""
        if not self._is_released:
            self._is_released = True
            os.close(self.control)
            os.close(self.report)

    def finish(self) -> None:
        """Reap the keeper once the guardian is gone; kill whatever is left below us."""
        if self._is_released:
            return
        self.leave()
        if self.goes_on:
            return
        self.may_install = False
        # Exit status 0 certifies that nothing is left. Any other status, or none in time, means
        # that the keeper was killed or hangs; its orphans are ours now, as we are a subreaper.
        if self._wait_for_keeper() != 0:
            sweep.end_all(self._table, self.list_spared())
        if self.exit_code is None and self.failure is None:
            self.exit_code = 128 + kernel.SIGKILL  # from PDEATHSIG, when the guardian died

    def end_by_force(self) -> None:
        """Kill the keeper, the guardian and everything below them."""
        self.leave()
        self.may_install = False
        sweep.end_all(self._table, self.list_spared())
        if self.exit_code is None and self.failure is None:
            self.exit_code = 128 + kernel.SIGKILL

    def _wait_for_keeper(self) -> int | None:
        """Return the keeper's wait status; None if it does not exit in time."""
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


# The instruction for each reason to end a server.
END_ORDERS = {
    "input ended": guardian_process.INPUT_ENDED,
    "replaced": guardian_process.REPLACED,
    "rest": guardian_process.REPLACED,
}

# How long after each instruction the guardian's own plan reaches its first SIGKILL.
_TIME_TO_SIGKILL = {
    guardian_process.INPUT_ENDED: guardian_process.TERMINATED_GRACE,
    guardian_process.REPLACED: guardian_process.REPLACED_END,
}


def fork(task: GuardianTask, table: ProcessTable) -> Guardian:
    """Fork the keeper, which forks the guardian, which starts the server; do not wait.

    Raises:
        OSError: The system has no process or descriptor left.

    """
    # Launcher, keeper and guardian each set this flag: a fork does not inherit it. The kernel
    # gives an orphan to its nearest ancestor that has it.
    kernel.become_subreaper()
    control = os.pipe()
    report = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        for fd in (*control, *report):
            os.close(fd)
        raise
    if pid == 0:
        code = 1  # unless it can certify that nothing is left
        try:
            # The launcher's ends: a pipe reports its end only once no process holds the other
            # end, so a copy in the keeper would hide the launcher's death from the guardian.
            os.close(control[1])
            os.close(report[0])
            _become_keeper(control[0], report[1], task, table)
            code = 0
        finally:
            # Not sys.exit: this is a fork in the middle of the launcher, whose callers up the
            # stack, exit handlers and buffered output are not ours to run or to flush.
            os._exit(code)
    os.close(control[0])
    os.close(report[1])
    return Guardian(pid, control[1], report[0], table)


def _become_keeper(control: int, report: int, task: GuardianTask, table: ProcessTable) -> None:
    # A session of its own: Ctrl-C goes to the terminal's foreground group, a hang-up to its
    # session, and hosts signal the group that they put the launcher in. None may reach us.
    os.setsid()
    kernel.become_subreaper()
    pid = os.fork()
    if pid == 0:
        code = 1  # unless it runs to its end
        try:
            guardian_process.GuardianProcess(control, report, task, table).run()
            code = 0
        finally:
            os._exit(code)
    # The guardian may end or stop before we listen for SIGCHLD. That signal is lost, but not
    # the state: the keeper begins with a `waitpid`, which still reports it.
    wake = kernel.listen((kernel.SIGCHLD, *kernel.ENDING))
    poll = select.poll()
    poll.register(wake[0], select.POLLIN)
    poll.poll(_KEEPER_BEGINS_MS)
    from mcp_launch.system import keeper_process

    install = task.plan.install if task.outputs else None
    keeper_process.Keeper(pid, control, wake, task.lease, table, install).run()


class Starter:
    """Starts the servers of one launch; holds what they have in common."""

    __slots__ = ("_begun", "hosts", "lease", "note_killed", "table", "tidy")

    def __init__(
        self,
        table: ProcessTable,
        hosts: list[int],
        lease: str,
        tidy: Tidy,
        note_killed: NoteKilled | None = None,
    ) -> None:
        self.table = table
        self.hosts = hosts  # processes whose end means that the host is gone
        self.lease = lease
        self.tidy = tidy  # cleaning up that a guardian does when it has time
        self.note_killed = note_killed  # logs the end of a launch whose launcher was killed
        self._begun: list[Guardian] = []  # that are not released

    def begin(self, plan: ServerPlan, pipes: Pipes | None, *, is_first: bool = True) -> Guardian:
        """Fork the guardian, which starts the server; return without waiting for it.

        Of several servers, the guardian of the first logs the end of a launch that was killed.

        Raises:
            OSError: The system has no process or descriptor left; the pipes are closed.

        """
        task = GuardianTask(
            plan,
            pipes.servers if pipes else (0, 1, 2),
            hosts=self.hosts,
            lease=self.lease,
            tidy=self.tidy,
            note_killed=self.note_killed if is_first else None,
            outputs=pipes.ours[1:] if pipes else (),
        )
        try:
            started = fork(task, self.table)
        except OSError:
            if pipes is not None:
                pipes.close_servers()
                pipes.close_ours()
            raise
        started.may_install = plan.install is not None and bool(task.outputs)
        self._begun = [*(one for one in self._begun if not one.is_released), started]
        started.list_spared = lambda: [
            one.keeper for one in self._begun if one is not started and not one.is_released
        ]
        return started

    def begin_piped(self, plan: ServerPlan, *, is_first: bool = True) -> tuple[Guardian, Pipes]:
        """Start a server as `begin` does, with pipes; return our ends of them, too.

        Raises:
            OutOfResources: There is no process or descriptor left; nothing stays open.

        """
        try:
            kernel.reserve_descriptors(_DESCRIPTORS)
            started = self.begin(plan, pipes := Pipes(), is_first=is_first)
        except OSError as error:
            raise OutOfResources(error) from None
        pipes.close_servers()
        return started, pipes

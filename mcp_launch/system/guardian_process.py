"""The guardian's process: start the server, forward signals, end its whole tree, report.

Every way in which a launch ends is a list of steps: at this time, send this signal, to the
server's group or to every process below us. The lists follow the shutdown order of the MCP
specification (the input ends, then SIGTERM, then SIGKILL); the constants below say how long each
case may take. A new list replaces the current one only if it finishes sooner, so that no
sequence of signals can postpone the end.

The work is over when `waitpid` reports that there are no children. On Linux that proves that
nothing is left, because every orphan below us becomes our child. On systems without subreapers
orphans go to init. There we remember the processes that we have seen below us, and ask the
process table as well.
"""

from __future__ import annotations

import os
import select
import time

from mcp_launch.system import kernel, linux, spawn
from mcp_launch.system.kernel import SIGCHLD, SIGCONT, SIGKILL, SIGTERM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from mcp_launch.system import ProcessTable
    from mcp_launch.system.install_watch import InstallWatch
    from mcp_launch.system.kernel import HostWatch
    from mcp_launch.system.spawn import ServerPlan

    # Takes the process table and the directory of the leases.
    Tidy = Callable[[ProcessTable, str], None]

    class NoteKilled(Protocol):
        """Logs the end of a launch whose launcher was killed."""

        def __call__(self, code: int | None, *, is_host_lost: bool) -> None:
            """Log it, with the server's exit code."""

    # When (monotonic), which signal, and whether to everything below us or to the server's group.
    Step = tuple[float, int, bool]

# How long a server may take after SIGTERM, before SIGKILL. The SDKs wait this long.
TERMINATED_GRACE = 2.0

# After a signal to the launcher everything must be over before Claude Code's SIGKILL, 500 ms
# after its first signal. Both are counted from the signal: the time for the server itself …
SIGNALLED_GRACE = 0.25
# … and the time until SIGKILL for everything that is left.
SIGNALLED_END = 0.4

# After the host has ended. The launcher should have sent an instruction long before.
HOST_LOST_GRACE = 2.5
HOST_LOST_END = 4.5

# How long after the launcher was killed and everything below us has ended the host may still run,
# and the end of the launch is logged as the host's.
HOST_FOLLOWS_MS = 500

# After the launcher was killed. The server has seen its input end and may finish, but the
# host already considers it dead and may be starting the next one.
LAUNCHER_LOST_GRACE = 1.0
LAUNCHER_LOST_END = 1.4

# Processes that are still there this long after the server exited were left behind by it …
LEFT_BEHIND_AFTER = 0.1
# … and get SIGKILL this long after its exit.
LEFT_BEHIND_GRACE = 0.5

# How long a server that is replaced may take to exit by itself, and in all. A call is waiting.
REPLACED_GRACE = 1.0
REPLACED_END = 2.0

# How often to repeat SIGKILL while processes survive it because they fork faster than we list.
SWEEP_INTERVAL = 0.01

# When to give up on a process that survives SIGKILL: another user's, or stuck in the kernel.
UNKILLABLE_AFTER = 5.0

# How often to list the processes below us where orphans are not adopted: at first, because
# servers start their children early, and later.
_FIRST_LISTING_INTERVAL = 0.05
_LISTING_INTERVAL = 1.0

# When to clean up after other launches: by then the server has started, or never will.
_TIDY_AFTER = 1.0

# Instructions that are not signals, from outside their range. No more input is coming, and the
# server has had its grace period …
INPUT_ENDED = 0
# … or no more input is coming because another server takes this one's place.
REPLACED = 255
# The server has answered: the runner has installed whatever it had to.
ANSWERED = 254


class GuardianTask:
    """What a guardian is to start and to watch."""

    __slots__ = ("hosts", "launcher", "lease", "note_killed", "outputs", "plan", "stdio", "tidy")

    def __init__(  # noqa: PLR0913  # a record, always built by keyword
        self,
        plan: ServerPlan,
        stdio: tuple[int, int, int],
        *,
        hosts: list[int],
        lease: str,
        tidy: Tidy,
        note_killed: NoteKilled | None,
        outputs: tuple[int, ...],
    ) -> None:
        self.plan = plan
        self.stdio = stdio
        self.hosts = hosts  # processes whose end means that the host is gone
        self.lease = lease  # removed if the launcher could not
        self.tidy = tidy  # cleans up after launches that have died
        self.note_killed = note_killed  # logs the end of a launch, if the launcher could not
        # The launcher's ends of stdout and stderr; none if the server is connected to the host
        # itself, so that its input does not end with the launcher.
        self.outputs = outputs
        self.launcher = os.getpid()


class GuardianProcess:
    """The state and the loop of one guardian."""

    def __init__(self, control: int, report: int, task: GuardianTask, table: ProcessTable) -> None:
        self.control, self.report = control, report
        self.task, self.table = task, table
        self.server = 0
        self.server_has_ended = self.server_has_sigterm = False
        self.exit_code: int | None = None  # of the server
        self.steps: list[Step] = []
        self.killing_since = 0.0
        self.tidy_at = 0.0  # 0.0: it is done
        self.adopts_orphans = False
        self.finds_all = False  # whether the table lists every process below us
        self.host_is_lost = self.launcher_is_lost = False
        self.listing_interval = _FIRST_LISTING_INTERVAL
        self.wake = -1
        self.hosts: HostWatch
        self.installing: InstallWatch | None = None
        self._poll = select.poll()

    def run(self) -> None:
        """Start the server and stay until none of its processes is left."""
        # A session of our own, not the keeper's: a signal to the group of one of the two must
        # not hit the other.
        os.setsid()
        self.adopts_orphans = kernel.become_subreaper()
        self.finds_all = self.adopts_orphans and self.table.SEES_ALL
        # Before the fork: a server that exits at once must not do so before we listen.
        wake = kernel.listen((SIGCHLD, *kernel.ENDING))
        self.server, failure = spawn.start_server(self.task.plan, self.task.stdio)
        # After the fork: the server needs the descriptors and the directory that we drop here.
        if install := self.task.plan.install:
            from mcp_launch.system import install_watch

            self.installing = install_watch.begin(install, self.task.outputs, self.task.lease)
        held = self.installing.descriptors if self.installing else ()
        kernel.release_inherited((self.control, self.report, *wake, *held))
        if failure:
            os.waitpid(self.server, 0)
            self._report(failure)
            return
        self._report(f"started {self.server} {os.getpid()}")
        linux.set_process_name("mcp-guardian")
        self.wake = wake[0]
        self.tidy_at = time.monotonic() + _TIDY_AFTER
        self._watch()
        self._end_install()
        if self.launcher_is_lost:  # else the lease is its own, also between two servers
            try:
                os.unlink(self.task.lease)
            except OSError:
                pass  # the launcher has removed it, or never wrote it
            if self.task.note_killed is not None:
                self._note_killed(self.task.note_killed)
        self._tidy_if_due(is_last_chance=True)

    def _note_killed(self, note: NoteKilled) -> None:
        # Some hosts kill their servers right before they end themselves.
        watch = select.poll()
        for fd in self.hosts.descriptors:
            watch.register(fd, select.POLLIN)
        has_ended = self.host_is_lost or watch.poll(HOST_FOLLOWS_MS) or self.hosts.look()
        try:
            note(self.exit_code, is_host_lost=bool(has_ended))
        except Exception:  # noqa: BLE001, S110  # a guardian works on if a module is gone by now
            pass

    def _end_install(self) -> None:
        installing, self.installing = self.installing, None
        if installing:
            installing.close(self._poll)

    def _check_install(self) -> None:
        if self.installing is None or not self.installing.is_over():
            return
        is_overdue = self.installing.is_overdue
        self._end_install()
        if is_overdue:
            # The runner starts the server now, whose input has ended.
            self._plan_end((LAUNCHER_LOST_GRACE, SIGTERM, True), (LAUNCHER_LOST_END, SIGKILL, True))

    def _watch(self) -> None:
        from mcp_launch.system.kernel import HostWatch  # late: the server is starting by now

        self.hosts = HostWatch(self.table, self.task.hosts)
        for fd in (self.wake, self.control, *self.hosts.descriptors):
            self._poll.register(fd, select.POLLIN)
        if self.hosts.is_lost:
            self._lose_host()
        is_over = False
        while not is_over:
            for fd, _ in self._poll.poll(self._next_step_in_ms()):
                self._handle(fd)
            self._tidy_if_due()
            self._check_install()
            self._poll_processes()
            # On every round, not only after SIGCHLD: signals are not queued, and one SIGCHLD
            # may stand for several children.
            is_over = self._reap() or not self._take_steps()

    def _poll_processes(self) -> None:
        # The table remembers what it has listed. A process that is seen below us now is still
        # recognised as ours after its parent has died and init has adopted it.
        if not self.adopts_orphans:
            self.table.list_descendants(os.getpid())
        if self.hosts.needs_polling and not self.host_is_lost and self.hosts.look():
            self._lose_host()

    def _handle(self, fd: int) -> None:
        if fd == self.wake:
            for number in os.read(self.wake, 256):
                if number != SIGCHLD:
                    # To us, not to the launcher: from a user, or from a system that shuts down.
                    self._end_install()
                    self._forward_signal(number)
        elif fd == self.control:
            if not self._read_instructions():
                self._poll.unregister(fd)
        elif self.installing and fd in self.installing.outputs:
            self.installing.read(fd, self._poll)
        elif fd in self.hosts.descriptors:
            self._poll.unregister(fd)
            self._lose_host()

    def _lose_host(self) -> None:
        # The launcher notices as well, and sooner, unless it is stopped (SIGSTOP). With the host
        # gone nobody else would continue it, so we do, as the kernel does for the stopped jobs
        # of a terminal that hangs up.
        self.host_is_lost = True
        if not self.launcher_is_lost:  # while it holds the control pipe, its pid is not reused
            try:
                os.kill(self.task.launcher, SIGCONT)
            except (ProcessLookupError, PermissionError):
                pass  # it has just ended
        if not self._puts_off_end():
            self._plan_end((HOST_LOST_GRACE, SIGTERM, True), (HOST_LOST_END, SIGKILL, True))

    def _puts_off_end(self) -> bool:
        return self.installing is not None and self.installing.puts_off_end()

    def _tidy_if_due(self, *, is_last_chance: bool = False) -> None:
        """Clean up after dead launches, once; it is done here because nobody waits for us."""
        if not self.tidy_at or (time.monotonic() < self.tidy_at and not is_last_chance):
            return
        self.tidy_at = 0.0
        try:
            self.task.tidy(self.table, os.path.dirname(self.task.lease))
        except Exception:  # noqa: BLE001, S110  # a broken state directory must not end the server
            pass

    def _read_instructions(self) -> bool:
        """Do what the launcher asks; return False once it is gone."""
        instructions = os.read(self.control, 256)
        for instruction in instructions:
            if instruction == ANSWERED:
                self._end_install()
            elif instruction != REPLACED and self._puts_off_end():
                self._report(f"installs {128 + (instruction or SIGTERM)}")
            elif instruction == INPUT_ENDED:
                self._plan_end((0.0, SIGTERM, True), (TERMINATED_GRACE, SIGKILL, True))
            elif instruction == REPLACED:
                self._plan_end((REPLACED_GRACE, SIGTERM, True), (REPLACED_END, SIGKILL, True))
            else:
                self._forward_signal(instruction)
        if instructions:
            return True
        # End-of-file: the launcher is gone, and the kernel has closed its end. On the direct wire
        # the server reads from the host itself and has not seen its input end: SIGTERM at once.
        self.launcher_is_lost = True
        if self.installing is not None and self.installing.puts_off_end():
            self.installing.leave(self._poll)
        elif self.task.outputs:
            self._plan_end((LAUNCHER_LOST_GRACE, SIGTERM, True), (LAUNCHER_LOST_END, SIGKILL, True))
        else:
            self._plan_end((0.0, SIGTERM, False), (SIGNALLED_END, SIGKILL, True))
        return False

    def _forward_signal(self, number: int) -> None:
        # The same signal, so that the server's own handler for it runs. A second one (Claude
        # Code: SIGINT, then SIGTERM) is forwarded too, but does not extend the deadline.
        self._poll_processes()
        self._signal(number, everything=False)
        self._plan_end((SIGNALLED_GRACE, SIGTERM, True), (SIGNALLED_END, SIGKILL, True))

    def _plan_end(self, *steps: Step) -> None:
        now = time.monotonic()
        planned = [(now + after, number, everything) for after, number, everything in steps]
        if not self.steps or planned[-1][0] < self.steps[-1][0]:
            self.steps = planned

    def _reap(self) -> bool:
        """Reap every child that has ended; return True when no process is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return False
                if pid == self.server:
                    self._note_end(status)
        except ChildProcessError:
            # No children. Where orphans are not adopted, some may still be alive below init.
            return self.server_has_ended and not self.table.list_descendants(os.getpid())

    def _note_end(self, status: int) -> None:
        self.server_has_ended = True
        code = os.waitstatus_to_exitcode(status)
        # A shell reports "died of signal N" as 128 + N, and so do we.
        self.exit_code = code if code >= 0 else 128 - code
        self._report(f"exited {self.exit_code}")
        self._plan_end((LEFT_BEHIND_AFTER, SIGTERM, True), (LEFT_BEHIND_GRACE, SIGKILL, True))

    def _next_step_in_ms(self) -> int | None:
        due = self.steps[0][0] if self.steps else self.tidy_at
        if not self.adopts_orphans:
            next_listing = time.monotonic() + self.listing_interval
            self.listing_interval = min(2 * self.listing_interval, _LISTING_INTERVAL)
            due = min(due, next_listing) if due else next_listing
        if self.hosts.needs_polling and not self.host_is_lost:
            next_look = time.monotonic() + self.hosts.interval
            due = min(due, next_look) if due else next_look
        if self.installing is not None:
            due = min(due, self.installing.look_at) if due else self.installing.look_at
        # Rounded up: woken a fraction of a millisecond early, we would spin until it is due.
        return max(0, int((due - time.monotonic()) * 1000) + 1) if due else None

    def _take_steps(self) -> bool:
        """Take the steps that are due; return False when even SIGKILL has not helped."""
        while self.steps and self.steps[0][0] <= time.monotonic():
            due, number, everything = self.steps.pop(0)
            if self.server_has_ended and number == SIGTERM:
                self._report(f"left {len(self.table.list_descendants(os.getpid()))}")
            self._signal(number, everything=everything)
            if number == SIGKILL:
                self.killing_since = self.killing_since or due
                # Repeated: a process that forks faster than we list is caught in the end.
                self.steps = [(time.monotonic() + SWEEP_INTERVAL, SIGKILL, True)]
                return time.monotonic() - self.killing_since < UNKILLABLE_AFTER
        return True

    def _signal(self, number: int, *, everything: bool) -> None:
        # SIGTERM goes to the server's group only once: many servers take a second one as "exit
        # at once, unfinished", and on a busy machine ours may come before the host's.
        is_repeated = number == SIGTERM and self.server_has_sigterm
        self.server_has_sigterm |= number == SIGTERM
        if everything or self.server_has_ended:
            # The group is left out where it has had this signal, and where it gets it below:
            # a group also reaches members that the table does not list.
            is_spared = is_repeated or not self.finds_all
            signal_all(self.table, number, self.server if is_spared else 0)
            if self.finds_all:
                return
        if is_repeated:
            return
        try:
            # A pid is not reused until its parent has reaped it, so before that the server's
            # group is its own. Afterwards the number could belong to another group. Where
            # orphans are lost that small risk is worth it: nothing else reaches them.
            os.killpg(self.server, number)
        except (ProcessLookupError, PermissionError):
            pass  # it has just ended, or is another user's (sudo)

    def _report(self, line: str) -> None:
        try:
            os.write(self.report, line.encode() + b"\n")
        except BrokenPipeError:
            pass  # the launcher was killed; we finish the work without it


def signal_all(table: ProcessTable, number: int, spared_group: int = 0) -> None:
    """Send a signal to every process below this one, except to one process group."""
    for pid in table.list_descendants(os.getpid()):
        try:
            if not spared_group or os.getpgid(pid) != spared_group:
                os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # it has just ended, or is another user's

"""What the guardian does with its life: wait, pass signals on, end the tree, report."""

from __future__ import annotations

import os
import select
import time

from mcp_launch.system import kernel, spawn
from mcp_launch.system.kernel import SIGCHLD, SIGCONT, SIGKILL, SIGTERM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.system import ProcessTable
    from mcp_launch.system.kernel import HostWatch
    from mcp_launch.system.spawn import ServerPlan

    # Is given the process table and the directory of the leases.
    Tidy = Callable[[ProcessTable, str], None]

    # When (monotonic), which signal, and whether to all that is left or to the server's group.
    Step = tuple[float, int, bool]
    from mcp_launch.system import ProcessTable

# How long a server may take to finish by itself once its input has ended. The
# specification asks for a wait without giving a number; its own SDKs wait this long.
INPUT_ENDED_GRACE = 2.0

# How much longer after SIGTERM, before SIGKILL. Also from the SDKs.
TERMINATED_GRACE = 2.0

# After a signal to the launcher everything must be over before Claude Code's SIGKILL,
# 500 ms after its first signal: so long for the server itself …
SIGNALLED_GRACE = 0.25
# … and so long for all that is left, both counted from the signal.
SIGNALLED_END = 0.4

# The host has ended, and the launcher should have said so by then.
HOST_LOST_GRACE = 2.5
HOST_LOST_END = 4.5

# The launcher was killed: the server has seen the end of its input and may finish, but
# its host takes it for dead already and may be starting the next one.
LAUNCHER_LOST_GRACE = 1.0
LAUNCHER_LOST_END = 1.4

# Who is still there so long after a server that ended by itself was left behind by it, …
LEFT_BEHIND_AFTER = 0.1
# … and may take so long, counted from the server's end, to end after SIGTERM.
LEFT_BEHIND_GRACE = 0.5

# How often to look who is below us, where orphans are not adopted.
_SIGHTING_INTERVAL = 1.0

# When to do what can wait: by then the server has started, or never will.
_CHORES_AFTER = 1.0

# What the launcher writes to say "no more input is coming, and the grace is over", …
INPUT_ENDED = 0
# … and "no more input is coming, another server is to take this one's place".
REPLACED = 255

# How long a server that is replaced may take to finish by itself, and in all: a call waits.
REPLACED_GRACE = 1.0
REPLACED_END = 2.0


class Errand:
    """What a guardian is forked for."""

    __slots__ = ("hosts", "input_is_ours", "launcher", "lease", "plan", "stdio", "tidy")

    def __init__(  # noqa: PLR0913  # a record, always built by keyword
        self,
        plan: ServerPlan,
        stdio: tuple[int, int, int],
        *,
        hosts: list[int],
        lease: str,
        tidy: Tidy,
        input_is_ours: bool,
    ) -> None:
        self.plan = plan
        self.stdio = stdio
        self.hosts = hosts  # processes whose end is the host's
        self.lease = lease  # removed at the end, if the launcher could not
        self.tidy = tidy  # clears up after launches that have died
        self.input_is_ours = input_is_ours  # the server's input ends when the launcher does
        self.launcher = os.getpid()


class Watch:
    """The guardian itself."""

    def __init__(self, control: int, report: int, errand: Errand, table: ProcessTable) -> None:
        self.control = control
        self.report = report
        self.errand = errand
        self.table = table
        self.server = 0
        self.server_has_ended = False
        self.server_was_asked = False  # to end, by SIGTERM
        self.steps: list[Step] = []
        self.killing_since = 0.0
        self.chores_at = 0.0
        self.adopts_orphans = False
        self.finds_all = False  # that is below us, by asking the table
        self.host_is_lost = False
        self.launcher_is_lost = False
        self.sighting_interval = 0.05  # servers start their children early
        self.wake = -1
        self.hosts: HostWatch
        self._poll = select.poll()

    def run(self) -> None:
        """Start the server and stay until nothing of it is left."""
        # A session of our own: no terminal and no host that signals its group reaches us,
        # and our group can never be the host's.
        os.setsid()
        self.adopts_orphans = kernel.become_subreaper()
        self.finds_all = self.adopts_orphans and self.table.SEES_ALL
        wake = kernel.listen((SIGCHLD, *kernel.ENDING))
        self.server, failure = spawn.start_server(self.errand.plan, self.errand.stdio)
        kernel.let_go((self.control, self.report, *wake))
        if failure:
            os.waitpid(self.server, 0)
            self._say(failure)
            return
        self._say(f"started {self.server} {os.getpid()}")
        kernel.rename("mcp-guardian")
        self.wake = wake[0]
        self.chores_at = time.monotonic() + _CHORES_AFTER
        self._watch()
        try:
            os.unlink(self.errand.lease)
        except OSError:
            pass  # the launcher has removed it, or never wrote it
        self._do_chores(is_last_chance=True)

    def _watch(self) -> None:
        self._poll.register(self.wake, select.POLLIN)
        self._poll.register(self.control, select.POLLIN)
        from mcp_launch.system.kernel import HostWatch  # the server is on its way by now

        self.hosts = HostWatch(self.table, self.errand.hosts)
        for fd in self.hosts.descriptors:
            self._poll.register(fd, select.POLLIN)
        if self.hosts.is_lost:
            self._lose_host()
        is_over = False
        while not is_over:
            for fd, _ in self._poll.poll(self._next_step_in_ms()):
                self._heed(fd)
            self._do_chores()
            self._look_around()
            is_over = self._reap() or not self._take_steps()

    def _look_around(self) -> None:
        # Whoever is seen below us now is still known when it is below init.
        if not self.adopts_orphans:
            self.table.list_descendants(os.getpid())
        if self.hosts.needs_looking and not self.host_is_lost and self.hosts.look():
            self._lose_host()

    def _heed(self, fd: int) -> None:
        if fd == self.wake:
            for number in os.read(self.wake, 256):
                if number != SIGCHLD:
                    self._pass_on(number)
        elif fd == self.control:
            if not self._obey():
                self._poll.unregister(fd)
        else:
            self._poll.unregister(fd)
            self._lose_host()

    def _lose_host(self) -> None:
        # The launcher notices as well, and sooner; but it may be stopped (SIGSTOP). Nobody is
        # left who could continue it, so we do, as the kernel does for a terminal's jobs.
        self.host_is_lost = True
        if not self.launcher_is_lost:  # until its end of the pipe is closed, its pid is its own
            try:
                os.kill(self.errand.launcher, SIGCONT)
            except (ProcessLookupError, PermissionError):
                pass  # it has ended just now
        self._plan_end((HOST_LOST_GRACE, SIGTERM, True), (HOST_LOST_END, SIGKILL, True))

    def _do_chores(self, *, is_last_chance: bool = False) -> None:
        """Clear up after the dead: here, where nobody waits for an answer."""
        if not self.chores_at or (time.monotonic() < self.chores_at and not is_last_chance):
            return
        self.chores_at = 0.0
        try:
            self.errand.tidy(self.table, os.path.dirname(self.errand.lease))
        except Exception:  # noqa: BLE001, S110  # whatever lies there, the server must not suffer
            pass

    def _obey(self) -> bool:
        told = os.read(self.control, 256)
        for what in told:
            if what == INPUT_ENDED:
                self._plan_end((0.0, SIGTERM, True), (TERMINATED_GRACE, SIGKILL, True))
            elif what == REPLACED:
                self._plan_end((REPLACED_GRACE, SIGTERM, True), (REPLACED_END, SIGKILL, True))
            else:
                self._pass_on(what)
        if told:
            return True
        self.launcher_is_lost = True
        if self.errand.input_is_ours:
            self._plan_end((LAUNCHER_LOST_GRACE, SIGTERM, True), (LAUNCHER_LOST_END, SIGKILL, True))
        else:
            self._plan_end((0.0, SIGTERM, False), (SIGNALLED_END, SIGKILL, True))
        return False

    def _pass_on(self, number: int) -> None:
        # The same signal, so that the server's own way of ending on it is used; a second
        # one (Claude Code: SIGINT, then SIGTERM) is passed on but gains no time.
        self._look_around()
        self._signal(number, everything=False)
        self._plan_end((SIGNALLED_GRACE, SIGTERM, True), (SIGNALLED_END, SIGKILL, True))

    def _plan_end(self, *steps: Step) -> None:
        now = time.monotonic()
        planned = [(now + after, number, everything) for after, number, everything in steps]
        if not self.steps or planned[-1][0] < self.steps[-1][0]:
            self.steps = planned

    def _reap(self) -> bool:
        """Collect whoever has ended; True when there is nobody left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return False
                if pid == self.server:
                    self._note_end(status)
        except ChildProcessError:
            # Where orphans are not adopted, they may be alive all the same.
            return self.server_has_ended and not self.table.list_descendants(os.getpid())

    def _note_end(self, status: int) -> None:
        self.server_has_ended = True
        code = os.waitstatus_to_exitcode(status)
        # A shell reports "died of signal N" as 128 + N, and so do we.
        self._say(f"exited {code if code >= 0 else 128 - code}")
        self._plan_end((LEFT_BEHIND_AFTER, SIGTERM, True), (LEFT_BEHIND_GRACE, SIGKILL, True))

    def _next_step_in_ms(self) -> int | None:
        due = self.steps[0][0] if self.steps else self.chores_at
        if not self.adopts_orphans:
            next_sighting = time.monotonic() + self.sighting_interval
            self.sighting_interval = min(2 * self.sighting_interval, _SIGHTING_INTERVAL)
            due = min(due, next_sighting) if due else next_sighting
        if self.hosts.needs_looking and not self.host_is_lost:
            next_look = time.monotonic() + self.hosts.interval
            due = min(due, next_look) if due else next_look
        return max(0, int((due - time.monotonic()) * 1000) + 1) if due else None

    def _take_steps(self) -> bool:
        """Do what is due; False when even SIGKILL did not help."""
        while self.steps and self.steps[0][0] <= time.monotonic():
            due, number, everything = self.steps.pop(0)
            if self.server_has_ended and number == SIGTERM:
                self._say(f"left {len(self.table.list_descendants(os.getpid()))}")
            self._signal(number, everything=everything)
            if number == SIGKILL:
                self.killing_since = self.killing_since or due
                # Again and again: what forks faster than we look is caught in the end.
                self.steps = [(time.monotonic() + SWEEP_INTERVAL, SIGKILL, True)]
                return time.monotonic() - self.killing_since < UNKILLABLE_AFTER
        return True

    def _signal(self, number: int, *, everything: bool) -> None:
        # To the server's group once: many servers take a second SIGTERM for "at once,
        # unfinished", and on a busy machine ours may come before the host's.
        is_again = number == SIGTERM and self.server_was_asked
        self.server_was_asked |= number == SIGTERM
        if everything or self.server_has_ended:
            # Who was lost sight of is reached by the group's number, below.
            is_spared = is_again or not self.finds_all
            signal_all(self.table, number, self.server if is_spared else 0)
            if self.finds_all:
                return
        if is_again:
            return
        try:
            # Until we have collected it, its pid and group can be nobody else's. After
            # that, where orphans are lost, its group is worth the little risk.
            os.killpg(self.server, number)
        except (ProcessLookupError, PermissionError):
            pass  # it ended just now, or is another user's (sudo): SIGKILL comes later

    def _say(self, what: str) -> None:
        try:
            os.write(self.report, what.encode() + b"\n")
        except BrokenPipeError:
            pass  # the launcher was killed; we finish the work without it


# How often to sweep again while something survives SIGKILL (it forks faster than we look).
SWEEP_INTERVAL = 0.01

# When to leave alone what even SIGKILL does not end: another user's, or stuck in the kernel.
UNKILLABLE_AFTER = 5.0


def end_all(table: ProcessTable) -> None:
    """SIGKILL everything below this process until nothing is left.

    A process that forks while we look is caught by the next look: its children are
    adopted by us as it dies.
    """
    give_up = time.monotonic() + UNKILLABLE_AFTER
    while time.monotonic() < give_up:
        signal_all(table, SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            if not table.list_descendants(os.getpid()):
                return
        time.sleep(SWEEP_INTERVAL)


def signal_all(table: ProcessTable, number: int, spared_group: int = 0) -> None:
    """Send a signal to everything below this process, but for one group."""
    for pid in table.list_descendants(os.getpid()):
        try:
            if not spared_group or os.getpgid(pid) != spared_group:
                os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # it ended just now, or is another user's

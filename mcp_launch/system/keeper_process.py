"""The keeper, between launcher and guardian: the process that is left if both are killed.

    launcher ── keeper (own session, adopts orphans) ── guardian ── server ── …

A SIGKILL to launcher and guardian at once (`pkill -9 mcp-launch`, an impatient supervisor)
would leave no process that knows what the server has started. The kernel kills the server
itself when its parent dies, but `npx` and `uvx` put the real server a level further down. So
there is a third process, which holds no descriptor of the server and only waits for the guardian:

* the guardian exits normally: the keeper exits too;
* the guardian is killed: the keeper adopts everything below it, and kills it;
* the guardian is stopped (SIGSTOP): the keeper continues it at once. It has no terminal that
  could have stopped it for a reason, and while it is stopped nothing guards the server;
* the launcher is gone and the guardian does not finish (a debugger holds it): the keeper
  kills the guardian, unless it has an installation to wait for (see `install_watch`).

Why not a cgroup? Even where one can be made, a process must survive to write to its
`cgroup.kill`. Why not PDEATHSIG on every level? A process can set it only for itself, and the
server starts the levels below it.

Any two of the three may die at the same moment. The keeper's name and command line differ from
the launcher's, so that a `pkill` aimed at one of the three does not hit the others.
"""

from __future__ import annotations

import os
import select
import time

from mcp_launch.system import guardian_process, kernel, linux, sweep
from mcp_launch.system.kernel import SIGCHLD, SIGCONT, SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.system import ProcessTable
    from mcp_launch.system.spawn import Install

# How long a guardian may take in all once its launcher is gone: its longest plan (the host is
# gone as well, but another process holds the server's input open), its repeated SIGKILLs until it
# gives up, and a second for a busy machine.
GUARDIAN_LIMIT = guardian_process.HOST_LOST_END + guardian_process.UNKILLABLE_AFTER + 1.0


class Keeper:
    """The state and the loop of one keeper."""

    __slots__ = (
        "_control",
        "_deadline",
        "_guardian",
        "_install",
        "_lease",
        "_left_at",
        "_poll",
        "_table",
        "_wake",
    )

    def __init__(  # noqa: PLR0913, PLR0917  # built once
        self,
        guardian: int,
        control: int,
        wake: tuple[int, int],
        lease: str,
        table: ProcessTable,
        install: Install | None,
    ) -> None:
        self._guardian = guardian
        self._control = control
        self._lease = lease
        self._table = table
        self._wake = wake
        self._install = install  # None: the guardian has none to wait for
        self._left_at = 0.0  # when the launcher ended
        self._deadline = 0.0
        self._poll = select.poll()

    def run(self) -> None:
        """Wait until the guardian ends, and kill whatever it leaves."""
        # The report pipe is not kept: the launcher learns that the guardian is gone by its
        # end-of-file, and a copy held here would withhold that.
        kernel.release_inherited((self._control, *self._wake))
        linux.set_process_name("mcp-keeper")
        if self._keep() == 0:
            return
        sweep.end_all(self._table)
        try:
            os.unlink(self._lease)
        except OSError:
            pass  # the launcher has removed it, or never wrote it

    def _keep(self) -> int:
        self._poll.register(self._wake[0], select.POLLIN)
        # No events requested: what the launcher writes is for the guardian to read. `poll`
        # reports POLLHUP in any case, which here means that the launcher is gone.
        self._poll.register(self._control, 0)
        while (status := self._look()) is None:
            for fd, _ in self._poll.poll(self._time_left_in_ms()):
                if fd == self._wake[0]:
                    self._forward_signals()
                else:
                    self._poll.unregister(fd)
                    self._left_at = time.monotonic()
                    self._deadline = self._left_at + GUARDIAN_LIMIT
            if self._deadline and time.monotonic() >= self._deadline:
                if not self._may_wait():
                    os.kill(self._guardian, SIGKILL)
                self._deadline += GUARDIAN_LIMIT
        return status

    def _may_wait(self) -> bool:
        """Return whether the guardian may still have an installation to wait for."""
        if self._install is None:
            return False
        from mcp_launch.system.install_watch import INSTALL_LIMIT

        is_late = time.monotonic() - self._left_at > INSTALL_LIMIT
        if is_late or not self._install.is_missing():
            self._install = None  # from now on the guardian has its usual time
        return True

    def _look(self) -> int | None:
        """Return the guardian's wait status, None while it lives; continue it if it is stopped."""
        # WUNTRACED reports a stopped child once per stop. Children that are not the guardian are
        # orphans that the keeper adopted; reaping them here is all they need.
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                return None
            if pid == self._guardian:
                if not os.WIFSTOPPED(status):
                    return status
                os.kill(pid, SIGCONT)

    def _forward_signals(self) -> None:
        for number in os.read(self._wake[0], 256):
            if number != SIGCHLD:
                os.kill(self._guardian, number)  # not reaped yet, so the pid is not reused

    def _time_left_in_ms(self) -> int | None:
        if not self._deadline:
            return None
        return max(0, int((self._deadline - time.monotonic()) * 1000) + 1)

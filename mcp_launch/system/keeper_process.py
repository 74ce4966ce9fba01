"""The keeper, between launcher and guardian: it is there in case both of them are not.

    launcher ── keeper (own session, adopts orphans) ── guardian ── server ── …

A SIGKILL to launcher and guardian at once (`pkill -9 mcp-launch`, an impatient supervisor)
leaves nobody who knows what the server has started: the kernel ends the server itself, for
its parent's death, but `npx` and `uvx` put the real one a level further down. So there is a
third process, which holds nothing and does nothing but wait for the guardian:

* the guardian ends as it should: so does the keeper;
* the guardian is killed: everything below it is the keeper's now, and is ended;
* the guardian is stopped (SIGSTOP): it is continued at once. It has no terminal that could
  want it to stop, and while it stands still nobody guards the server;
* the launcher is gone, and the guardian does not finish (a debugger holds it): it is killed.

Why not a cgroup? Where one can be made, somebody must still be alive to write to its
`cgroup.kill`. Why not PDEATHSIG on every level? The levels below the server are started by
the server, and nobody can ask for it on their behalf.

Any two of the three may die at the same moment. Its name and words differ from the
launcher's, so that no `pkill` aimed at one of them hits the others.
"""

from __future__ import annotations

import os
import select
import time

from mcp_launch.system import guardian_process, kernel
from mcp_launch.system.kernel import SIGCHLD, SIGCONT, SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.system import ProcessTable

# What a guardian needs in all once its launcher is gone: the longest plan it can have then
# (the host is gone as well, but somebody else holds the server's input open), its sweeps
# until it gives up, and a busy machine.
GUARDIAN_LIMIT = guardian_process.HOST_LOST_END + guardian_process.UNKILLABLE_AFTER + 1.0


class Keeper:
    """The keeper itself."""

    __slots__ = ("_control", "_deadline", "_guardian", "_lease", "_poll", "_table", "_wake")

    def __init__(
        self, guardian: int, control: int, wake: tuple[int, int], lease: str, table: ProcessTable
    ) -> None:
        self._guardian = guardian
        self._control = control
        self._lease = lease
        self._table = table
        self._wake = wake
        self._deadline = 0.0
        self._poll = select.poll()

    def run(self) -> None:
        """Wait for the guardian's end, and see that nothing is left after it."""
        # Not the report: its end is how the launcher knows of the guardian's.
        kernel.let_go((self._control, *self._wake))
        kernel.rename("mcp-keeper")
        if self._keep() == 0:
            return
        guardian_process.end_all(self._table)
        try:
            os.unlink(self._lease)
        except OSError:
            pass  # the launcher has removed it, or never wrote it

    def _keep(self) -> int:
        self._poll.register(self._wake[0], select.POLLIN)
        # Nothing is read from it here: that is the guardian's. A hang-up is told unasked.
        self._poll.register(self._control, 0)
        while (status := self._look()) is None:
            for fd, _ in self._poll.poll(self._time_left_in_ms()):
                if fd == self._wake[0]:
                    self._pass_on()
                else:
                    self._poll.unregister(fd)
                    self._deadline = time.monotonic() + GUARDIAN_LIMIT
            if self._deadline and time.monotonic() >= self._deadline:
                os.kill(self._guardian, SIGKILL)
                self._deadline += GUARDIAN_LIMIT
        return status

    def _look(self) -> int | None:
        """Return how the guardian ended, None while it lives; let it not stand still."""
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                return None
            if pid == self._guardian:
                if not os.WIFSTOPPED(status):
                    return status
                os.kill(pid, SIGCONT)

    def _pass_on(self) -> None:
        for number in os.read(self._wake[0], 256):
            if number != SIGCHLD:
                os.kill(self._guardian, number)  # not collected yet: the pid is its own

    def _time_left_in_ms(self) -> int | None:
        if not self._deadline:
            return None
        return max(0, int((self._deadline - time.monotonic()) * 1000) + 1)

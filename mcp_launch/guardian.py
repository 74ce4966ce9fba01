"""Start a server below a guardian, and make sure that nothing of it is left.

    host ── launcher ── guardian (subreaper, own session) ── server (own group) ── …

The guardian is a fork of the launcher with almost nothing in it. Everything below it
stays below it: an orphan is adopted, a child in a session of its own is still a child,
a daemon that forked twice and emptied its environment too. So "nothing is left" has a
plain meaning, `wait` says that there are no children, and whoever dies first leaves
somebody behind who knows what to do:

* the host dies or is done: the launcher notices and tells the guardian;
* the launcher dies, even of SIGKILL: the guardian's pipe from it closes;
* the guardian dies: the kernel ends the server, and the launcher, a subreaper too,
  inherits and ends the rest.

Why not the launcher alone? Hosts SIGKILL their direct child within half a second
(Claude Code) or within milliseconds (Codex at its own exit). Why not PDEATHSIG alone?
It reaches one process, and `npx` and `uvx` put the real server one level further down.
"""

from __future__ import annotations

import os

from mcp_launch import ending, kernel, signals, trace, watchkeeping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.processes import ProcessTable
    from mcp_launch.watchkeeping import Errand


class Guardian:
    """The launcher's view: tell the guardian, hear what became of the server."""

    __slots__ = (
        "_heard",
        "_is_left",
        "_table",
        "control",
        "exit_code",
        "failure",
        "pid",
        "report",
        "server",
    )

    def __init__(self, pid: int, control: int, report: int, table: ProcessTable) -> None:
        self._table = table
        self._is_left = False
        self.pid = pid
        self.control = control
        self.report = report
        self.server: int | None = None
        self.failure: tuple[str, int] | None = None  # what failed, errno
        self.exit_code: int | None = None
        self._heard = b""

    def wait_for_start(self) -> None:
        """Return when the server has been started, or that has failed."""
        while self.server is None and self.failure is None and self.hear():
            pass

    def tell(self, what: int) -> None:
        """Have the guardian pass on a signal, or (INPUT_ENDED, REPLACED) end the server."""
        if self._is_left:
            return  # it has finished
        try:
            os.write(self.control, bytes([what]))
        except BrokenPipeError:
            pass  # the guardian has finished; its last report is on its way

    def hear(self) -> bool:
        """Read one report; False when the guardian is gone, and all below it."""
        data = os.read(self.report, 256)
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            word, *numbers = line.split()
            if word == b"started":
                self.server = int(numbers[0])
            elif word == b"exited":
                self.exit_code = int(numbers[0])
            elif word == b"left":
                count = int(numbers[0])
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
        """Collect the guardian, which has nothing left to do; if it was killed, do its work."""
        if self._is_left:
            return
        self.leave()
        os.waitpid(self.pid, 0)
        if self.exit_code is None and self.failure is None:
            ending.end_all(self._table)
            self.exit_code = 128 + signals.SIGKILL  # the kernel did that, for the guardian's death


def fork(errand: Errand, table: ProcessTable) -> Guardian:
    """Fork the guardian, which starts the server; do not wait for that."""
    kernel.become_subreaper()
    control = os.pipe()
    report = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(control[1])
            os.close(report[0])
            watchkeeping.Watch(control[0], report[1], errand, table).run()
        finally:
            os._exit(0)
    os.close(control[0])
    os.close(report[1])
    return Guardian(pid, control[1], report[0], table)

"""A server from its start until all its processes are gone, with the pipes to it."""

from __future__ import annotations

from mcp_launch import state
from mcp_launch.protocol.lines import Lines
from mcp_launch.system import guardian as guardians
from mcp_launch.values import FAILURE, RESTART, START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.launch.plan import Plan
    from mcp_launch.runtime.edge import Handlers
    from mcp_launch.runtime.loop import Loop
    from mcp_launch.runtime.writer import Writer
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.spawn import Pipes


class ServerProcess:
    """Follows the guardian of one server.

    It is "started" (with the guardian) or has "failed" (with the reason). Then it has "exited"
    (with its code), and "ended" with all processes below it.
    """

    __slots__ = (
        "_handlers",
        "_has_exited",
        "_loop",
        "guardian",
        "is_first",
        "is_gone",
        "name",
        "plan",
    )

    def __init__(  # noqa: PLR0913  # each a part of it
        self,
        loop: Loop,
        name: str,
        guardian: Guardian,
        plan: Plan,
        handlers: Handlers,
        *,
        is_first: bool = True,
    ) -> None:
        self.guardian = guardian
        self.name = name
        self.plan = plan
        self.is_first = is_first  # of its launch
        self.is_gone = False  # the guardian and all processes below it
        self._has_exited = False
        self._loop = loop
        self._handlers = handlers
        loop.cancel_timer(f"guardian {name}")
        guardian.expect_end = self._expect_end
        loop.watch(guardian.report, self._read_report)
        loop.set_timer(f"start {name}", guardian.start_limit, self._give_up_start)

    def _report(self, event: str, what: object) -> None:
        self._handlers[event](self.name, what)

    def _read_report(self) -> None:
        guardian = self.guardian
        before, last = guardian.left_behind, guardian.server
        is_running = guardian.read_report()
        if guardian.shared and guardian.server is None:  # the pool answers; the server may not
            self._loop.set_timer(f"start {self.name}", guardians.START_LIMIT, self._give_up_start)
        if count := guardian.left_behind - before:
            state.note(f"the server left {count} process{'es' if count > 1 else ''} behind")
        if guardian.server is not None and last is None:
            self._loop.cancel_timer(f"start {self.name}")
            text = f"started{'' if self.is_first else ' again'}: {self.plan.program}"
            text += f", pid {guardian.server}"
            state.note(text, START if self.is_first else RESTART)
            self._report("started", guardian)
        elif guardian.server != last:
            state.note(f"shares another server: pid {guardian.server}", START)
        self._note_exit()
        if not is_running:
            # At once: if it was killed, we must clean up.
            self._lose_guardian(guardian.finish if guardian.server is not None else None)

    def _note_exit(self) -> None:
        code = self.guardian.exit_code
        if code is not None and self.guardian.server is not None and not self._has_exited:
            self._has_exited = True
            self._report("exited", code)

    def _expect_end(self, seconds: float) -> None:
        # The first deadline counts: a second order gives the guardian no more time, either.
        if not self._loop.has_timer(f"guardian {self.name}"):
            self._loop.set_timer(f"guardian {self.name}", seconds, self._end_by_force)

    def _end_by_force(self) -> None:
        state.note("the guardian does not end the server in time: both are killed", FAILURE)
        self._lose_guardian(self.guardian.end_by_force)

    def _give_up_start(self) -> None:
        # The exec hangs: the program is on a file system that does not respond.
        self._lose_guardian(self.guardian.give_up_start)

    def _lose_guardian(self, release: Callable[[], None] | None) -> None:
        self._loop.unwatch(self.guardian.report)
        if release is not None:
            release()
        self._loop.cancel_timer(f"guardian {self.name}")
        self._loop.cancel_timer(f"start {self.name}")
        if self.guardian.server is None:
            from mcp_launch.system import start_failures

            self._report("failed", start_failures.explain_failure(self.guardian, self.plan))
            return
        self._note_exit()
        self.is_gone = True
        self._report("ended", None)


class PipedServer:
    """A server that is connected to us by pipes."""

    __slots__ = ("_loop", "errors", "errors_end", "lines", "output", "process", "writer")

    def __init__(self, process: ServerProcess, pipes: Pipes, writer: Writer, loop: Loop) -> None:
        self.process = process
        self.writer = writer
        _, self.output, self.errors = pipes.ours  # -1 once closed
        self._loop = loop
        self.lines = Lines()
        self.errors_end = b""  # the last of what was read of its stderr

    def close_output(self) -> None:
        """Close our end of its stdout."""
        self.output = self._loop.close(self.output)

    def close_errors(self) -> None:
        """Close our end of its stderr."""
        self.errors = self._loop.close(self.errors)

    def close(self) -> None:
        """Close our ends of its pipes."""
        self.writer.close()
        self.close_output()
        self.close_errors()

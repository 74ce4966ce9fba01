"""A server from its start until all its processes are gone, with the pipes to it."""

from __future__ import annotations

import os

from mcp_launch import state
from mcp_launch.protocol.lines import Lines
from mcp_launch.runtime.writer import Writer
from mcp_launch.system import guardian as guardians
from mcp_launch.values import FAILURE, RESTART, START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.plan import Plan
    from mcp_launch.runtime.loop import Loop
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.spawn import Pipes

    class Listener(Protocol):
        """Who is told of a server; each gets the server's name."""

        def server_started(self, name: str) -> None:
            """Note that it runs."""

        def server_failed(self, name: str, error: LaunchError) -> None:
            """Note that it could not be started."""

        def server_exited(self, name: str, code: int) -> None:
            """Note that it has exited; processes below it may still run."""

        def server_ended(self, name: str) -> None:
            """Note that it is gone, with all processes below it."""


class ServerProcess:
    """Follows the guardian of one server."""

    __slots__ = (
        "_has_exited",
        "_listener",
        "_loop",
        "guardian",
        "is_first",
        "is_gone",
        "is_started",
        "name",
        "plan",
    )

    def __init__(
        self,
        loop: Loop,
        name: str,
        guardian: Guardian,
        plan: Plan,
        listener: Listener,
        *,
        is_first: bool = True,
    ) -> None:
        self.guardian = guardian
        self.name = name
        self.plan = plan
        self.is_first = is_first  # of its launch
        self.is_started = False
        self.is_gone = False  # the guardian and all processes below it
        self._has_exited = False
        self._loop = loop
        self._listener = listener
        loop.cancel_timer(f"guardian {name}")
        guardian.expect_end = self._expect_end
        loop.watch(guardian.report, self._read_report)
        loop.set_timer(f"start {name}", guardian.start_limit, self._give_up_start)

    def _read_report(self) -> None:
        guardian = self.guardian
        before, last = guardian.left_behind, guardian.server
        is_running = guardian.read_report()
        if guardian.shared and not self.is_started:  # the pool answers; the server may not
            self._loop.set_timer(f"start {self.name}", guardians.START_LIMIT, self._give_up_start)
        if count := guardian.left_behind - before:
            state.note(f"the server left {count} process{'es' if count > 1 else ''} behind")
        if guardian.server is not None and not self.is_started:
            self.is_started = True
            self._loop.cancel_timer(f"start {self.name}")
            text = f"started{'' if self.is_first else ' again'}: {self.plan.program}"
            text += f", pid {guardian.server}"
            state.note(text, START if self.is_first else RESTART)
            self._listener.server_started(self.name)
        elif guardian.server != last:
            state.note(f"shares another server: pid {guardian.server}", START)
        self._note_exit()
        if not is_running:
            self._loop.unwatch(guardian.report)
            if self.is_started:
                guardian.finish()  # at once: if it was killed, we must clean up
            self._lose_guardian()

    def _note_exit(self) -> None:
        code = self.guardian.exit_code
        if code is not None and self.is_started and not self._has_exited:
            self._has_exited = True
            self._listener.server_exited(self.name, code)

    def _expect_end(self, seconds: float) -> None:
        # The first deadline counts: a second order gives the guardian no more time, either.
        if not self._loop.has_timer(f"guardian {self.name}"):
            self._loop.set_timer(f"guardian {self.name}", seconds, self._end_by_force)

    def _end_by_force(self) -> None:
        state.note("the guardian does not end the server in time: both are killed", FAILURE)
        self._loop.unwatch(self.guardian.report)
        self.guardian.end_by_force()
        self._lose_guardian()

    def _give_up_start(self) -> None:
        # The exec hangs: the program is on a file system that does not respond.
        self._loop.unwatch(self.guardian.report)
        self.guardian.give_up_start()
        self._lose_guardian()

    def _lose_guardian(self) -> None:
        self._loop.cancel_timer(f"guardian {self.name}")
        self._loop.cancel_timer(f"start {self.name}")
        if not self.is_started:
            from mcp_launch.system import start_failures

            error = start_failures.explain_failure(self.guardian, self.plan)
            self._listener.server_failed(self.name, error)
            return
        self._note_exit()
        self.is_gone = True
        self._listener.server_ended(self.name)


class PipedServer:
    """A server that is connected to us by pipes."""

    __slots__ = ("errors", "errors_end", "is_open", "lines", "loop", "output", "process", "writer")

    def __init__(
        self,
        process: ServerProcess,
        pipes: Pipes,
        loop: Loop,
        *,
        on_moved: Callable[[], None],
        on_broken: Callable[[], None],
    ) -> None:
        stdin, self.output, self.errors = pipes.ours  # -1 once closed
        self.process = process
        self.loop = loop
        self.writer = Writer(loop, stdin, on_moved=on_moved, on_broken=on_broken)
        self.lines = Lines()
        self.is_open = True  # the end of its stdout was not read yet
        self.errors_end = b""  # the last of what was read of its stderr

    def close_output(self) -> None:
        """Close our end of its stdout."""
        if self.output >= 0:
            self.loop.unwatch(self.output)
            os.close(self.output)
            self.output = -1
            self.is_open = False

    def close_errors(self) -> None:
        """Close our end of its stderr."""
        if self.errors >= 0:
            self.loop.unwatch(self.errors)
            os.close(self.errors)
            self.errors = -1

    def close(self) -> None:
        """Close our ends of its pipes."""
        self.writer.close()
        self.close_output()
        self.close_errors()

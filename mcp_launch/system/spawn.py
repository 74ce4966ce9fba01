"""Turn a fork into the server: group, signals, descriptors, directory, exec.

By hand and not with `subprocess`: importing it would slow down every launch, and an error in its
`preexec_fn`, where PDEATHSIG would have to be set, comes back without its errno.
"""

from __future__ import annotations

import os
from errno import EINVAL, ENOEXEC

from mcp_launch.errors import NotExecutable
from mcp_launch.system import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from mcp_launch.values import Found

    class Install(Protocol):
        """A package that the program installs first, because it is a runner (`npx`, `uvx`)."""

        @property
        def turn(self) -> int:
            """The descriptor of a lock to hold while it is installed; -1: none."""

        def take_turn(self) -> bool:
            """Lock the package for this process; return False if another launch installs it."""

        def wait_for_turn(self) -> None:
            """Wait until no other launch installs the package, or it is there."""

        def is_missing(self) -> bool:
            """Return whether it is certain that the package is not installed completely."""

        def note_left(self, lease: str, seconds: float) -> None:
            """Record that the runner may finish without the launcher, within this time."""

        def note_end(self, lease: str, last_words: str) -> None:
            """Record how the installation ended; the last words are the runner's."""

    class ServerPlan(Protocol):
        """What to start, in which directory, and with which variables."""

        argv: list[str]
        program: str  # the file to execute
        cwd: Found
        environ: dict[str, str]

        @property
        def install(self) -> Install | None:
            """What the program has to install first, if that is certain."""


class Pipes:
    """The three pipes between the launcher and the server."""

    __slots__ = ("ours", "servers")

    def __init__(self) -> None:
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        self.servers = (stdin[0], stdout[1], stderr[1])
        self.ours = (stdin[1], stdout[0], stderr[0])

    def close_ours(self) -> None:
        """Close the launcher's ends, for a server that did not start."""
        for fd in self.ours:
            os.close(fd)

    def close_servers(self) -> None:
        """Close our copies of the server's ends.

        While we held the writing end of its stdout, we would never see that pipe end.
        """
        for fd in self.servers:
            os.close(fd)


def check_environment(plan: ServerPlan) -> None:
    """Check that exec accepts the plan's variables.

    Raises:
        NotExecutable: One holds a NUL, or characters that cannot be encoded.

    """
    for name, value in plan.environ.items():
        try:
            is_right = "\0" not in value and bool(os.fsencode(f"{name}={value}"))
        except UnicodeEncodeError:
            is_right = False
        if not is_right:
            raise NotExecutable(
                f"the value of {name} cannot be passed to a program: it is not valid text",
                fix="check the session and directory that the host sends with its calls",
            )


def start_server(plan: ServerPlan, stdio: tuple[int, int, int]) -> tuple[int, str | None]:
    """Fork and exec; return the pid, and the failed step with its errno if there was one."""
    # How the fork reports: Python's pipes are close-on-exec, so a successful exec closes the
    # writing end and we read end-of-file. A failed step writes its name and errno first. That a
    # read returns after the exec, and not before, is what lets us report "started".
    reading, writing = os.pipe()
    guardian = os.getpid()
    waits = plan.install is not None and not plan.install.take_turn()
    pid = os.fork()
    if pid == 0:
        try:
            _become_server(plan, stdio, guardian, waits=waits)
        except _StepFailed as failed:
            os.write(writing, f"{failed.step} {failed.errno}".encode())
        finally:
            os._exit(127)  # never back into the guardian's code: there is one guardian already
    os.close(writing)
    try:
        # In both processes, as shells do: whichever runs first, the group exists before either
        # goes on, so a signal to it cannot miss the server.
        os.setpgid(pid, pid)
    except OSError:
        pass  # it has done so itself, and has exec'd (EACCES) or ended (ESRCH) since
    failure = os.read(reading, 64).decode()
    os.close(reading)
    return pid, failure or None


class _StepFailed(Exception):
    def __init__(self, step: str, error: OSError) -> None:
        super().__init__(step)
        self.step = step
        self.errno = error.errno or 0


def _become_server(
    plan: ServerPlan, stdio: tuple[int, int, int], guardian: int, *, waits: bool
) -> None:
    # A group, so that one signal reaches the server with the runner (`npx`, `uvx`) above it. Not
    # a session: the guardian's has no terminal, and the server needs none of its own.
    os.setpgid(0, 0)
    kernel.restore_for_exec()
    kernel.die_with_parent(kernel.SIGKILL)
    # PDEATHSIG covers only a death after the call above. If the guardian died before it, we
    # have another parent by now.
    if os.getppid() != guardian:
        os._exit(127)
    for target, fd in enumerate(stdio):
        os.dup2(fd, target)
    try:
        if plan.cwd.value:  # empty: stay in the inherited directory, which has been deleted
            os.chdir(plan.cwd.value)
    except OSError as error:
        raise _StepFailed("chdir", error) from None
    if waits and plan.install is not None:
        # This counts as the start, so that the guardian need not wait with us: it reads the end
        # of our pipe. If the exec fails later, the exit code has to do.
        kernel.close_all()
        plan.install.wait_for_turn()
    try:
        os.execve(plan.program, plan.argv, plan.environ)
    except ValueError:
        # Python refuses a NUL, and a variable whose name is empty or contains "=".
        raise _StepFailed("exec", OSError(EINVAL, "")) from None
    except OSError as error:
        # execvp, which hosts use, runs a script that has no `#!` line with the shell. execve does
        # not, so we do.
        if error.errno != ENOEXEC or _is_binary(plan.program):
            raise _StepFailed("exec", error) from None
    try:
        os.execve("/bin/sh", ["sh", plan.program, *plan.argv[1:]], plan.environ)
    except OSError as error:
        raise _StepFailed("exec", error) from None


def _is_binary(program: str) -> bool:
    try:
        with open(program, "rb") as file:
            return b"\0" in file.read(256)
    except OSError:
        return True

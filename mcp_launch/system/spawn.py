"""Turn a fork into the server: group, signals, descriptors, directory, exec."""

from __future__ import annotations

import os
from errno import EINVAL, ENOEXEC

from mcp_launch.errors import NotExecutable
from mcp_launch.system import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from mcp_launch.values import Found

    class ServerPlan(Protocol):
        """What is to be started, where, and with which variables."""

        argv: list[str]
        program: str  # the file that is executed
        cwd: Found
        environ: dict[str, str]


class Pipes:
    """The three pipes between us and the server."""

    __slots__ = ("ours", "servers")

    def __init__(self) -> None:
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        self.servers = (stdin[0], stdout[1], stderr[1])
        self.ours = (stdin[1], stdout[0], stderr[0])

    def close_ours(self) -> None:
        """Let go of our ends: there is no server."""
        for fd in self.ours:
            os.close(fd)

    def close_servers(self) -> None:
        """Leave the server's ends to the server alone."""
        for fd in self.servers:
            os.close(fd)


def check_environment(plan: ServerPlan) -> None:
    """See that a program can be given these variables.

    Raises:
        NotExecutable: One has a value that no program can be given.

    """
    for name, value in plan.environ.items():
        try:
            is_right = "\0" not in value and bool(os.fsencode(f"{name}={value}"))
        except UnicodeEncodeError:
            is_right = False
        if not is_right:
            raise NotExecutable(
                f"no program can be given the value of {name}",
                fix="look at what the host says of its session",
            )


def start_server(plan: ServerPlan, stdio: tuple[int, int, int]) -> tuple[int, str | None]:
    """Fork and exec; return the pid, and what failed with its errno if something did."""
    reading, writing = os.pipe()  # closed by a successful exec, which is how we learn of it
    guardian = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become_server(plan, stdio, guardian)
        except _StepFailed as failed:
            os.write(writing, f"{failed.step} {failed.errno}".encode())
        finally:
            os._exit(127)
    os.close(writing)
    try:
        os.setpgid(pid, pid)  # here as well as there: whoever is first
    except OSError:
        pass  # it has done so itself, and exec'd or ended since
    failure = os.read(reading, 64).decode()
    os.close(reading)
    return pid, failure or None


class _StepFailed(Exception):
    def __init__(self, step: str, error: OSError) -> None:
        super().__init__(step)
        self.step = step
        self.errno = error.errno or 0


def _become_server(plan: ServerPlan, stdio: tuple[int, int, int], guardian: int) -> None:
    os.setpgid(0, 0)
    kernel.restore_for_exec()
    kernel.die_with_parent(kernel.SIGKILL)
    if os.getppid() != guardian:
        os._exit(127)  # it died before we could say that we want to die with it
    for target, fd in enumerate(stdio):
        os.dup2(fd, target)
    try:
        if plan.cwd.value:  # else it stays where we are, in a directory that was deleted
            os.chdir(plan.cwd.value)
    except OSError as error:
        raise _StepFailed("chdir", error) from None
    try:
        os.execve(plan.program, plan.argv, plan.environ)
    except ValueError:
        # Python refuses a NUL, or a variable's name that is empty or has a "=" in it.
        raise _StepFailed("exec", OSError(EINVAL, "")) from None
    except OSError as error:
        # execvp, which hosts use, hands a script without a first line `#!` to the shell.
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

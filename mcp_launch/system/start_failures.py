"""Explains why a server was not started; imported only then."""

from __future__ import annotations

import os
from errno import E2BIG, EINVAL, ENOENT, ENOEXEC

from mcp_launch.errors import LaunchError, NotExecutable, PlaceRefused
from mcp_launch.system import guardian as guardians

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.spawn import ServerPlan


def explain_failure(started: Guardian, plan: ServerPlan) -> LaunchError:
    """Return why a server was not started, once its guardian has given up."""
    step, number = started.failure or ("guardian", 0)
    reason = os.strerror(number)
    started.failure = (step, number)
    started.finish()
    if step == "chdir":
        return PlaceRefused(
            f"cannot change to the server's directory {plan.cwd.value}: {reason}",
            fix="allow access to it (chmod u+x), or name another directory: --cwd DIR",
        )
    if step == "exec":
        return NotExecutable(
            f"{plan.program} cannot be started: {reason}",
            fix=_explain_exec(plan.program, number),
        )
    if step == "time":
        return LaunchError(
            f"{plan.program} did not start within {guardians.START_LIMIT:.0f} s",
            fix="check whether it or its directory is on a network file system that hangs",
        )
    return LaunchError(
        f"the guardian of {plan.program} ended before the server started",
        fix="check the limits on processes and memory (ulimit -a)",
    )


def _explain_exec(program: str, number: int) -> str:
    if number == E2BIG:
        return "shorten its arguments and variables: they exceed the system's limit"
    if number == EINVAL:
        return "correct its arguments and variables: one holds a NUL, or has an invalid name"
    if number not in {ENOENT, ENOEXEC}:
        return f"check the permissions of {program} and of the interpreter on its first line"
    try:
        with open(program, "rb") as file:
            first = file.readline(256)
    except OSError:
        first = b""
    if first.startswith(b"#!"):
        interpreter = first[2:].strip().decode(errors="replace")
        return f"install the interpreter `{interpreter}`, or correct the program's first line"
    return "install the build for this machine: this one is for another system or processor"

"""The outcome of one launch as data, for a program that started it and wants to know.

`doctor --live` names a file in MCP_LAUNCH_OUTCOME. The launcher appends a JSON object to it when
the server is gone, and another when the launch fails; together they are the outcome. Other
launches do not load this module. Sentences on stderr and in error answers are for people: they
may be reworded at any time, and no program of ours parses them. The `data` of an error answer is
not used either: rmcp, the Rust SDK, prints it after the message, and so would its hosts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch.protocol import json_text

if TYPE_CHECKING:
    from mcp_launch.errors import LaunchError


class Failure(NamedTuple):
    """Why a launch failed."""

    problem: str
    fix: str
    exit_code: int
    is_servers: bool  # the server had started, and ended
    lines: tuple[str, ...] = ()  # the last ones of its stderr


class Outcome(NamedTuple):
    """What is known about an ended launch; all defaults if the launcher was killed."""

    noise: int = 0  # lines on the server's stdout that are not messages
    first_noise: tuple[str, ...] = ()  # the first of those lines
    left_behind: int = 0  # processes that outlived the server
    outlasted_input: bool = False  # the server had to be killed after its input had ended
    unanswered: tuple[str, ...] = ()  # methods of the requests that were open when it ended
    failure: Failure | None = None


def append(path: str, facts: dict[str, object]) -> None:
    """Add facts to a launch's outcome; ignore a failure to write."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
        try:
            os.write(fd, json_text.encode(facts).encode() + b"\n")
        finally:
            os.close(fd)
    except OSError:
        pass  # the disk is full, or the directory is gone


def append_failure(path: str, error: LaunchError) -> None:
    """Add the reason why the launch failed."""
    lines = tuple(getattr(error, "lines", ()))
    failure = Failure(error.problem, error.fix, error.exit_code, error.is_servers, lines)
    append(path, {"failure": failure._asdict()})


def read(path: str) -> Outcome:
    """Return the outcome of a launch."""
    facts: dict[str, Any] = {}
    try:
        with open(path, "rb") as file:
            for line in file:
                facts |= json_text.parse(line)  # type: ignore[arg-type]  # as `append` wrote it
    except (OSError, ValueError):
        pass  # the launcher was killed before it could write, or while it did
    failure = facts.get("failure")
    return Outcome(
        noise=facts.get("noise", 0),
        first_noise=tuple(facts.get("first_noise", ())),
        left_behind=facts.get("left_behind", 0),
        outlasted_input=facts.get("outlasted_input", False),
        unanswered=tuple(facts.get("unanswered", ())),
        failure=_read_failure(failure) if failure else None,
    )


def _read_failure(facts: dict[str, Any]) -> Failure:
    return Failure(**facts | {"lines": tuple(facts.get("lines", ()))})

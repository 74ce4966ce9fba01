"""What became of one launch, as facts, for the program that started it and asks.

`doctor --live` names a file in MCP_LAUNCH_OUTCOME. The launcher appends a JSON object to it when
the server is gone, and another when the launch has failed; together they are the outcome. No
other launch loads this module. Sentences on stderr and in error answers are for people: they may
be reworded at any time, and no program of ours reads them. Nor do the facts travel in the `data`
of an error answer: rmcp, the Rust SDK, prints it behind the message, and so would its hosts.
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
    is_servers: bool  # the server was started, and ended


class Outcome(NamedTuple):
    """What is known of a launch that is over; of a launcher that was killed, nothing."""

    noise: int = 0  # lines on the server's stdout that are not messages
    first_noise: tuple[str, ...] = ()  # the first of them
    left_behind: int = 0  # processes that outlived the server
    outlasted_input: bool = False  # the server had to be ended after the end of its input
    unanswered: tuple[str, ...] = ()  # methods of requests over which the server ended
    failure: Failure | None = None


def append(path: str, facts: dict[str, object]) -> None:
    """Add facts to a launch's outcome; a launch goes on without it if it must."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
        try:
            os.write(fd, json_text.encode(facts).encode() + b"\n")
        finally:
            os.close(fd)
    except OSError:
        pass  # a full disk, or a directory that is gone


def append_failure(path: str, error: LaunchError) -> None:
    """Add why the launch failed."""
    failure = Failure(error.problem, error.fix, error.exit_code, error.is_servers)
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
        failure=Failure(**failure) if failure else None,
    )

"""Find the variables that a server needs, from its command and its profile."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.launch.profile import Profile

# Programs that pass on variables by name.
_CONTAINERS = {"docker", "podman", "nerdctl"}

# Their options without a value; all others have one.
_SWITCHES = {
    *("--rm", "--init", "--privileged", "--read-only", "--interactive", "--tty", "--detach"),
    *("--quiet", "--publish-all", "--no-healthcheck", "--oom-kill-disable", "--use-api-socket"),
}
_LETTERS = re.compile(r"-[itdqP]+")

_BORROWED = re.compile(r"(?<!\$)\$\{(\w+)\}")


class Need(NamedTuple):
    """A variable, and why it is needed."""

    name: str
    why: str  # a phrase with a verb: "docker expects it (-e)"
    is_sure: bool = True  # nothing works without it


def list_of_command(command: list[str]) -> Iterator[Need]:
    """Return the variables that a command needs."""
    program = os.path.basename(command[0]) if command else ""
    if program in _CONTAINERS:
        for name in _list_passed_on(command[1:]):
            # An unset variable is left out, and may be optional.
            yield Need(name, f"{program} expects it (-e)", is_sure=False)


def list_of_profile(profile: Profile) -> Iterator[Need]:
    """Return the variables that the launcher needs for a server's options and profiles."""
    for name, variable in profile.env.items():
        if variable.source == "local" and variable.default is None:
            why = f"--env or a profile's env_vars needs it for {name}"
            yield Need(variable.sought, why, variable.is_required)
    for name, text in profile.literals.items():
        origin = "--set" if name in profile.set_by_option else "the profile's env"
        for sought in _BORROWED.findall(text):
            yield Need(sought, f"{origin} uses it for {name}")


def _list_passed_on(words: list[str]) -> Iterator[str]:
    """Return the names after -e; words after the image belong to the server."""
    while words and words[0] != "run":
        words = words[1:]
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        if option in _SWITCHES or _LETTERS.fullmatch(option):
            continue
        if option.startswith("-e") and option != "-e":
            option, value, equals = "-e", option[2:] + equals + value, "="  # as in -eNAME
        if not equals:
            value = rest.pop(0) if rest else ""
        if option in {"-e", "--env"} and value and "=" not in value:
            yield value

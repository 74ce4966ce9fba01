"""What a check is, and what it finds.

A check is one function: its decorator declares the code, the level and the title, and its
docstring is what `mcp-launch explain` prints. A code never changes its meaning: scripts rely on
it.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_launch.machine.survey import Subject
    from mcp_launch.machine.wrap_warnings import Reach

Level = Literal["error", "warning", "note"]

# Worst first.
LEVELS: tuple[Level, ...] = ("error", "warning", "note")

# What a check is called with: a survey; a survey and each server that a host starts; a server that
# `--live` has started and each entry of it. "none": it is not called, its findings come otherwise.
Kind = Literal["machine", "server", "live", "none"]


class Repair(NamedTuple):
    """What `--fix` can safely do about a finding."""

    what: str  # for a person: "wrap docs in ~/.codex/config.toml"; the same text for the same act
    act: Callable[[], None]  # raises LaunchError when it cannot be done


class Finding(NamedTuple):
    """One thing that is wrong."""

    code: str
    subject: Subject
    message: str  # what is wrong, in a sentence without its full stop
    fix: str  # what to do, in the imperative
    repair: Repair | None = None
    reach: Reach | None = None  # which files the wrap command would change, if wrapping is the fix
    servers: tuple[str, ...] = ()  # all that it is about, if several
    details: tuple[str, ...] = ()  # lines that a program printed

    @property
    def level(self) -> Level:
        """The severity of the finding."""
        return CHECKS[self.code].level

    @property
    def title(self) -> str:
        """The meaning of the code, in a few words."""
        return CHECKS[self.code].title


class Check(NamedTuple):
    """One thing that can be wrong, and the function that finds it."""

    level: Level
    title: str
    kind: Kind
    find: Callable[..., Iterator[Finding]]


# All checks by their codes. `registry` imports the modules that declare them.
CHECKS: dict[str, Check] = {}

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def check(
    code: str, level: Level, title: str, kind: Kind = "machine"
) -> Callable[[_Function], _Function]:
    """Declare the function below as the check with this code."""

    def declare(function: _Function) -> _Function:
        CHECKS[code] = Check(level, title, kind, function)
        return function

    return declare


def explain(code: str) -> str:
    """Return what a code means and what to do about it, as Markdown."""
    found = CHECKS[code]
    article = "An" if found.level == "error" else "A"
    option = " --live" if found.kind == "live" else ""
    text = inspect.getdoc(found.find)
    return (
        f"# {code}: {found.title}\n\n"
        f"{article} {found.level}, reported by `mcp-launch doctor{option}`.\n\n{text}\n"
    )


@check("ML001", "error", "a check could not run", "none")
def report_failure(subject: Subject, what: str, error: Exception) -> Finding:
    """A check stopped because of a bug in mcp-launch, or of something that it did not expect.

    The message names the check and the Python exception. All other checks ran, so the rest of the
    report is valid, but what this check looks for may be there without being reported. Usually an
    entry, a file or a process has a form that the check does not handle: a value of an unusual
    type, a file that disappears while it is read. `reading the entry failed` means that it happened
    while the entry named above was being read.

    Install the newest version and run `mcp-launch doctor` again. If it still fails, report it with
    the whole message, the version (`mcp-launch --version`) and, if you can share it, the entry.
    Simplifying the entry often avoids the failure in the meantime. The exit code is 2, and no
    filter hides this finding.
    """
    return Finding(
        "ML001",
        subject,
        f"{what} failed: {type(error).__name__}: {error}",
        "report this to the maintainers; all other checks ran",
    )

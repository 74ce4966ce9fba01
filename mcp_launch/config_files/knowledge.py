"""How much is known of a host, and how: run for real, read in the program, or only reported.

`mcp-launch explain hosts` shows these records, so that nobody takes a report for a measurement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Literal

    How = Literal["measured", "source", "reported", ""]  # empty: not known


class Fact(NamedTuple):
    """What is known of one aspect, in a few words, and how."""

    what: str = ""
    how: How = ""

    def __str__(self) -> str:
        """Return it as a cell of a table."""
        return f"{self.what} ({self.how})" if self.what and self.how else self.how


class Knowledge(NamedTuple):
    """What is known of a host, by aspect."""

    release: str = ""  # the one that was run; empty: none
    files: How = "reported"
    directory: Fact = Fact()  # in which a server is started
    start: Fact = Fact()  # whether a server is told its session at the start
    calls: Fact = Fact()  # whether the session of each call can be known

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All that is known, in the order of the table."""
        return (Fact("", self.files), self.directory, self.start, self.calls)


def measure(release: str, directory: str, start: str, calls: str) -> Knowledge:
    """Return what was seen when a release was run with a real server."""
    facts = [Fact(what, "measured") for what in (directory, start, calls)]
    return Knowledge(release, "measured", *facts)


def report(directory: str) -> Knowledge:
    """Return what documentation and reports say of a host that tells no session."""
    no = Fact("no", "reported")
    return Knowledge("", "reported", Fact(directory, "reported"), no, no)

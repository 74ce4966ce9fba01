"""The settings of one random schedule, and how its host names callers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_launch.hosts import Callers

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from mcp_launch.hosts import Caller

CARRIES: dict[str, Any] = {
    "codex": "one thread",
    "claude": "one session at a time",
    "vscode": "many sessions",
    "other": "one session at a time",
}


class Setup:
    """The settings of one schedule."""

    def __init__(self, random: Random) -> None:
        choose = random.choice
        self.style = choose(["codex", "codex", "claude", "vscode", "other"])
        self.on_change = choose(["auto", "follow", "restart", "restart", "refuse"])
        self.restart = choose(["on", "on", "on", "off"])
        self.no_meta = choose([False, False, True])
        self.holds = choose(["nothing", "default", "requested"])
        self.moves_unannounced = choose([False, False, True])
        self.era = choose(["initialize"] * 4 + ["discover", "refused discover", "bare", "refused"])
        self.dies_of_discover = choose([False, False, True])
        # The host names itself in its requests.
        self.is_modern = "discover" in self.era or (self.era == "bare" and choose([False, True]))
        self.state: Any = choose(["unbound", "tentative", "confirmed"])
        self.capacity = choose([1 << 30, 1 << 30, 64, 300])  # of the pipe to a server's stdin
        self.danger = choose([0.0, 0.01, 0.05])  # how often something goes wrong
        self.restarts = choose([0.0, 0.0, 0.05, 0.3])  # how often a user asks for one
        self.has_outer = choose([False, False, True])  # another launch is above this one
        self.is_regular = choose([True, False])  # the host writes its calls as Codex does
        self.long_calls = choose([0.0, 0.0, 0.0, 0.2, 0.6])  # how many calls are long
        self._choose_absence(random)

    def _choose_absence(self, random: Random) -> None:
        choose = random.choice
        self.remembers = choose([False, True, True])  # there is a place for handshakes
        # What is known of the server's tools at the beginning: nothing, or if it is still true.
        self.memory = choose(["", "same", "other"]) if self.remembers else ""
        if self.dies_of_discover and "discover" in self.era:
            self.memory = ""
        self.is_deferred = self.remembers and choose([False, True])
        self.answers_from_memory = self.remembers and choose([False, True])
        self.ignores_changes = self.remembers and choose([False, True])
        self.is_due = choose([False, True])  # the memory is old
        self.starts_when_called = self.is_deferred and choose([False, True])
        self.rests_after = choose([0.0, 0.0, 0.3, 30.0])
        self.rest_anyway = choose([False, True])
        self.signs = choose([0.0, 0.0, 0.5])  # how often a server shows state of its own
        self.has_pages = choose([False, False, True])  # its list of tools
        self.is_slow = choose([False, False, True])  # to answer the greeting
        self.failing_starts = choose([0.0, 0.0, 0.3])  # of servers that are started for a call
        # The host starts servers in its own directory.
        self.is_host_directory = self.moves_unannounced and choose([False, True])
        self.on_failure = choose(["error", "error", "tool", "call"])

    @property
    def may_be_absent(self) -> bool:
        return bool(self.remembers or self.is_deferred or self.rests_after or self.restarts)

    def __repr__(self) -> str:
        return repr(vars(self))


class InRequest(Callers):
    """The caller is named in each request."""

    origins = ("the call's session", "the call's thread", "")
    identifying = ("threadId",)

    def __init__(self, style: str) -> None:
        self._style = style

    def read(self, meta: dict[str, Any]) -> Caller | None:
        name = meta.get("threadId")
        if name is None:
            return None
        return (f"s-{name}", name, None) if self._style == "codex" else (name, None, None)


class InRecord(Callers):
    """The caller is named in a record that the host keeps."""

    origins = ("the host's record", "", "")
    is_in_request = False

    def __init__(self, read_record: Callable[[], str]) -> None:
        self._read_record = read_record

    def read(self, meta: dict[str, Any]) -> Caller | None:
        del meta
        return (self._read_record(), None, None)

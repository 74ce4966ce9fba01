"""Read the logs of launches: `state.launch_log` describes their format."""

from __future__ import annotations

import json
import os
import re
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.state import launch_log
from mcp_launch.values import DECISION, END, FAILURE, REFUSAL, REST, RESTART, START

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# The kinds of lines, by the letters in the files.
KINDS = {
    "e": "stderr",
    "n": "stdout",
    FAILURE: "failure",
    START: "start",
    END: "end",
    RESTART: "restart",
    REST: "rest",
    REFUSAL: "refusal",
    DECISION: "decision",
}

_FACTS = "i"

# The ids in a line: "for codex, thread 01a1…".
_IDS = re.compile(r"\b(?:session|thread|launch) ([^\s,;()]+)")

# Later than any line, in seconds since 1970: what a damaged file may have is not a time.
_LATEST = 1e11


class Line(NamedTuple):
    """One line of a log."""

    moment: float
    kind: str  # one of the values of KINDS
    text: str


class LogReader:
    """Reads one launch's log, and later the lines added to it."""

    def __init__(
        self,
        path: str,
        entries: Mapping[str, list[str]],
        *,
        is_shown: Callable[[Line], bool],
        count: int | None = None,
    ) -> None:
        self.launch = os.path.basename(path).partition(".")[0]
        self.facts: dict[str, object] = {}
        self._path = path
        self._entries = entries  # the names in the hosts' files, by the mark of their command
        self._is_shown = is_shown
        self._mark = b""  # the first line of the file that was read last, which identifies it
        self._offset = 0
        self._ids: set[str] = set()  # of its sessions and threads, and its own
        self._lines: deque[Line] = deque(maxlen=count)  # limited to `count` on the first read

    def read(self) -> None:
        """Read the new lines; after a rotation, first the rest of the previous file."""
        try:
            with open(self._path, "rb") as file:
                mark = file.readline()
                if mark != self._mark:
                    self._read_before(mark)
                    self._mark, self._offset = mark, 0
                file.seek(self._offset)
                self._take(file.read())
        except OSError:
            return  # removed just now: it was old

    def _read_before(self, mark: bytes) -> None:
        try:
            with open(self._path + launch_log.BEFORE, "rb") as file:
                before = file.readline()
                if before == mark:
                    return  # it is being rotated right now
                file.seek(self._offset if before == self._mark else 0)
                self._take(file.read())
        except OSError:
            pass  # there is none

    def _take(self, data: bytes) -> None:
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for raw in whole.decode(errors="replace").split("\n") if newline else []:
            moment, _, rest = raw.partition(" ")
            letter, _, text = rest.partition(" ")
            try:
                line = Line(float(moment), KINDS.get(letter, "decision"), text.rstrip("\r"))
            except ValueError:
                continue  # not ours
            if not 0 <= line.moment < _LATEST:
                continue  # damaged
            if letter == _FACTS:
                self._take_facts(line)
                continue
            if letter not in {"e", "n"}:
                self._ids.update(_IDS.findall(line.text))
            if self._is_shown(line):
                self._lines.append(line)

    def _take_facts(self, line: Line) -> None:
        try:
            facts = json.loads(line.text)
        except ValueError:
            return
        if isinstance(facts, dict) and not self.facts:
            self.facts = facts
            named = (facts.get(name) for name in ("launch", "session", "thread"))
            self._ids.update(one for one in named if isinstance(one, str))

    @property
    def names(self) -> list[str]:
        """The server's names, first the one to show: given to the launch, or in a host's file."""
        given = str(self.facts.get("server") or "(unknown)")
        names = self._entries.get(str(self.facts.get("mark")), [])
        programs = self._entries.get(f"programs of {self.facts.get('mark')}", [])
        if given in names or not names:
            return [given]
        # A launch without a name has its program's.
        return [*names, given] if given in programs else [given, *names]

    def is_of(self, server: str, session: str) -> bool:
        """Return whether it is of a server and a session or the beginning of its id, if given."""
        is_of_session = not session or any(one.startswith(session) for one in self._ids)
        return is_of_session and server in {"", *self.names}

    def take_lines(self) -> list[Line]:
        """Return the lines to show that were not returned before."""
        lines, self._lines = list(self._lines), deque()
        return lines

"""Notes that a server and its test leave for each other: who was started, and what to do.

They are files whose names begin with a path that is not a file itself. Servers get this path as
an argument, and what is remembered of a server depends on the files among its arguments.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple


class Start(NamedTuple):
    """One start of a server, as the server saw it."""

    pid: int
    env: dict[str, str]


class Notes:
    """The notes of one server."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._starts, self._tools, self._fault, self._hold = (
            Path(f"{path}.{name}") for name in ("starts", "tools", "fault", "hold")
        )

    # The test's side.

    def read_starts(self) -> list[Start]:
        """Return every start so far."""
        if not self._starts.exists():
            return []
        lines = self._starts.read_text(encoding="utf-8").splitlines()
        return [Start(**json.loads(line)) for line in lines]

    def offer(self, *tools: str) -> None:
        """Make servers that are started from now on offer these tools."""
        self._tools.write_text(" ".join(tools), encoding="utf-8")

    def fail(self, words: str) -> None:
        """Make servers that are started from now on exit with these words on stderr."""
        self._fault.write_text(words, encoding="utf-8")

    def recover(self) -> None:
        """Let servers start again."""
        self._fault.unlink()

    def hold(self) -> None:
        """Make servers that are started from now on say nothing until they are released."""
        self._hold.touch()

    def release(self) -> None:
        """Let servers speak."""
        self._hold.unlink()

    # The server's side.

    def record_start(self) -> None:
        """Add this process to the starts."""
        told: dict[str, Any] = {"pid": os.getpid(), "env": dict(os.environ)}
        # In one write, because servers start at the same time.
        with self._starts.open("ab", buffering=0) as file:
            file.write(json.dumps(told).encode() + b"\n")

    def read_fault(self) -> str:
        """Return the words with which to exit; empty: do not."""
        return self._fault.read_text(encoding="utf-8") if self._fault.exists() else ""

    def read_tools(self) -> list[str]:
        """Return the names of the tools to offer; none: the usual ones."""
        return self._tools.read_text(encoding="utf-8").split() if self._tools.exists() else []

    def wait_until_released(self) -> None:
        """Say nothing as long as the test holds servers; they end when they are killed."""
        while self._hold.exists():
            time.sleep(0.01)

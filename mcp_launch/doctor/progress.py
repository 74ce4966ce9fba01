"""Progress of the live checks: a line for each server that is done, and one about the others."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# How many of the servers that are being started the status line names.
_NAMED = 2


class Progress:
    """Counts the servers that are done. Servers are started by several threads."""

    def __init__(
        self, show: Callable[[str], None], update: Callable[[str], None] = lambda _: None
    ) -> None:
        self._show = show  # gets a line when a server is done
        self._update = update  # gets what is being done now
        self._total = 0
        self._done = 0
        self._running: list[str] = []
        self._lock = threading.Lock()

    def expect(self, count: int) -> None:
        """Note how many servers will be started."""
        self._total = count

    def begin(self, label: str) -> None:
        """Note that a server is being started."""
        with self._lock:
            self._running.append(label)
            self._update_status()

    def finish(self, label: str, result: str) -> None:
        """Show the result of a server."""
        with self._lock:
            self._done += 1
            self._leave(label)
            self._show(f"{self._done} of {self._total}  {label}  {result}")

    def finish_again(self, label: str, result: str) -> None:
        """Show the result of a server that was started once more."""
        with self._lock:
            self._leave(label)
            self._show(f"again  {label}  {result}")

    def skip(self, label: str, why: str) -> None:
        """Show that a server is not started."""
        self._show(f"not started  {label}  {why}")

    def _leave(self, label: str) -> None:
        if label in self._running:
            self._running.remove(label)
        self._update_status()

    def _update_status(self) -> None:
        done = f"{self._done} of {self._total} done"
        names = ", ".join(self._running[:_NAMED])
        more = len(self._running) - _NAMED
        others = f" and {more} more" if more > 0 else ""
        self._update(f"{done}, starting {names}{others}" if names else done)

"""The moments at which the core has to do something."""

from __future__ import annotations

_NEVER = float("inf")


class Timers:
    """One moment for each kind of timer and its subject."""

    __slots__ = ("_moments", "next")

    def __init__(self) -> None:
        self._moments: dict[tuple[str, str], float] = {}
        self.next = _NEVER  # nothing is due before

    def set(self, kind: str, name: str, moment: float) -> None:
        """Set a timer; it replaces the one of the same kind and subject."""
        self._moments[kind, name] = moment
        self.next = min(self._moments.values())

    def set_earlier(self, kind: str, name: str, moment: float) -> None:
        """Set a timer, unless one of the same kind and subject comes sooner."""
        if moment < self._moments.get((kind, name), _NEVER):
            self.set(kind, name, moment)

    def cancel(self, kind: str, name: str) -> None:
        """Cancel a timer, if it is set."""
        if self._moments.pop((kind, name), None) is not None:
            self.next = min(self._moments.values(), default=_NEVER)

    def has(self, kind: str, name: str) -> bool:
        """Return whether a timer is set."""
        return (kind, name) in self._moments

    def take_due(self, now: float) -> list[tuple[str, str]]:
        """Return what is due, the earliest first, and forget it."""
        due = [key for key, moment in self._moments.items() if moment <= now]
        due.sort(key=self._moments.__getitem__)
        for key in due:
            del self._moments[key]
        self.next = min(self._moments.values(), default=_NEVER)
        return due

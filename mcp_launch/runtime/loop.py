"""The event loop: waits for descriptors and timers, and calls their handlers.

One loop, no threads. Every message passes through it twice, so it remembers when the first timer
is due, and looks at the others only then.
"""

from __future__ import annotations

import os
import select
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp_launch.system.kernel import HostWatch

_now = time.monotonic

# The size of one read: what a pipe holds by default. A larger buffer would be allocated
# and freed for every short message.
CHUNK = 1 << 16


# The longest wait for an event, in seconds: the system takes no timeout of a month.
_LONGEST_WAIT = 86_400.0

_NEVER = float("inf")


class Loop:
    """Calls handlers until `stop`."""

    def __init__(self, *, is_frugal: bool = False, watches_files: bool = True) -> None:
        """Open a poll object; a frugal loop opens no descriptor for it."""
        self._poll, self._second = _open_poll(is_frugal=is_frugal, watches_files=watches_files)
        self._handlers: dict[int, Callable[[], None]] = {}
        self._timers: dict[str, tuple[float, Callable[[], None]]] = {}
        self._first = _NEVER  # no timer is due before
        self._new: set[int] = set()  # descriptors that are watched since the last poll
        self._is_stopped = False

    def watch(self, fd: int, handler: Callable[[], None], events: int = select.POLLIN) -> None:
        """Call the handler when something happens at `fd`."""
        act = self._poll.modify
        if fd not in self._handlers:
            act = self._poll.register
            self._new.add(fd)
        self._handlers[fd] = handler
        try:
            act(fd, events)
        except (PermissionError, FileNotFoundError):
            pass  # a file: it is always ready, and never closes

    def unwatch(self, fd: int) -> None:
        """Stop watching `fd`."""
        if self._handlers.pop(fd, None) is not None:
            try:
                self._poll.unregister(fd)
            except (PermissionError, FileNotFoundError):
                pass  # a file, see above

    def close(self, fd: int) -> int:
        """Close `fd`, if it is open; return what stands for a closed one."""
        if fd >= 0:
            self.unwatch(fd)
        if fd > 2:  # noqa: PLR2004  # the number of a standard descriptor stays taken
            os.close(fd)
        return -1

    def is_watched(self, fd: int) -> bool:
        """Return whether `fd` is watched."""
        return fd in self._handlers

    def watch_hosts(self, hosts: HostWatch, on_lost: Callable[[], None]) -> None:
        """Call `on_lost` once, when one of the host's processes has ended."""

        def lose() -> None:
            self.cancel_timer("hosts")
            for fd in hosts.descriptors:
                self.unwatch(fd)
            on_lost()

        def look() -> None:
            if hosts.look():
                lose()
            else:
                self.set_timer("hosts", hosts.interval, look)

        for fd in hosts.descriptors:
            self.watch(fd, lose)
        if hosts.is_lost:
            lose()
        elif hosts.needs_polling:
            look()

    def set_timer(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        """Run an action after some seconds; it replaces a timer of the same name."""
        moment = time.monotonic() + seconds
        self._timers[name] = (moment, action)
        self._first = min(self._first, moment)

    def cancel_timer(self, name: str) -> None:
        """Cancel a timer, if it is set."""
        self._timers.pop(name, None)

    def has_timer(self, name: str) -> bool:
        """Return whether a timer is set."""
        return name in self._timers

    def stop(self) -> None:
        """Leave `run`."""
        self._is_stopped = True

    def run(self) -> None:
        """Handle events until `stop`, which may have been called already."""
        handlers, poll, new = self._handlers, self._poll.poll, self._new
        while not self._is_stopped:
            wait = _LONGEST_WAIT
            if self._first != _NEVER:
                wait = min(self._first - _now(), wait)
                if wait <= 0:
                    self._run_due_timers()
                    if self._is_stopped:
                        break
                    wait = 0.0
            for fd, _ in poll(wait * self._second):
                handler = handlers.get(fd)
                # An earlier handler may have unwatched it, and the number may already belong to
                # another file, with nothing to read.
                if handler is not None and fd not in new:
                    handler()
            new.clear()
        self._is_stopped = False

    def _run_due_timers(self) -> None:
        now = _now()
        for name, (moment, action) in sorted(self._timers.items(), key=lambda one: one[1][0]):
            # An earlier action may have cancelled this timer, or set it again.
            if now >= moment and self._timers.get(name) == (moment, action):
                del self._timers[name]
                action()
        self._first = min((moment for moment, _ in self._timers.values()), default=_NEVER)


def _open_poll(*, is_frugal: bool, watches_files: bool) -> tuple[Any, int]:
    """Return a poll object, and one second in the unit of its timeout.

    epoll costs the same for any number of descriptors; poll checks each of them for every
    message. But epoll rejects regular files, and stdin may be one.
    """
    mode = 0 if is_frugal else os.fstat(0).st_mode
    is_fit = not watches_files or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    if hasattr(select, "epoll") and is_fit:
        return select.epoll(), 1
    return select.poll(), 1000


def read(fd: int) -> bytes:
    """Return the available data, or nothing at the end."""
    try:
        return os.read(fd, CHUNK)
    except OSError:
        return b""  # a reset socket or a closed terminal is the end, too


def has_input(fd: int, milliseconds: int = 0) -> bool:
    """Return whether there is data to read, or the end."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(milliseconds))

"""Where the steps of one launch are written, and who is meant by which descriptor."""

from __future__ import annotations

import os
import time
from typing import Any

import playbooks

# A recording of more is of no use as a test, and is given up.
SIZE_LIMIT = 1 << 19

# The last line of a recording that was given up.
GIVEN_UP = "given up: too long\n"

_STANDARD = {0: "host", 1: "host", 2: "stderr"}


class Recorder:
    """Writes steps to a file, in the launcher's own process only.

    The file is opened for every step: a launcher may be killed at any moment, may run out of
    descriptors, and must not hand one of ours to its server.
    """

    def __init__(self, name: str, test: str) -> None:
        self.test = test
        self.pid = os.getpid()
        self.servers = 0
        self.ended: set[str] = set()  # nothing more is read from them
        self._path = f"{name}.{time.time_ns()}-{self.pid}.raw"
        self._begin = time.monotonic()
        self._is_open = False
        self._size = 0
        self._parties: dict[tuple[str, int], str] = {}  # by kind and descriptor, or guardian

    @property
    def is_open(self) -> bool:
        """Whether steps are written."""
        return self._is_open and os.getpid() == self.pid

    def begin(self, head: dict[str, Any]) -> None:
        """Write the head."""
        self._is_open = True
        self._write(playbooks.format_head(head))

    def end(self) -> None:
        """Write no more."""
        self._is_open = False

    def add(self, direction: str, party: str, verb: str, value: Any = None) -> None:
        """Write a step."""
        if not self.is_open:
            return
        moment = round((time.monotonic() - self._begin) * 1000)
        step = playbooks.Step(moment, direction == ">>", party, verb, value)
        self._write(playbooks.format_step(step))

    def name_server(self, number: int, **keys: int) -> None:
        """Remember which descriptors are this server's."""
        for kind, key in keys.items():
            self._parties[kind, key] = f"server-{number}"

    def find(self, kind: str, key: int) -> str:
        """Return who is at the other end of a descriptor; nobody: an empty text."""
        return self._parties.get((kind, key), "")

    def find_sink(self, fd: int) -> str:
        """Return who reads what is written to a descriptor."""
        return _STANDARD.get(fd) or self.find("sink", fd)

    def find_source(self, fd: int) -> str:
        """Return who writes what is read from a descriptor."""
        return _STANDARD.get(fd) or self.find("source", fd)

    def _write(self, text: str) -> None:
        self._size += len(text)
        if self._size > SIZE_LIMIT:
            self._is_open = False
            text = GIVEN_UP
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(fd, text.encode("ascii"))
        os.close(fd)

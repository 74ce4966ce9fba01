"""What a host records of its sessions and processes, for commands that show them.

None of it is on the launch path. The files are the hosts' own and may be large, damaged, or
written at this moment: a bounded part is read, and whatever cannot be read is left out.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# How many bytes of a file are read: enough for a first prompt behind long instructions, and for
# a title that its host repeats near the end.
_HEAD = 256 << 10
_TAIL = 64 << 10


class SeenHost(NamedTuple):
    """One process of a host, as the process table shows it."""

    pid: int
    argv: list[str]
    environ: Mapping[str, str]
    open_files: list[str]


class SessionRecords:
    """What a host says of its sessions; the answers of one that records nothing."""

    def read_title(self, host: SeenHost, session: str, thread: str) -> str:  # noqa: ARG002  # for others to use
        """Return what the user calls a session: its title, or the first prompt; "" if unknown."""
        return ""

    def name_role(self, argv: list[str]) -> str:  # noqa: ARG002
        """Return what a process of the host is, if it is not its program in a terminal."""
        return ""


def read_first(path: str) -> Iterator[dict[str, Any]]:
    """Return the first records of a file that has one in each line."""
    lines = _read(path, 0, _HEAD).split(b"\n")
    yield from _parse(lines[:-1])  # the last one is empty, or cut


def read_last(path: str) -> Iterator[dict[str, Any]]:
    """Return the last records of a file that has one in each line, the newest first."""
    try:
        size = os.path.getsize(path)
    except OSError:
        return
    start = max(0, size - _TAIL)
    lines = _read(path, start, _TAIL).split(b"\n")
    yield from _parse(reversed(lines[1:] if start else lines))


def read_object(path: str) -> dict[str, Any]:
    """Return the one object of a small file; empty if it cannot be read."""
    return next(_parse([_read(path, 0, _TAIL)]), {})


def pick_texts(content: object) -> str:
    """Return the text of a message: itself, or the texts among its parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _read(path: str, start: int, size: int) -> bytes:
    try:
        # A pipe in its place would block us.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            file.seek(start)
            return file.read(size)
    except (OSError, ValueError):
        return b""  # missing, not readable, or not a file


def _parse(lines: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401  # any order of lines
    for line in lines:
        try:
            record = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            continue  # cut, damaged, or half written
        if isinstance(record, dict):
            yield record

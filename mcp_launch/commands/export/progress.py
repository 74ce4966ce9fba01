"""Remember how far an export got: one small file per destination, and a lock beside it.

Position and totals are one value in one file, replaced by rename after the collector has accepted
a batch. So the totals are always those of exactly the calls before the position, whatever moment
the process is killed at, and no call is ever counted twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch import state
from mcp_launch.commands.export.call_parts import Reach
from mcp_launch.commands.export.totals import Totals
from mcp_launch.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1


class ExportProgress(NamedTuple):
    """How far the export to one destination got."""

    instance: str  # distinguishes this exporter from those of other users and machines
    begun: float  # since when calls are counted, in seconds since 1970
    since: float  # calls before this are left out
    parts: dict[str, Reach]
    totals: Totals


class ProgressFile:
    """The file with the progress to one destination."""

    def __init__(self, directory: str, destination: str) -> None:
        self._directory = f"{directory}/exports"
        # The address may be long, or not a file name.
        key = hashlib.sha256(destination.encode()).hexdigest()[:16]
        self._destination = destination
        self.path = f"{self._directory}/{key}.json"
        self._lock = f"{self._directory}/{key}.lock"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only exporter to this destination.

        Raises:
            LaunchError: Another process is, or the lock cannot be made.

        """
        try:
            state.make_private(self._directory)
            fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise _describe_failure(self._lock, error) from None
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.pread(fd, 20, 0).decode(errors="replace").strip()
                raise LaunchError(
                    f"process {holder or 'unknown'} already exports to {self._destination}",
                    fix=f"end it first: kill {holder or 'PID'}, or systemctl --user stop "
                    "mcp-launch-export if it is the service",
                ) from None
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(fd)  # which unlocks it; the file stays, or two could lock two of its name

    def read(self) -> ExportProgress | None:
        """Return the progress; None if there is none, or the file is damaged."""
        content = state.read(self.path)
        try:
            data: dict[str, Any] = json.loads(content or b"")
            return ExportProgress(
                str(uuid.UUID(data["instance"])),
                float(data["begun"]),
                float(data["since"]),
                {
                    str(name): Reach(int(at), int(seen))
                    for name, (at, seen) in data["parts"].items()
                },
                Totals.load(data["totals"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return None

    def write(self, progress: ExportProgress) -> None:
        """Replace the file.

        Raises:
            LaunchError: It cannot be written.

        """
        data = progress._asdict() | {
            "version": VERSION,
            "destination": self._destination,
            "totals": progress.totals.dump(),
        }
        try:
            state.write_whole(self.path, json.dumps(data).encode(), is_lasting=True)
        except OSError as error:
            raise _describe_failure(self.path, error) from None


def begin(since: float) -> ExportProgress:
    """Return the progress of an export that has not sent anything yet."""
    return ExportProgress(str(uuid.uuid4()), time.time(), since, {}, Totals())


def _describe_failure(path: str, error: OSError) -> LaunchError:
    return LaunchError(
        f"{path} cannot be written: {error.strerror}",
        fix="without it, calls would be exported again and again; "
        f"check its directory and the space: ls -ld {os.path.dirname(path)}; df {path}",
    )

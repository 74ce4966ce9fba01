"""Read the records of calls, one JSON object a line, in files that launches append to.

A file is called a part. Several parts may be appended to at the same time, and the oldest may go
while we read. A part has at most a few megabytes, so it is read whole: the one that was written to
last first, and no more of them than can matter.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import sys
from fnmatch import translate
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch import state
from mcp_launch.state.calls import LATEST, NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_NAME = re.compile(NAME)

# The outcomes of calls that did not fail.
_NO_FAILURES = {"ok", "cancelled"}

# How much later than its file's time a call may have ended, by the clocks of both, in seconds.
_DISORDER = 5.0

# Longer than any call takes or is, in milliseconds or bytes.
_LONGEST = 1e12


class RecordedCall(NamedTuple):
    """One recorded call; what is unknown is empty, or None."""

    time: float  # when it reached the launcher, since 1970
    ms: float | None  # how long its host waited for the answer
    outcome: str
    reason: str  # why the launcher answered it
    host: str
    session: str
    thread: str
    project: str
    cwd: str
    server: str
    launch: str
    number: int | None  # of the record in its launch
    pid: int | None  # of the server that got it
    tool: str
    id: str | int | float | None  # of the request
    request: int | None  # its size in bytes
    response: int | None
    has_waited: bool  # for a server to start
    held: float | None  # how long it was held back while the server worked on others
    changed: tuple[str, ...]  # the arguments that a policy set, changed or removed
    protocol: str
    trace: str  # the `traceparent` of its `_meta`
    arguments: object  # None: not recorded

    @property
    def ended(self) -> float:
        """When its host got the answer, since 1970."""
        return self.time + (self.ms or 0.0) / 1000

    @property
    def has_failed(self) -> bool:
        """Whether its host got anything but a good answer that it wanted."""
        return self.outcome not in _NO_FAILURES

    @property
    def caller(self) -> str:
        """The id of its thread, or else of its session; empty if both are unknown."""
        return self.thread or self.session


class Part(NamedTuple):
    """One file, as it was when it was found."""

    path: str
    size: int
    changed: float  # when it was last written to, since 1970


def list_parts(directory: str) -> list[Part]:
    """Return all parts that only this user can have written, oldest first."""
    parts: list[Part] = []
    if not hasattr(os, "geteuid") or not state.is_own_directory(directory):
        return parts  # Windows, where nothing is launched; or no call was recorded yet
    try:
        names = sorted(filter(_NAME.fullmatch, os.listdir(directory)))
    except OSError:
        return parts
    for name in names:
        path = f"{directory}/{name}"
        try:
            status = os.lstat(path)
        except OSError:
            continue  # removed just now: it was old
        if S_ISREG(status.st_mode) and state.is_own(status):
            parts.append(Part(path, status.st_size, status.st_mtime))
    return parts


def read_last(
    parts: Iterable[Part],
    count: int | None,
    *,
    since: float = 0.0,
    is_wanted: Callable[[RecordedCall], bool] | None = None,
) -> list[RecordedCall]:
    """Return the calls that ended last, of those that came since a time, in the order they came.

    At most `count` of them; None: all.
    """
    found: list[RecordedCall] = []
    floor = since  # a call that ended before is not needed
    for part in _sort_last_first(parts):
        if part.changed + _DISORDER < floor:
            break
        found += filter(is_wanted, _read_since(part, since))
        if count is not None and len(found) >= count:
            found = heapq.nlargest(count, found, key=_get_end)
            floor = max(floor, found[-1].ended)
    return sorted(found, key=_get_time)


def read_each(parts: Iterable[Part], *, since: float = 0.0) -> Iterator[RecordedCall]:
    """Yield the calls that came since a time, roughly the last ones first."""
    for part in _sort_last_first(parts):
        if part.changed + _DISORDER >= since:
            yield from reversed(_read_since(part, since))


def _sort_last_first(parts: Iterable[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: part.changed, reverse=True)


def _read_since(part: Part, since: float) -> list[RecordedCall]:
    calls, _ = read_on(part, 0)
    return [call for call in calls if call.time >= since]


def _get_end(call: RecordedCall) -> float:
    return call.ended


def _get_time(call: RecordedCall) -> float:
    return call.time


class Follower:
    """Reads what is appended to any part from now on."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.parts = [
            part._replace(size=_find_line_end(part)) for part in list_parts(directory)
        ]  # as they are now, without lines that have no end yet
        self._offsets = {part.path: part.size for part in self.parts}

    def read(self) -> list[RecordedCall]:
        """Return the new calls, in the order of their ends."""
        calls: list[RecordedCall] = []
        offsets: dict[str, int] = {}
        for part in list_parts(self._directory):
            new, offsets[part.path] = read_on(part, self._offsets.get(part.path, 0))
            calls += new
        self._offsets = offsets  # without the parts that were removed
        return sorted(calls, key=_get_end)


def read_on(part: Part, offset: int, limit: int = sys.maxsize) -> tuple[list[RecordedCall], int]:
    """Return the calls in a part after an offset, and the offset after them.

    At most `limit` bytes of them, but at least one line, if there is a whole one.
    """
    size = min(limit, part.size - offset)
    data = _read_at(part.path, offset, size) if size > 0 else b""
    end = data.rfind(b"\n") + 1
    if not end and len(data) == limit:
        return read_on(part, offset, 2 * limit)
    return parse(data[:end]), offset + end


def _find_line_end(part: Part) -> int:
    """Return where the last line of a part ends that has an end."""
    return _read_at(part.path, 0, part.size).rfind(b"\n") + 1


def _read_at(path: str, offset: int, size: int) -> bytes:
    """Return a piece of a part; empty if it was removed, or is not only this user's."""
    try:
        # Do not follow a link elsewhere, and do not wait for the writer of a named pipe.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        status = os.fstat(fd)
        if not S_ISREG(status.st_mode) or not state.is_own(status):
            return b""
        return os.pread(fd, size, offset)
    except OSError:
        return b""
    finally:
        os.close(fd)


def parse(data: bytes) -> list[RecordedCall]:
    """Return the calls of whole lines; a line that is damaged is left out."""
    lines = [line for line in data.decode(errors="replace").split("\n") if line]
    records = _load(f"[{','.join(lines)}]")
    # Twice as fast as one by one. A damaged line spoils it, or could join its neighbours.
    if not isinstance(records, list) or len(records) != len(lines):
        records = [_load(line) for line in lines]
    calls = (_make_call(one) for one in records if isinstance(one, dict))
    return [call for call in calls if call is not None]


def _load(text: str) -> Any:  # noqa: ANN401  # any JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _make_call(record: dict[str, Any]) -> RecordedCall | None:
    """Return the call of a record; None if it lacks a time."""
    get = record.get
    time = _read_number(get("time"), LATEST)
    if time is None:
        return None
    changed = get("changed")
    number = get("id")
    return RecordedCall(
        time,
        _read_number(get("ms"), _LONGEST),
        _read_text(get("outcome")),
        _read_text(get("reason")),
        _read_text(get("host")),
        _read_text(get("session")),
        _read_text(get("thread")),
        _read_text(get("project")),
        _read_text(get("cwd")),
        _read_text(get("server")),
        _read_text(get("launch")),
        _read_count(get("number")),
        _read_count(get("pid")),
        _read_text(get("tool")),
        number if type(number) in {str, int, float} else None,
        _read_count(get("request")),
        _read_count(get("response")),
        get("waited") is True,
        _read_number(get("held"), _LONGEST),
        tuple(map(str, changed)) if isinstance(changed, list) else (),
        _read_text(get("protocol")),
        _read_text(get("trace")),
        get("arguments"),
    )


def _read_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _read_number(value: object, limit: float) -> float | None:
    # Also False for NaN; True and False are not numbers here.
    is_number = type(value) in {int, float} and 0 <= value < limit  # type: ignore[operator]
    return float(value) if is_number else None  # type: ignore[arg-type]


def _read_count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < _LONGEST else None


class CallFilter(NamedTuple):
    """What calls must match; what is empty matches all."""

    servers: tuple[str, ...] = ()  # names, in which * and ? stand for other characters
    tools: tuple[str, ...] = ()  # ditto
    hosts: tuple[str, ...] = ()
    session: str = ""  # the beginning of the id of a session or a thread
    only_failed: bool = False
    since: float = 0.0  # since 1970

    def make_test(self) -> Callable[[RecordedCall], bool] | None:
        """Return a function that says whether a call matches; None if all do.

        The time is not tested: readers do that themselves, to read less.
        """
        tests: list[Callable[[RecordedCall], bool]] = []
        if self.servers:
            is_server = _make_matcher(self.servers)
            tests.append(lambda call: is_server(call.server))
        if self.tools:
            is_tool = _make_matcher(self.tools)
            tests.append(lambda call: is_tool(call.tool))
        if self.hosts:
            tests.append(lambda call: call.host in self.hosts)
        if self.session:
            tests.append(
                lambda call: (
                    call.session.startswith(self.session) or call.thread.startswith(self.session)
                )
            )
        if self.only_failed:
            tests.append(lambda call: call.has_failed)
        return (lambda call: all(test(call) for test in tests)) if tests else None


def _make_matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    whole = re.compile("|".join(translate(pattern) for pattern in patterns))
    known: dict[str, bool] = {}  # names repeat

    def is_match(name: str) -> bool:
        if name not in known:
            known[name] = bool(whole.match(name))
        return known[name]

    return is_match

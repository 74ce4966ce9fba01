"""Read the records of calls, one JSON object a line, in files that launches append to.

A file is called a part. Several parts may be appended to at the same time, and the oldest may go
while we read. A line is written some ten milliseconds after its call has ended, so lines are
nearly in the order of these ends. That is enough to find the last calls without reading
everything: each part is read backwards, and none further than it can matter.
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

from mcp_launch import hosts, state, system
from mcp_launch.machine import process_titles
from mcp_launch.protocol import get_member
from mcp_launch.state import leases
from mcp_launch.state.calls import LATEST, NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mcp_launch.system import ProcessTable

_NAME = re.compile(NAME)

# The outcomes of calls that did not fail.
_NO_FAILURES = {"ok", "cancelled"}

# How much of a part is read at once: about 200 records.
_CHUNK = 1 << 16

# How far a line may be from its place in the order of ends, in seconds.
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
    search = _BackwardSearch(parts, since)
    found: list[RecordedCall] = []
    for calls in search.read():
        found += filter(is_wanted, calls) if is_wanted else calls
        if count is not None and len(found) >= count:
            found = heapq.nlargest(count, found, key=_get_end)
            search.floor = max(search.floor, found[-1].ended)
    return sorted(found, key=_get_time)


def read_each(parts: Iterable[Part], *, since: float = 0.0) -> Iterator[RecordedCall]:
    """Yield the calls that came since a time, roughly the last ones first."""
    for calls in _BackwardSearch(parts, since).read():
        yield from calls


def _get_end(call: RecordedCall) -> float:
    return call.ended


def _get_time(call: RecordedCall) -> float:
    return call.time


class _BackwardSearch:
    """Reads all parts backwards, first where the last calls may be."""

    def __init__(self, parts: Iterable[Part], since: float) -> None:
        self.floor = since  # a call that ended before is not needed; may be raised while it reads
        self._since = since
        self._readers = [_BackwardReader(part) for part in parts]

    def read(self) -> Iterator[list[RecordedCall]]:
        while self._readers:
            reader = max(self._readers, key=lambda one: one.latest)
            if reader.latest < self.floor:
                return
            calls = reader.read()
            if reader.is_over:
                self._readers.remove(reader)
            yield [call for call in calls if call.time >= self._since]


class _BackwardReader:
    """Reads one part from its end, a chunk at a time."""

    def __init__(self, part: Part) -> None:
        self.is_over = False
        # No call that was not read yet has ended later than this.
        self.latest = part.changed + _DISORDER
        self._path = part.path
        self._at = part.size
        self._tail: bytes | None = None  # the end of a line that begins before what was read

    def read(self) -> list[RecordedCall]:
        size = min(_CHUNK, self._at)
        chunk = _read_at(self._path, self._at - size, size)
        if len(chunk) < size:
            self.is_over = True  # it was removed: it was old
            return []
        self._at -= size
        if self._tail is None:
            # What has no end yet is being written, or the disk was full.
            chunk = chunk[: chunk.rfind(b"\n") + 1]
        data = chunk + (self._tail or b"")
        begin = data.find(b"\n") + 1 if self._at else 0
        self._tail = data[:begin] if begin or not self._at else data
        self.is_over = not self._at
        calls = parse(data[begin:]) if begin or not self._at else []
        if calls:
            # The lines before these were written earlier than the last of these. That is more
            # than is needed, but also right if a line has no duration.
            self.latest = max(call.ended for call in calls) + _DISORDER
        return calls


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
    at = part.size
    while at:
        size = min(_CHUNK, at)
        end = _read_at(part.path, at - size, size).rfind(b"\n") + 1
        at -= size
        if end:
            return at + end
    return 0


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


class RunningHosts:
    """Names the hosts of recorded calls as `ps` does.

    A record has the name of a known host, or `unknown`. While the launch runs, its lease says which
    process that is.
    """

    def __init__(self, environ: Mapping[str, str], table: ProcessTable | None = None) -> None:
        self._directory = state.find_leases(environ)
        self._table = table or system.open_table()
        self._known: dict[str, str] = {}  # by launch

    def name(self, call: RecordedCall) -> str:
        """Return the host's name, or its process's if it is not a known host."""
        if call.host != hosts.UNKNOWN.name or not call.launch.isalnum():
            return call.host
        if call.launch not in self._known:
            self._known[call.launch] = self._look_up(call.launch) or call.host
        return self._known[call.launch]

    def _look_up(self, launch: str) -> str:
        """Return the name of a launch's host process; empty if it is gone."""
        host = get_member(leases.read(f"{self._directory}/{launch}.json"), "processes", "host")
        pid = get_member(host, "pid")
        if not isinstance(pid, int) or leases.judge(self._table, host) != "same":
            return ""
        process = self._table.look(pid)
        return process_titles.name_process(self._table, process) if process else ""

"""Splits a host's input into lines, and a server's stdout into messages and noise.

Servers print banners, logs and warnings to stdout, which makes hosts drop the connection. A
line that is not a JSON object is noise and goes to stderr. A line passes unchanged or not at all,
with one exception: noise before a message on the same line (a prompt without a newline) is cut
off.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.protocol import json_edit, json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

    from mcp_launch.protocol.json_text import Json, Message

    Kind = Literal["answer", "request", ""]

    # Gets a message, and the spelt id that it answers, if that is already known.
    NoteMessage = Callable[..., bytes]

# A longer line is judged by its beginning, so that it is neither delayed nor held in memory;
# no server logs lines this long that begin like an object.
_WHOLE_LINE_LIMIT = 1 << 14

# No longer line is kept: without an end, it would fill the memory. Node, in which most hosts run,
# reads none of 512 MB, and a line needs its memory twice while it is put together.
LINE_LIMIT = 256 << 20
TOO_LONG = f"{LINE_LIMIT >> 20} MB"

# How much of each end of a longer line is kept: an answer has its id at one of them.
_EDGE = 512

# The states of a line: short ones are held, and so are long ones that are needed whole; other
# long lines pass or are diverted as they arrive; the rest of a line that was cut is dropped.
_HELD, _WHOLE, _PASSING, _DIVERTING, _DROPPING = range(5)

# Ends a line that was cut off, so that it cannot be parsed as JSON.
_CUT_OFF = b" [cut off]"

_SPACE = b" \t\r"

# The first byte of a line that may be a message; the last one begins a byte order mark.
_BEGINNINGS = {b"{", b"[", b"", b"\xef"}


class CutLine(bytes):
    """Both ends of a host's line that was too long to be kept."""


class HostLines:
    """Splits a host's input into lines, however it is split into chunks.

    A line is held until it is complete, because it has to be judged before it may pass. Text
    that cannot be a message passes as it arrives.
    """

    __slots__ = ("_held", "_is_cut", "_is_passing", "is_midway")

    def __init__(self) -> None:
        self.is_midway = False  # in an incomplete line
        # The beginning of a line. Not a list: joining it would need the memory twice.
        self._held = bytearray()
        self._is_passing = False  # the beginning of a line that is not a message has passed
        self._is_cut = False  # only the ends of the line are held: it is too long

    def feed(self, data: bytes) -> list[tuple[bool, bytes]]:
        """Return the parts that are ready, each with whether it is a line to be judged."""
        ready: list[tuple[bool, bytes]] = []
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            self._held += data[start:end]
            start = end
            ready += self.close()
        self.is_midway = start < len(data)
        if self.is_midway:
            ready += self._hold(data[start:])
        return ready

    def close(self) -> list[tuple[bool, bytes]]:
        """Return the held line: it is complete, or its end will not come."""
        if self._is_cut:
            del self._held[_EDGE:-_EDGE]
        line = CutLine(self._held) if self._is_cut else bytes(self._held)
        was_passing = self._is_passing
        self._held, self._is_cut, self._is_passing = bytearray(), False, False
        self.is_midway = False
        if was_passing and not protocol.may_hide_a_message(line):
            return [(False, line)]
        if not line:
            return []
        # What has already passed becomes a line of its own.
        return [(False, b"\n"), (True, line)] if was_passing else [(True, line)]

    def _hold(self, part: bytes) -> list[tuple[bool, bytes]]:
        if not self._held and not self._is_passing:
            self._is_passing = part.lstrip(_SPACE)[:1] not in _BEGINNINGS
        if self._is_passing and not self._held and b"{" not in part:
            return [(False, part)]
        self._held += part
        if len(self._held) > LINE_LIMIT or self._is_cut:
            self._is_cut = True
            del self._held[_EDGE:-_EDGE]
        return []


class StdoutGuard:
    """Sorts a server's stdout into messages and noise, however it is split into chunks.

    `note_message` gets each message and returns the bytes to pass on. `note_long_message`
    gets both ends of a line that was too long to hold, and its length, after the line has passed.
    """

    __slots__ = (
        "_divert",
        "_head",
        "_held",
        "_length",
        "_note_long_message",
        "_note_message",
        "_owner",
        "_state",
        "_tail",
        "has_cut",
        "holds_requests",
        "is_midway",
        "noise_count",
        "waits_for_whole_lines",
    )

    def __init__(
        self,
        owner: Any,  # noqa: ANN401  # passed through to the callbacks
        divert: Callable[[Any, bytes], None],
        note_message: NoteMessage,
        note_long_message: Callable[[Any, bytes, bytes, int], None],
    ) -> None:
        self._owner = owner  # the first argument of each callback
        self._divert = divert
        self.noise_count = 0
        # Hold what may be a request: its id may have to be changed, or nobody may get it.
        self.holds_requests = False
        self.waits_for_whole_lines = False  # hold long lines too: one may have to be withheld
        self.is_midway = False  # in an incomplete line
        self.has_cut = False  # a line has come that was too long to be held
        self._note_message = note_message
        self._note_long_message = note_long_message
        self._held: list[bytes] = []  # the beginning of an incomplete line
        self._length = 0  # its length
        self._head = self._tail = b""  # the ends of a line that is passing
        self._state = _HELD

    @property
    def is_within_a_line(self) -> bool:
        """Whether the host has the beginning of a line but not its end."""
        return self._state == _PASSING

    @property
    def line_length(self) -> int:
        """How much of an incomplete line has come so far."""
        return self._length

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that may go to the host now."""
        if not self.is_midway and data.find(b"\n") == len(data) - 1:
            # By far the most common: one complete answer in the usual form.
            key = protocol.read_answered(data)
            if key:
                return self._note_message(self._owner, data, key)
            if _is_meant_as_message(data):
                return self._note_message(self._owner, data)
        passed = []
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            passed.append(self._finish_line(data[start:end]))
            start = end
        if start < len(data):
            passed.append(self._hold(data[start:]))
        self.is_midway = start < len(data)
        return b"".join(passed)

    def cut(self) -> bytes:
        """Return the end for a line whose beginning the host has, if any, and drop its rest."""
        return self._drop_line() if self.is_within_a_line else b""

    def _drop_line(self) -> bytes:
        end = _CUT_OFF + b"\n" if self.is_within_a_line else b""
        self._held, self._length = [], 0
        self._state = _DROPPING
        return end

    def close(self) -> bytes:
        """Return the rest when the server has closed its stdout: a line without a newline."""
        held, self._held, self._length = b"".join(self._held), [], 0
        if self._state == _PASSING:
            # We treat this line as incomplete and answer the request ourselves. The host must
            # not read it as an answer, so a line that may be complete is made invalid.
            return _CUT_OFF if self._tail.rstrip(_SPACE).endswith(b"}") else b""
        return self._judge(held) if held else b""

    def end_line(self) -> bool:
        """Forget a line that will not be completed; return whether the host has its beginning."""
        was_within, self._state = self.is_within_a_line, _HELD
        self._length = 0
        self.is_midway = False
        return was_within

    def _finish_line(self, end: bytes) -> bytes:
        if self._state == _PASSING:
            self._state = _HELD
            length, self._length = self._length + len(end), 0
            self._note_long_message(self._owner, self._head, (self._tail + end)[-_EDGE:], length)
            return end
        if self._state in {_DIVERTING, _DROPPING}:
            if self._state == _DIVERTING:
                self._divert(self._owner, end)
            self._state = _HELD
            return b""
        line, self._held, self._length = b"".join((*self._held, end)), [], 0
        self._state = _HELD
        if len(line) <= _WHOLE_LINE_LIMIT:
            return self._judge(line)
        if _begins_like_a_message(line):
            return self._pass_message(line)
        self._divert_noise(line)
        return b""

    def _hold(self, part: bytes) -> bytes:
        if self._state == _PASSING:
            self._tail = (self._tail + part)[-_EDGE:]
            self._length += len(part)
            return part
        if self._state in {_DIVERTING, _DROPPING}:
            if self._state == _DIVERTING:
                self._divert(self._owner, part)
            return b""
        self._held.append(part)
        self._length += len(part)
        if self._length > LINE_LIMIT:
            self.has_cut = True
            return self._drop_line()
        if self._length > _WHOLE_LINE_LIMIT and self._state == _HELD:
            self._state = self._sort_long_line(b"".join(self._held))
            if self._state != _WHOLE:
                return self._release_held()
        return b""

    def _sort_long_line(self, held: bytes) -> int:
        if self.waits_for_whole_lines or self._is_needed_whole(held[:_EDGE]):
            return _WHOLE
        return _PASSING if _begins_like_a_message(held) else _DIVERTING

    def _release_held(self) -> bytes:
        """Pass or divert the held part of a line that is too long to hold."""
        held, self._held, self._length = b"".join(self._held), [], 0
        if self._state == _DIVERTING:
            self._divert_noise(held)
            return b""
        self._head, self._tail, self._length = held[:_EDGE], held[-_EDGE:], len(held)
        return held

    def _is_needed_whole(self, head: bytes) -> bool:
        """Return whether it is a request, which may have to be changed."""
        kind = read_kind(head) if _begins_like_a_message(head) else "answer"
        return kind == "request" or (kind == "" and self.holds_requests)

    def _judge(self, line: bytes) -> bytes:
        try:
            message = json_text.parse(line)
        except ValueError:
            return self._pass_message(line) if _is_meant_as_message(line) else self._salvage(line)
        except RecursionError:
            # Too deep for Python's parser, but JSON up to there.
            message = {} if _begins_like_a_message(line) else None
        if not isinstance(message, dict):
            self._divert_noise(line)
            return b""
        return self._pass_message(line)

    def _salvage(self, line: bytes) -> bytes:
        start = line.find(b'{"jsonrpc"')
        if start <= 0:
            self._divert_noise(line)
            return b""
        noise, rest = line[:start], line[start:]
        try:
            json_text.parse(rest)
        except (ValueError, RecursionError):
            self._divert_noise(line)
            return b""
        self._divert_noise(noise + b"\n")
        return self._judge(rest)

    def _pass_message(self, line: bytes) -> bytes:
        return self._note_message(self._owner, line, protocol.read_answered(line))

    def _divert_noise(self, line: bytes) -> None:
        self.noise_count += 1
        self._divert(self._owner, line)


def _is_meant_as_message(line: bytes) -> bool:
    """Return whether the host must see a line even if it is broken: it waits for an answer."""
    return line.startswith(b'{"') and line.endswith(b"}\n") and b'"jsonrpc"' in line


def _begins_like_a_message(line: bytes) -> bool:
    start = line[:64].lstrip(_SPACE)
    return start[:1] == b"{" and start[1:].lstrip(_SPACE)[:1] == b'"'


def read_kind(head: bytes) -> Kind:
    """Return the kind of a line, judged by its beginning; empty if that is not enough."""
    names = _read_beginning(head)
    if "method" in names:
        return "request"
    return "answer" if "result" in names or "error" in names else ""


def read_answered(head: bytes, tail: bytes) -> bytes:
    """Return the spelt id that a line answers; empty if its two ends do not show it."""
    members = _read_beginning(head)
    if "method" in members:
        return b""
    if members.get("id") is not None:
        return protocol.spell(members["id"])
    if b'"method"' in tail and "result" not in members and "error" not in members:
        return b""  # it may be a request
    last = _read_end(tail)
    return protocol.spell(last["id"]) if last and "method" not in last else b""


def read_cut_request(line: CutLine) -> Message:
    """Return what the two ends of a line show of a request: its id, and its method."""
    shown: Message = {**_read_end(line), **_read_beginning(line)}
    if "result" in shown or "error" in shown:
        return {}
    return {name: shown[name] for name in ("id", "method") if shown.get(name) is not None}


def _read_end(tail: bytes) -> Message:
    """Return the members from the last `"id"` on, if the text ends the message; else none."""
    text = tail.decode("utf-8", "surrogateescape")
    at = text.rfind('"id"')
    while at > 0:
        last = protocol.look(f"{{{text[at:]}".encode("utf-8", "surrogateescape"))
        if isinstance(last, dict) and text[:at].rstrip(json_text.WHITESPACE).endswith(","):
            return last
        at = text.rfind('"id"', 0, at)
    return {}


def _read_beginning(head: bytes) -> dict[str, Json]:
    """Return the members up to the first object or array, which gets the value None."""
    members: dict[str, Json] = {}
    text = head.decode("utf-8", "surrogateescape").lstrip(json_text.WHITESPACE)
    at = 1
    try:
        while True:
            start = json_edit.skip_space(text, at)
            name, at = json_text.read_string(text, start)
            at = json_edit.skip_space(text, json_edit.skip_space(text, at) + 1)  # over the colon
            members[name] = None
            if text[at] in "{[":
                return members
            end = json_edit.skip_space(text, json_text.find_end(text, at))
            if text[end] not in ",}":
                return members  # the value is cut off here
            members[name] = json_text.read_value(text, at)
            at = end + 1
    except (ValueError, IndexError, StopIteration, SystemError, RecursionError):
        return members  # the beginning ends here

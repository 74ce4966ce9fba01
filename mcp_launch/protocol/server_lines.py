"""Keep what is no message off the host's wire, and show each message to who follows them.

Servers print banners, logs and warnings to stdout, and hosts answer with a broken
connection. A line that is no JSON object or array is noise and goes to stderr. Byte for
byte: a line passes as it came or not at all, but for noise glued to the front of a
message (a prompt without a newline), which is cut off.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.protocol import json_edit, json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from mcp_launch.protocol.json_text import Json

    Kind = Literal["answer", "question", ""]

# A longer line is judged by its beginning: it must not wait for its end, nor be held
# in memory, and nobody logs that much in a line that begins like an object.
_WHOLE_LINE_LIMIT = 1 << 14

# What is kept of a longer line: an answer tells at its beginning or its end whose it is.
_EDGE = 512

# The beginning of a line is held while it is short, a line that is needed whole until its
# end; any other longer line passes or is diverted as it comes, and the rest of one that was
# cut is dropped.
_HELD, _WHOLE, _PASSING, _DIVERTING, _DROPPING = range(5)


# Ends a line that was cut off, so that nobody can read it as JSON.
_CUT_OFF = b" [cut off]"

_SPACE = b" \t\r"


class StdoutGuard:
    """Sorts a server's stdout into messages and noise, under any chunking.

    `heed` is shown each message and returns what of it is to pass; `heed_ends` is shown the
    two ends of a line that was too long to wait for, and has passed.
    """

    __slots__ = (
        "_head",
        "_heed",
        "_heed_ends",
        "_held",
        "_is_shown",
        "_length",
        "_state",
        "_tail",
        "divert",
        "is_midway",
        "is_off",
        "is_successors",
        "noise_count",
        "waits_for_whole_lines",
    )

    def __init__(
        self,
        divert: Callable[[bytes], None],
        heed: Callable[[bytes], bytes] = bytes,
        heed_ends: Callable[[bytes, bytes], None] | None = None,
        *,
        is_off: bool = False,
    ) -> None:
        self.divert = divert
        self.noise_count = 0
        self.is_off = is_off  # everything passes, at once
        self.is_successors = False  # its requests get ids of ours, so none may slip through
        self.waits_for_whole_lines = False  # however long: one may have to be kept back
        self.is_midway = False  # in a line whose end has not come
        self._heed = heed
        self._heed_ends = heed_ends
        self._held: list[bytes] = []  # the beginning of a line whose end has not come
        self._length = 0  # of that
        self._is_shown = False  # the host has that beginning already
        self._head = self._tail = b""  # of a line that is passing
        self._state = _HELD

    @property
    def is_within_a_line(self) -> bool:
        """Whether the host has the beginning of a line, but not its end."""
        return self._state == _PASSING or self._is_shown

    def feed(self, data: bytes) -> bytes:
        """Return what may go to the host now."""
        # By far the most common read: one message, whole. It says of itself that it is
        # one; should it be broken all the same, the host must see it: it waits for it.
        if (
            data.endswith(b"}\n")
            and data.startswith(b'{"')
            and b'"jsonrpc"' in data
            and data.find(b"\n") == len(data) - 1
            and not self.is_midway
        ):
            return self._heed(data)
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
        """End the line whose beginning the host has, if there is one, and drop the rest of it."""
        if not self.is_within_a_line:
            return b""
        self._held, self._length, self._is_shown = [], 0, False
        self._state = _DROPPING
        return _CUT_OFF + b"\n"

    def close(self) -> bytes:
        """Return what is left when the server has closed its stdout: a line without an end."""
        held, self._held, self._length = b"".join(self._held), [], 0
        if self._state == _PASSING:
            # The host must not take for an answer what we take for the half of one: what may
            # be whole is made unreadable, and the request is answered by us.
            return _CUT_OFF if self._tail.rstrip(_SPACE).endswith((b"}", b"]")) else b""
        if self._is_shown:
            if _begins_like_a_message(held) and _is_json(held):
                self._heed(held)  # it only lacks its line end, which it gets
            return b""
        if self.is_off:
            return self._heed(held) if _begins_like_a_message(held) and _is_json(held) else held
        return self._judge(held) if held else b""

    def end_line(self) -> bool:
        """Forget the beginning of a line that will have no end; tell whether there was one."""
        was_within, self._state, self._is_shown = self.is_within_a_line, _HELD, False
        self.is_midway = False
        return was_within

    def _finish_line(self, end: bytes) -> bytes:
        if self._state == _PASSING:
            self._state = _HELD
            if self._heed_ends is not None:
                self._heed_ends(self._head, (self._tail + end)[-_EDGE:])
            return end
        if self._state in {_DIVERTING, _DROPPING}:
            if self._state == _DIVERTING:
                self.divert(end)
            self._state = _HELD
            return b""
        line, self._held, self._length = b"".join((*self._held, end)), [], 0
        self._state = _HELD
        if self.is_off:
            passed = self._heed(line) if _begins_like_a_message(line) else line
            is_shown, self._is_shown = self._is_shown, False
            return end if is_shown else passed
        if len(line) <= _WHOLE_LINE_LIMIT:
            return self._judge(line)
        if _begins_like_a_message(line):
            return self._heed(line)
        self._count(line)
        return b""

    def _hold(self, part: bytes) -> bytes:
        if self._state == _PASSING:
            self._tail = (self._tail + part)[-_EDGE:]
            return part
        if self._state in {_DIVERTING, _DROPPING}:
            if self._state == _DIVERTING:
                self.divert(part)
            return b""
        self._held.append(part)
        self._length += len(part)
        if self.is_off and not self._is_held_back():
            if not self._is_shown:
                part = b"".join(self._held)  # all that was kept back so far
            self._is_shown = True
        if self._length > _WHOLE_LINE_LIMIT and self._state == _HELD:
            self._state = self._sort_long_line(b"".join(self._held))
            if self._state != _WHOLE:
                return self._let_go(part)
        return part if self._is_shown else b""

    def _is_held_back(self) -> bool:
        """Tell whether a line is to be seen whole, where nothing is judged otherwise."""
        if not self.waits_for_whole_lines and not self.is_successors:
            return False
        return b"".join(self._held).lstrip(_SPACE)[:1] in {b"", b"{", b"["}

    def _sort_long_line(self, held: bytes) -> int:
        if self.waits_for_whole_lines or self._is_needed_whole(held[:_EDGE]):
            return _WHOLE
        return _PASSING if self.is_off or _begins_like_a_message(held) else _DIVERTING

    def _let_go(self, part: bytes) -> bytes:
        """Pass or divert what was held of a line that is not waited for."""
        held, self._held, self._length = b"".join(self._held), [], 0
        is_shown, self._is_shown = self._is_shown, False
        if self._state == _DIVERTING:
            self._count(held)
            return b""
        self._head, self._tail = held[:_EDGE], held[-_EDGE:]
        return part if is_shown else held

    def _is_needed_whole(self, head: bytes) -> bool:
        """Tell whether it is a request of the server's, which may have to be changed."""
        kind = tell_kind(head) if _begins_like_a_message(head) else "answer"
        return kind == "question" or (kind == "" and self.is_successors)

    def _judge(self, line: bytes) -> bytes:
        try:
            message = json_text.parse(line)
        except ValueError:
            return self._salvage(line)
        except RecursionError:
            return self._heed(line)  # deeper than Python follows, but JSON as far as that
        if not isinstance(message, (dict, list)):
            self._count(line)
            return b""
        return self._heed(line)

    def _salvage(self, line: bytes) -> bytes:
        start = line.find(b'{"jsonrpc"')
        if start <= 0:
            self._count(line)
            return b""
        noise, rest = line[:start], line[start:]
        try:
            json_text.parse(rest)
        except (ValueError, RecursionError):
            self._count(line)
            return b""
        self._count(noise + b"\n")
        return self._judge(rest)

    def _count(self, line: bytes) -> None:
        self.noise_count += 1
        self.divert(line)


def _begins_like_a_message(line: bytes) -> bool:
    start = line[:64].lstrip(b" \t\r")
    opener, inside = start[:1], start[1:].lstrip(b" \t\r")[:1]
    return (opener == b"{" and inside == b'"') or (opener == b"[" and inside == b"{")


def _is_json(line: bytes) -> bool:
    try:
        json_text.parse(line)
    except ValueError:
        return False
    except RecursionError:
        return True  # JSON as far as Python follows
    return True


def tell_kind(head: bytes) -> Kind:
    """Tell what a line is, by its beginning; nothing if that does not tell."""
    names = _read_beginning(head)
    if "method" in names:
        return "question"
    return "answer" if "result" in names or "error" in names else ""


def read_answered(head: bytes, tail: bytes) -> bytes:
    """Return the spelt id that a line answers; nothing if its ends do not tell."""
    members = _read_beginning(head)
    if "method" in members:
        return b""
    if members.get("id") is not None:
        return protocol.spell(members["id"])
    if b'"method"' in tail and "result" not in members and "error" not in members:
        return b""  # it may be a question after all
    # Whatever follows the last members closes the message, so nothing else may follow them.
    text = tail.decode("utf-8", "surrogateescape")
    at = text.rfind('"id"')
    while at > 0:
        last = protocol.look(f"{{{text[at:]}".encode("utf-8", "surrogateescape"))
        if isinstance(last, dict) and text[:at].rstrip(json_text.WHITESPACE).endswith(","):
            return protocol.spell(last["id"]) if "method" not in last else b""
        at = text.rfind('"id"', 0, at)
    return b""


def _read_beginning(head: bytes) -> dict[str, Json]:
    """Return the members up to the first that is an object or an array, which is None."""
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
                return members  # it goes on behind this end
            members[name] = json_text.read_value(text, at)
            at = end + 1
    except (ValueError, IndexError, StopIteration, SystemError, RecursionError):
        return members  # this is how far the beginning goes

"""Keep what is no message off the host's wire.

Servers print banners, logs and warnings to stdout, and hosts answer with a broken
connection. A line that is no JSON object or array is noise and goes to stderr. Byte for
byte: a line passes as it came or not at all, but for noise glued to the front of a
message (a prompt without a newline), which is cut off.
"""

from __future__ import annotations

from mcp_launch import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.jsontext import Json

# A longer line is judged by its beginning: it must not wait for its end, nor be held
# in memory, and nobody logs that much in a line that begins like an object.
_WHOLE_LINE_LIMIT = 1 << 14

_HELD, _PASSING, _DIVERTING = range(3)


class StdoutGuard:
    """Sorts a server's stdout into messages and noise, under any chunking."""

    __slots__ = ("_hear", "_held", "_state", "divert", "noise_count")

    def __init__(
        self, divert: Callable[[bytes], None], hear: Callable[[Json], None] | None = None
    ) -> None:
        self.divert = divert
        self.noise_count = 0
        self._hear = hear
        self._held = b""  # the beginning of a line whose end has not come
        self._state = _HELD

    def feed(self, data: bytes) -> bytes:
        """Return what may go to the host now."""
        # By far the most common read: one message, whole. It says of itself that it is
        # one; should it be broken all the same, the host must see it: it waits for it.
        if (
            data.endswith(b"}\n")
            and data.startswith(b'{"')
            and b'"jsonrpc"' in data
            and self._hear is None
            and data.find(b"\n") == len(data) - 1
            and not self._held
            and self._state == _HELD
        ):
            return data
        passed = []
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            passed.append(self._finish_line(data[start:end]))
            start = end
        if start < len(data):
            passed.append(self._hold(data[start:]))
        return b"".join(passed)

    def close(self) -> bytes:
        """Return what is left when the server has closed its stdout: a line without an end."""
        held, self._held = self._held, b""
        return self._judge(held) if held else b""

    def stop_hearing(self) -> None:
        """Leave the messages unread from now on."""
        self._hear = None

    def _finish_line(self, end: bytes) -> bytes:
        if self._state == _PASSING:
            self._state = _HELD
            return end
        if self._state == _DIVERTING:
            self._state = _HELD
            self.divert(end)
            return b""
        line, self._held = self._held + end, b""
        if len(line) <= _WHOLE_LINE_LIMIT:
            return self._judge(line)
        if _begins_like_a_message(line):
            return line
        self._count(line)
        return b""

    def _hold(self, part: bytes) -> bytes:
        if self._state == _PASSING:
            return part
        if self._state == _DIVERTING:
            self.divert(part)
            return b""
        self._held += part
        if len(self._held) <= _WHOLE_LINE_LIMIT:
            return b""
        held, self._held = self._held, b""
        if _begins_like_a_message(held):
            self._state = _PASSING
            return held
        self._state = _DIVERTING
        self._count(held)
        return b""

    def _judge(self, line: bytes) -> bytes:
        try:
            message = jsontext.parse(line)
        except ValueError:
            return self._salvage(line)
        except RecursionError:
            return line  # deeper than Python follows, but JSON as far as that
        if not isinstance(message, (dict, list)):
            self._count(line)
            return b""
        if self._hear is not None:
            self._hear(message)
        return line

    def _salvage(self, line: bytes) -> bytes:
        start = line.find(b'{"jsonrpc"')
        if start <= 0:
            self._count(line)
            return b""
        noise, rest = line[:start], line[start:]
        try:
            jsontext.parse(rest)
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

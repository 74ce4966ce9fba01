"""Whole lines: nothing behind this module knows of half a line."""

from __future__ import annotations

# No longer line is kept: without an end, it would fill the memory. Node, in which most hosts run,
# reads none of 512 MB, and a line needs its memory twice while it is put together.
LINE_LIMIT = 256 << 20
TOO_LONG = f"{LINE_LIMIT >> 20} MB"

# How much of each end of a longer line is kept: a request has its id at one of them.
EDGE = 512


class CutLine(bytes):
    """Both ends of a line that was too long to be kept."""


class Lines:
    """Joins chunks to whole lines."""

    __slots__ = ("_begun", "_is_cut", "_length")

    def __init__(self) -> None:
        self._begun: list[bytes] = []  # the chunks of an incomplete line
        self._length = 0  # of these together
        self._is_cut = False  # only the ends of the line are kept

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are whole now, each with its newline."""
        end = data.find(b"\n") + 1
        if not self._begun and end == len(data):
            return [data]  # by far the most common: one line, whole
        whole = []
        start = 0
        while end:
            whole.append(self._join(data[start:end]))
            start = end
            end = data.find(b"\n", start) + 1
        if start < len(data):
            self._keep(data[start:])
        return whole

    def close(self) -> bytes:
        """Return what has come of a line whose end will not come; nothing if there is none."""
        return self._join(b"") if self._begun else b""

    @property
    def is_too_long(self) -> bool:
        """Whether the line that is coming is longer than any that is kept."""
        return self._is_cut

    def _keep(self, part: bytes) -> None:
        begun = self._begun
        begun.append(part)
        self._length += len(part)
        if self._length > LINE_LIMIT or self._is_cut:
            # Not joined: that would need the memory of all twice.
            head = begun[0] if self._is_cut else _take_head(begun)
            self._begun = [head, b"".join(begun[-2:])[-EDGE:]]
            self._is_cut = True

    def _join(self, end: bytes) -> bytes:
        if not self._begun:
            return end
        self._keep(end)
        line = b"".join(self._begun)
        is_cut = self._is_cut
        self._begun, self._length, self._is_cut = [], 0, False
        return CutLine(line) if is_cut else line


def _take_head(chunks: list[bytes]) -> bytes:
    head = b""
    for chunk in chunks:
        head += chunk[:EDGE]
        if len(head) >= EDGE:
            break
    return head[:EDGE]

"""Know a `_meta` again that is like the last one but for its labels and counters.

A host says nearly the same with every call: Codex nearly a kilobyte, of which only the
numbers of the call differ. To see that costs far less than to read it all again.
"""

from __future__ import annotations

from mcp_launch.protocol import json_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Message


class Familiar:
    """A `_meta` as it was written, with gaps for the texts and numbers that mean nothing."""

    __slots__ = ("_beginning", "_gaps", "_misses")

    def __init__(self) -> None:
        self._beginning = b""  # up to the first gap; empty: nothing was learned
        self._gaps: list[tuple[bytes, bytes]] = []  # what ends it, what follows up to the next
        self._misses = 0

    def match(self, line: bytes, start: int) -> int:
        """Return where the `_meta` that begins at `start` ends, 0 if it is not like the last."""
        if not self._beginning or not line.startswith(self._beginning, start):
            return 0
        at = start + len(self._beginning)
        for sign, fixed in self._gaps:
            # A text ends with a quote, a number before what follows it.
            end = line.find(sign, at)
            if not line.startswith(fixed, end) or not (sign == b'"' or line[at:end].isdigit()):
                return 0
            at = end + len(fixed)
        if line.find(b"\\", start, at) >= 0:
            return 0  # a quote may be escaped, and not the end of a text
        self._misses = 0
        return at

    def learn(self, line: bytes, start: int, meta: Message, telling: tuple[str, ...]) -> None:
        """Remember this one; values of the members that are telling must stay the same."""
        self._misses += 1
        # Where nothing is ever alike, it is tried ever more seldom: 1, 2, 4, 8 …
        if self._misses & (self._misses - 1):
            return
        text = line.decode("ascii")
        end = json_edit.find_end(text, start)
        if "\\" in text[start:end]:
            return  # it could not be matched
        fixed: list[str] = []
        kinds: list[bool] = []
        at = start
        for name, value_start, value_end in json_edit.list_members(text, start):
            value = meta[name]
            is_text = isinstance(value, str)
            if name in telling or not (is_text or text[value_start:value_end].isdigit()):
                continue
            fixed.append(text[at : value_start + is_text])
            kinds.append(is_text)
            at = value_end - is_text
        fixed.append(text[at:end])
        self._beginning = fixed[0].encode()
        parts = [part.encode() for part in fixed[1:]]
        self._gaps = [
            (b'"' if is_text else part[:1], part)
            for is_text, part in zip(kinds, parts, strict=True)
        ]

"""Calls that look like the last one of their client, found without parsing them.

A client writes each call in the same layout, and most of `_meta` is the same from call to call. A
frame has gaps for the id, the progress token, and the other texts and numbers in `_meta`; names,
and the members that name a caller, have to be the same. What is around `_meta` in the parameters
may be anything: that it is a member of these, its place shows (see `message`).
"""

from __future__ import annotations

from mcp_launch.protocol import json_edit
from mcp_launch.protocol.message import LONGEST_ID, META, REQUEST, Message, locate_call, may_repeat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

_BACKSLASH = ord("\\")
_QUOTE = b'"'
_TOKEN = "progressToken"  # noqa: S105  # a name


class Frame:
    """The layout of a call, with gaps for what differs in others like it."""

    __slots__ = ("_behind", "_first", "_gaps", "_inside", "_is_first", "_layout", "meta")

    def __init__(self, message: Message, layout: tuple[bytes, bytes, bytes]) -> None:
        self.meta = message.meta  # of the first call; the values in the gaps are outdated
        self._layout = layout
        self._inside = 0  # from the name of `_meta` to its members
        self._is_first = False  # `_meta` is the first parameter, not the last
        self._first = b""  # from the name of `_meta` to the first gap
        # What ends each, the text up to the next, whether it is a text, and the progress token.
        self._gaps: list[tuple[bytes, bytes, bool, bool]] = []
        self._behind = b""  # what follows `_meta`

    def match(self, line: bytes) -> tuple[Message, int, int] | None:  # noqa: C901, PLR0911  # the path of every call
        """Return a call that looks alike, and where its progress token is; None for any other."""
        before, between, last = self._layout
        if not line.startswith(before):
            return None
        id_at = params_at = len(before)
        id_end = line.find(b",", id_at)
        if between:
            params_at = id_end + len(between)
            if not line.startswith(between, id_end):
                return None
        first = self._first
        meta_at = params_at if self._is_first else line.rfind(first, params_at)
        if not line.startswith(first, meta_at) or line[meta_at - 1] == _BACKSLASH:
            return None
        at, token_at, token_end = meta_at + len(first), 0, 0
        for sign, text, is_text, is_token in self._gaps:
            end = line.find(sign, at)
            if not (line.startswith(text, end) and (is_text or line[at:end].isdigit())):
                return None
            if is_token:
                token_at, token_end = at - is_text, end + is_text
            at = end + len(text)
        if not line.startswith(self._behind, at) or line.find(b"\\", meta_at, at) >= 0:
            return None
        if self._is_first and may_repeat(line, at):
            return None
        if not between:
            id_at, id_end = line.rfind(last) + len(last), len(line) - 2
        raw_id = line[id_at:id_end]
        end_of_line = last if between else b"}\n"
        if not (raw_id.isdigit() and line.endswith(end_of_line)) or line.find(b"\r") >= 0:
            return None
        if len(raw_id) > LONGEST_ID or raw_id.startswith(b"0"):
            return None
        message = Message(line, REQUEST, raw_id, id_at)
        message.key, message.method, message.has_params = int(raw_id), "tools/call", True
        message.meta, message.meta_span = self.meta, (meta_at + self._inside, at)
        return message, token_at, token_end


def learn(message: Message, fixed: Collection[str]) -> Frame | None:
    """Return the frame of a call; None if there can be none. `fixed` are names in `_meta`."""
    line = message.line
    found = locate_call(line)
    if found is None or message.meta_span is None or not message.meta:
        return None
    layout, _, _, params_at, params_end = found
    start, end = message.meta_span
    meta_at = line.rfind(META, 0, start)
    frame = Frame(message, layout)
    frame._inside = start - meta_at  # noqa: SLF001  # its maker, like all below
    frame._is_first = meta_at == params_at  # noqa: SLF001
    frame._behind = b"" if frame._is_first else line[end : params_end + len(layout[2])]  # noqa: SLF001
    text = line[start - 1 : end].decode("ascii")
    texts: list[bytes] = []
    gaps: list[tuple[bytes, bool, bool]] = []
    at = meta_at
    for name, value_at, value_end in json_edit.list_members(text, 0):
        raw, is_text = text[value_at:value_end], message.meta[name].__class__ is str
        if name in fixed or "\\" in raw or not (is_text or raw.isdigit()):
            continue
        close = start - 1 + value_end - is_text
        texts.append(line[at : start - 1 + value_at + is_text])
        gaps.append((_QUOTE if is_text else line[close : close + 1], is_text, name == _TOKEN))
        at = close
    texts.append(line[at:end])
    frame._first = texts[0]  # noqa: SLF001
    frame._gaps = [  # noqa: SLF001
        (*gap[:1], text, *gap[1:]) for gap, text in zip(gaps, texts[1:], strict=True)
    ]
    return frame

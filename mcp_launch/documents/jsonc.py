"""Read JSON with the position of every value; comments and trailing commas are allowed.

VS Code, Zed, opencode and others accept them, and a comment is somebody's work.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from mcp_launch.documents.positions import Path, Repeated, Spot, Unreadable, locate

if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json

_SPACE = " \t\r\n"
_WORD_ENDS = frozenset(' \t\r\n,:]}/"')
_CLOSING = {"{": "}", "[": "]"}

_TEXT_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_NOT_A_LINE_BREAK = re.compile(r"[^\r\n]")

# What may stand where a value is expected. The text itself is not quoted: it may be a secret.
_A_VALUE = "a text in double quotes, a number, true, false, null, { or ["


def read(text: str) -> tuple[Any, list[Spot]]:
    """Return the value, and the position of each of its parts.

    Raises:
        Unreadable: It is neither JSON nor JSON with comments.

    """
    reader = _JsoncReader(text)
    value = reader.read()
    return value, reader.spots


def blank_comments(text: str) -> str:
    """Return a text that can be read with its comments as spaces: every position stays."""
    return _TEXT_OR_COMMENT.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    part = found[0]
    return part if part.startswith('"') else _NOT_A_LINE_BREAK.sub(" ", part)


class _JsoncReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 1 if text.startswith("\ufeff") else 0
        self._open: list[int] = []  # the offsets of the brackets that are not closed yet
        self.spots: list[Spot] = []

    def read(self) -> Json:
        if not self._next():
            raise Unreadable("the file is empty", self._at)
        value = self._read_value((), (self._at, self._at))
        extra = self._next()
        if extra in {"}", "]"}:
            raise Unreadable(f"this {extra} is one too many", self._at)
        if extra:
            raise Unreadable("there is more text after the end", self._at)
        return value

    def _next(self) -> str:
        """Skip blanks and comments, and return the next character; "" at the end."""
        text = self._text
        while self._at < len(text):
            if text[self._at] in _SPACE:
                self._at += 1
            elif text.startswith("//", self._at):
                end = text.find("\n", self._at)
                self._at = len(text) if end < 0 else end
            elif text.startswith("/*", self._at):
                end = text.find("*/", self._at)
                if end < 0:
                    raise Unreadable("this comment is not closed", self._at)
                self._at = end + 2
            else:
                return text[self._at]
        if self._open:
            raise self._explain_end()
        return ""

    def _explain_end(self) -> Unreadable:
        """Return the error for a text that ends before its brackets are closed."""
        missing = "".join(_CLOSING[self._text[at]] for at in reversed(self._open))
        line, _ = locate(self._text, self._open[-1])
        return Unreadable(
            f"expected {missing} at the end of the file: the {self._text[self._open[-1]]} in line "
            f"{line} is not closed",
            len(self._text.rstrip()),
        )

    def _read_value(self, path: Path, key: tuple[int, int]) -> Json:
        first = self._next()
        begin, place = self._at, len(self.spots)
        if not path:
            key = (begin, begin)
        value: Json
        if first == "{":
            value = self._read_object(path)
        elif first == "[":
            value = self._read_array(path)
        elif first == '"':
            value = self._read_string()
        else:
            value = self._read_word()
        self.spots.insert(place, Spot(path, key, (begin, self._at)))
        return value

    def _read_object(self, path: Path) -> dict[str, Json]:
        members: dict[str, Json] = {}
        self._enter()
        while self._has_more("}", is_first=not members):
            begin = self._at
            if self._next() != '"':
                raise Unreadable("expected a name in double quotes", self._at)
            name = self._read_string()
            key = (begin, self._at)
            if name in members:
                raise Repeated(f"{name} appears twice", begin)
            if self._next() != ":":
                raise Unreadable("a colon is missing", self._at)
            self._at += 1
            members[name] = self._read_value((*path, name), key)
        return members

    def _read_array(self, path: Path) -> list[Json]:
        elements: list[Json] = []
        self._enter()
        while self._has_more("]", is_first=not elements):
            at = (self._at, self._at)
            elements.append(self._read_value((*path, len(elements)), at))
        return elements

    def _enter(self) -> None:
        self._open.append(self._at)
        self._at += 1

    def _has_more(self, closing: str, *, is_first: bool) -> bool:
        before = self._at
        found = self._next()
        if found in _CLOSING.values() and found != closing:
            raise Unreadable(f"expected {closing}, not {found}", self._at)
        if not is_first and found not in {",", closing}:
            # Where it belongs, not at the text that follows, perhaps some lines below.
            raise Unreadable("a comma is missing", before)
        if not is_first and found == ",":
            self._at += 1
            found = self._next()
        if found == closing:
            self._at += 1
            self._open.pop()
            return False
        return True

    def _read_string(self) -> str:
        begin = self._at
        self._at += 1
        while self._at < len(self._text) and self._text[self._at] not in '"\n':
            self._at += 2 if self._text[self._at] == "\\" else 1
        if not self._text.startswith('"', self._at):
            raise Unreadable('this string is not closed: a " is missing', begin)
        self._at += 1
        return str(self._load(begin))

    def _read_word(self) -> Json:
        begin = self._at
        while self._at < len(self._text) and self._text[self._at] not in _WORD_ENDS:
            self._at += 1
        if begin == self._at:
            raise Unreadable(f"a value is missing: expected {_A_VALUE}", begin)
        return self._load(begin)

    def _load(self, begin: int) -> Json:
        try:
            value: Json = json.loads(self._text[begin : self._at])
        except ValueError:
            is_single = self._text[begin] == "'"
            hint = "write double quotes, not single ones" if is_single else f"expected {_A_VALUE}"
            raise Unreadable(hint, begin) from None
        return value

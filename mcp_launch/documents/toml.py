"""Read TOML with the position of every value, to replace it or to report an error in it.

`tomllib` parses the values and locates errors. `tomlkit` parses what is new in TOML 1.1, which
Codex reads and Python before 3.15 does not. The positions are found here.
"""

from __future__ import annotations

import tomllib
from typing import Any

from mcp_launch.documents.positions import Path, Spot, Unreadable

_BLANK = " \t"
_SPACE = " \t\r\n"


def read(text: str) -> tuple[dict[str, Any], list[Spot]]:
    """Return the value, and the position of every table, key and array element.

    Raises:
        Unreadable: This is not TOML.

    """
    return loads(text), _TomlReader(text).read()


def loads(text: str) -> dict[str, Any]:
    """Return the value of a TOML 1.0 or 1.1 text.

    Raises:
        Unreadable: It is neither.

    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        problem, _, where = str(error).partition(" (at ")
        numbers = [
            int(word) for word in where.strip(")").replace(",", "").split() if word.isdigit()
        ]
        refused = Unreadable(problem, _find_offset(text, *numbers) if numbers else len(text))
    except (RecursionError, ValueError):
        raise Unreadable("it is nested too deeply, or has a number that is too long", 0) from None
    return _load_newer(text, refused)


def _load_newer(text: str, refused: Unreadable) -> dict[str, Any]:
    """Return the value of a text that `tomllib` refused; of two errors, raise the later one.

    Both read from the top. Where `tomlkit` gets further, `tomllib` stopped at something that is
    valid in TOML 1.1; elsewhere `tomllib` has the better message.
    """
    import tomlkit  # importing it takes longer than a whole launch, so only when needed
    from tomlkit.exceptions import ParseError, TOMLKitError

    try:
        # Line ends become line feeds, in long strings too, as in `tomllib`.
        return tomlkit.parse(text.removeprefix("\ufeff").replace("\r\n", "\n")).unwrap()
    except ParseError as error:
        problem = str(error).removesuffix(f" at line {error.line} col {error.col}")
        further = Unreadable(problem, _find_offset(text, error.line, error.col + 1))
        if "'\\x00'" in problem and "\0" not in text:
            further = Unreadable("Unexpected end of document", len(text))
    except TOMLKitError as error:  # a key appears twice, and tomlkit does not say where
        raise Unreadable(str(error), refused.offset) from None
    except RecursionError:
        further = Unreadable("it is nested too deeply", refused.offset)
    raise (further if further.offset > refused.offset else refused) from None


def _find_offset(text: str, line: int, column: int) -> int:
    before = text.split("\n")[: line - 1]
    return sum(len(one) + 1 for one in before) + column - 1


class _TomlReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 1 if text.startswith("\ufeff") else 0
        self.spots: list[Spot] = []
        self._lengths: dict[Path, int] = {}  # of [[arrays of tables]]

    def read(self) -> list[Spot]:
        table: Path = ()
        while self._skip(_SPACE, comments=True):
            if self._text[self._at] == "[":
                table = self._read_heading()
            else:
                self._read_pair(table)
        return self.spots

    def _skip(self, blank: str, *, comments: bool = False) -> bool:
        """Skip blanks, and comments if asked to; return False at the end."""
        text = self._text
        while self._at < len(text):
            if comments and text[self._at] == "#":
                end = text.find("\n", self._at)
                self._at = len(text) if end < 0 else end
            elif text[self._at] in blank:
                self._at += 1
            else:
                return True
        return False

    def _read_heading(self) -> Path:
        begin = self._at
        width = 2 if self._text.startswith("[[", begin) else 1
        self._at += width
        names = self._read_names()
        self._at += width
        path = self._resolve(names[:-1]) + names[-1:]
        if width > 1:
            self._lengths[path] = self._lengths.get(path, -1) + 1
            path = (*path, self._lengths[path])
        self.spots.append(Spot(path, (begin, self._at), (self._at, self._at)))
        return path

    def _resolve(self, names: Path) -> Path:
        """Return the path of dotted names; an array of tables stands for its last element."""
        path: Path = ()
        for name in names:
            path = (*path, name)
            if path in self._lengths:
                path = (*path, self._lengths[path])
        return path

    def _read_names(self) -> Path:
        names: list[str | int] = []
        while True:
            self._skip(_BLANK)
            names.append(self._read_name())
            self._skip(_BLANK)
            if self._text[self._at] != ".":
                return tuple(names)
            self._at += 1

    def _read_name(self) -> str:
        begin = self._at
        if self._text[begin] in "\"'":
            self._pass_string()
            return _unquote(self._text[begin : self._at])
        while self._text[self._at] not in " \t.=]":
            self._at += 1
        return self._text[begin : self._at]

    def _read_pair(self, table: Path) -> None:
        begin = self._at
        names = self._read_names()
        end = self._at
        while self._text[end - 1] in _BLANK:
            end -= 1
        self._at += 1  # the "="
        self._skip(_BLANK)
        self._read_value((*table, *names), (begin, end))

    def _read_value(self, path: Path, key: tuple[int, int]) -> None:
        begin, place = self._at, len(self.spots)
        first = self._text[begin]
        if first in "\"'":
            self._pass_string()
        elif first == "[":
            self._read_members(path, "]")
        elif first == "{":
            self._read_members(path, "}")
        else:
            self._pass_word()
        self.spots.insert(place, Spot(path, key, (begin, self._at)))

    def _read_members(self, path: Path, closing: str) -> None:
        self._at += 1
        index = 0
        while self._skip(_SPACE + ",", comments=True) and self._text[self._at] != closing:
            if closing == "}":
                self._read_pair(path)
            else:
                self._read_value((*path, index), (self._at, self._at))
                index += 1
        self._at += 1

    def _pass_string(self) -> None:
        text = self._text
        quote = text[self._at]
        if text.startswith(quote * 3, self._at):
            self._at = self._find_quote(self._at + 3, quote * 3) + 3
            # Up to two quotes may come right before the closing three.
            while text[self._at : self._at + 1] == quote:
                self._at += 1
        else:
            self._at = self._find_quote(self._at + 1, quote) + 1

    def _find_quote(self, at: int, quote: str) -> int:
        while not self._text.startswith(quote, at):
            at += 2 if self._text[at] == "\\" and quote[0] == '"' else 1
        return at

    def _pass_word(self) -> None:
        begin = self._at
        while self._at < len(self._text) and self._text[self._at] not in ",]}#\r\n":
            self._at += 1
        while self._text[self._at - 1] in _BLANK and self._at > begin:
            self._at -= 1
        if self._at == begin:
            raise Unreadable("there is no value", begin)  # or this would loop forever


def _unquote(text: str) -> str:
    return next(iter(loads(f"{text} = 0")))

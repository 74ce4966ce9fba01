"""Read JSON with the position of every value; comments and trailing commas are allowed.

VS Code, Zed, opencode and others accept them, and a comment is somebody's work.

Claude Code keeps the prompts of all projects in the file that has its servers: ten megabytes, of
which a few lines matter here. So the standard library's parser, which is written in C, reads the
values, and passes over all that lies between the positions that somebody asks for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_launch.documents.positions import Path, Repeated, Spot, Unreadable, locate

_CLOSING = {"{": "}", "[": "]"}

_TEXT = r'"[^"\\]*(?:\\.[^"\\]*)*'  # without the quote at its end
_TEXT_OR_COMMENT = re.compile(_TEXT + r'"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_NOT_A_LINE_BREAK = re.compile(r"[^\r\n]")

# A comma without a value before it is an error, so the second part keeps it.
_TEXT_OR_COMMA = re.compile(_TEXT + r'"|[\[{]\s*,|,(?=\s*[\]}])', re.DOTALL)

_TEXT_OR_BRACKET = re.compile(_TEXT + r'"?|[\[\]{}]', re.DOTALL)

# What may stand where a value is expected. The text itself is not quoted: it may be a secret.
_A_VALUE = "a text in double quotes, a number, true, false, null, { or ["

# What the standard library's messages begin with, and what we say instead.
_PROBLEMS = {
    "Expecting property name": "expected a name in double quotes",
    "Expecting ':'": "a colon is missing",
    "Invalid control character": "a text must not hold this character: write \\t or \\uXXXX",
    "Invalid \\": "no escape begins like this; a backslash itself is written \\\\",
}

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"\s*")
_COLON = re.compile(r"\s*:\s*")
_COMMA = re.compile(r"\s*,?\s*")


def read(text: str) -> tuple[Any, Mapping[Path, Spot]]:
    """Return the value, and the position of each of its parts.

    Raises:
        Unreadable: It is neither JSON nor JSON with comments.

    """
    plain = f" {text[1:]}" if text.startswith("\ufeff") else text
    try:
        try:
            value = _load(plain)
        except json.JSONDecodeError:
            plain = _blank_commas(blank_comments(plain))
            value = _load(plain)
    except json.JSONDecodeError as error:
        raise _explain(plain, error) from None
    except _RepeatedName:
        raise next(_find_repeated(Spots(plain))) from None
    return value, Spots(plain)


def blank_comments(text: str) -> str:
    """Return a text that can be read with its comments as spaces: every position stays."""
    return _TEXT_OR_COMMENT.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    part = found[0]
    return part if part.startswith('"') else _NOT_A_LINE_BREAK.sub(" ", part)


def _blank_commas(text: str) -> str:
    return _TEXT_OR_COMMA.sub(lambda found: " " if found[0] == "," else found[0], text)


class _RepeatedName(Exception):
    """An object has a name twice."""


def _load(plain: str) -> Any:  # noqa: ANN401  # whatever a file may hold
    return json.loads(plain, object_pairs_hook=_make_object)


def _make_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) < len(members):
        raise _RepeatedName
    return value


class Spots(Mapping[Path, Spot]):
    """The positions in a valid text; those inside an object or a list are found when asked for."""

    def __init__(self, plain: str) -> None:
        self._plain = plain
        begin = _skip(_BLANK, plain, 0)
        self._root = Spot((), (begin, begin), (begin, self._find_end(begin)))
        self._inside: dict[Path, dict[str | int, Spot]] = {}

    def __getitem__(self, path: Path) -> Spot:
        """Return the position at a path."""
        return self._list_inside(path[:-1])[path[-1]] if path else self._root

    def __iter__(self) -> Iterator[Path]:
        """Return all paths, in the order of the text."""
        return (spot.path for spot in self.list_between(0, len(self._plain)))

    def __len__(self) -> int:
        """Return how many parts there are."""
        return sum(1 for _ in self)

    def list_between(self, begin: int, end: int) -> Iterator[Spot]:
        """Return the positions that reach into a part of the text."""
        waiting = [self._root]
        while waiting:
            spot = waiting.pop()
            yield spot
            inside = reversed(self._list_inside(spot.path).values())
            waiting += [one for one in inside if one.key[0] < end and one.value[1] > begin]

    def _list_inside(self, path: Path) -> dict[str | int, Spot]:
        if path not in self._inside:
            self._inside[path] = {spot.path[-1]: spot for spot in self.scan(path)}
        return self._inside[path]

    def scan(self, path: Path) -> Iterator[Spot]:
        """Return the positions of what is directly inside a value."""
        plain, at = self._plain, self[path].value[0]
        is_object, is_list = plain[at] == "{", plain[at] == "["
        if not is_object and not is_list:
            return
        index = 0
        at = _skip(_BLANK, plain, at + 1)
        while plain[at] not in "]}":
            step: str | int = index
            key = (at, at)
            if is_object:
                step, end = _DECODER.raw_decode(plain, at)
                key = (at, end)
                at = _skip(_COLON, plain, end)
            end = self._find_end(at)
            yield Spot((*path, step), key, (at, end))
            at = _skip(_COMMA, plain, end)
            index += 1

    def _find_end(self, begin: int) -> int:
        return _DECODER.raw_decode(self._plain, begin)[1]


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _find_repeated(spots: Spots, path: Path = ()) -> Iterator[Repeated]:
    """Return an error for each name that its object has twice."""
    seen = set()
    for spot in spots.scan(path):
        if spot.path in seen:
            yield Repeated(f"{spot.path[-1]} appears twice", spot.key[0])
        seen.add(spot.path)
        yield from _find_repeated(spots, spot.path)


def _explain(plain: str, error: json.JSONDecodeError) -> Unreadable:
    """Return what is wrong with a text, where a person would correct it."""
    at, found = error.pos, plain[error.pos : error.pos + 1]
    if error.msg.startswith("Unterminated string") or found in {"\r", "\n"}:
        return Unreadable('this string is not closed: a " is missing', _find_text(plain, at))
    if not plain[at:].strip():
        return _explain_end(plain)
    if plain.startswith("/*", at):
        return Unreadable("this comment is not closed", at)
    if error.msg.startswith("Extra data"):
        is_bracket = found in _CLOSING.values()
        extra = (
            f"this {found} is one too many" if is_bracket else "there is more text after the end"
        )
        return Unreadable(extra, at)
    if error.msg.startswith("Expecting ','") and found not in _CLOSING.values():
        # Where it belongs, not at the text that follows, perhaps some lines below.
        return Unreadable("a comma is missing", len(plain[:at].rstrip()))
    return Unreadable(_name_problem(error.msg, found), at)


def _name_problem(message: str, found: str) -> str:
    if message.startswith("Expecting ','"):
        return f"expected {']' if found == '}' else '}'}, not {found}"
    for begin, problem in _PROBLEMS.items():
        if message.startswith(begin):
            return problem
    if found == "'":
        return "write double quotes, not single ones"
    return f"{'a value is missing: ' if found in ',:]}' else ''}expected {_A_VALUE}"


def _find_text(plain: str, at: int) -> int:
    """Return where the string begins that an offset is in."""
    begins = [one.start() for one in _TEXT_OR_BRACKET.finditer(plain, 0) if one[0][0] == '"']
    return max(begin for begin in begins if begin <= at)


def _explain_end(plain: str) -> Unreadable:
    """Return the error for a text that ends before its brackets are closed."""
    still_open: list[int] = []
    for found in _TEXT_OR_BRACKET.finditer(plain):
        if found[0] in _CLOSING:
            still_open.append(found.start())
        elif found[0] in _CLOSING.values():
            still_open.pop()
    end = len(plain.rstrip())
    if not still_open:
        return Unreadable("the file is empty", len(plain))
    missing = "".join(_CLOSING[plain[at]] for at in reversed(still_open))
    line, _ = locate(plain, still_open[-1])
    return Unreadable(
        f"expected {missing} at the end of the file: the {plain[still_open[-1]]} in line "
        f"{line} is not closed",
        end,
    )

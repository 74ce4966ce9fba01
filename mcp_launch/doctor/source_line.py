"""The line of a file that a finding is about, with a caret under the place, without secrets.

A line of an entry may hold a secret in a form that nothing recognises. So all values of its
variables and headers are masked, and comments are left out. Of a file that cannot be parsed nothing
is shown: nobody knows what in it is a value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import masking
from mcp_launch.config_files.host_config import File
from mcp_launch.errors import FileRefused, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_launch.documents.document import Document
    from mcp_launch.documents.positions import Path, Spot
    from mcp_launch.machine.survey import Subject, Survey

    Span = tuple[int, int]

# Tables whose values are all masked: any of them may be a secret of the server.
_PRIVATE = {"env", "environment", "envs", "headers", "http_headers", "requestOptions", "oauth"}

# A value that only refers to a variable.
_REFERENCE = re.compile(r"\$\{[\w:.-]*\}|\$\w+|\{env:\w+\}")

# How wide a tab is shown, and how much of a line is shown before its place.
_TAB = "    "
_BEFORE = 30

# How much of a line on either side of the place is searched for secrets, more than is shown.
_SEARCHED = 2000

_DOTS = "..."

# Where a comment may begin, unless that is inside a string.
_COMMENT = re.compile(r"(?:^|(?<=\s))(?:#|//|/\*)")


class Excerpt(NamedTuple):
    """A line, and where in it the caret goes."""

    number: int
    text: str
    caret: int  # counted from 0


class SourceLines:
    """Cuts lines out of the files of a survey; each file is read and searched once."""

    def __init__(self, survey: Survey, clean: Callable[[str], str]) -> None:
        self._survey = survey
        self._clean = clean  # masks known secrets
        self._files = {file.path: file for _, file in survey.files}

    def cut_out(self, subject: Subject, width: int) -> Excerpt | None:
        """Return the line of a finding, masked and cut to a width; None if it is not shown."""
        if not subject.line:
            return None
        try:
            document = self._survey.read(
                self._files.get(subject.file) or File(subject.file, "", "toml")
            )
        except FileRefused:
            return None
        lines = document.text.split("\n")
        if subject.line > len(lines):
            return None  # it was changed a moment ago
        line = lines[subject.line - 1].rstrip("\r")
        start = sum(map(len, lines[: subject.line - 1])) + subject.line - 1
        place = start + min(subject.column - 1, len(line))
        # A whole file may be on one line.
        begin, end = max(start, place - _SEARCHED), min(start + len(line), place + _SEARCHED)
        before, after = self._show(document, begin, place, end)
        if len(before) + len(after) > width and len(before) > _BEFORE:
            before = _DOTS + before[-_BEFORE:]
        joined = before + after
        cut = joined if len(joined) <= width else joined[: width - len(_DOTS)] + _DOTS
        return Excerpt(subject.line, cut.rstrip(), len(before))

    def _show(self, document: Document, begin: int, place: int, end: int) -> tuple[str, str]:
        """Return the parts of a line before and after a place, without secrets and comments."""
        spans = sorted(_list_private(document, begin, end))
        comment = _find_comment(document, begin, end)
        ending = _DOTS if comment < end else ""
        place = min(place, comment)
        before, after = (
            printable(self._clean(_mask(document.text, spans, *part).replace("\t", _TAB)))
            for part in ((begin, place), (place, comment))
        )
        return before.lstrip(), after + ending


def _mask(text: str, spans: list[Span], begin: int, end: int) -> str:
    """Return a part of a text with the spans masked."""
    parts, last = [], begin
    for first, after in spans:
        if first < end and after > last:
            parts += [text[last : max(first, last)], masking.MASK]
            last = min(after, end)
    return "".join([*parts, text[last:end]])


def _is_plain(document: Document, spot: Spot) -> bool:
    return not isinstance(document.get(spot.path), dict | list)


def _find_comment(document: Document, begin: int, end: int) -> int:
    """Return where a comment begins, after its marker; the end if there is none."""
    spots = document.list_spots(begin, end)
    values = [spot.value for spot in spots if _is_plain(document, spot)]
    for found in _COMMENT.finditer(document.text, begin, end):
        if not any(first <= found.start() < after for first, after in values):
            return found.end()
    return end


def _list_private(document: Document, begin: int, end: int) -> Iterator[Span]:
    """Return the spans of the values in a part of a text that may be secrets."""
    for path, _, span in document.list_spots(begin, end):
        value = document.get(path)
        if isinstance(value, list):
            yield from _list_words(document, path, value)
        elif _PRIVATE.intersection(map(str, path[:-1])):
            is_secret = not isinstance(value, dict) and not _REFERENCE.fullmatch(str(value))
            yield from [span] if is_secret else []


def _list_words(document: Document, path: Path, words: list[object]) -> Iterator[Span]:
    """Return the spans of the words of a command that hold a secret."""
    if all(isinstance(word, str) for word in words):
        for at, masked in enumerate(masking.mask([str(word) for word in words])):
            if words[at] != masked and (*path, at) in document.spots:
                yield document.spots[*path, at].value

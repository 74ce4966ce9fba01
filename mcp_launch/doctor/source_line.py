"""The line of a file that a finding is about, with a caret under the place, without secrets.

A line of an entry may hold a secret in a form that nothing recognises. So all values of its
variables and headers are masked; and in a file that cannot be parsed, all values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import masking
from mcp_launch.config_files import planned_changes
from mcp_launch.config_files.host_config import File
from mcp_launch.errors import FileRefused, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_launch.documents.document import Document
    from mcp_launch.documents.positions import Path
    from mcp_launch.machine.subject import Subject
    from mcp_launch.machine.survey import Survey

    Span = tuple[int, int]

# Tables whose values are all masked: any of them may be a secret of the server.
_PRIVATE = {"env", "environment", "envs", "headers", "http_headers", "requestOptions", "oauth"}

# A value that only refers to a variable.
_REFERENCE = re.compile(r"\$\{[\w:.-]*\}|\$\w+|\{env:\w+\}")

# Whatever may be a value, in a text that cannot be parsed: a string that is not a key, and a
# word after a key.
_VALUES = re.compile(
    r"""(["'])(?P<quoted>(?:\\.|(?!\1).)+)(?:\1(?!\s*[:=])|$)
        |[:=]\s*(?P<bare>[^\s"'\[\]{},:=][^"'\[\]{},\n]*)""",
    re.VERBOSE,
)

# A line of an invalid file that has a key or a bracket; any other may be part of a long value.
_HAS_KEY = re.compile(r"""\s*(?:[\[\]{}]|["']?[\w. -]{1,60}["']?\s*[:=](?!=|\s*$))""")

# How wide a tab is shown, and how much of a line is shown before its place.
_TAB = "    "
_BEFORE = 30
_DOTS = "..."


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
        self._read: dict[str, tuple[str, list[Span] | None]] = {}

    def cut_out(self, subject: Subject, width: int) -> Excerpt | None:
        """Return the line of a finding, masked and cut to a width; None if it is not shown."""
        if not subject.line:
            return None
        text, spans = self._look(subject.file)
        lines = text.split("\n")
        if subject.line > len(lines):
            return None
        line = lines[subject.line - 1].rstrip("\r")
        if spans is None and not _HAS_KEY.match(line):
            return None
        start = sum(len(one) + 1 for one in lines[: subject.line - 1])
        if spans is None:
            spans = [(start + begin, start + end) for begin, end in _list_values(line)]
        place = start + min(subject.column - 1, len(line))
        before = self._show(text, spans, start, place).lstrip()
        after = self._show(text, spans, place, start + len(line))
        if len(before) + len(after) > width and len(before) > _BEFORE:
            before = _DOTS + before[-_BEFORE:]
        joined = before + after
        cut = joined if len(joined) <= width else joined[: width - len(_DOTS)] + _DOTS
        return Excerpt(subject.line, cut.rstrip(), len(before))

    def _show(self, text: str, spans: list[Span], begin: int, end: int) -> str:
        """Return a part of a text with the spans masked, safe to print."""
        parts, last = [], begin
        for first, after in sorted(spans):
            if first < end and after > last:
                parts += [text[last : max(first, last)], masking.MASK]
                last = min(after, end)
        shown = "".join([*parts, text[last:end]]).replace("\t", _TAB)
        return printable(masking.mask_comment(self._clean(shown)))

    def _look(self, path: str) -> tuple[str, list[Span] | None]:
        """Return a file's text and what is masked in it; None: it cannot be parsed."""
        if path not in self._read:
            file = self._files.get(path) or File(path, "", "toml")
            try:
                document = self._survey.read(file)
                self._read[path] = document.text, list(_list_private(document))
            except FileRefused:
                self._read[path] = _read_text(path), None
        return self._read[path]


def _read_text(path: str) -> str:
    try:
        return planned_changes.read_file(path)
    except FileRefused:
        return ""


def _list_values(line: str) -> Iterator[Span]:
    """Return the spans of whatever may be a value, in a line of an invalid file."""
    for found in _VALUES.finditer(line):
        yield found.span("quoted" if found["quoted"] else "bare")


def _list_private(document: Document) -> Iterator[Span]:
    """Return the spans of the values that may be secrets."""
    for path, spot in document.spots.items():
        value = document.get(path)
        if isinstance(value, list):
            yield from _list_words(document, path, value)
        elif _PRIVATE.intersection(map(str, path[:-1])):
            is_secret = not isinstance(value, dict) and not _REFERENCE.fullmatch(str(value))
            yield from [spot.value] if is_secret else []


def _list_words(document: Document, path: Path, words: list[object]) -> Iterator[Span]:
    """Return the spans of the words of a command that hold a secret."""
    if all(isinstance(word, str) for word in words):
        for at, masked in enumerate(masking.mask([str(word) for word in words])):
            if words[at] != masked and (*path, at) in document.spots:
                yield document.spots[*path, at].value

"""A configuration file as text: its values, their positions, and how to write a string in it."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any, Literal

from mcp_launch.documents import jsonc, toml, yaml_text
from mcp_launch.documents.positions import Repeated, Spot, Unreadable, locate
from mcp_launch.errors import FileRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcp_launch.documents.positions import Path

Kind = Literal["toml", "json", "yaml"]
Edit = tuple[int, int, str]  # begin, end, replacement

# JSON allows these characters in a string as they are. TOML refuses the first; YAML refuses the
# others, or reads them as line breaks, which it folds into a space.
_TO_ESCAPE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _read_toml(text: str) -> tuple[Any, dict[Path, Spot]]:
    value, spots = toml.read(text)
    return value, {spot.path: spot for spot in spots}


_READERS: dict[str, Callable[[str], tuple[Any, Mapping[Path, Spot]]]] = {
    "toml": _read_toml,
    "json": jsonc.read,
    "yaml": yaml_text.read,
}


@functools.lru_cache(maxsize=64)
def read_document(kind: Kind, text: str, path: str) -> Document:
    """Return the document of a text; a command asks for that of the same text several times.

    Raises:
        FileRefused: It cannot be read; the message gives the position.

    """
    return Document(kind, text, path)


class Document:
    """The text of a file, read once.

    Raises:
        FileRefused: It cannot be read; the message gives the position.

    """

    def __init__(self, kind: Kind, text: str, path: str) -> None:
        self.kind = kind
        self.text = text
        try:
            self.value, self.spots = _READERS[kind](text)
        except Unreadable as error:
            line, column = locate(text, error.offset)
            if isinstance(error, Repeated):
                what = str(error)
                fix = "keep one of them (hosts use the last one), then run this again"
            else:
                what = f"this is not valid {kind.upper()}: {error}"
                fix = "correct it (its host cannot read it either), then run this again"
            raise FileRefused(what, fix=fix, path=path, line=line, column=column) from None
        except (RecursionError, ValueError, MemoryError):
            raise FileRefused(
                f"{path} is nested too deeply, or has a value that cannot be read",
                fix="correct it by hand",
            ) from None

    def get(self, path: Path) -> Any:  # noqa: ANN401  # whatever a file may hold
        """Return the value at a path; None if there is none."""
        value = self.value
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def list_spots(self, begin: int, end: int) -> Iterable[Spot]:
        """Return the positions that reach into a part of the text."""
        if isinstance(self.spots, jsonc.Spots):
            return self.spots.list_between(begin, end)  # there may be very many of the others
        return self.spots.values()

    def cut(self, span: tuple[int, int]) -> str:
        """Return a part of the text as it is written."""
        return self.text[span[0] : span[1]]

    def spell(self, word: str) -> str:
        """Return a word as a JSON string, which is also valid in TOML and YAML."""
        text = json.dumps(word, ensure_ascii=False)
        return _TO_ESCAPE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

    def apply(self, edits: list[Edit]) -> str:
        """Return the text with these spans replaced."""
        parts, last = [], 0
        for begin, end, words in sorted(edits):
            parts += [self.text[last:begin], words]
            last = end
        return "".join([*parts, self.text[last:]])

    def copy_without(self, paths: Iterable[Path]) -> Any:  # noqa: ANN401  # any value of a file
        """Return the value without some of its parts, which stay where an alias names them."""
        return functools.reduce(_drop, paths, self.value)


def _drop(value: Any, path: Path) -> Any:  # noqa: ANN401
    """Return a value without the part at a path; only what is on the way to it is copied."""
    [step, *rest] = path
    if isinstance(value, dict) and step in value:
        if not rest:
            return {key: inner for key, inner in value.items() if key != step}
        return {**value, step: _drop(value[step], tuple(rest))}
    if isinstance(value, list) and rest and isinstance(step, int) and step < len(value):
        return [*value[:step], _drop(value[step], tuple(rest)), *value[step + 1 :]]
    return value

"""A configuration file as text: its values, their positions, and how to write a string in it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal

from mcp_launch.documents import jsonc, shell_text, toml, yaml_text
from mcp_launch.documents.positions import Repeated, Unreadable, locate
from mcp_launch.errors import FileRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.documents.positions import Path, Spot

Kind = Literal["toml", "json", "yaml", "shell"]
Edit = tuple[int, int, str]  # begin, end, replacement

# JSON allows these characters in a string as they are. TOML refuses the first; YAML refuses the
# others, or reads them as line breaks, which it folds into a space.
_TO_ESCAPE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

_READERS: dict[str, Callable[[str], tuple[Any, list[Spot]]]] = {
    "toml": toml.read,
    "json": jsonc.read,
    "yaml": yaml_text.read,
    "shell": shell_text.read,
}


class Document:
    """The text of a file, read once.

    Raises:
        FileRefused: It cannot be read; the message gives the position.

    """

    def __init__(self, kind: Kind, text: str, path: str) -> None:
        self.kind = kind
        self.text = text
        try:
            self.value, found = _READERS[kind](text)
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
        self.spots: dict[Path, Spot] = {spot.path: spot for spot in found}

    def get(self, path: Path) -> Any:  # noqa: ANN401  # whatever a file may hold
        """Return the value at a path; None if there is none."""
        value = self.value
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def cut(self, span: tuple[int, int]) -> str:
        """Return a part of the text as it is written."""
        return self.text[span[0] : span[1]]

    def spell(self, word: str) -> str:
        """Return a word as a JSON string, which is also valid in TOML and YAML."""
        text = json.dumps(word, ensure_ascii=False)
        return _TO_ESCAPE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

    def apply(self, edits: list[Edit]) -> str:
        """Return the text with these spans replaced."""
        text = self.text
        for begin, end, words in sorted(edits, reverse=True):
            text = text[:begin] + words + text[end:]
        return text

"""What a command writes to: a terminal, or a file in any encoding."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeOutput(io.StringIO):
    """A stdout of this encoding, which may be a terminal."""

    def __init__(self, *, is_terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding, self._is_terminal = encoding, is_terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a constant elsewhere
        return self._encoding

    def isatty(self) -> bool:
        return self._is_terminal

    def show(self, command: Callable[[], object]) -> str:
        """Return what a command writes to it, without styles."""
        with contextlib.redirect_stdout(self):
            command()
        return Text.from_ansi(self.getvalue()).plain

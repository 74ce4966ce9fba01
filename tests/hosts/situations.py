"""Several situations in one test: a turn of a real host is too slow to check only one thing."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from hosts.tested_table import SAME, SITUATIONS
from hosts.workspace import PromiseBroken

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


class Situations:
    """The situations of one test, each with the result of its own promises."""

    def __init__(self, node: pytest.Item, *, is_control: bool) -> None:
        self._is_control = is_control
        self._results: list[tuple[str, str]] = []  # the sentence, and what went wrong
        node.user_properties.append((SITUATIONS, self._results))

    @contextlib.contextmanager
    def __call__(self, sentence: str) -> Iterator[None]:
        """Check one situation; a control goes on when a promise is broken."""
        result = SAME if self._is_control else ""
        try:
            yield
        except PromiseBroken as fault:
            if not self._is_control:
                raise
            result = str(fault)
        self._results.append((sentence, result))

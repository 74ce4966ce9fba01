"""Screens for tests: terminals of any width, and pipes."""

from __future__ import annotations

import io

from mcp_launch.commands.screen import Screen


def open_screen(width: int | None = 80, *, is_ascii: bool = False) -> Screen:
    """Return a terminal of this width; None: a pipe."""
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii" if is_ascii else "utf-8")
    return Screen(file=file, width=width, force_terminal=width is not None)

"""Do something before or after a function of somebody else's, or when it fails."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from mcp_launch.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable


def add_before(owner: Any, name: str, note: Callable[..., Any]) -> None:
    """Call `note` with the same arguments, before the function."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **more: Any) -> Any:
        note(*args, **more)
        return original(*args, **more)

    setattr(owner, name, wrapped)


def add_after(owner: Any, name: str, note: Callable[..., Any]) -> None:
    """Call `note` with the result and the arguments by position, after the function."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **more: Any) -> Any:
        result = original(*args, **more)
        note(result, *args)
        return result

    setattr(owner, name, wrapped)


def add_on_error(owner: Any, name: str, note: Callable[..., Any]) -> None:
    """Call `note` with the error and the arguments by position when the function raises it."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **more: Any) -> Any:
        try:
            return original(*args, **more)
        except LaunchError as error:
            note(error, *args)
            raise

    setattr(owner, name, wrapped)


def wrap_os(module: Any, **replaced: Callable[..., Any]) -> None:
    """Give one module an `os` of its own, with some functions replaced."""
    assert module.os is os
    module.os = _Os(replaced)


class _Os:
    def __init__(self, replaced: dict[str, Callable[..., Any]]) -> None:
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

"""The only way in which commands print JSON, for programs.

Every document has `version`, the version of its own format. Keys may be added; a key that
changes its meaning, or goes, raises the version. `mcp_launch/schemas/COMMAND.json` describes
each format, and tests validate what commands print against it.
"""

from __future__ import annotations

import json
import sys
from math import isfinite
from typing import Any

from mcp_launch.commands.screen import end_quietly


def print_json(document: dict[str, Any]) -> None:
    """Print one document."""
    _print(document, indent=2)


def print_json_line(document: dict[str, Any]) -> None:
    """Print one document of a stream, in one line."""
    _print(document)


def _print(document: dict[str, Any], indent: int | None = None) -> None:
    try:
        text = json.dumps(document, indent=indent, allow_nan=False)
    except ValueError:  # Python reads and writes numbers that JSON does not have
        text = json.dumps(_spell_numbers(document), indent=indent)
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        end_quietly()


def _spell_numbers(value: Any) -> Any:  # noqa: ANN401  # any part of a document
    """Return a value with texts in place of infinity and NaN."""
    if isinstance(value, dict):
        return {key: _spell_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_spell_numbers(one) for one in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value

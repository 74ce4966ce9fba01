"""The only way in which commands print JSON, for programs.

Every document has `version`, the version of its own format. Keys may be added; a key that
changes its meaning, or goes, raises the version. `mcp_launch/schemas/COMMAND.json` describes
each format, and tests validate what commands print against it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from mcp_launch.commands.screen import end_quietly


def print_json(document: dict[str, Any]) -> None:
    """Print one document."""
    _write(json.dumps(document, indent=2))


def print_json_line(document: dict[str, Any]) -> None:
    """Print one document of a stream, in one line."""
    _write(json.dumps(document))


def _write(text: str) -> None:
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        end_quietly()

"""Files for `wrap` to change, and what it writes into them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PROGRAM = str(Path(sys.executable).parent / "mcp-launch")
TEXT = '{"mcpServers": {"it": {"command": "x", "args": ["1"]}}}'


def find_script() -> str:
    """Return what wrapped entries start."""
    return f"{os.environ['MCP_LAUNCH_HOME']}/mcp-launch"


def write(path: Path, text: str = TEXT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path

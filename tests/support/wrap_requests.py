"""`wrap` and `unwrap` as a user runs them, and files for them to change."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcp_launch.commands import wrap as wrap_command
from mcp_launch.commands.wrap import WrapRequest

PROGRAM = str(Path(sys.executable).parent / "mcp-launch")
TEXT = '{"mcpServers": {"it": {"command": "x", "args": ["1"]}}}'


def find_script() -> str:
    """Return what wrapped entries start."""
    return f"{os.environ['MCP_LAUNCH_HOME']}/mcp-launch"


def write(path: Path, text: str = TEXT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def wrap(**request: object) -> int:
    return edit(is_wrapping=True, **request)


def unwrap(**request: object) -> int:
    return edit(is_wrapping=False, **request)


def edit(*, is_wrapping: bool, **request: object) -> int:
    whole: dict[str, object] = {"names": [], "hosts": [], "files": [], "is_sure": True}
    asked = WrapRequest(**(whole | request))  # type: ignore[arg-type]
    return wrap_command.run(asked, os.environ, is_wrapping=is_wrapping)

"""What `ps` prints of the servers that a test has started."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from fake_hosts import forget_seconds, take

from mcp_launch.commands import ps
from mcp_launch.commands.ps import PsRequest
from mcp_launch.commands.screen import Screen

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.machine.recognize_server import Configured


def show_running(state: Path, *configured: Configured, is_verbose: bool = False) -> list[str]:
    """Return the lines that are printed into a pipe, without the titles of the columns."""
    console = Screen(file=io.StringIO())
    ps.show(take(state, *configured), console, PsRequest(is_verbose=is_verbose))
    assert isinstance(console.file, io.StringIO)
    lines = forget_seconds(console.file.getvalue()).splitlines()
    return lines[1:] if lines[0].split()[0] == "SERVER" else lines


def read_row(line: str) -> list[str]:
    """Return the cells of a server's row: name, pid, age, memory, calls, last call, state."""
    return re.split(" {2,}", line.strip())

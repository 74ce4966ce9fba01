"""Records of calls, written as launches write them."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from mcp_launch.machine import call_records

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.machine.call_records import RecordedCall

THREAD = "01a1e289-63d1-7000-8f21-6b1f0c52a9d4"


def make_record(**facts: Any) -> dict[str, Any]:
    """Return one record; a fact that is None is left out."""
    usual: dict[str, Any] = {
        "time": round(time.time(), 3),
        "ms": 12.5,
        "outcome": "ok",
        "host": "codex",
        "session": THREAD,
        "thread": THREAD,
        "project": "/work/shop",
        "cwd": "/work/shop",
        "server": "docs",
        "launch": "01a1e296e1adc4db8953f0",
        "number": 1,
        "pid": 4711,
        "tool": "search",
        "id": 7,
        "request": 312,
        "response": 4096,
        "protocol": "2025-06-18",
    }
    return {name: value for name, value in (usual | facts).items() if value is not None}


def make_line(**facts: Any) -> bytes:
    """Return the line of one record."""
    return json.dumps(make_record(**facts)).encode() + b"\n"


def make_call(**facts: Any) -> RecordedCall:
    """Return one call as readers see it."""
    [call] = call_records.parse(make_line(**facts))
    return call


class CallParts:
    """The directory of the records."""

    def __init__(self, state: Path) -> None:
        self.directory = state / "calls"
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        state.chmod(0o700)

    def append(self, *lines: bytes, name: str = "20261118-110501.jsonl") -> Path:
        """Append whole lines to a part in one write; return its path."""
        path = self.directory / name
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, b"".join(lines))
        finally:
            os.close(fd)
        return path

    def add(self, *calls: dict[str, Any], name: str = "20261118-110501.jsonl") -> Path:
        """Append the records of calls with these facts; return the part's path."""
        return self.append(*(make_line(**facts) for facts in calls), name=name)

    def list(self) -> list[call_records.Part]:
        """Return the parts as readers see them."""
        return call_records.list_parts(str(self.directory))

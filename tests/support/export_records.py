"""Records of calls for tests, as launches write them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

# 2026-11-18 11:05:25.123
MOMENT = 1794999925.123


def make_record(number: int = 1, **facts: Any) -> dict[str, Any]:
    """Return a call that went well, or as the facts say; None leaves one out."""
    usual = {
        "time": MOMENT + number - 1,
        "ms": 12.5,
        "outcome": "ok",
        "host": "codex",
        "session": "s-1",
        "thread": "t-1",
        "project": "/work/shop",
        "cwd": "/work/shop/src",
        "server": "docs",
        "launch": "019a0b0c0d0e0f0102030405",
        "number": number,
        "pid": 4711,
        "tool": "search",
        "id": 7,
        "request": 120,
        "response": 340,
        "protocol": "2025-11-25",
    }
    return {name: value for name, value in {**usual, **facts}.items() if value is not None}


class CallParts:
    """The directory of the records, written as launches write it."""

    def __init__(self, state: Path) -> None:
        self.path = state / "calls"
        for directory in (state, self.path):
            directory.mkdir(mode=0o700, exist_ok=True)

    def write(self, *records: dict[str, Any] | bytes, part: str = "20261118-110501") -> None:
        """Append records to a part, each in one write; bytes are written as they are."""
        fd = os.open(
            self.path / f"{part}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode=0o600
        )
        for record in records:
            line = record if isinstance(record, bytes) else json.dumps(record).encode() + b"\n"
            os.write(fd, line)
        os.close(fd)

    def delete(self, part: str = "20261118-110501") -> None:
        """Delete a part, as a launch does with the oldest."""
        (self.path / f"{part}.jsonl").unlink()

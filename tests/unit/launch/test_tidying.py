"""What a launch removes of those before it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_launch import launch
from mcp_launch.state import handshake_files, name_lease
from mcp_launch.system import open_table

if TYPE_CHECKING:
    import pytest


def test_a_launch_removes_handshakes_that_are_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_LAUNCH_HOME", str(tmp_path))
    directory = Path(handshake_files.find_directory(os.environ))
    directory.mkdir(parents=True)
    old, new = directory / "old.jsonl", directory / "new.jsonl"
    for file in (old, new):
        file.write_bytes(b"")
    os.utime(old, (time.time() - 31 * 86_400,) * 2)

    leases = Path(name_lease(os.environ, "launch")).parent
    launch._tidy(open_table(), str(leases))  # noqa: SLF001  # its guardian calls it

    assert not old.exists()
    assert new.exists()

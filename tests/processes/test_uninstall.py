"""`uninstall` while a launch is running."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from mcp_launch.commands import uninstall as uninstall_command

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from launches import LaunchRunner


def uninstall(**answers: bool) -> int:
    return uninstall_command.run(os.environ, **({"is_sure": True} | answers))


def test_a_launch_that_lives_keeps_its_lease_and_its_log(
    runner: LaunchRunner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = runner.launch("--", sys.executable, "-c", "import sys; sys.stdin.read()")
    leases = tmp_path / "state" / "leases"
    deadline = time.monotonic() + 30
    while not (leases.is_dir() and any(leases.glob("[0-9a-f]*.json"))):
        assert time.monotonic() < deadline
        time.sleep(0.01)

    assert uninstall(is_dry=True) == 1
    assert "1 launch is still running" in capsys.readouterr().out
    assert uninstall() == 1

    assert len(list(leases.glob("[0-9a-f]*.json"))) == 1
    assert "1 launch is still running" in capsys.readouterr().out
    launch.finish()
    assert uninstall() == 0

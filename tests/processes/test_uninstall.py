"""`uninstall` while a launch is running."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from command_line import run_command

if TYPE_CHECKING:
    from pathlib import Path

    from launches import LaunchRunner


def test_a_launch_that_lives_keeps_our_state(runner: LaunchRunner, tmp_path: Path) -> None:
    code = "import sys; print('{}', flush=True); sys.stdin.read()"
    launch = runner.launch("--", sys.executable, "-c", code)
    launch.read_line()

    for words in (["--dry-run"], ["--yes"]):
        done = run_command("uninstall", *words)
        assert done.returncode == 1
        assert "1 launch is still running" in done.stdout

    assert (tmp_path / "state" / "leases").is_dir()
    launch.finish()
    assert run_command("uninstall", "--yes").returncode == 0
    assert not (tmp_path / "state").exists()

"""What is said of a program that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.launch.program_help import explain

if TYPE_CHECKING:
    from pathlib import Path


def test_a_missing_path_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "notes-server").touch(mode=0o755)
    missing = f"{tmp_path}/notes-sevrer"

    error = explain(missing, [], [missing])

    assert error.problem == f"the server's command {missing} does not exist"
    assert error.fix == "did you mean notes-server?"

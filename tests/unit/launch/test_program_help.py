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


def test_a_missing_relative_path_is_named_with_the_file_that_it_means(tmp_path: Path) -> None:
    error = explain("./server", [], [f"{tmp_path}/server"])

    missing = f"the server's command ./server does not exist: no file {tmp_path}/server"
    assert error.problem == missing

"""Unit tests start no process but Git: tests that need another belong in tests/processes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from git_repository import GIT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system", "os.exec"}

_is_forbidden = False


@pytest.fixture(autouse=True)
def own_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put only a shell and Git on the PATH: hosts that are installed here would be asked."""
    directory = tmp_path / "path"
    directory.mkdir()
    (directory / "sh").symlink_to("/bin/sh")
    if GIT:
        (directory / "git").symlink_to(GIT)
    monkeypatch.setenv("PATH", str(directory))


@pytest.fixture(autouse=True)
def no_process() -> Iterator[None]:
    """Fail if the test starts a process."""
    global _is_forbidden  # noqa: PLW0603  # an audit hook cannot be removed
    _is_forbidden = True
    yield
    _is_forbidden = False


def _refuse_processes(event: str, arguments: tuple[object, ...]) -> None:
    if _is_forbidden and event in STARTS and os.path.basename(str(arguments[0])) != "git":
        raise AssertionError(f"a unit test starts a process ({event}): move it to tests/processes")


sys.addaudithook(_refuse_processes)

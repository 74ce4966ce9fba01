"""Unit tests start no process: tests that need one belong in tests/processes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system", "os.exec"}

_is_forbidden = False


@pytest.fixture(autouse=True)
def own_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put nothing on the PATH but a shell: hosts that are installed here would be asked."""
    directory = tmp_path / "path"
    directory.mkdir()
    (directory / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(directory))


@pytest.fixture(autouse=True)
def no_process() -> Iterator[None]:
    """Fail if the test starts a process."""
    global _is_forbidden  # noqa: PLW0603  # an audit hook cannot be removed
    _is_forbidden = True
    yield
    _is_forbidden = False


def _refuse_processes(event: str, _arguments: object) -> None:
    if _is_forbidden and event in STARTS:
        raise AssertionError(f"a unit test starts a process ({event}): move it to tests/processes")


sys.addaudithook(_refuse_processes)

"""ruff and mypy pass on the whole tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

CHECKS = {
    "ruff finds nothing": ["ruff", "check", "."],
    "the format is ruff's": ["ruff", "format", "--check", "."],
    "mypy finds nothing": ["mypy"],
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", CHECKS.values(), ids=list(CHECKS))
def test_quality(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        check=False,
        capture_output=True,
        encoding="utf-8",
    )

    assert done.returncode == 0, done.stdout + done.stderr

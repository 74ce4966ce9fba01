"""A fault of our own, told as a bug report."""

from __future__ import annotations

import errno
import sys
from typing import TYPE_CHECKING

import pytest

from mcp_launch.state import crash

if TYPE_CHECKING:
    from pathlib import Path


def test_a_fault_is_written_down_without_values_and_words_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["mcp-launch", "run", "--env=TOKEN=s3cret", "--strict", "--", "server", "--key=s3cret"]
    monkeypatch.setattr(sys, "argv", words)

    told = crash.describe(ZeroDivisionError("division by zero"))

    [report] = (tmp_path / "state").glob("crash-*.txt")
    text = report.read_text(encoding="utf-8")
    assert "options: --env --strict\n" in text
    assert "ZeroDivisionError: division by zero" in text
    assert "s3cret" not in text
    assert f"send {report} to the maintainers" in told.fix
    assert "a bug in mcp-launch: ZeroDivisionError" in told.problem


def test_only_a_launch_can_be_taken_out_of_an_entry() -> None:
    assert "from this entry" in crash.describe(ValueError()).fix
    assert "from this entry" not in crash.describe(ValueError(), is_launch=False).fix


@pytest.mark.parametrize(
    ("number", "fix"),
    [(errno.EMFILE, "ulimit -n 256"), (errno.ENOSPC, "ulimit -a, df")],
    ids=["too many files", "no space"],
)
def test_a_system_that_is_used_up_is_not_our_fault(number: int, fix: str, tmp_path: Path) -> None:
    told = crash.describe(OSError(number, "used up"))

    assert told.problem == "out of system resources: used up"
    assert fix in told.fix
    assert not (tmp_path / "state").exists()


def test_where_nothing_can_be_written_a_report_is_not_promised(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file", encoding="utf-8")

    assert "make the home directory writable" in crash.describe(ValueError()).fix

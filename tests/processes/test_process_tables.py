"""Both readers of the process table, on the same real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from launches import LIMIT, LaunchRunner, python

from mcp_launch import system
from mcp_launch.system import kernel, linux, portable
from mcp_launch.values import compare

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.system import ProcessTable

CHILD = python("import sys; print('ready', flush=True); sys.stdin.read()")


@pytest.fixture(params=[linux, portable], ids=["proc", "psutil"])
def table(request: pytest.FixtureRequest) -> ProcessTable:
    reader: ProcessTable = request.param
    return reader


def test_a_process_is_seen_with_its_age_and_its_ancestors(
    table: ProcessTable, runner: LaunchRunner
) -> None:
    assert system.open_table() is linux, "this machine is read from /proc"
    seen, again = table.look(os.getpid()), table.look(os.getpid())
    other = table.look(runner.start(CHILD).pid)

    assert seen
    assert again
    assert other
    assert (seen.identity.pid, seen.parent) == (os.getpid(), os.getppid())
    assert seen.name
    assert compare(seen.identity, again.identity) == "same"
    assert compare(seen.identity, other.identity) == "different"
    ancestors = system.list_ancestors(table, os.getpid())
    assert ancestors[0].identity.pid == os.getppid()
    assert ancestors[-1].parent == 0
    assert table.boot_id() == table.boot_id() != ""
    ages = [table.started_seconds_ago(pid) for pid in (ancestors[-1].identity.pid, os.getpid())]
    assert ages[0] is None or ages[1] is None or ages[0] >= ages[1] > 0


def test_command_line_program_variables_place_and_owner_are_read(
    table: ProcessTable, runner: LaunchRunner
) -> None:
    child = runner.start(CHILD, env={**os.environ, "MARK": "x=y"}, cwd=runner.project)
    child.read_line()

    assert table.read_argv(child.pid) == CHILD
    assert os.path.samefile(table.read_executable(child.pid), sys.executable)
    assert table.read_variable(child.pid, "MARK") == "x=y"
    assert table.read_variable(child.pid, "MAR") is None
    assert table.read_cwd(child.pid) == os.path.realpath(runner.project)
    assert table.read_owner(child.pid) == os.getuid()
    child.finish()
    assert (table.read_cwd(child.pid), table.read_owner(child.pid)) == ("", None)


def test_a_process_that_is_gone_is_not_seen(table: ProcessTable) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()

    assert table.look(process.pid) is None
    assert table.read_argv(process.pid) == []
    assert table.list_open_files(process.pid) == []
    assert table.list_descendants(process.pid) == []


def test_a_name_with_spaces_and_brackets_is_read(runner: LaunchRunner, tmp_path: Path) -> None:
    program = tmp_path / "od) d (x"
    program.symlink_to(os.path.realpath(sys.executable))
    child = runner.start([str(program), "-S", *CHILD[1:]])
    child.read_line()

    seen = linux.look(child.pid)

    assert seen
    assert (seen.name, seen.parent) == ("od) d (x", os.getpid())


def test_open_files_are_listed(table: ProcessTable, tmp_path: Path) -> None:
    with (tmp_path / "held.lock").open("w", encoding="utf-8"):
        assert str(tmp_path / "held.lock") in table.list_open_files(os.getpid())
    assert str(tmp_path / "held.lock") not in table.list_open_files(os.getpid())


def test_descendants_of_descendants_are_listed(
    table: ProcessTable, runner: LaunchRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    nested = runner.start(
        python(
            "import subprocess, sys\n"
            "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
            "print(child.pid, flush=True)\n"
            "sys.stdin.read()\n"
        )
    )
    grandchild = int(nested.read_line())

    below = table.list_descendants(os.getpid())

    assert below.index(nested.pid) < below.index(grandchild)
    assert table.list_descendants(nested.pid) == [grandchild]
    # Some kernels have no list of children.
    exists = os.path.exists
    monkeypatch.setattr(
        os.path, "exists", lambda path: not str(path).endswith("/children") and exists(path)
    )
    assert table.list_descendants(nested.pid) == [grandchild]


def test_only_the_writing_end_counts(runner: LaunchRunner) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb"):
        reader = runner.start(CHILD, stdin=reading)
        reader.read_line()

        assert linux.holds_writing_end(os.getpid(), reading) == "same"
        assert linux.holds_writing_end(reader.pid, reading) == "different"
        assert portable.holds_writing_end(os.getpid(), reading) == "unknown"


def test_orphans_are_found_by_their_mark_without_a_subreaper(
    runner: LaunchRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody adopts orphans (macOS), the launch id in the environment tells them."""
    monkeypatch.setenv("MCP_LAUNCH_ID", "mark-1")
    runner.start(["sh", "-c", "echo; exec sleep 600"]).read_line()
    monkeypatch.delenv("MCP_LAUNCH_ID")
    double_fork = runner.start(
        ["sh", "-c", "(sleep 600 </dev/null >/dev/null 2>&1 & echo $!)"],
        env={**os.environ, "MCP_LAUNCH_ID": "mark-2"},
    )
    orphan = int(double_fork.read_line())
    double_fork.wait()
    # Until it has executed its program: in that moment it has no environment.
    deadline = time.monotonic() + LIMIT
    while (seen := linux.look(orphan)) and seen.name != "sleep":
        assert time.monotonic() < deadline
        time.sleep(0.005)
    monkeypatch.setenv("MCP_LAUNCH_ID", "mark-2")
    try:
        assert portable.list_descendants(double_fork.pid) == [orphan]
    finally:
        os.kill(orphan, 9)


def test_the_subreaper_call_works_with_and_without_ctypes(runner: LaunchRunner) -> None:
    code = (
        "import sys\n"
        "if sys.argv[1] == 'ctypes':\n"
        "    sys.modules['_ctypes_hidden'] = None\n"
        "    import _ctypes\n"
        "    del _ctypes.call_function\n"
        "from mcp_launch.system import kernel\n"
        "print(kernel.become_subreaper(), kernel.die_with_parent(9), 'ctypes' in sys.modules)\n"
    )

    assert runner.start([*python(code), "quick"]).read_line() == b"True True False\n"
    assert runner.start([*python(code), "ctypes"]).read_line() == b"True True True\n"
    assert kernel  # the module under test


def test_a_zombie_does_not_run() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", ""], start_new_session=True) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

        assert not linux.is_running(child.pid)

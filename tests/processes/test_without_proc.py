"""Finding our children without `/proc`."""

from __future__ import annotations

import os
import subprocess

import pytest

from mcp_launch.system import without_proc


@pytest.mark.parametrize("ours", ["below theirs", "above theirs"])
def test_children_are_found_whether_or_not_pids_have_started_again_from_below(
    monkeypatch: pytest.MonkeyPatch, ours: str
) -> None:
    """A child that has ended and was not collected must not hide the others."""
    commands = ["cat"], ["cat"], ["true"]
    children = [subprocess.Popen(command, stdin=subprocess.PIPE) for command in commands]
    try:
        first, second, ended = pids = [child.pid for child in children]
        os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
        us = min(pids) - 1 if ours == "below theirs" else max(pids) + 1
        monkeypatch.setattr(os, "getpid", lambda: us)
        monkeypatch.setattr(without_proc, "_find_newest_pid", lambda: max(pids) + 1)
        monkeypatch.setattr(without_proc, "_LARGEST_PID", us + 10)

        found = without_proc.list_descendants(us)

        assert {first, second} <= set(found)
        assert ended not in found
    finally:
        for child in children:
            child.communicate()

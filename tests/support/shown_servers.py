"""What `ps` prints of the servers that a test has started."""

from __future__ import annotations

import re

from command_line import run_command
from fake_hosts import forget_seconds, limit_to_subtree


def show_mine(*words: str) -> str:
    """Return what `ps` prints into a pipe."""
    done = run_command("ps", *words, table=limit_to_subtree())
    assert (done.returncode, done.stderr) == (0, "")
    return forget_seconds(done.stdout)


def show_running(*words: str) -> list[str]:
    """Return the lines of a table without the titles of its columns."""
    lines = show_mine(*words).splitlines()
    return lines[1:] if lines[0].split()[0] == "SERVER" else lines


def read_row(line: str) -> list[str]:
    """Return the cells of a server's row: name, pid, age, memory, calls, last call, state."""
    return re.split(" {2,}", line.strip())

"""Run our commands as a user would, but in the test's own process."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from mcp_launch import main, system

if TYPE_CHECKING:
    from pathlib import Path


class Done(NamedTuple):
    """A command's exit code and output."""

    returncode: int
    stdout: str
    stderr: str


def run_command(*words: str, cwd: Path | None = None, table: Any = None, **environ: str) -> Done:
    """Run `mcp-launch` with these words; its stdin is empty and not a terminal.

    With a process table, these are the processes that it sees.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or os.curdir),
        mock.patch.dict(os.environ, environ),
        mock.patch.object(sys, "stdin", io.StringIO()),
        mock.patch.object(system, "open_table", return_value=table or system.open_table()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(list(words))
    return Done(code, out.getvalue(), err.getvalue())

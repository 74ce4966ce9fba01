"""What the doctor says of files that hosts start, held against posix_spawn."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from script_files import BROKEN, SOUND

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_said_of_a_broken_file_is_so(tmp_path: Path, what: str) -> None:
    """posix_spawn, as Codex and Claude Code use it, does not run any of them."""
    file = tmp_path / "server"
    file.write_bytes(BROKEN[what][0])
    file.chmod(0o755)
    try:
        pid = os.posix_spawn(str(file), ["server"], {"PATH": "/usr/bin:/bin"})
    except OSError:
        return
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in {126, 127}


@pytest.mark.parametrize("what", SOUND)
def test_a_sound_file_is_run(tmp_path: Path, what: str) -> None:
    file = tmp_path / "server"
    file.write_text(SOUND[what], encoding="utf-8")
    file.chmod(0o755)
    pid = os.posix_spawn(str(file), ["server"], {"PATH": "/usr/bin:/bin"})
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

"""The subject of a finding: a host, a server, a place in a file, a process."""

from __future__ import annotations

from typing import NamedTuple


class Subject(NamedTuple):
    """What a finding is about; fields that do not apply are empty."""

    host: str = ""  # its name in `hosts`
    server: str = ""
    scope: str = ""
    file: str = ""
    line: int = 0  # counted from 1; 0: the file as a whole
    column: int = 0
    pid: int = 0

"""What something that is said is about: a host, a server, a place in a file, a process."""

from __future__ import annotations

from typing import NamedTuple


class Subject(NamedTuple):
    """What a finding is about, as far as it is about something in particular."""

    host: str = ""  # its name in `hosts`
    server: str = ""
    scope: str = ""
    file: str = ""
    line: int = 0  # counted from 1; 0: the file as a whole
    column: int = 0
    pid: int = 0

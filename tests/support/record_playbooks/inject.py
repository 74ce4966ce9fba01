"""Change the command of a test so that the launchers in it are recorded.

The name of the recording travels in the command itself: some tests start a launcher with an
environment of their own.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from zlib import crc32

_HERE = Path(__file__).parent
_LAUNCHER = ["-m", "mcp_launch"]

# What a test that changes a launcher's limits, or what it can see, imports to run it.
_ENTRY = "mcp_launch.__main__"

# How much of an odd name is shown in a file's.
_LONGEST = 80


def inject(command: list[str], directory: str) -> list[str]:
    """Return the command with recorded launchers in it, for the test that runs now."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    recording = name_recording(test, directory)
    recording.parent.mkdir(parents=True, exist_ok=True)
    injected: list[str] = []
    rest = list(command)
    while rest:
        if rest[:2] == _LAUNCHER:
            injected += [str(_HERE / "launcher.py"), str(recording), test]
            del rest[:2]
        elif injected[-1:] == ["-c"] and _ENTRY in rest[0]:
            injected.append(_make_prefix(str(recording), test) + rest.pop(0))
        else:
            injected.append(rest.pop(0))
    return injected


def name_recording(test: str, directory: str) -> Path:
    """Return the path of a test's recordings, without an ending."""
    file, _, name = test.partition("::")
    plain = re.sub(r"[^\w.-]+", "-", name.removesuffix("]"), flags=re.ASCII).strip("-")
    if not re.fullmatch(r"[\w ,.'\[\]-]*", name, flags=re.ASCII):
        plain = f"{plain[:_LONGEST]}-{crc32(name.encode()):08x}"  # others may look alike now
    return Path(directory) / Path(file).stem / plain


def _make_prefix(recording: str, test: str) -> str:
    return (
        f"import sys; sys.path.insert(1, {str(_HERE.parent)!r}); "
        f"from record_playbooks import hooks; hooks.install({recording!r}, {test!r})\n"
    )

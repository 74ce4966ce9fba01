"""Parts of README and pages that tests generate, between marks that name the command to do so."""

from __future__ import annotations

import fcntl
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
HELP = ROOT / "mcp_launch" / "help"
END = "<!-- until here -->\n"

# A test compares; with this option of pytest it writes.
OPTION = "--write-docs"


def mark(test: str, part: str) -> str:
    """Return the line that begins a generated part."""
    return f"<!-- {part}, made by: pytest {test} {OPTION} -->\n"


def check(config: pytest.Config, begin: str, made: str, page: Path = README) -> None:
    """Compare a generated part with what was made now, or write it."""
    with page.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # tests in other processes write into the same file
        text = file.read()
        assert text.count(begin) == 1, f"{page.name} has lost the mark {begin}"
        before, _, rest = text.partition(begin)
        written, end, after = rest.partition(END)
        assert end, f"{page.name} has lost the mark {END}"
        if config.getoption(OPTION):
            file.seek(0)
            file.write(before + begin + made + END + after)
            file.truncate()
        else:
            assert squeeze(written) == squeeze(made), f"{page.name} is stale: {begin}"


def squeeze(text: str) -> list[str]:
    """Return the words of a text: what varies in a line decides where it is broken."""
    text = re.sub(r"\b4120*(\d)\b", r"412\1", text)
    return re.sub(r"[─│├└]", " ", text).split()


def make_up_pid(number: int, width: int) -> str:
    """Return a process id for the documentation: one of a few, as wide as a real one."""
    return f"412{str(number).rjust(max(1, width - 3), '0')}"

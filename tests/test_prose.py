"""Phrases that must not come back into messages, comments, docstrings and documentation.

Each of them made a reader look twice: an archaic word, or one word too general for its job.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "mcp_launch"

MODULES = ["__init__.py", "__main__.py", "errors.py", "masking.py", "values.py"]
PACKAGES = [
    "broker",
    "cli",
    "commands",
    "config_files",
    "doctor",
    "documents",
    "hosts",
    "launch",
    "machine",
    "protocol",
    "runtime",
    "state",
    "system",
]

# What not to write, and what to write instead.
PHRASES = {
    r"\banew\b": "again",
    r"\bat the most\b": "at most",
    r"\bgoes before\b": "takes precedence over",
    r"(?<!\bthere) is no (?!longer\b|such\b)": "is not a",
    r"\bleft alone\b": "skipped",
    r"\blet yourself\b": "chmod u+r PATH, and the like",
    r"\bmakes? no sense\b": "is invalid",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bsees? to\b": "make sure, or name the act",
    r"\bTell whether\b": "Return whether",
    r"\btwins?\b": "environment variable",
    r"\b(whom|whoever)\b": "name the process, file or caller",
}

SOURCES = [PACKAGE / name for name in MODULES]
SOURCES += [path for name in PACKAGES for path in sorted((PACKAGE / name).rglob("*.py"))]
SOURCES += [PACKAGE.parent / "README.md", *sorted(PACKAGE.rglob("*.md"))]


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_that_reads_like_a_translation_is_not_used(phrase: str) -> None:
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{number}: {line.strip()}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(phrase, line, re.IGNORECASE)
    ]

    assert found == [], f"write {PHRASES[phrase]!r}"

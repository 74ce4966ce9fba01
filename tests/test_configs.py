"""The examples in configs/ and the README say what the program understands."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from mcp_launch import profile

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def read_entries() -> dict[str, list[str]]:
    """Return every wrapped entry of every example, by file and name."""
    codex = tomllib.loads((ROOT / "configs" / "codex.toml").read_text(encoding="utf-8"))
    claude = json.loads((ROOT / "configs" / "claude.mcp.json").read_text(encoding="utf-8"))
    files = {"codex.toml": codex["mcp_servers"], "claude.mcp.json": claude["mcpServers"]}
    return {
        f"{file}: {name}": [entry["command"], *entry["args"]]
        for file, entries in files.items()
        for name, entry in entries.items()
    }


ENTRIES = read_entries()


@pytest.mark.parametrize("command", ENTRIES.values(), ids=list(ENTRIES))
def test_an_example_is_understood(command: list[str]) -> None:
    assert command[:2] == ["mcp-launch", "run"]
    wanted = profile.load(command[2:], {})

    assert wanted.server in {"docs", "audit", "browser", "worktree"}
    assert wanted.command[0] in {"npx", "uvx", "audit-server"}


def test_the_readme_names_every_option_and_source() -> None:
    for option in re.findall(r"^  (--[a-z-]+)", profile.USAGE, re.MULTILINE):
        assert f"`{option}" in README
    for source in profile.SOURCES:
        assert f"`{source}`" in README


def test_the_usage_names_every_source() -> None:
    for source in profile.SOURCES:
        assert source in profile.USAGE

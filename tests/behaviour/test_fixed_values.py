"""`wrap -- --set NAME=VALUE`: values in hosts' files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from command_line import run_command

if TYPE_CHECKING:
    from pathlib import Path

TEXT = '{"mcpServers": {"it": {"command": "x", "args": ["1"]}}}'


def test_a_fixed_value_is_written_replaced_and_not_shown(project: Path) -> None:
    file = project / ".mcp.json"
    file.write_text(TEXT, encoding="utf-8")
    shown = ""

    for value in ("first-value", "second-value"):
        done = run_command("wrap", "--yes", "--", "--set", f"LEVEL={value}", "--set", "B=b")
        assert done.returncode == 0, done.stderr
        shown += done.stdout + done.stderr

    words = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]["it"]["args"]
    own = ["--server", "it", "--set", "LEVEL=second-value", "--set", "B=b"]
    assert words == ["run", *own, "x", "1"]
    assert "LEVEL=***" in shown
    assert "first-value" not in shown
    assert "second-value" not in shown
    assert run_command("unwrap", "--yes").returncode == 0
    assert file.read_text(encoding="utf-8") == TEXT

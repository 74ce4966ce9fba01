"""`wrap -- --set NAME=VALUE`: values in hosts' files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wrap_requests import TEXT, unwrap, wrap, write

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_fixed_value_is_written_replaced_and_not_shown(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(project / ".mcp.json")

    for value in ("first-value", "second-value"):
        assert wrap(options=("--set", f"LEVEL={value}", "--set", "B=b")) == 0
    shown = capsys.readouterr().out

    words = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]["it"]["args"]
    own = ["--server", "it", "--set", "LEVEL=second-value", "--set", "B=b"]
    assert words == ["run", *own, "x", "1"]
    assert "LEVEL=***" in shown
    assert "first-value" not in shown
    assert "second-value" not in shown
    assert unwrap() == 0
    assert file.read_text(encoding="utf-8") == TEXT

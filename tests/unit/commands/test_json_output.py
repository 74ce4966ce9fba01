"""What commands print is JSON, whatever a host has sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mcp_launch.commands.json_output import print_json

if TYPE_CHECKING:
    import pytest


def test_numbers_that_json_does_not_have_are_texts(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"calls": [{"id": float("inf"), "arguments": {"x": float("nan"), "y": 1.5}}]})

    said = json.loads(capsys.readouterr().out, parse_constant=lambda name: f"invalid {name}")
    assert said == {"calls": [{"id": "inf", "arguments": {"x": "nan", "y": 1.5}}]}

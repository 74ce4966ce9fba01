"""The table of codes in the topic `doctor`: every code, as the program has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generated_docs import check, mark
from mcp_launch.doctor.finding import CHECKS

if TYPE_CHECKING:
    import pytest


def test_the_topic_lists_every_code(pytestconfig: pytest.Config) -> None:
    rows = [f"| {code} | {one.level} | {one.title} |\n" for code, one in CHECKS.items()]
    made = "| code | level | what it is |\n| --- | --- | --- |\n" + "".join(rows)

    check(
        pytestconfig,
        "mcp_launch/help/doctor.md",
        mark("tests/unit/doctor/test_codes_topic.py"),
        made,
    )

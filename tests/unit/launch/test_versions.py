"""Which of two versions is newer."""

from __future__ import annotations

import pytest

from mcp_launch.launch import versions


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("0.9.0", "0.10.0"),
        ("v9.9.9", "v22.1.0"),
        ("0.153", "0.153.1"),
        ("0.154.0-alpha.2", "0.154.0-alpha.10"),
        ("0.154.0-alpha.2", "0.154.0"),
        ("0.154.0-nightly.20261101", "0.154.0"),
        ("0.153.9", "0.154.0-nightly.20261101"),
        ("^0.150.0", "~0.151"),
    ],
)
def test_a_release_is_older_than_a_later_one(older: str, newer: str) -> None:
    first, second = versions.parse(older), versions.parse(newer)

    assert first is not None
    assert second is not None
    assert first < second


@pytest.mark.parametrize("text", ["", "latest", "system", ".downloads"])
def test_what_has_no_number_is_not_compared(text: str) -> None:
    assert versions.parse(text) is None

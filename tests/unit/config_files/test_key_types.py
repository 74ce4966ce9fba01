"""What a key of an entry may hold."""

from __future__ import annotations

import pytest
from mcp_launch.config_files.key_types import (
    LIST,
    NAMED_STRINGS,
    NUMBER,
    STRING,
    STRINGS,
    SWITCH,
    WHOLE,
    Kind,
    choose,
    choose_several,
    tabulate,
)

WAYS = choose("a", "b")
SEVERAL = choose_several("a", "b")
TABLE = tabulate("a table", command=STRING, args=STRINGS)


@pytest.mark.parametrize(
    ("kind", "fitting", "others"),
    [
        (STRING, ["", "x"], [None, 1, ["x"]]),
        (STRINGS, [[], ["x"]], ["x", [1], {"x": "y"}]),
        (NAMED_STRINGS, [{}, {"a": "b"}], [{"a": 1}, ["a"], "a"]),
        (LIST, [[], [1]], ["x", {}]),
        (SWITCH, [True, False], [0, 1, "true", None]),
        (NUMBER, [0, 1, 0.5], [-1, True, "1", None]),
        (WHOLE, [0, 1], [0.5, -1, False, "1"]),
        (WAYS, ["a"], ["c", "", None]),
        (SEVERAL, [[], ["a", "b"]], ["a", ["c"]]),
        (TABLE, [{}, {"command": "x", "unknown": 1}], [{"command": 1}, {"args": "x"}, []]),
    ],
    ids=lambda value: value.title if isinstance(value, Kind) else "",
)
def test_what_fits(kind: Kind, fitting: list[object], others: list[object]) -> None:
    assert [kind.fits(value) for value in fitting] == [True] * len(fitting)
    assert [kind.fits(value) for value in others] == [False] * len(others)


def test_the_choices_are_named() -> None:
    assert WAYS.title == "one of a, b"
    assert SEVERAL.title == "a list of a, b"

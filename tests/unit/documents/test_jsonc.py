"""The positions of keys and values in JSON, with and without comments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_launch.documents import jsonc
from mcp_launch.documents.positions import Unreadable

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=6)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
blank = st.sampled_from(["", " ", "\n", "\t\r\n"])
remark = st.sampled_from(['// it\'s "here": [1]\n', "/* } */", "/**/", "/* // */"])
gap = st.lists(blank | remark, max_size=2).map("".join)


@st.composite
def spelled(draw: st.DrawFn, value: Any = None) -> str:
    """Return some spelling of a value."""

    def put() -> str:
        text: str = draw(gap)
        return text

    def spell(one: Any) -> str:
        if isinstance(one, dict):
            pairs = [f"{json.dumps(key)}{put()}:{put()}{spell(one[key])}" for key in one]
            return "{" + join(pairs) + "}"
        if isinstance(one, list):
            return "[" + join([spell(element) for element in one]) + "]"
        return json.dumps(one)

    def join(parts: list[str]) -> str:
        trailing = draw(st.sampled_from(["", ","])) if parts else ""
        return ",".join(put() + part + put() for part in parts) + str(trailing) + put()

    return put() + spell(value) + put()


def follow(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


@given(st.data(), values)
def test_every_value_is_where_it_is_said_to_be(data: st.DataObject, value: Any) -> None:
    text = data.draw(spelled(value))

    read, spots = jsonc.read(text)

    assert read == value
    for spot in spots.values():
        alone = text[slice(*spot.value)]
        assert jsonc.read(alone)[0] == follow(value, spot.path)
        key = text[slice(*spot.key)]
        if key:
            assert json.loads(key) == spot.path[-1]


VALUE = "a text in double quotes, a number, true, false, null, { or ["
BROKEN = {
    "": ("the file is empty", 0),
    " // nothing\n": ("the file is empty", 12),
    "{": ("expected } at the end of the file: the { in line 1 is not closed", 1),
    '{\n"a": {\n"b": [1,\n\n': (
        "expected ]}} at the end of the file: the [ in line 3 is not closed",
        17,
    ),
    '{"a"': ("expected } at the end of the file: the { in line 1 is not closed", 4),
    '{"a":': ("expected } at the end of the file: the { in line 1 is not closed", 5),
    '{"a": {"b": "c"}\n': (
        "expected } at the end of the file: the { in line 1 is not closed",
        16,
    ),
    "{a: 1}": ("expected a name in double quotes", 1),
    '{"a": 1,, "b": 2}': ("expected a name in double quotes", 8),
    '{"a" 1}': ("a colon is missing", 5),
    '{"a" = 1}': ("a colon is missing", 5),
    '{"a": }': (f"a value is missing: expected {VALUE}", 6),
    '{"a": 1 "b": 2}': ("a comma is missing", 7),
    '{"a": {"b": 1}\n\n  "c": 2}': ("a comma is missing", 14),
    "[1 2]": ("a comma is missing", 2),
    "[1,,2]": (f"a value is missing: expected {VALUE}", 3),
    '["a]': ('this string is not closed: a " is missing', 1),
    '["a\n"]': ('this string is not closed: a " is missing', 1),
    '{"a": b"}': (f"expected {VALUE}", 6),
    "[tru]": (f"expected {VALUE}", 1),
    '[1, {"a": 2]': ("expected }, not ]", 11),
    '{"a": [1}': ("expected ], not }", 8),
    "{} {}": ("there is more text after the end", 3),
    "{}\n}": ("this } is one too many", 3),
    "[ /* x ]": ("this comment is not closed", 2),
    '{"a": 1, "a": 2}': ("a appears twice", 9),
    "['a']": ("write double quotes, not single ones", 1),
}


@pytest.mark.parametrize("text", list(BROKEN))
def test_what_is_not_json_is_reported_with_its_place(text: str) -> None:
    with pytest.raises(Unreadable) as refused:
        jsonc.read(text)

    assert (str(refused.value), refused.value.offset) == BROKEN[text]


def test_a_byte_order_mark_is_passed_over() -> None:
    value, spots = jsonc.read('\ufeff{"a": 1}')

    assert value == {"a": 1}
    assert spots["a",].value == (7, 8)

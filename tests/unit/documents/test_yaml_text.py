"""The positions of keys and values in YAML."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_launch.documents import positions, yaml_text

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(values, st.booleans())
@example(value="\x85", is_flow=True)  # a line break in YAML
def test_what_stands_in_a_spot_is_the_part_that_it_is_of(value: object, is_flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=is_flow, width=10**6)

    read, spots = yaml_text.read(text)

    assert read == value
    for spot in spots.values():
        part: object = value
        for step in spot.path:
            assert isinstance(part, dict | list)
            part = part[step]  # type: ignore[index]
        if is_flow:  # in a block, what is cut out has lost the indentation of its first line
            assert yaml.safe_load(text[slice(*spot.value)]) == part


def test_a_key_is_found_where_it_is_written() -> None:
    text = "extensions:\n  docs:\n    cmd: npx\n"

    _, spots = yaml_text.read(text)

    assert {spot.path: text[slice(*spot.key)] for spot in spots.values() if spot.path} == {
        ("extensions",): "extensions",
        ("extensions", "docs"): "docs",
        ("extensions", "docs", "cmd"): "cmd",
    }


def test_a_part_that_stands_once_and_is_meant_twice_has_one_spot() -> None:
    value, spots = yaml_text.read("a: &it {b: c}\nd: *it\n")

    assert value == {"a": {"b": "c"}, "d": {"b": "c"}}
    assert list(spots) == [(), ("a",), ("a", "b")]


def test_an_empty_text_has_no_parts() -> None:
    assert yaml_text.read("# nothing\n") == (None, {})


@pytest.mark.parametrize(
    ("text", "offset"),
    [("a: [1, 2\n", 9), ("a: b: c\n", 4), ("a: \x07\n", 3)],
    ids=["a list that is not closed", "two colons", "a control character"],
)
def test_a_text_that_is_not_yaml_is_refused_at_its_place(text: str, offset: int) -> None:
    with pytest.raises(positions.Unreadable) as refused:
        yaml_text.read(text)

    assert refused.value.offset == offset


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    for name, before in zip("bcdefgh", "abcdefg", strict=True)
)


@pytest.mark.parametrize(
    "text", [BOMB, "a: &a {self: *a}\n"], ids=["parts of parts of parts", "a part of itself"]
)
def test_a_text_whose_aliases_have_no_end_is_refused(text: str) -> None:
    with pytest.raises(positions.Unreadable, match="its aliases stand for too much text"):
        yaml_text.read(text)

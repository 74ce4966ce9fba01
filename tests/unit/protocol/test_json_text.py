"""JSON without `json`: the same verdict and the same values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_launch.protocol import json_text

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


@settings(max_examples=300)
@given(value=values)
def test_what_is_encoded_is_what_json_reads(value: object) -> None:
    assert json.loads(json_text.encode(value)) == value


@settings(max_examples=300)
@given(value=values, indent=st.sampled_from([None, 1]), is_ascii=st.booleans())
def test_what_json_writes_is_what_is_parsed(
    value: object, indent: int | None, is_ascii: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)

    assert json_text.parse(text.encode("utf-8", "surrogatepass")) == value or "\\ud" in ascii(text)


@settings(max_examples=500)
@given(text=st.text(alphabet='{}[]",:\\ \n0123-.eEutrflans', max_size=30))
def test_the_verdict_is_jsons(text: str) -> None:
    try:
        expected = json.loads(text, strict=False)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011  # that it is one is the verdict
            json_text.parse(text.encode())
    else:
        assert json_text.parse(text.encode()) == expected


def test_a_long_number_leaves_the_others_what_they_are() -> None:
    digits = "9" * 5000
    value = json_text.parse(f'{{"id":2,"n":{digits}}}'.encode())

    assert value == {"id": 2, "n": digits}
    assert json_text.encode(value) == f'{{"id":2,"n":{digits}}}'


@pytest.mark.parametrize("text", ["1e999", "-1e999", "NaN"])
def test_a_number_that_is_not_finite_can_be_read_again(text: str) -> None:
    assert json_text.encode(json_text.parse(text.encode())) == text

"""Where everything stands in a TOML text: told by cutting it out and reading it alone."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_launch.documents import positions, toml

B, L = '"' * 3, "'" * 3

TEXTS = {
    "plain": 'a = 1\nb = "two" # three\n',
    "no newline at the end": "a = 1",
    "a byte order mark": "\ufeffa = 1\n",
    "carriage returns": 'a = 1\r\n[t]\r\nb = [1,\r\n 2]\r\nc = """x\r\ny"""\r\n',
    "dotted and quoted keys": 'a."b.c" . \'d e\' = 1\n[x . "y]"]\nz = 2\n',
    "tables": "[a]\nb = 1\n[a.c]\nd = 2\n[[e]]\nf = 3\n[e.g]\nh = 4\n[[e]]\nf = 5\n[[e.i]]\nj=6\n",
    "arrays": 'a = [ # one\n  "x", # "y"\n  [1, 2,],\n  {b = "]", c = [{}]},\n]\n',
    "strings": "\n".join(
        ["a = ''", f"b = {L}it''s{L}''", f'c = {B}say \\"{B}"', 'd = "\\\\"', f"e = {B}\\\\{B}"]
    ),
    "words": "a = 1979-05-27 07:32:00 # when\nb = +1_000\nc = -inf\nd=true\n",
    "an entry": '[mcp_servers."a b"] # it\ncommand = "npx"\nargs = ["-y"]\nenv = { A = "#" }\n',
}


def follow(document: Any, path: positions.Path) -> Any:
    for step in path:
        document = document[step]
    return document


def check(text: str) -> None:
    document = tomllib.loads(text.removeprefix("\ufeff"))
    seen: dict[positions.Path, Any] = {}
    for spot in toml.read(text)[1]:
        here = follow(document, spot.path)
        alone = text[slice(*spot.value)]
        if alone:
            seen[spot.path] = tomllib.loads(f"value = {alone}")["value"]
            # nan is not even itself
            assert repr(seen[spot.path]) == repr(here)
        else:
            assert isinstance(here, dict)
            assert text[slice(*spot.key)].startswith("[")
    assert set(list_leaves(document)) <= set(seen)


def list_leaves(value: Any, path: positions.Path = ()) -> list[positions.Path]:
    if isinstance(value, dict) and value:
        return [leaf for key, one in value.items() for leaf in list_leaves(one, (*path, key))]
    if isinstance(value, list) and value:
        return [
            leaf for index, one in enumerate(value) for leaf in list_leaves(one, (*path, index))
        ]
    return [] if isinstance(value, dict) else [path]


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_every_value_is_where_it_is_said_to_be(text: str) -> None:
    check(text)


blank = st.sampled_from(["", " ", "\t "])
line_end = st.sampled_from(["\n", "\r\n", ' # it\'s "here" [x]\n', "\n\n#\n"])
bare = st.text("abAB01-_", min_size=1, max_size=3)
basic = st.text(st.sampled_from("ab#=[]{},.' \t"), max_size=5).map(lambda text: f'"{text}\\""')
literal = st.text(st.sampled_from('ab#=[]{},."\\ '), max_size=5).map(lambda text: f"'{text}'")
long = st.sampled_from(
    [
        f'{B}\na"b""c\\\n {B}',
        f"{L}\n'x''\r\n{L}",
        f"{B}\\\\{B}",
        f"{L}'x{L}''",
        f'{B}"a{B}""',
    ]
)
words = st.sampled_from(["1", "-2.5e3", "true", "inf", "nan", "1979-05-27", "07:32:00", "0xf"])


def containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    gap = st.sampled_from(["", " ", "\n", " # no ]\n  "])
    array = st.tuples(gap, st.lists(st.tuples(inner, gap), max_size=3), st.booleans()).map(
        lambda t: (
            "[" + t[0] + ",".join(v + g for v, g in t[1]) + ("," if t[2] and t[1] else "") + "]"
        )
    )
    flat = inner.filter(lambda text: "\n" not in text)
    table = st.lists(flat, max_size=3).map(
        lambda values: "{" + ", ".join(f"k{i} = {v}" for i, v in enumerate(values)) + "}"
    )
    return array | table


values = st.recursive(basic | literal | long | words, containers, max_leaves=6)
names = st.one_of(bare, basic, literal)


@st.composite
def documents(draw: st.DrawFn) -> str:
    text = ""
    for number in range(draw(st.integers(0, 3))):
        if number:
            heading = ".".join([f"t{number}", draw(names)])
            text += f"[[{heading}]]" if draw(st.booleans()) else f"[ {heading} ]"
            text += draw(line_end)
        for index in range(draw(st.integers(0, 3))):
            key = draw(blank) + f"k{index}" + draw(st.sampled_from(["", ".x", ' . "y.z"']))
            text += key + draw(blank) + "=" + draw(blank) + draw(values) + draw(line_end)
    return text


@given(documents())
def test_every_value_of_any_text_is_where_it_is_said_to_be(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # two keys that clash, or a line end in an inline table
    check(text)


def test_a_place_is_told_by_line_and_column() -> None:
    text = "a = 1\nbc = 2\n"

    assert positions.locate(text, 0) == (1, 1)
    assert positions.locate(text, text.index("2")) == (2, 6)

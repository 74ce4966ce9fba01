"""The positions of keys and values in TOML: the text at each of them is parsed alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from tomlkit.exceptions import TOMLKitError

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
    "a heading further down": "[a.b]\nx = 1\n[c]\n[a.d]\ny.z = 2\n",
    "an entry": '[mcp_servers."a b"] # it\ncommand = "npx"\nargs = ["-y"]\nenv = { A = "#" }\n',
}

# What is new in TOML 1.1.
NEWER = {
    "an inline table in lines": 'a = {\n  b = 1, # "one" }\n  # {\n  c.d = [ 2 ]\n}\ne = 3\n',
    "carriage returns in an inline table": 'a = {\r\n  b = "c", # d\r\n}\r\ne = 1\r\n',
    "a comma behind the last": "a = { b = 1, }\nc = {d = {e = 2,},}\n",
    "an inline table of nothing but a comment": "a = { # nothing\n}\n",
    "inline tables in an array": 'a = [\n  { b = "}", # ]\n  },\n  {\n  c = 2 },\n]\n',
    "a byte order mark, and lines": "\ufeffa = {\n  b = 1,\n}\n",
    "escapes": f'a = "\\e[0m\\x41"\n"\\x62\\e" = {B}\n\\xe9\\e{B}\n',
    "times without seconds": "a = 07:32 # when\nb = 1979-05-27T07:32\nc = 1979-05-27 07:32Z\n",
    "an entry": (
        '[mcp_servers."\\x61"] # it\ncommand = "npx"\nenv = {\n\tA = "#", # mine\n\tB = "c",\n}\n'
        "[mcp_servers.b]\nurl = 'x'\nhttp_headers = {\n  X = 'y'\n  }\n"
    ),
}


def load(text: str) -> Any:
    """Read a text with the other reader, which knows both versions."""
    return tomlkit.parse(text.removeprefix("\ufeff").replace("\r\n", "\n")).unwrap()


def follow(document: Any, path: positions.Path) -> Any:
    for step in path:
        document = document[step]
    return document


def check(text: str) -> None:
    document = load(text)
    seen: dict[positions.Path, Any] = {}
    value, spots = toml.read(text)
    assert repr(value) == repr(document)  # nan is not even itself
    for spot in spots:
        here = follow(document, spot.path)
        alone = text[slice(*spot.value)]
        if alone:
            seen[spot.path] = load(f"value = {alone}")["value"]
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


@pytest.mark.parametrize("text", [*TEXTS.values(), *NEWER.values()], ids=[*TEXTS, *NEWER])
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
newer = st.sampled_from(["07:32", "1979-05-27 07:32", '"\\x41\\e"', f"{B}\\e{B}"])


def containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    gap = st.sampled_from(["", " ", "\n", " # no ]\n  "])

    def join(opening: str, members: list[tuple[str, str]], *, is_trailed: bool) -> str:
        return opening + ",".join(v + g for v, g in members) + ("," if is_trailed else "")

    array = st.tuples(gap, st.lists(st.tuples(inner, gap), max_size=3), st.booleans()).map(
        lambda t: join("[" + t[0], t[1], is_trailed=t[2] and bool(t[1])) + t[0] + "]"
    )
    table = st.tuples(gap, st.lists(st.tuples(inner, gap), max_size=3), st.booleans()).map(
        lambda t: (
            join(
                "{" + t[0],
                [(f"{t[0]}k{index} = {value}", after) for index, (value, after) in enumerate(t[1])],
                is_trailed=t[2] and bool(t[1]),
            )
            + t[0]
            + "}"
        )
    )
    return array | table


values = st.recursive(basic | literal | long | words | newer, containers, max_leaves=6)
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
        load(text)
    except TOMLKitError:
        return  # two keys that clash
    check(text)


WRONG = {
    "in 1.0": ("a = 1\nb = npx\n", (2, 5), "Invalid value"),
    "below what is new": ('a = {\n  b = "c",\n}\nd = npx\n', (4, 5), "Unexpected character: 'n'"),
    "a comma is missing": ("a = {\n  b = 1\n  c = 2 }\n", (3, 3), "Unexpected character: 'c'"),
    "no end": ("a = {\n  b = 1", (2, 8), "Unexpected end of document"),
    "a key twice": ("a = {\n  b = 1,\n  b = 2,\n}\n", (1, 6), 'Key "b" already exists.'),
    "no such escape": ('a = {\n}\nb = "\\q"\n', (3, 7), "Invalid character 'q' in string"),
    "carriage returns": ("a = {\r\n}\r\nb = [1,,]\r\n", (3, 8), "Unexpected character: ','"),
}


@pytest.mark.parametrize(("text", "place", "problem"), WRONG.values(), ids=list(WRONG))
def test_what_is_wrong_is_named_with_its_place(
    text: str, place: tuple[int, int], problem: str
) -> None:
    with pytest.raises(positions.Unreadable, match="^" + re.escape(problem)) as caught:
        toml.read(text)

    assert positions.locate(text, caught.value.offset) == place


def test_a_place_is_given_as_line_and_column() -> None:
    text = "a = 1\nbc = 2\n"

    assert positions.locate(text, 0) == (1, 1)
    assert positions.locate(text, text.index("2")) == (2, 6)

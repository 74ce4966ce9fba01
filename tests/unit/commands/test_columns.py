"""Rows in columns, cut and wrapped to any width."""

from __future__ import annotations

import pytest
from rich.text import Text

from mcp_launch.commands.columns import Column, Layout, Paper, wrap, wrap_all
from mcp_launch.values import shorten_home


@pytest.mark.parametrize(
    ("text", "room", "keeps_end", "shown"),
    [
        ("short", 5, False, "short"),
        ("longer", 5, False, "long…"),
        ("/a/long/path", 8, True, "…ng/path"),
        ("a name with", 7, False, "a name…"),
        ("日本語", 4, False, "日…"),
        ("日本語", 4, True, "…語"),
        ("x", 0, False, ""),
    ],
)
def test_a_text_is_cut_at_its_end_or_at_its_front(
    text: str, room: int, keeps_end: bool, shown: str
) -> None:
    assert Paper(80).cut(text, room, keeps_end=keeps_end) == shown


def test_a_pipe_and_a_poor_terminal_have_marks_of_their_own() -> None:
    assert Paper(None).cut("a long text", 3) == "a long text"
    assert Paper(80, is_ascii=True).cut("a long text", 6) == "a l..."


COLUMNS = (Column("NAME", can_be_cut=True), Column("SIZE", is_right=True, spare=1), Column("END"))


def draw(width: int | None, *rows: tuple[str, str, str]) -> list[str]:
    cells = [[Text(cell) for cell in row] for row in rows]
    layout = Layout(COLUMNS, cells, Paper(width))
    return [layout.draw_header().plain, *[line.plain for row in cells for line in layout.draw(row)]]


def test_numbers_are_right_aligned_and_names_are_not() -> None:
    assert draw(None, ("one", "1", "a"), ("eleven", "11", "b, c")) == [
        "NAME    SIZE  END",
        "one        1  a",
        "eleven    11  b, c",
    ]


def test_a_list_that_does_not_fit_is_broken_after_its_commas() -> None:
    assert draw(34, ("a-long-name", "1", "running, in the home, 2 restarts")) == [
        "NAME         SIZE  END",
        "a-long-name     1  running,",
        "                   in the home,",
        "                   2 restarts",
    ]


def test_what_can_be_spared_is_left_out_when_names_cannot_be_cut_any_more() -> None:
    assert draw(25, ("a-very-long-name", "1", "running, in the home")) == [
        "NAME        END",
        "a-very-lo…  running,",
        "            in the home",
    ]


def test_a_word_that_is_too_long_is_broken() -> None:
    assert [line.plain for line in wrap(Text("a 0123456789 b"), 4)] == ["a", "0123", "4567", "89 b"]


def test_a_sentence_is_wrapped_on_a_terminal_only() -> None:
    text = "one two three four five"

    assert [line.plain for line in wrap_all(text, 2, "", Paper(16))] == [
        "  one two three",
        "  four five",
    ]
    assert [line.plain for line in wrap_all(text, 2, "", Paper(None))] == [f"  {text}"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [("/home/ann", "~"), ("/home/ann/x", "~/x"), ("/home/anna", "/home/anna"), ("/x", "/x")],
)
def test_the_home_is_written_as_people_write_it(path: str, shown: str) -> None:
    assert shorten_home(path, "/home/ann") == shown
    assert shorten_home(path, "") == path

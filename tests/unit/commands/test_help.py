"""`mcp-launch help`: topics, commands and codes."""

from __future__ import annotations

import io
import re

import pytest
from command_line import run_command
from rich.cells import cell_len
from rich.text import Text

from mcp_launch.cli.app import SECTIONS, list_command_names
from mcp_launch.commands.help import DIRECTORY, RELATED, TOPICS, read_topic, summarize
from mcp_launch.commands.output import show_markdown
from mcp_launch.commands.screen import Screen

# What fits beside the name of a topic on a terminal with 80 columns.
WIDTH = 68

_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")

# These explain themselves.
WITHOUT_TOPIC = {"demo", "help"}


def test_every_file_is_listed_once() -> None:
    assert sorted(TOPICS) == sorted(path.stem for path in DIRECTORY.iterdir())


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_begins_with_its_title_and_a_sentence_for_the_list(topic: str) -> None:
    title, sentence, *_ = read_topic(topic).split("\n\n")

    assert title.startswith("# ")
    assert sentence.endswith(".")
    assert len(summarize(topic)) <= WIDTH


def test_without_a_topic_all_are_listed() -> None:
    done = run_command("help")

    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == TOPICS
    assert max(map(len, lines)) <= 80


def test_a_topic_is_shown_without_links_that_lead_nowhere() -> None:
    done = run_command("help", "sources")

    assert done.returncode == 0
    assert done.stdout.startswith("# Sources of variables\n")
    assert "see `mcp-launch help env`." in done.stdout
    assert ".md" not in done.stdout


def test_a_link_to_a_page_of_the_web_keeps_its_address() -> None:
    assert "(https://github.com/krallin/tini)" in run_command("help", "layout").stdout


@pytest.mark.parametrize(
    ("name", "begins", "holds"),
    [
        ("ps", "Usage: mcp-launch ps ", "\n# `ps`\n"),
        ("run", "Usage: mcp-launch run ", "\nMore: mcp-launch help options\n"),
        ("trust", "Usage: mcp-launch trust ", "\nMore: mcp-launch help profiles\n"),
        ("demo", "Usage: mcp-launch demo ", "--help"),
    ],
)
def test_a_command_shows_its_own_help_and_then_where_there_is_more(
    name: str, begins: str, holds: str
) -> None:
    done = run_command("help", name)

    assert done.returncode == 0
    assert done.stdout.startswith(begins)
    assert holds in done.stdout


@pytest.mark.parametrize("code", ["ML206", "ml206", "206"])
def test_a_code_is_explained(code: str) -> None:
    assert run_command("help", code) == run_command("explain", code)


def test_every_command_has_a_topic() -> None:
    planned = {name for names in SECTIONS.values() for name in names}

    assert set(list_command_names()) <= planned
    assert planned - WITHOUT_TOPIC == set(RELATED) | (planned & set(TOPICS))
    assert set(RELATED.values()) <= set(TOPICS)


@pytest.mark.parametrize(
    ("word", "near"), [("optoins", "options"), ("unwrapp", "unwrap"), ("zzz", "")]
)
def test_an_unknown_topic_is_refused_with_the_closest_one(word: str, near: str) -> None:
    done = run_command("help", word)

    assert done.returncode == 2
    assert f"there is no help topic '{word}'" in done.stderr
    assert f"fix: {f'did you mean {near}? ' if near else ''}list them: mcp-launch help" in (
        done.stderr
    )


@pytest.mark.parametrize("topic", TOPICS)
def test_a_small_terminal_breaks_no_word_in_a_table(topic: str) -> None:
    file = io.StringIO()
    show_markdown(read_topic(topic), Screen(file=file, width=80, force_terminal=True))
    shown = Text.from_ansi(file.getvalue()).plain

    rows = [line for line in read_topic(topic).splitlines() if re.match(r"\| (?!---)", line)]
    cells = _LINK.sub(r"\1", " ".join(rows)).replace("`", "").replace("*", "")
    assert [word for word in cells.replace("|", " ").split() if word not in shown] == []
    assert max(map(cell_len, shown.splitlines())) <= 80

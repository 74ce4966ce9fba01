"""Every code of the doctor has a text that explains it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from documented_commands import list_faults
from mcp_launch.doctor.explanation import (
    DIRECTORY,
    GROUPS,
    HEADINGS,
    explain_level,
    find_codes,
    read_explanation,
)
from mcp_launch.doctor.finding import CHECKS

# How many words a text may have: enough to explain it, few enough to be read.
FEWEST, MOST = 120, 250

# What a terminal of 80 columns shows in one line of a code block, which is indented.
LONGEST_LINE = 76

# The code about the list of ignored codes, whose text has others as examples.
ABOUT_IGNORING = "ML015"


def test_every_code_has_a_text_and_every_text_a_code() -> None:
    assert {path.name for path in Path(DIRECTORY).iterdir()} == {f"{code}.md" for code in CHECKS}


def test_every_code_belongs_to_a_group() -> None:
    assert list(dict.fromkeys(code[:3] for code in CHECKS)) == list(GROUPS)


@pytest.mark.parametrize("code", CHECKS)
def test_a_text_begins_with_the_title_of_its_code(code: str) -> None:
    assert read_explanation(code).startswith(f"# {code}: {CHECKS[code].title}\n\n## ")


@pytest.mark.parametrize("code", CHECKS)
def test_a_text_has_all_headings_and_says_something_under_each(code: str) -> None:
    parts = re.split(r"^## (.*)\n", read_explanation(code), flags=re.MULTILINE)

    assert tuple(parts[1::2]) == HEADINGS
    for heading, content in zip(parts[1::2], parts[2::2], strict=True):
        assert len(content.split()) >= 5, heading


@pytest.mark.parametrize("code", CHECKS)
def test_a_text_is_neither_too_short_nor_too_long(code: str) -> None:
    assert FEWEST <= len(read_explanation(code).split()) <= MOST


@pytest.mark.parametrize("code", CHECKS)
def test_an_example_shows_a_file_or_a_terminal(code: str) -> None:
    example = read_explanation(code).partition("\n## Example\n")[2]

    assert re.search(r"^```\w+$", example, re.MULTILINE)


@pytest.mark.parametrize("code", CHECKS)
def test_the_commands_in_a_text_exist(code: str) -> None:
    assert list_faults(read_explanation(code)) == []


@pytest.mark.parametrize("code", CHECKS)
def test_the_codes_in_a_text_exist(code: str) -> None:
    assert set(re.findall(r"\bML\d{3}\b", read_explanation(code))) <= set(CHECKS)


@pytest.mark.parametrize("code", CHECKS)
def test_a_text_can_be_read_on_every_terminal(code: str) -> None:
    text = read_explanation(code)
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)

    assert text.isascii()
    assert max(len(line) for block in blocks for line in block.splitlines()) <= LONGEST_LINE
    assert text.count("```") == 2 * len(blocks)


@pytest.mark.parametrize("code", [code for code in CHECKS if code != ABOUT_IGNORING])
def test_a_text_explains_how_to_ignore_no_other_code(code: str) -> None:
    ignored = re.findall(r"--ignore (\w+)|ignore = \[\"(\w+)", read_explanation(code))

    assert {one or other for one, other in ignored} <= {code}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("ML206", "A warning, reported by `mcp-launch doctor`."),
        ("ML301", "An error, reported by `mcp-launch doctor --live`."),
    ],
)
def test_the_level_of_a_code_is_explained(code: str, said: str) -> None:
    assert explain_level(code) == said


@pytest.mark.parametrize("word", ["ML206", "ml206", "206"])
def test_a_code_is_found_however_it_is_written(word: str) -> None:
    assert find_codes(word) == ["ML206"]


def test_codes_are_found_by_their_beginning() -> None:
    assert find_codes("ml20") == [code for code in CHECKS if code.startswith("ML20")]
    assert find_codes("2")[:2] == ["ML201", "ML202"]
    assert find_codes("ML9") == []

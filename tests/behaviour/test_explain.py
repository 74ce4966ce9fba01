"""`mcp-launch explain`: codes of the doctor, topics and commands."""

from __future__ import annotations

import json
import re

import pytest
from command_line import run_command

from mcp_launch.doctor.check import CHECKS


@pytest.mark.parametrize("words", ["explain ML206", "explain ml206", "explain 206"])
def test_a_code_is_explained_with_its_level(words: str) -> None:
    done = run_command(*words.split())

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"# ML206: {CHECKS['ML206'].title}\n\nA warning, reported by")


def test_several_names_are_explained_one_after_another() -> None:
    shown = run_command("explain", "ML301", "install", "ML206").stdout

    titles = re.findall(r"^# (ML\d+|Install)", shown, re.MULTILINE)
    assert titles == ["ML301", "Install", "ML206"]


def test_the_beginning_of_codes_lists_them() -> None:
    shown = run_command("explain", "ml40").stdout

    assert [line[:5] for line in shown.splitlines()] == [
        code for code in sorted(CHECKS) if code.startswith("ML40")
    ]


def test_without_a_name_all_topics_and_codes_are_listed() -> None:
    lines = run_command("explain").stdout.splitlines()

    assert {"install", "wrap", "profiles", *CHECKS} <= {line.split(" ")[0] for line in lines}


def test_the_json_has_every_code_with_its_text() -> None:
    document = json.loads(run_command("explain", "ML", "ML206", "--json").stdout)

    assert [one["name"] for one in document["explanations"]] == sorted(CHECKS)
    assert all(one["text"].startswith(f"# {one['name']}: ") for one in document["explanations"])


@pytest.mark.parametrize(
    ("name", "begins"),
    [("wrap", "Usage: mcp-launch wrap "), ("run", "Usage: mcp-launch run "), ("demo", "Usage: ")],
)
def test_a_command_shows_its_help_and_then_the_topic_of_its_name(name: str, begins: str) -> None:
    shown = run_command("explain", name).stdout

    assert shown.startswith(begins)
    assert ("\n# " in shown) == (name == "wrap")


@pytest.mark.parametrize(
    ("word", "near"),
    [("ML266", "ML206"), ("instal", "install"), ("zzz", "")],
)
def test_an_unknown_name_is_refused_with_the_closest_one(word: str, near: str) -> None:
    done = run_command("explain", word)

    assert (done.returncode, done.stdout) == (2, "")
    assert f"there is no code, topic or command '{word}'" in done.stderr
    assert f"fix: {f'did you mean {near}? ' if near else ''}list them: mcp-launch explain" in (
        done.stderr
    )

"""`mcp-launch calls`: which calls it shows, and in which form."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from call_parts import THREAD, CallParts
from command_line import run_command
from fake_output import FakeOutput
from rich.cells import cell_len

from mcp_launch import main
from mcp_launch.machine.units import tell_clock

if TYPE_CHECKING:
    from pathlib import Path

OTHER = "5e0f1c9a-7d24-4b1e-9c35-8a64d2f0b713"


@pytest.fixture
def parts(tmp_path: Path) -> CallParts:
    return CallParts(tmp_path / "state")


@pytest.fixture
def recorded(parts: CallParts) -> CallParts:
    """Record a call of each outcome, one a minute, the last one now."""
    now = time.time()
    outcomes = ("ok", "tool error", "protocol error", "refused", "cancelled", "timed out", "died")
    for at, outcome in enumerate(outcomes):
        facts: dict[str, Any] = {"time": now - 60 * (6 - at), "outcome": outcome, "number": at + 1}
        if outcome == "refused":
            facts |= {"reason": "it is of another thread", "pid": None, "tool": "write"}
        if outcome == "died":
            facts |= {"server": "git", "tool": "git_log", "host": "claude", "session": OTHER}
            facts |= {"thread": None, "waited": True, "held": 4000.0, "changed": ["cwd"]}
        parts.add(facts)
    return parts


Show = Callable[..., list[str]]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """Return a function that shows calls on a terminal of some width."""

    def run(width: int, *words: str, encoding: str = "utf-8") -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        screen = FakeOutput(is_terminal=True, encoding=encoding)
        return screen.show(lambda: main(["calls", *words])).splitlines()

    return run


def list_outcomes(*words: str) -> list[str]:
    done = run_command("calls", "--json", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return [call["outcome"] for call in json.loads(done.stdout)["calls"]]


# The table


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        ({}, "12 ms  ok"),
        ({"ms": 0.04}, "0.0 ms  ok"),
        ({"ms": 125_000.0}, "2m 5s  ok"),
        ({"waited": True}, "ok (after a start)"),
        ({"waited": True, "held": 0.25}, "ok (after a start; held 0.2 ms)"),
        ({"waited": True, "changed": ["a", "b"]}, "ok (after a start; changed: a, b)"),
        ({"outcome": "refused", "reason": "it is not yours"}, "12 ms  refused: it is not yours"),
        (
            {"outcome": "refused", "changed": ["a"], "reason": "it is not yours"},
            "refused (changed: a): it is not yours",
        ),
        (
            {
                "outcome": "timed out",
                "changed": ["a"],
                "reason": "no answer and no progress within 3 s",
            },
            "timed out after 3 s (changed: a)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_call_has_one_row_with_what_came_of_it(
    facts: dict[str, Any], shown: str, parts: CallParts, show: Show, own_home: Path
) -> None:
    now = time.time()
    parts.add({"time": now, "project": f"{own_home}/shop"} | facts)
    clock = tell_clock(now, is_short=True)

    titles, row = show(200)

    assert " ".join(titles.split()) == "TIME HOST SESSION PROJECT SERVER TOOL TOOK SIZES OUTCOME"
    assert row.startswith(f"{clock}  codex  01a1e289  ~/shop   docs    search  ")
    assert row.replace("  312 B / 4.1 kB", "").endswith(shown)


def test_a_narrow_terminal_shows_what_matters_most(parts: CallParts, show: Show) -> None:
    long = "/work/a/very/long/path/to/the/shop"
    parts.add({"project": long, "tool": "a_tool_with_a_long_name"})

    for width, titles in {
        140: "TIME HOST SESSION PROJECT SERVER TOOL TOOK SIZES OUTCOME",
        90: "TIME HOST SESSION PROJECT SERVER TOOL TOOK OUTCOME",
        80: "TIME HOST SESSION SERVER TOOL TOOK OUTCOME",
        70: "TIME SESSION SERVER TOOL TOOK OUTCOME",
        40: "SERVER TOOL OUTCOME",
    }.items():
        assert " ".join(show(width)[0].split()) == titles, width
    assert "  …/path/to/the/shop  " in show(90)[1]


@pytest.mark.parametrize("words", [[], ["--stats"]], ids=["calls", "statistics"])
@pytest.mark.parametrize("width", [40, 60, 79, 80, 81, 140])
def test_no_line_is_wider_than_the_terminal(
    width: int, words: list[str], parts: CallParts, show: Show
) -> None:
    parts.add(
        {"tool": "日本語のとても長い名前のツールです" * 3, "server": "x" * 80},
        {"outcome": "refused", "reason": "word " * 40, "changed": ["a", "b" * 50]},
    )

    assert max(cell_len(line) for line in show(width, *words)) <= width


def test_a_pipe_gets_every_call_whole_in_one_line(parts: CallParts, own_home: Path) -> None:
    reason = "word " * 40
    project = f"{own_home}/x"
    parts.add({"tool": "t" * 200, "outcome": "refused", "reason": reason, "project": project})

    _, line = run_command("calls").stdout.splitlines()

    assert "t" * 200 in line
    assert THREAD in line
    assert project in line
    assert line.endswith("word word")


@pytest.mark.usefixtures("recorded")
def test_a_failed_call_is_red_on_a_terminal_unless_colours_are_unwanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("COLUMNS", "120"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)

    def show() -> str:
        screen = FakeOutput(is_terminal=True)
        with contextlib.redirect_stdout(screen):
            assert main(["calls"]) == 0
        return screen.getvalue()

    assert "\x1b[1;31mtool error" in show()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in show()
    assert "tool error" in show()


# Which calls


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    ("words", "outcomes"),
    [
        (["-n", "2"], ["timed out", "died"]),
        (["git"], ["died"]),
        (["g*"], ["died"]),
        (["--tool", "git_*", "--tool", "wr?te"], ["refused", "died"]),
        (["--host", "claude"], ["died"]),
        (["--session", "5e0f"], ["died"]),
        (["--failed", "--since", "210s"], ["refused", "timed out", "died"]),
        (["--failed", "--since", "210s", "docs", "-n", "1"], ["timed out"]),
    ],
    ids=lambda value: " ".join(value) if value else "-",
)
def test_options_choose_calls(words: list[str], outcomes: list[str] | None) -> None:
    if outcomes is None:
        assert "is not a time" in run_command("calls", *words).stderr
    else:
        assert list_outcomes(*words) == outcomes


def test_thirty_calls_are_shown_unless_a_number_or_a_time_is_given(parts: CallParts) -> None:
    parts.add(*({"number": number} for number in range(50)))

    assert len(list_outcomes()) == 30
    assert len(list_outcomes("--since", "1h")) == 50
    assert len(list_outcomes("-n", "40")) == 40


@pytest.mark.usefixtures("recorded")
def test_a_filter_that_matches_nothing_says_so_and_what_was_perhaps_meant() -> None:
    done = run_command("calls", "git", "--tool", "git_lgo", "--failed")

    assert done.returncode == 0
    assert done.stdout == (
        "No call on record matches git --tool git_lgo --failed. Did you mean git_log?\n"
    )


def test_an_old_record_does_not_match_and_its_age_is_named(parts: CallParts) -> None:
    parts.add({"time": time.time() - 7300})

    done = run_command("calls", "--since", "1h")

    assert done.stdout == "No call on record matches --since 1h. The last one came 2h 1m ago.\n"


@pytest.mark.parametrize("words", [[], ["--stats"], ["d*", "--failed"]])
def test_without_records_it_is_said_what_is_recorded_and_what_is_not(words: list[str]) -> None:
    done = run_command("calls", *words)

    assert done.returncode == 0
    assert done.stdout.startswith("No call is on record. Every call to a server that runs through")
    assert "--direct" in done.stdout
    assert "no_record = true" in done.stdout
    key = "tools" if "--stats" in words else "calls"
    assert json.loads(run_command("calls", *words, "--json").stdout)[key] == []


@pytest.mark.parametrize(
    ("words", "problem", "fix"),
    [
        (["--host", "other"], "there is no host other", ", unknown\n"),
        (["--stats", "-f"], "--stats and --follow cannot be combined", "leave out one"),
        (["--since", "soon"], "'soon' is not a time", "write an age"),
    ],
    ids=" ".join,
)
def test_bad_usage_is_refused_with_a_way_out(words: list[str], problem: str, fix: str) -> None:
    done = run_command("calls", *words)

    assert done.returncode == 2
    assert problem in done.stderr
    assert fix in done.stderr


# JSON


@pytest.mark.usefixtures("recorded")
def test_json_has_everything_that_is_recorded() -> None:
    [call] = json.loads(run_command("calls", "git", "--json").stdout)["calls"]

    del call["time"]
    assert call == {
        "ms": 12.5,
        "outcome": "died",
        "failed": True,
        "reason": None,
        "host": "claude",
        "session": OTHER,
        "thread": None,
        "project": "/work/shop",
        "cwd": "/work/shop",
        "server": "git",
        "tool": "git_log",
        "launch": "01a1e296e1adc4db8953f0",
        "number": 7,
        "pid": 4711,
        "id": 7,
        "request": 312,
        "response": 4096,
        "waited": True,
        "held": 4000.0,
        "changed": ["cwd"],
        "protocol": "2025-06-18",
        "trace": None,
        "arguments": None,
    }


# Statistics


@pytest.mark.usefixtures("recorded")
def test_statistics_have_a_row_for_each_tool() -> None:
    head, *rows, total = run_command("calls", "--stats").stdout.splitlines()

    titles = "SERVER TOOL CALLS FAILED P50 P95 SLOWEST BYTES LAST HOUR"
    assert " ".join(head.split()) == titles
    assert [row.split()[:4] for row in rows] == [
        ["docs", "search", "5", "3"],
        ["docs", "write", "1", "1"],
        ["git", "git_log", "1", "1"],
    ]
    assert total.startswith("7 calls of 2 servers since ")
    assert total.endswith(", 5 failed")
    words = ["calls", "--stats", "-n", "1", "--json"]
    [tool] = json.loads(run_command(*words).stdout)["tools"]
    assert (tool["server"], tool["tool"], tool["calls"]) == ("docs", "search", 5)
    assert (len(tool["last_hour"]), sum(tool["last_hour"])) == (12, 5)


def test_a_tool_name_of_a_record_reaches_json_as_it_is(parts: CallParts) -> None:
    parts.add({"tool": "a\x1b\ud800"})

    [call] = json.loads(run_command("calls", "--json").stdout)["calls"]
    assert call["tool"] == "a\x1b\ud800"

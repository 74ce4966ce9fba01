"""`mcp-launch logs`: which lines it shows, and in which form."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest
from command_line import run_command
from fake_output import FakeOutput

from mcp_launch import main
from mcp_launch.state import launch_log, leases
from mcp_launch.state.launch_log import Log
from mcp_launch.values import DECISION, END, FAILURE, REFUSAL, REST, RESTART, START

if TYPE_CHECKING:
    from pathlib import Path


def open_log(name: str = "it", launch: str = "0123456789abcdef", **facts: object) -> Log:
    path = f"{launch_log.find_directory(os.environ)}/{launch}{launch_log.ENDING}"
    return Log(path, {"launch": launch, "server": name, "cwd": "/work/app", **facts})


@pytest.fixture
def log() -> Log:
    """Return a log with a line of each kind."""
    log = open_log(host="codex", session="s-1", thread="t-1")
    log.note("sets HOME (inherited)", DECISION)
    log.note("started: /bin/it, pid 7", START)
    log.add_stderr(b"hello\n")
    log.add_noise(b"noise\n")
    log.note("the server was killed by signal 9 while it was idle", FAILURE)
    log.note("started again: /bin/it, pid 8", RESTART)
    log.note("refused: not yours", REFUSAL)
    log.note("the server is ended: nobody calls it", REST)
    log.note("ended: the host has ended; 3 calls in 2 s", END)
    return log


EVENTS = ["start", "stderr", "stdout", "failure", "restart", "refusal", "rest", "end"]


def list_kinds(shown: str) -> list[str]:
    return [line.split()[4] for line in shown.splitlines()]


@pytest.mark.usefixtures("log")
def test_events_are_shown_one_line_each_and_decisions_only_on_request() -> None:
    shown = run_command("logs").stdout

    assert list_kinds(shown) == EVENTS
    assert list_kinds(run_command("logs", "-v").stdout) == ["decision", *EVENTS]
    assert list_kinds(run_command("logs", "--failed").stdout) == ["failure"]
    assert run_command("logs", "-n", str(10**30)).stdout == shown
    first = shown.splitlines()[0]
    assert first.endswith(" it abcdef start    /bin/it, pid 7, for codex, thread t-1, in /work/app")
    assert shown.count("/work/app") == 1


def test_a_launch_that_failed_is_shown_with_its_host_and_directory() -> None:
    open_log(host="gemini").note("the launch failed: it is not there — fix: add it", FAILURE)

    for options in ([], ["--failed"]):
        shown = run_command("logs", *options).stdout
        assert "the launch for gemini in /work/app failed: it is not there — fix: add it" in shown


def test_a_failure_does_not_repeat_the_stderr_above_it() -> None:
    log = open_log()
    log.add_stderr(b"no such vault\n")
    log.note(
        "the launch failed: it ended with exit code 1 before it answered; the end of its stderr: "
        "no such vault \N{EM DASH} fix: see its output and how it was started: mcp-launch logs it",
        FAILURE,
    )

    first, second = run_command("logs").stdout.splitlines()
    assert first.endswith("stderr   no such vault")
    assert second.endswith("the launch failed: it ended with exit code 1 before it answered")
    for options in (["--failed"], ["-n", "1"], ["--json"]):  # not shown above it, or for programs
        assert "stderr: no such vault" in run_command("logs", *options).stdout

    # Only the advice to look here is left out.
    log.add_stderr(b"a\n")
    log.note("it died; the end of its stderr: a \N{EM DASH} fix: install it", FAILURE)
    assert run_command("logs").stdout.endswith("failure  it died \N{EM DASH} fix: install it\n")


def test_on_a_terminal_ids_and_homes_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    home = os.environ["HOME"]
    for launch, thread in (("1" * 16, "01a1ec36-aed9-72a2"), ("2" * 16, "01a1ec36-b512-7410")):
        log = open_log(launch=launch, host="codex", thread=thread, cwd=f"{home}/app")
        log.note("started: /bin/it, pid 7", START)

    def show(*, is_terminal: bool = True, is_verbose: bool = False) -> str:
        output = FakeOutput(is_terminal=is_terminal)
        return output.show(lambda: main(["logs", *["-v"] * is_verbose])).splitlines()[0]

    whole = f"for codex, thread 01a1ec36-aed9-72a2, in {home}/app"
    assert show().endswith("for codex, thread 01a1ec36-aed9, in ~/app")
    assert show(is_verbose=True).endswith(whole)
    assert show(is_terminal=False).endswith(whole)


def test_in_a_poor_locale_a_fix_is_still_readable() -> None:
    failure = "the launch failed: it was not found \N{EM DASH} fix: install it"
    open_log().note(failure, FAILURE)

    output = FakeOutput(is_terminal=False, encoding="ascii")
    shown = output.show(lambda: main(["logs"]))
    assert shown.rstrip().endswith("it was not found - fix: install it")


def test_where_nothing_is_to_be_shown_it_says_so() -> None:
    open_log().note("sets HOME", DECISION)

    assert run_command("logs").stdout == "There are no lines to show; -v shows decisions, too.\n"
    assert run_command("logs", "--failed").stdout == "There are no failures.\n"
    assert run_command("logs", "--json").stdout == ""


@pytest.mark.usefixtures("log")
def test_each_line_can_be_had_as_json() -> None:
    lines = run_command("logs", "-v", "--json").stdout.splitlines()

    told = [json.loads(line) for line in lines]
    assert [line["kind"] for line in told] == ["decision", *EVENTS]
    assert told[0] | {"time": 0} == {
        "version": 1,
        "time": 0,
        "server": "it",
        "host": "codex",
        "session": "s-1",
        "thread": "t-1",
        "launch": "0123456789abcdef",
        "kind": "decision",
        "text": "sets HOME (inherited)",
    }


def test_earlier_lines_are_left_out_and_the_number_counts_shown_lines_only() -> None:
    log = open_log()
    for age in (7200.0, 600.0, 60.0):
        log.note(f"{age:.0f} s ago", FAILURE, time.time() - age)
        for _ in range(3):
            log.note("decided", DECISION, time.time() - age)

    assert run_command("logs", "--since", "1h").stdout.count("s ago") == 2
    assert run_command("logs", "-n", "2").stdout.count("s ago") == 2


@pytest.mark.parametrize(
    ("given", "shown"), [("web", "web"), ("npx", "docs"), ("docs", "docs")], ids=str
)
def test_a_name_that_was_given_to_a_launch_takes_precedence(
    given: str, shown: str, own_home: Path
) -> None:
    config = own_home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text(
        '[mcp_servers.docs]\ncommand = "npx"\nargs = ["docs-server"]\n', encoding="utf-8"
    )
    log = open_log(given, mark=leases.mark_command(["npx", "docs-server"]))
    log.note("started: /bin/it, pid 7", START)

    [line] = run_command("logs", "--json").stdout.splitlines()

    assert json.loads(line)["server"] == shown
    assert run_command("logs", given).returncode == run_command("logs", "docs").returncode == 0


@pytest.mark.usefixtures("own_home")
def test_a_damaged_log_is_shown_as_far_as_it_can_be_read() -> None:
    path = f"{launch_log.find_directory(os.environ)}/0123456789abcdef{launch_log.ENDING}"
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write("nan e no\ninf e no\n1e300 e no\n-1e300 e no\n1790000000 e yes\n")

    plain, as_json = run_command("logs"), run_command("logs", "--json")

    assert plain.returncode == as_json.returncode == 0
    assert "(unknown) abcdef stderr   yes" in plain.stdout
    assert "no" not in plain.stdout.replace("(unknown)", "")
    assert json.loads(as_json.stdout)["text"] == "yes"


@pytest.mark.parametrize("words", [[], ["docs"]], ids=["all", "a server"])
def test_where_there_is_no_log_it_says_so(words: list[str]) -> None:
    done = run_command("logs", *words)

    assert done.returncode == 2
    assert "there is no log in" in done.stderr
    assert "fix: " in done.stderr


@pytest.mark.usefixtures("log")
def test_a_server_or_session_that_has_no_log_is_refused() -> None:
    assert "did you mean it?" in run_command("logs", "itt").stderr
    assert "no log mentions session 0815" in run_command("logs", "--session", "0815").stderr
    open_log(launch="1" * 16).note("for session s-2")
    assert "for session s-2" in run_command("logs", "-v", "--session", "s-2").stdout

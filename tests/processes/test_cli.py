"""The commands beside `run`."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from mcp_launch import __version__, cli
from mcp_launch.cli.app import app
from mcp_launch.commands import doctor, usage_errors

if TYPE_CHECKING:
    from pathlib import Path


def mcp_launch(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcp_launch", *words],
        check=False,
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


def test_what_a_command_returns_is_no_misunderstanding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2 of the doctor's own must not be answered to a host that is none."""
    monkeypatch.setattr(doctor, "run", lambda *_: 2)
    monkeypatch.setattr(usage_errors, "answer_host", lambda _: pytest.fail("there is no host"))

    assert cli.run(["doctor"]) == 2


def test_a_crash_shows_no_values() -> None:
    # The environment is among them, and some versions of the library show them by default.
    assert app.pretty_exceptions_show_locals is False


def test_the_demo_leaves_nothing(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    shown = mcp_launch("demo")

    assert shown.returncode == 0, shown.stderr
    assert max(map(len, shown.stdout.splitlines())) <= 80
    # Without us the server and its three children are left; with us nothing is.
    assert shown.stdout.count("alive") == 4
    assert re.search(r"^Left after .* s: nothing\.$", shown.stdout, re.MULTILINE)
    assert "\n  mcp-launch wrap --dry-run " in shown.stdout
    assert list(own_home.iterdir()) == []
    places = [process.info["cwd"] or "" for process in psutil.process_iter(["cwd"])]
    assert [place for place in places if place.startswith(str(tmp_path))] == []


def test_the_version_is_printed() -> None:
    assert mcp_launch("--version").stdout == f"mcp-launch {__version__}\n"


@pytest.mark.parametrize("command", ["run", "demo"])
def test_the_help_names(command: str) -> None:
    assert command in mcp_launch("--help").stdout


def test_a_system_without_fork_is_refused_with_the_reason() -> None:
    from mcp_launch import cli

    assert cli.run(["run", "--direct", "--", "server", "-x"]) == 125


def test_a_closed_stdin_is_no_reason_for_a_traceback() -> None:
    command = f"exec {sys.executable} -m mcp_launch lunch <&-"
    refused = subprocess.run(
        ["/bin/sh", "-c", command], check=False, capture_output=True, timeout=60
    )

    assert refused.returncode == 2
    assert b"Traceback" not in refused.stderr


@pytest.mark.parametrize("words", ["--version", "list --json", "help", "schema ps", "logs"])
def test_a_closed_stdout_is_no_bug_of_ours(words: str, own_home: Path) -> None:
    command = f"exec {sys.executable} -m mcp_launch {words} >&- <&-"
    done = subprocess.run(["/bin/sh", "-c", command], check=False, capture_output=True, timeout=60)

    assert done.returncode in {0, 2}  # there are no logs
    assert b"a bug in mcp-launch" not in done.stderr
    assert not list(own_home.rglob("crash-*"))


def test_an_unknown_command_is_refused_without_a_traceback() -> None:
    refused = mcp_launch("lunch")

    assert refused.returncode == 2
    assert "mcp-launch has no command 'lunch'" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("words", "problem", "fix"),
    [
        (["--", "--bogus"], "unknown option --bogus", "after -- write options of run"),
        (["--", "--pass-env"], "--pass-env needs a value", "after -- write options of run"),
        (["--", "--share"], "--share needs a value", "its values are off, project; after --"),
        (["--", "--pass-envv", "x"], "unknown option --pass-envv", "did you mean --pass-env? "),
        (["--pass-env", "safe"], "an option of run, not of wrap", "wrap [SERVER...] -- --pass-env"),
        (["--strict"], "an option of run, not of wrap", "wrap [SERVER...] -- --strict\n"),
    ],
    ids=[
        "unknown",
        "without a value",
        "without one of some",
        "misspelled",
        "before the dashes",
        "a switch before them",
    ],
)
@pytest.mark.usefixtures("project")
def test_options_of_run_that_wrap_does_not_understand_are_explained_for_wrap(
    words: list[str], problem: str, fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["wrap", "docs", *words]) == 2

    said = capsys.readouterr().err
    assert problem in said
    assert fix in said
    assert "COMMAND" not in said


def test_the_usage_of_wrap_names_the_options_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["wrap", "--help"]) == 0

    usage = capsys.readouterr().out.splitlines()[0]
    assert usage == "Usage: mcp-launch wrap [OPTIONS] [SERVER]... [-- RUN-OPTIONS]"

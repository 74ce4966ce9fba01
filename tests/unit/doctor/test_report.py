"""The doctor's report, for people and as JSON, and what `--fix` repairs."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_line import Done, run_command
from git_repository import track
from rich.console import Console
from secret_entries import SECRET, SECRETS

from mcp_launch.doctor import registry
from mcp_launch.doctor.checks import configuration, not_wrapped
from mcp_launch.doctor.finding import Finding
from mcp_launch.doctor.report import Report
from mcp_launch.machine.installed_hosts import Program
from mcp_launch.machine.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_machine import FakeMachine

    from mcp_launch.machine.survey import Survey

GIT = shutil.which("git") or "git"
PROGRAM = str(Path(sys.executable).parent / "mcp-launch")

BROKEN = "[mcp_servers.docs\n"
UNWRAPPED = '[mcp_servers.docs]\ncommand = "sh" # mine\nargs = ["-c", "cat"]\n'


def doctor(machine: FakeMachine, *words: str) -> Done:
    return run_command("doctor", *words, cwd=machine.project)


def list_findings(machine: FakeMachine, *words: str) -> list[dict[str, Any]]:
    """Return what is found about the files of this machine; its processes are the developer's."""
    found = json.loads(doctor(machine, "--json", *words).stdout)["findings"]
    assert isinstance(found, list)
    return [one for one in found if one["subject"].get("file", "").startswith(str(machine.home))]


def test_one_command_says_what_is_wrong_where_and_what_to_do(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", BROKEN)
    machine.write("~/.cursor/mcp.json", '{"mcpServers": {"it": {"command": "no-such-thing"}}}')

    done = doctor(machine)

    assert done.returncode == 1
    assert "Codex" in done.stdout
    assert "~/.codex/config.toml:1" in done.stdout
    assert "ML101 error: " in done.stdout
    # A broken file hides nothing of the others.
    assert re.search(r"Cursor\n  it\n.*\n.*ML201 error: .*no-such-thing", done.stdout)
    assert re.search(r"fix: .", done.stdout)
    assert re.search(r"2 errors, .* in 1 server of 1 host", done.stdout.splitlines()[-1])


def test_what_it_says_to_programs_has_a_version(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", UNWRAPPED)

    told = json.loads(doctor(machine, "--json").stdout)

    assert told["version"] == 1
    assert told["servers"] == 1
    [codex] = [host for host in told["hosts"] if host["host"] == "codex"]
    assert codex["servers"] == 1
    [finding] = [one for one in told["findings"] if one["code"] == "ML117"]
    place = {"host": "codex", "server": "docs", "scope": "user", "line": 1, "column": 1}
    assert finding["subject"] == {**place, "file": str(machine.home / ".codex/config.toml")}
    assert finding["level"] == "note"
    assert finding["repair"]


def test_it_can_be_narrowed_to_a_host(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", BROKEN)
    machine.write("~/.cursor/mcp.json", "{")

    found = list_findings(machine, "--host", "cursor")

    assert [one["subject"]["host"] for one in found] == ["cursor"]


def test_a_host_that_does_not_exist_is_named_with_near_misses(machine: FakeMachine) -> None:
    done = doctor(machine, "--host", "cursr")

    assert done.returncode == 2
    assert "did you mean cursor?" in done.stderr


def test_fix_alone_only_shows_what_it_would_do(machine: FakeMachine) -> None:
    path = machine.write("~/.codex/config.toml", UNWRAPPED)

    done = doctor(machine, "--fix")

    assert done.returncode == 1
    assert "would wrap docs" in done.stdout
    assert "add --yes" in done.stdout
    assert path.read_text("utf-8") == UNWRAPPED


def test_fix_with_yes_does_it_and_looks_again(machine: FakeMachine) -> None:
    path = machine.write("~/.codex/config.toml", UNWRAPPED)

    done = doctor(machine, "--fix", "--yes")

    assert "done: wrap docs" in done.stdout
    assert done.stdout.count("ML117") == 1  # before, and not after
    assert "# mine" in path.read_text("utf-8")
    assert list_findings(machine) == []


def test_a_check_that_fails_is_reported_and_hides_nothing(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_too_closely(survey: Survey, item: object) -> Iterator[Finding]:
        yield Finding("ML108", Subject("codex", "docs"), "seen before", "do")
        raise ZeroDivisionError(f"{survey.site.project and item}"[:0])

    monkeypatch.setattr(
        registry, "_OF_ITEMS", (look_too_closely, *configuration.OF_ITEMS), raising=True
    )
    machine.write("~/.codex/config.toml", UNWRAPPED)

    codes = [finding.code for finding in registry.examine(machine.survey())]

    assert {"ML001", "ML108", "ML117"} <= set(codes)


@pytest.mark.parametrize("kind", [[], {}, 3, None])
def test_an_entry_of_no_kind_hides_nothing(machine: FakeMachine, kind: object) -> None:
    servers = {"odd": {"command": "sh", "type": kind}, "gone": {"command": "no-such-thing"}}
    machine.write("~/.cursor/mcp.json", json.dumps({"mcpServers": servers}))

    found = list_findings(machine)

    assert "ML001" not in [one["code"] for one in found]
    assert [one["subject"]["server"] for one in found if one["code"] == "ML201"] == ["gone"]


def test_an_entry_that_cannot_be_looked_at_is_reported_and_hides_nothing(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(host: object, entry: dict[str, Any]) -> str:
        return str(entry["cwd"] / 0) if "cwd" in entry and host else ""

    servers = {"odd": {"command": "sh", "cwd": "/"}, "docs": {"command": "sh"}}
    machine.write("~/.cursor/mcp.json", json.dumps({"mcpServers": servers}))
    monkeypatch.setattr("mcp_launch.machine.survey.tell_why_not", stumble)

    found = registry.examine(machine.survey("cursor"))

    told = {(one.code, one.subject.server) for one in found}
    assert {("ML001", "odd"), ("ML117", "docs")} <= told


@pytest.mark.parametrize("entry", list(SECRETS.values()), ids=list(SECRETS))
@pytest.mark.parametrize("words", [[], ["--json"], ["--fix"]], ids=" ".join)
def test_no_secret_is_ever_shown(
    entry: dict[str, Any], words: list[str], machine: FakeMachine
) -> None:
    text = json.dumps({"mcpServers": {"it": entry}})
    machine.write("~/.cursor/mcp.json", text)
    machine.write(".mcp.json", text)
    track(machine.project, ".mcp.json")

    done = doctor(machine, *words)

    assert done.returncode in {0, 1}, done.stderr
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("words", [[], ["--json"], ["--fix"]], ids=" ".join)
def test_a_server_may_be_called_by_a_secret(words: list[str], machine: FakeMachine) -> None:
    name = "ghp_0123456789abcdefghij0123"
    machine.write("~/.cursor/mcp.json", json.dumps({"mcpServers": {name: {"command": "nope"}}}))

    done = doctor(machine, *words)

    assert "ML201" in done.stdout
    assert name not in done.stdout + done.stderr


def show(survey: Survey, findings: list[Finding]) -> str:
    console = Console(file=io.StringIO(), width=200)
    Report(survey, findings).show(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_servers_that_are_not_wrapped_are_reported_in_one_line(machine: FakeMachine) -> None:
    entry = "[mcp_servers.server-{}]\ncommand = 'sh'\n"
    machine.write("~/.codex/config.toml", "".join(map(entry.format, range(30))))
    survey = machine.survey("codex")
    findings = [one for item in survey.servers for one in not_wrapped.check_wrapped(survey, item)]

    shown = show(survey, findings)

    assert shown.count("ML117") == 1
    assert "server-0, server-1, " in shown
    assert "fix: wrap them: mcp-launch wrap --host codex" in shown
    assert "30 notes in 30 servers of 1 host" in shown


def test_a_fix_can_be_done_as_it_is_written(machine: FakeMachine) -> None:
    """`~` is not a directory in most of the files into which it would be written."""
    machine.write("~/.codex/config.toml", UNWRAPPED)
    survey = machine.survey("codex")
    [item] = survey.servers
    found = Finding("ML201", item.point(), "x is missing", f"write {machine.home}/bin/x")

    shown = show(survey, [found])

    assert f"fix: write {machine.home}/bin/x" in shown
    assert "user, ~/.codex/config.toml:1" in shown


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('bearer_token_env_var = "GITHUB_TOKEN"', "Codex does not pass GITHUB_TOKEN on"),
        ('env = { AUTH_MODE = "docker" }', "docker was not found on PATH"),
        ("", 'add it to the entry: "env": {"GITHUB_TOKEN": "$GITHUB_TOKEN"}'),
        ("", "docs ended; its last lines on stderr: KeyError: 'CLAUDE_PROJECT_DIR'"),
    ],
)
def test_what_is_no_secret_stays_in_what_is_shown(
    machine: FakeMachine, entry: str, message: str
) -> None:
    machine.write("~/.codex/config.toml", f"{UNWRAPPED}{entry}\n")
    found = Finding("ML205", Subject("codex", "docs"), message, "do")

    assert message in show(machine.survey("codex"), [found])


def test_it_tells_which_hosts_there_are_and_whether_they_were_tried(machine: FakeMachine) -> None:
    machine.programs = {"codex": Program("/bin/codex", "0.166.0"), "zed": Program("/bin/zed", "")}

    shown = show(machine.survey(), [])

    assert "Codex 0.166.0, 0 servers (our tests run against it)" in shown
    assert "Zed, 0 servers (our tests do not run against it)" in shown


def test_where_nothing_is_wrong_it_says_so(machine: FakeMachine) -> None:
    assert show(machine.survey(), []).strip() == "No problems found with 0 servers of 0 hosts."


def test_what_is_in_files_can_do_nothing_to_a_terminal(machine: FakeMachine) -> None:
    subject = Subject("codex", "it\x1b[2J", file="/x\x07")

    shown = show(machine.survey(), [Finding("ML108", subject, "bad \x1b[31m name", "rename it")])

    assert "\x1b" not in shown
    assert "\x07" not in shown

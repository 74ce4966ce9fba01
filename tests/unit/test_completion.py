"""What a shell is offered for the words of a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import typer

from mcp_launch import cli
from mcp_launch.cli.app import SECTIONS, app, list_command_names
from mcp_launch.cli.completion import COMMAND, suggest_words
from mcp_launch.commands.completion_scripts import SCRIPTS
from mcp_launch.commands.suggestions import VALUES
from mcp_launch.doctor.finding import CHECKS
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.launch.options import SWITCHES, TAKE_A_VALUE

if TYPE_CHECKING:
    from pathlib import Path


def offer(line: str) -> list[str]:
    """Return what completes a line; its last word ends at the cursor."""
    return [one.word for one in suggest_words(line.split(" "))]


@pytest.fixture
def servers(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_home)
    entry = {"command": "server"}
    text = json.dumps({"mcpServers": {"docs": entry, "": entry, "dangerous\x1b[2J": entry}})
    (own_home / ".claude.json").write_text(text, encoding="utf-8")


def test_all_commands_are_offered_and_all_are_in_the_help_text() -> None:
    assert sorted(offer("")) == sorted(list_command_names())
    assert {name for names in SECTIONS.values() for name in names} == set(list_command_names())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("do", ["doctor"]),
        ("doctor --li", ["--live"]),
        ("doctor --host cur", ["cursor"]),
        ("doctor --host=cur", ["--host=cursor"]),
        ("doctor --live --host cur", ["cursor"]),
        ("run --start ", ["known", "now", "called"]),
        ("run --start now --trac", ["--trace"]),
        ("run --share ", ["off", "project"]),
        ("run --on-change i", ["isolate"]),
        ("run --max-servers 1", ["16"]),
        ("run --env ID=thr", ["ID=thread"]),
        ("run --env ID", []),
        ("run --dotenv ", [":files"]),
        ("run -- ", [":programs"]),
        ("run np", [":programs"]),
        ("run -- npx ", [":files"]),
        ("run npx -", [":files"]),
        ("wrap docs -- --res", ["--rest", "--restart", "--rest-anyway"]),
        ("wrap --file ", [":files"]),
        ("completion z", ["zsh"]),
        ("nonsense ", []),
    ],
)
def test_a_line_is_completed(line: str, expected: list[str]) -> None:
    assert offer(line) == expected


def test_all_options_of_run_are_offered() -> None:
    assert set(offer("run -")) == {"--", *TAKE_A_VALUE, *SWITCHES}


@pytest.mark.usefixtures("servers")
def test_servers_are_offered_by_name() -> None:
    assert "docs" in offer("wrap ")
    assert offer("run --server do") == ["docs"]


@pytest.mark.usefixtures("servers")
def test_a_name_that_no_shell_could_take_is_not_offered(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([COMMAND, "wrap", ""]) == 0

    assert [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["docs"]


@pytest.mark.usefixtures("servers")
def test_a_broken_file_does_not_disturb_a_prompt(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_home / ".claude.json").write_text("{", encoding="utf-8")

    assert cli.run([COMMAND, "wrap", ""]) == 0
    assert capsys.readouterr().err == ""


def test_hosts_and_codes_are_offered_with_what_they_are() -> None:
    assert {one.word: one.about for one in VALUES["HOST"]()} == {
        name: host.title for name, host in HOSTS.items()
    }
    assert {one.word: one.about for one in VALUES["CODE"]()} == {
        code: check.title for code, check in CHECKS.items()
    }


# Names in help texts that stand for anything: there is nothing to offer.
FREE = {"AGE", "NAME", "NAME=VALUE", "NUMBER", "TIME", "URL"}


def list_parameters(command: Any) -> list[Any]:
    inner = getattr(command, "commands", {}).values()
    return [*command.params, *(one for each in inner for one in list_parameters(each))]


def test_every_value_is_named_in_capitals_and_completed_or_free() -> None:
    named = {
        parameter.metavar
        for parameter in list_parameters(typer.main.get_command(app))
        if not getattr(parameter, "is_flag", False)
    }

    assert named <= {*VALUES, *FREE}


def test_no_help_text_shows_types_of_python(capsys: pytest.CaptureFixture[str]) -> None:
    names = set(list_command_names()) - {"run"}
    for words in [*([name] for name in sorted(names)), ["profile", "add"], ["profile", "list"]]:
        assert cli.run([*words, "--help"]) == 0
        shown = capsys.readouterr().out
        assert "<" not in shown.replace("<name>", ""), shown
        assert "..." not in shown.split("Options:")[-1], shown
        assert "x>=" not in shown
        assert "{" not in shown
        assert max(map(len, shown.splitlines())) <= 80, shown


def test_there_is_a_script_for_every_shell_that_is_offered() -> None:
    assert [one.word for one in VALUES["SHELL"]()] == list(SCRIPTS)


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["completion", "fich"]) == 2

    assert "did you mean fish? the shells are bash, zsh, fish" in capsys.readouterr().err


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_is_printed_as_it_is(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["completion", shell]) == 0

    assert capsys.readouterr().out == SCRIPTS[shell]

"""What a launch would be: one prediction, which `env` shows and the doctor's checks read."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from mcp_launch.errors import SourceMissing, UsageError
from mcp_launch.launch import plan
from mcp_launch.machine.preview import predict
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from pathlib import Path

    from fake_machine import FakeMachine

    from mcp_launch.machine.preview import Preview

LAUNCHER = "/opt/bin/mcp-launch"


def configure(machine: FakeMachine, path: str = "~/.claude.json", **entry: Any) -> None:
    key = "servers" if "vscode" in path else "mcpServers"
    machine.write(path, json.dumps({key: {"it": entry}}))


def wrap(machine: FakeMachine, *words: str, path: str = "~/.claude.json", **entry: Any) -> None:
    configure(machine, path, command=LAUNCHER, args=["run", *words], **entry)


def look(machine: FakeMachine) -> Preview:
    survey = machine.survey()
    [item] = survey.servers
    return predict(survey, item)


def run_claude(machine: FakeMachine, cwd: Path | str, **environ: str) -> None:
    """Let a Claude Code run somewhere."""
    machine.table.add(7, "claude")
    machine.table.cwds[7] = str(cwd)
    machine.table.variables[7] = {"HOME": str(machine.home), **environ}


def test_a_launch_has_a_host_a_place_an_environment_and_a_program(machine: FakeMachine) -> None:
    machine.environ["MINE"] = "1"
    wrap(machine, "--env", "ROOT=project_root", "--", "sh", "-c", "true", path=".mcp.json")

    found = look(machine)

    assert (found.found.host.value, found.found.place.value) == ("claude", str(machine.project))
    assert found.command == ["sh", "-c", "true"]
    assert found.server_environ["ROOT"] == str(machine.project)
    assert found.server_environ["MINE"] == "1"
    assert found.situation.origins["MINE"] == "inherited from Claude Code"
    assert isinstance(found.program, Found)
    assert os.path.basename(found.program.value) == "sh"
    assert found.problems == []


def test_a_server_that_is_not_wrapped_gets_what_its_host_gives(machine: FakeMachine) -> None:
    configure(machine, command="/bin/sh", env={"OWN": "x"})

    found = look(machine)

    assert found.profile is None
    assert found.server_environ == found.situation.environ
    assert found.server_environ["CLAUDECODE"] == "1"  # which the host adds
    assert "MCP_LAUNCH_ID" in found.decided.environ  # what wrapping it would bring
    assert "MCP_LAUNCH_ID" not in found.server_environ


def test_a_launcher_that_something_else_starts_is_a_launcher_too(machine: FakeMachine) -> None:
    machine.environ["OPENAI_API_KEY"] = "x"
    words = ["mcp-launch", "run", "--pass-env", "safe", "--", "/bin/sh"]
    configure(machine, command="uvx", args=words)

    found = look(machine)

    assert found.command == ["/bin/sh"]
    assert "OPENAI_API_KEY" not in found.server_environ


def test_what_an_outer_session_left_in_the_shell_is_not_given(machine: FakeMachine) -> None:
    machine.environ |= {"CLAUDE_CODE_SESSION_ID": "outer", "CLAUDE_PROJECT_DIR": "/else"}
    wrap(machine, "--", "/bin/sh")

    found = look(machine)

    assert "CLAUDE_CODE_SESSION_ID" not in found.situation.environ
    assert found.situation.environ["CLAUDE_PROJECT_DIR"] == str(machine.project)
    assert isinstance(found.found.session, Missing)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--cwdd", "x", "--", "/bin/sh"], UsageError),
        (["--env", "A=nowhere", "--", "/bin/sh"], UsageError),
        (["--share", "project", "--direct", "--", "/bin/sh"], UsageError),
        ([], UsageError),
    ],
    ids=["an unknown option", "an unknown source", "a contradiction", "no command"],
)
def test_a_launch_that_is_refused_says_why_and_starts_nothing(
    machine: FakeMachine, words: list[str], error: type[Exception]
) -> None:
    wrap(machine, *words)

    found = look(machine)

    assert isinstance(found.refused, error)
    assert found.problems[0] is found.refused
    assert (found.command, found.profile) == ([], None)
    assert found.server_environ == found.situation.environ


def test_a_variable_that_cannot_be_had_stops_the_launch_and_hides_nothing(
    machine: FakeMachine,
) -> None:
    words = ["--env", "A=local", "--env", "B=dotenv", "--dotenv", "/gone", "--cwd", "/gone"]
    wrap(machine, *words, "--env", "C=host", "--", "/bin/sh")

    found = look(machine)

    assert found.refused is None
    assert isinstance(found.failed["A"], SourceMissing)
    assert "/gone" in found.failed["B"].problem
    assert found.place_refused is found.failed["PWD"]
    assert found.server_environ["C"] == "claude"
    assert not {"A", "B"} & found.server_environ.keys()


# Which host


def test_a_session_of_this_project_is_asked_for_its_environment(machine: FakeMachine) -> None:
    run_claude(machine, machine.project, MINE="the host's")
    machine.environ["MINE"] = "the shell's"
    wrap(machine, "--", "/bin/sh")

    found = look(machine)

    assert found.server_environ["MINE"] == "the host's"
    assert found.found.host.origin == "it has the entry; process 7 (Claude Code) runs now"


@pytest.mark.parametrize("where", ["/srv", "{project}/below"])
def test_a_session_of_another_directory_is_not_asked(machine: FakeMachine, where: str) -> None:
    run_claude(machine, where.format(project=machine.project), MINE="the host's")
    machine.environ["MINE"] = "the shell's"
    wrap(machine, "--", "/bin/sh")

    found = look(machine)

    assert found.server_environ["MINE"] == "the shell's"
    assert found.found.host.origin == "it has the entry; no Claude Code runs here now"


def test_an_editor_has_windows_anywhere(machine: FakeMachine) -> None:
    machine.table.add(7, "code")
    machine.table.variables[7] = {"HOME": str(machine.home), "MINE": "the host's"}
    wrap(machine, "--", "/bin/sh", path=".vscode/mcp.json")

    assert look(machine).server_environ["MINE"] == "the host's"


# Where


def test_a_host_that_may_start_servers_anywhere_has_several_places(machine: FakeMachine) -> None:
    wrap(machine, "--", "/bin/sh", path="~/.cursor/mcp.json")

    found = look(machine)

    assert found.places == ["/", str(machine.home), str(machine.project)]
    assert found.list_homes() == ["/", str(machine.home)]
    # `env` assumes what ML408 reports.
    assert found.situation.cwd == str(machine.home)
    assert found.decided.place_note == "the home directory"
    assert found.situation.notes[-1].endswith(f"it may also be / or {machine.project}")
    assert not found.is_place_known


@pytest.mark.parametrize(
    ("wanted", "place"),
    [
        ("session", "{project}"),
        ("keep", "{project}"),
        ("project_root", "{project}"),
        ("~", "{home}"),
        ("~/x", "{home}/x"),
        ("/x", "/x"),
        ("x", "{project}/x"),
    ],
)
def test_a_server_starts_where_its_options_say(
    machine: FakeMachine, wanted: str, place: str
) -> None:
    wrap(machine, "--cwd", wanted, "--", "/bin/sh", path=".mcp.json")

    found = look(machine)

    assert found.places == [place.format(project=machine.project, home=machine.home)]
    assert found.is_place_known


def test_a_private_server_of_another_project_starts_there(machine: FakeMachine) -> None:
    other = machine.home / "other"
    (other / ".git").mkdir(parents=True)
    entry = {"command": LAUNCHER, "args": ["run", "--cwd", "project_root", "--", "/bin/sh"]}
    known = {"projects": {str(other): {"mcpServers": {"it": entry}}}}
    machine.write("~/.claude.json", json.dumps(known))

    found = look(machine)

    assert found.places == [str(other)]
    assert found.situation.environ["CLAUDE_PROJECT_DIR"] == str(other)


# Commands


def test_a_text_that_only_the_host_can_replace_is_not_a_command(machine: FakeMachine) -> None:
    configure(machine, ".vscode/mcp.json", command="${input:server}")

    assert look(machine).command == []


def test_a_tilde_is_the_home_where_the_host_says_so(machine: FakeMachine) -> None:
    wrap(machine, "--", "~/bin/server", path=".vscode/mcp.json")

    assert look(machine).command == [f"{machine.home}/bin/server"]


def test_an_entry_is_looked_at_once(machine: FakeMachine) -> None:
    configure(machine, command="/bin/sh")
    survey = machine.survey()
    [item] = survey.servers

    assert predict(survey, item) is predict(survey, item)
    assert predict(machine.survey(), item) is not predict(survey, item)


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_command_is_not_found(name: str) -> None:
    from mcp_launch.errors import CommandNotFound

    with pytest.raises(CommandNotFound, match="the server's command is empty"):
        plan.find_program(name, "/bin", "/")

"""Place on real processes: the server's directory is the session's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from launches import ENVIRONMENT_SERVER, RUN, LaunchRunner, python, request, wait_for_lease

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("wanted", ["session", "project_root", "sub"])
def test_pwd_agrees_with_the_directory(wanted: str, wire: list[str], runner: LaunchRunner) -> None:
    (runner.project / "sub").mkdir()
    launch = runner.launch(
        *wire,
        "--cwd",
        wanted,
        "--",
        *ENVIRONMENT_SERVER,
        env={**os.environ, "PWD": "/somewhere/else"},
    )

    sight = launch.ask("look")

    assert sight["cwd"] == sight["env"]["PWD"]
    assert sight["cwd"] == str(runner.project / ("sub" if wanted == "sub" else ""))


def test_a_linked_directory_keeps_the_name_its_user_knows(
    runner: LaunchRunner, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(runner.project)
    launch = runner.launch(
        "--", *ENVIRONMENT_SERVER, cwd=link, env={**os.environ, "PWD": str(link)}
    )

    sight = launch.ask("look")

    assert sight["env"]["PWD"] == str(link)
    assert sight["cwd"] == str(runner.project)


@pytest.mark.parametrize("is_repository", [False, True], ids=["plain", "in Git"])
def test_a_host_started_in_the_home_directory_has_its_server_there(
    is_repository: bool, wire: list[str], runner: LaunchRunner, own_home: Path, tmp_path: Path
) -> None:
    if is_repository:
        (own_home / ".git").mkdir()
    launch = runner.launch(*wire, "--trace", "--", *ENVIRONMENT_SERVER, cwd=own_home)

    sight = launch.ask("look")

    assert sight["cwd"] == sight["env"]["PWD"] == str(own_home)
    lease = wait_for_lease(tmp_path / "state", lambda _: True)
    assert lease["place_note"] == "the home directory"
    code, _, said = launch.finish()
    assert code == 0
    assert b"the server's directory is the home directory, not a project" in said


def test_a_host_started_in_the_root_directory_has_its_server_there(
    wire: list[str], runner: LaunchRunner
) -> None:
    assert runner.launch(*wire, "--", *ENVIRONMENT_SERVER, cwd="/").ask("look")["cwd"] == "/"


def test_strict_refuses_the_home_directory_to_the_hosts_face(
    wire: list[str], runner: LaunchRunner, own_home: Path
) -> None:
    launch = runner.launch(*wire, "--strict", "--", *ENVIRONMENT_SERVER, cwd=own_home)
    launch.send({"jsonrpc": "2.0", "id": 1, "method": "initialize"})

    message = launch.answer()["error"]["message"]

    assert (
        f"{own_home} (inherited), which is the home directory, not a project (--strict)" in message
    )
    assert launch.finish()[0] == 125


def test_a_record_that_contradicts_is_shown_to_the_host(
    runner: LaunchRunner, own_home: Path
) -> None:
    """The variable is an outer session's, whose shell this Claude Code was started from."""
    recorded = "import json, os; stat = open(f'/proc/{os.getppid()}/stat').read(); "
    recorded += "start = stat.rpartition(')')[2].split()[19]; "
    recorded += f"file = open(f'{own_home}/.claude/sessions/{{os.getppid()}}.json', 'w'); "
    recorded += "json.dump({'sessionId': 's', 'procStart': start, 'cwd': '/work/app'}, file); "
    recorded += f"file.close(); os.execv({RUN[0]!r}, {[*RUN, '--', *ENVIRONMENT_SERVER]!r})"
    (own_home / ".claude" / "sessions").mkdir(parents=True)
    environ = {**os.environ, "CLAUDE_PROJECT_DIR": str(own_home)}
    host = runner.launch_below_host("claude", command=python(recorded), env=environ)
    host.send({"jsonrpc": "2.0", "id": 1, "method": "initialize"})

    message = host.answer()["error"]["message"]

    assert f"started the server in {own_home} (CLAUDE_PROJECT_DIR), the home directory" in message
    assert (
        f"the session works in /work/app ({own_home}/.claude/sessions/{host.pid}.json)" in message
    )


def test_codex_can_list_the_tools_of_a_server_that_it_starts_in_its_own_home(
    runner: LaunchRunner, own_home: Path
) -> None:
    codex_home = own_home / ".codex"
    codex_home.mkdir()
    host = runner.launch_below_host(
        "codex", command=[*RUN, "--", *ENVIRONMENT_SERVER], cwd=codex_home
    )
    host.send(request("initialize", 5, capabilities={}), request("tools/list", 6))

    assert host.answer()["result"]["cwd"] == str(codex_home)
    assert host.answer()["id"] == 6


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_server_starts_in_a_directory_that_was_deleted_unless_asked_to_be_strict(
    is_strict: bool, runner: LaunchRunner, tmp_path: Path
) -> None:
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    words = ["run", *(["--strict"] if is_strict else []), "--", "cat"]
    in_it = "import os, sys; os.chdir(sys.argv[1]); os.rmdir(sys.argv[1]); "
    start = f"os.execv(sys.executable, [sys.executable, '-m', 'mcp_launch', *{words}])"
    launch = runner.start([*ENVIRONMENT_SERVER[:1], "-c", in_it + start, str(doomed)])
    launch.send({"jsonrpc": "2.0", "id": 1, "method": "initialize"})

    answer = launch.answer()

    if is_strict:
        assert "was deleted" in answer["error"]["message"]
    else:
        assert answer["method"] == "initialize"


def test_a_project_that_was_removed_costs_no_server(runner: LaunchRunner, tmp_path: Path) -> None:
    environ = {**os.environ, "CLAUDE_PROJECT_DIR": str(tmp_path / "removed")}
    host = runner.launch_below_host(
        "claude", command=[*RUN, "--", *ENVIRONMENT_SERVER], env=environ
    )
    host.send(request("initialize", 1))

    assert host.answer()["result"]["cwd"] == str(runner.project)


@pytest.mark.parametrize(
    ("options", "is_agents"),
    [([], True), (["--cwd", "sub"], False), (["--cwd", "keep"], False)],
    ids=["found", "named", "kept"],
)
def test_a_directory_that_the_user_chose_is_not_its_agents(
    options: list[str], is_agents: bool, runner: LaunchRunner, tmp_path: Path
) -> None:
    (runner.project / "sub").mkdir()
    command = [*RUN, *options, "--", *ENVIRONMENT_SERVER]
    launch = runner.launch_below_host("gemini", "--acp", command=command, cwd=runner.project)

    launch.ask("look")

    lease = wait_for_lease(tmp_path / "state", lambda one: bool(one.get("context")))
    assert lease["is_host_directory"] == is_agents

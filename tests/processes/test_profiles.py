"""Profiles in files: who may use them, and what a launch makes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest
from command_line import run_command
from launches import ENVIRONMENT_SERVER, LaunchRunner, python

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def user_file(own_home: Path) -> Path:
    """Return the user's file, which is not there yet."""
    path = own_home / ".config" / "mcp-launch" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def project_file(project: Path) -> Path:
    """Return the project's file, which is not there yet."""
    return project / ".mcp-launch.toml"


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def spell(command: list[str]) -> str:
    return f"command = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n"


def test_a_server_is_launched_by_its_name_alone(user_file: Path, runner: LaunchRunner) -> None:
    write(user_file, f'[servers.probe]\n{spell(ENVIRONMENT_SERVER)}env = {{ A = "b" }}\n')

    for _ in range(2):  # from the file, and from the record of it
        launch = runner.launch("--server", "probe")
        assert launch.ask("look")["env"]["A"] == "b"
        assert launch.finish()[0] == 0


BROKEN_TABLES = {
    "an unknown key": "[servers.other]\nrst = 1\n",
    "a wrong value": "[servers.other]\nrest = 10\n",
    "no table": "servers.other = 1\n",
    "two errors in two tables": "[servers.other]\nrest = 10\n[servers.third]\nenv = 1\n",
}


@pytest.mark.parametrize("broken", BROKEN_TABLES.values(), ids=list(BROKEN_TABLES))
def test_an_error_in_one_servers_table_stops_only_that_server(
    broken: str, user_file: Path, runner: LaunchRunner
) -> None:
    write(user_file, f'{broken}[servers.probe]\n{spell(ENVIRONMENT_SERVER)}env = {{ A = "b" }}\n')

    for _ in range(2):  # from the file, and from the record of it
        launch = runner.launch("--server", "probe")
        assert launch.ask("look")["env"]["A"] == "b"
        assert launch.finish()[0] == 0
        other = runner.launch("--server", "other", "--", "cat")
        code, _, err = other.finish()
        assert code == 125
        assert f"{user_file}:".encode() in err

    said = run_command("profile", "list")
    assert said.returncode == 1
    assert said.stdout.count("fix: ") == broken.count("=")
    assert "probe" in said.stdout
    told = json.loads(run_command("profile", "list", "--json").stdout)
    (file,) = [one for one in told["files"] if one["exists"]]
    assert [one["server"] for one in file["problems"]] == ["other", "third"][: broken.count("=")]
    assert [one["server"] for one in told["profiles"]] == ["probe"]


@pytest.mark.parametrize(
    "broken", ["[defaults]\nrest = 10\n", "[servers.other\n", "[sevrers.other]\n"]
)
def test_an_error_that_concerns_every_server_stops_all(
    broken: str, user_file: Path, runner: LaunchRunner
) -> None:
    write(user_file, f"{broken}[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")

    code, _, err = runner.launch("--server", "probe").finish()

    assert code == 125
    assert f"{user_file}:".encode() in err


def find_unused(*words: str) -> list[tuple[str, str]]:
    """Return the findings of doctor about profiles without a server: message and fix."""
    told = json.loads(run_command("doctor", "--json", *words).stdout)
    return [(one["message"], one["fix"]) for one in told["findings"] if one["code"] == "ML019"]


def write_json(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps(value))
    return path


ENTRIES = {
    "not wrapped": {"files": {"command": "cat"}},
    "wrapped": {"it": {"command": "mcp-launch", "args": ["run", "--server", "files", "--", "cat"]}},
    "wrapped without a name": {"files": {"command": "mcp-launch", "args": ["run", "--", "cat"]}},
    "named by a variable": {
        "it": {
            "command": "mcp-launch",
            "args": ["run", "--", "cat"],
            "env": {"MCP_LAUNCH_SERVER": "files"},
        }
    },
}


@pytest.mark.parametrize("entries", ENTRIES.values(), ids=list(ENTRIES))
def test_a_profile_whose_name_no_entry_has_is_reported_with_the_nearest(
    entries: dict[str, object], user_file: Path, own_home: Path, project: Path
) -> None:
    assert project
    write_json(own_home / ".claude.json", {"mcpServers": entries})
    write(
        user_file, "[servers.fils]\ntools = { deny = ['write_*'] }\n[servers.files]\nrest = '1m'\n"
    )

    for narrow in ([], ["--host", "codex"]):
        assert find_unused(*narrow) == [
            (
                "no entry is named fils: this profile applies to no server",
                "did you mean files? rename the table, or remove it",
            )
        ]
    listed = run_command("profile", "list").stdout.splitlines()
    assert "applies to no server: did you mean files?" in listed[1]
    assert "applies to no server" not in listed[2]
    told = json.loads(run_command("profile", "list", "--json").stdout)
    assert [one["has_server"] for one in told["profiles"]] == [False, True]


def test_a_profile_for_a_server_of_another_project_is_not_reported(
    user_file: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(project / ".mcp.json", {"mcpServers": {"files": {"command": "cat"}}})
    assert run_command("wrap", "--yes").returncode == 0
    other = project.parent / "other"
    (other / ".git").mkdir(parents=True)
    write_json(other / ".mcp.json", {"mcpServers": {"docs": {"command": "cat"}}})
    monkeypatch.chdir(other)
    write(user_file, "[servers.files]\nrest = '1m'\n")

    assert find_unused() == []


def test_nothing_is_said_of_profiles_while_a_file_cannot_be_read(
    user_file: Path, own_home: Path, project: Path
) -> None:
    assert project
    write_json(own_home / ".claude.json", {"mcpServers": {"files": {"command": "cat"}}})
    (own_home / ".codex").mkdir()
    write(own_home / ".codex" / "config.toml", "[mcp_servers")
    write(user_file, "[servers.other]\nrest = '1m'\n")

    assert find_unused() == []


@pytest.mark.parametrize("is_option", [True, False], ids=["option", "variable"])
def test_a_server_gets_a_fixed_value(
    is_option: bool, user_file: Path, runner: LaunchRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(user_file, '[servers.probe]\nenv = { A = "b" }\n')
    monkeypatch.setenv("LEVEL", "info")
    if not is_option:
        monkeypatch.setenv("MCP_LAUNCH_SET", "A=c, ${LEVEL}")
    words = ["--set", "A=c, ${LEVEL}"] if is_option else []

    launch = runner.launch("--server", "probe", "--trace", *words, "--", *ENVIRONMENT_SERVER)

    environ = launch.ask("look")["env"]
    assert environ["A"] == "c, info"
    assert "MCP_LAUNCH_SET" not in environ
    code, _, err = launch.finish()
    assert code == 0
    assert b"sets A (--set)" in err
    assert b"c, info" not in err


def test_a_server_whose_command_was_moved_into_a_profile_starts_as_before(
    own_home: Path, runner: LaunchRunner
) -> None:
    own = ["run", "--server", "probe", "--set", "A=a ${HOME}", "--", *ENVIRONMENT_SERVER, "-x"]
    entry = f'command = "mcp-launch"\nargs = {json.dumps(own)}\n'
    file = own_home / ".codex" / "config.toml"
    file.parent.mkdir()
    write(file, f"[mcp_servers.probe]\n{entry}")
    before = runner.launch(*own[1:]).ask("look")

    done = run_command("profile", "add", "probe", "--move", "--yes")

    assert done.returncode == 0, done.stderr
    moved = tomllib.loads(file.read_text(encoding="utf-8"))["mcp_servers"]["probe"]["args"]
    assert moved == ["run", "--server", "probe"]
    after = runner.launch(*moved[1:]).ask("look")
    assert (after["argv"], after["env"]["A"]) == (["-x"], f"a {own_home}")
    assert after["argv"] == before["argv"]
    assert after["env"].keys() == before["env"].keys()


def test_a_changed_file_is_read_again(user_file: Path, runner: LaunchRunner) -> None:
    for value in ("one", "two", "six"):
        write(user_file, f'[servers.probe]\n{spell(ENVIRONMENT_SERVER)}env = {{ A = "{value}" }}\n')
        launch = runner.launch("--server", "probe")
        assert launch.ask("look")["env"]["A"] == value


def test_an_unknown_server_needs_a_command(runner: LaunchRunner) -> None:
    launch = runner.launch("--server", "nobody")

    code, _, err = launch.finish()

    assert code == 125
    assert b"no profile defines the server nobody, and no command was given" in err
    assert b"fix: add [servers.nobody] to ~/.config/mcp-launch/config.toml" in err


def test_a_name_without_a_profile_is_only_a_name(user_file: Path, runner: LaunchRunner) -> None:
    write(user_file, "[servers.other]\ncommand = 'x'\n")

    launch = runner.launch("--server", "probe", "--", *ENVIRONMENT_SERVER)

    assert launch.ask("look")["argv"] == []


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_user_file_that_others_can_write_is_refused(
    mode: int, user_file: Path, runner: LaunchRunner
) -> None:
    write(user_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")
    user_file.chmod(mode)

    code, _, err = runner.launch("--server", "probe").finish()

    assert code == 125
    assert f"{user_file} can be written by other users".encode() in err
    assert f"fix: run: chmod go-w {user_file}".encode() in err


def test_a_broken_file_stops_the_launch_and_the_host_gets_the_reason(
    user_file: Path, runner: LaunchRunner
) -> None:
    write(user_file, "[servers.probe]\ncomand = 'x'\n")
    launch = runner.launch("--server", "probe", "--", *ENVIRONMENT_SERVER)

    error = launch.initialize()["error"]["message"]

    assert f"{user_file}:2:1: unknown key `comand`" in error
    assert "did you mean command?" in error


def trust(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcp_launch", "trust", *words],
        check=False,
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
    )


def test_a_project_file_does_nothing_until_it_is_trusted(
    project_file: Path, runner: LaunchRunner, tmp_path: Path
) -> None:
    mark = tmp_path / "it ran"
    command = python(f"open({str(mark)!r}, 'w')")
    write(project_file, f"[servers.probe]\n{spell(command)}env = {{ A = 'b' }}\n")

    code, _, err = runner.launch("--server", "probe").finish()
    sight = runner.launch("--server", "probe", "--", *ENVIRONMENT_SERVER).ask("look")

    assert code == 125
    assert f"fix: read it, then run: mcp-launch trust {project_file}".encode() in err
    assert "A" not in sight["env"]
    assert not mark.exists()


def test_a_trusted_project_file_is_used_until_it_changes(
    project_file: Path, runner: LaunchRunner
) -> None:
    write(project_file, f'[servers.probe]\n{spell(ENVIRONMENT_SERVER)}env = {{ A = "one" }}\n')

    done = trust("--yes")

    assert done.returncode == 0
    assert "probe: " in done.stdout
    assert "A=one" in done.stdout
    assert runner.launch("--server", "probe").ask("look")["env"]["A"] == "one"
    os.utime(project_file)  # another time, the same words
    assert runner.launch("--server", "probe").ask("look")["env"]["A"] == "one"
    write(project_file, project_file.read_text(encoding="utf-8").replace("one", "two"))
    code, _, err = runner.launch("--server", "probe").finish()
    assert code == 125
    assert b"you have not trusted it since it was changed" in err


def test_trust_can_be_taken_back(project_file: Path, runner: LaunchRunner) -> None:
    write(project_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")
    assert trust(str(project_file), "--yes").returncode == 0

    assert trust("--forget").returncode == 0

    assert runner.launch("--server", "probe").finish()[0] == 125


def test_trust_is_not_given_without_being_asked_for(
    project_file: Path, runner: LaunchRunner
) -> None:
    write(project_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")

    done = trust()

    assert done.returncode == 2
    assert "fix: add --yes" in done.stderr
    assert runner.launch("--server", "probe").finish()[0] == 125


def test_trust_of_another_directory_is_none_of_this_one(
    project_file: Path, runner: LaunchRunner, tmp_path: Path
) -> None:
    text = f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}"
    write(project_file, text)
    other = tmp_path / "other"
    other.mkdir()
    write(other / ".mcp-launch.toml", text)

    assert trust(str(other), "--yes").returncode == 0

    assert runner.launch("--server", "probe").finish()[0] == 125


def test_a_missing_project_file_is_reported(project: Path, user_file: Path) -> None:
    write(user_file, "")
    for path in (project, user_file):
        done = trust(str(path))

        assert done.returncode == 2
        assert "there is no .mcp-launch.toml at " in done.stderr


def test_trust_that_cannot_be_kept_is_not_given(project_file: Path, tmp_path: Path) -> None:
    write(project_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")
    (tmp_path / "state").write_text("in the way", encoding="utf-8")

    done = trust("--yes")

    assert done.returncode == 2
    assert "profiles is not writable" in done.stderr


def test_what_is_to_be_trusted_is_shown_whole_and_does_nothing(project_file: Path) -> None:
    text = """[servers.it]
command = "sh"
args = ["-c", "evil #\\u001b[2K\\r  it: nice"]
cwd = "/"
env = { LD_PRELOAD = "/x.so" }
env_vars = [{ name = "A", source = "local", from = "B" }]
"""
    write(project_file, text)

    said = trust("--yes").stdout

    assert "\x1b" not in said
    assert "evil #\\x1b[2K\\r" in said
    assert "LD_PRELOAD=/x.so" in said
    assert "--cwd /" in said
    assert "A from local (B)" in said


@pytest.mark.parametrize("text", ["this is not valid TOML", "x = " + "[" * 3000, "x" * 300_000])
def test_a_file_that_nobody_trusts_cannot_stop_other_servers(
    text: str, project_file: Path, runner: LaunchRunner
) -> None:
    write(project_file, text)

    assert runner.launch("--server", "other", "--", *ENVIRONMENT_SERVER).ask("look")["argv"] == []


def test_a_pipe_in_place_of_a_file_is_not_waited_for(
    project_file: Path, runner: LaunchRunner
) -> None:
    os.mkfifo(project_file)

    assert runner.launch("--server", "other", "--", *ENVIRONMENT_SERVER).ask("look")["argv"] == []


def test_a_record_behind_a_link_or_in_a_directory_of_others_is_not_believed(
    project_file: Path, runner: LaunchRunner, tmp_path: Path
) -> None:
    write(project_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")
    assert trust("--yes").returncode == 0
    directory = tmp_path / "state" / "profiles"
    directory.chmod(0o777)
    assert runner.launch("--server", "probe").finish()[0] == 125
    directory.chmod(0o700)
    assert trust("--yes").returncode == 0
    [record] = directory.glob("*.json")
    record.rename(tmp_path / "elsewhere.json")
    record.symlink_to(tmp_path / "elsewhere.json")

    assert runner.launch("--server", "probe").finish()[0] == 125


def test_a_project_file_goes_before_the_users(
    user_file: Path, project_file: Path, runner: LaunchRunner
) -> None:
    write(
        user_file,
        f'[servers.probe]\n{spell(["nothing"])}strict = true\nenv = {{ A = "user", B = "user" }}\n',
    )
    keys = 'strict = false\ncwd = "below"\nenv = { A = "project" }\n'
    write(project_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}{keys}")
    below = project_file.parent / "below"
    below.mkdir()
    assert trust("--yes").returncode == 0

    sight = runner.launch("--server", "probe", cwd=below).ask("look")

    assert (sight["env"]["A"], sight["env"]["B"]) == ("project", "user")
    assert sight["cwd"] == str(below)  # meant from the file, not from where the session works


def test_a_record_that_was_tampered_with_is_not_believed(
    project_file: Path, runner: LaunchRunner, tmp_path: Path
) -> None:
    write(project_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")
    assert trust("--yes").returncode == 0
    [record] = (tmp_path / "state" / "profiles").glob("*.json")
    record.chmod(0o666)

    assert runner.launch("--server", "probe").finish()[0] == 125


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', None])
def test_a_broken_record_is_made_again(
    text: str | None, user_file: Path, runner: LaunchRunner, tmp_path: Path
) -> None:
    write(user_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")
    runner.launch("--server", "probe").finish()
    [record] = (tmp_path / "state" / "profiles").glob("*.json")
    if text is None:  # some of it is missing
        kept = json.loads(record.read_text(encoding="utf-8"))
        text = json.dumps({name: kept[name] for name in ("version", "path")})
    record.write_text(text, encoding="utf-8")

    assert runner.launch("--server", "probe").ask("look")["argv"] == []


def test_without_a_name_no_file_of_a_project_is_looked_at(
    project_file: Path, runner: LaunchRunner
) -> None:
    write(project_file, "this is not valid TOML")

    assert runner.launch("--strict", "--", *ENVIRONMENT_SERVER).ask("look")["argv"] == []


def test_a_users_file_that_makes_no_sense_stops_every_launch(
    user_file: Path, runner: LaunchRunner
) -> None:
    """It may say what a server is not to get; nobody can know."""
    write(user_file, "this is not valid TOML")

    code, _, err = runner.launch("--", *ENVIRONMENT_SERVER).finish()

    assert code == 125
    assert f"{user_file}:1:6: not valid TOML".encode() in err

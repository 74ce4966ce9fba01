"""What `doctor` says of a server's program and variables, looked for as its host would."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from doctor_runs import install, spell, spell_codex
from script_files import BROKEN, SOUND

if TYPE_CHECKING:
    from doctor_runs import Doctor

CODEX = "~/.codex/config.toml"
CLAUDE = "~/.claude.json"
CURSOR = "~/.cursor/mcp.json"
OWN = "~/.config/mcp-launch/config.toml"

# Where each host's file is, and what its servers stand in.
FILES = {
    "codex": (CODEX, "mcp_servers"),
    "claude": (CLAUDE, "mcpServers"),
    "claude-desktop": ("~/.config/Claude/claude_desktop_config.json", "mcpServers"),
    "cursor": (CURSOR, "mcpServers"),
    "vscode": (".vscode/mcp.json", "servers"),
    "gemini": ("~/.gemini/settings.json", "mcpServers"),
    "opencode": ("opencode.json", "mcp"),
    "goose": ("~/.config/goose/config.yaml", "extensions"),
}


def configure(doctor: Doctor, host: str, **entry: Any) -> None:
    """Write a host's file with one server, `it`."""
    path, key = FILES[host]
    if host == "opencode":
        entry["command"] = [entry["command"], *entry.pop("args", [])]
    if host == "goose":
        entry = {"type": "stdio", "cmd": entry.pop("command"), **entry}
    doctor.machine.write(path, spell_codex(it=entry) if host == "codex" else spell(key, it=entry))


# The program: ML201.


@pytest.mark.parametrize("host", FILES)
def test_a_command_is_found_missing_until_it_is_installed(host: str, doctor: Doctor) -> None:
    configure(doctor, host, command="some-server")
    finding = doctor.find_only()
    assert finding["code"] == "ML201"
    assert "some-server is not on the PATH that " in finding["message"]
    assert finding["subject"]["line"] > 0

    install(doctor.machine, "~/bin/some-server")
    assert doctor.list_codes() == []


@pytest.mark.parametrize(
    ("host", "path", "codes"),
    [
        ("codex", "{home}/other", []),
        ("codex", "${HOME}/other", ["ML201", "ML106"]),
        ("claude", "${HOME}/other", []),
        ("claude", "${NOTHING:-{home}/other}", []),
        ("vscode", "${env:HOME}/other", []),
        ("vscode", "${userHome}/other", []),
        ("gemini", "$HOME/other", []),
        ("opencode", "{env:HOME}/other", []),
    ],
)
def test_an_entrys_own_path_counts_as_its_host_reads_it(
    host: str, path: str, codes: list[str], doctor: Doctor
) -> None:
    install(doctor.machine, "~/other/some-server")
    key = "environment" if host == "opencode" else "env"
    variables = {"PATH": path.replace("{home}", str(doctor.machine.home))}
    configure(doctor, host, command="some-server", **{key: variables})

    assert doctor.list_codes() == codes


@pytest.mark.parametrize("host", ["codex", "claude", "claude-desktop"])
def test_a_tilde_is_nobodys_home_to_hosts_that_do_not_know_it(host: str, doctor: Doctor) -> None:
    file = install(doctor.machine, "~/bin/some-server")
    configure(doctor, host, command="~/bin/some-server")

    [finding] = doctor.find("--select", "ML201")

    assert "does not expand ~/bin/some-server" in finding["message"]
    assert finding["fix"] == f"write {file}"


@pytest.mark.parametrize(
    ("cwd", "command", "codes"),
    [
        ("{project}", "./tools/server", []),
        ("{project}/tools", "./server", []),
        ("{home}", "./tools/server", ["ML201"]),
    ],
)
def test_a_relative_command_is_looked_for_where_the_server_starts(
    cwd: str, command: str, codes: list[str], doctor: Doctor
) -> None:
    machine = doctor.machine
    install(machine, "tools/server")
    place = cwd.replace("{home}", str(machine.home)).replace("{project}", str(machine.project))
    configure(doctor, "codex", command=command, cwd=place)

    assert doctor.list_codes() == codes


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("node", ["{project}/gone.js"]),
        ("python3", ["-u", "{project}/gone.py"]),
        ("sh", ["./gone.sh"]),
    ],
)
def test_a_file_that_an_interpreter_is_to_run_must_be_there(
    command: str, args: list[str], doctor: Doctor
) -> None:
    install(doctor.machine, f"~/bin/{command}")
    words = [word.replace("{project}", str(doctor.machine.project)) for word in args]
    configure(doctor, "codex", command=command, args=words)
    assert "which does not exist" in doctor.find_only()["message"]

    doctor.machine.write(words[-1].removeprefix(f"{doctor.machine.project}/"), "")
    assert doctor.list_codes() == []


def test_the_server_of_a_wrapped_entry_is_looked_for_and_that_of_a_profile(
    doctor: Doctor,
) -> None:
    install(doctor.machine, "~/bin/mcp-launch")
    configure(doctor, "codex", command="mcp-launch", args=["run", "--", "no-such-server"])
    assert "no-such-server is not on the PATH" in doctor.find_only()["message"]

    configure(doctor, "codex", command="mcp-launch", args=["run", "--server", "it"])
    profile = '[servers.it]\ncommand = "gone-it"\n'
    doctor.machine.write(OWN, profile).chmod(0o600)
    assert "gone-it is not on the PATH" in doctor.find_only()["message"]
    install(doctor.machine, "~/bin/gone-it")
    assert doctor.list_codes() == []
    assert not (doctor.machine.home / ".local").exists()


def test_the_path_of_a_host_that_runs_is_the_one_that_counts(doctor: Doctor) -> None:
    machine = doctor.machine
    found = install(machine, "~/bin/server")
    machine.table.add(7, "codex")
    machine.table.argv[7] = ["codex"]
    machine.table.cwds[7] = str(machine.project)
    machine.table.variables[7] = {"PATH": "/old"}
    configure(doctor, "codex", command="server")

    finding = doctor.find_only()
    assert finding["message"] == (
        f"server is not on the PATH that Codex gives (/old); your shell finds {found}"
    )
    assert finding["fix"] == f"replace server with {found}"

    machine.table.variables[7] = {"PATH": f"{machine.home}/bin"}
    assert doctor.list_codes() == []


def test_a_script_that_needs_others_beside_it_gets_a_path(doctor: Doctor) -> None:
    machine = doctor.machine
    install(machine, "~/bin/node-of-mine")
    install(machine, "~/bin/npx-of-mine", "#!/usr/bin/env node-of-mine\n")
    machine.table.add(7, "codex")
    machine.table.cwds[7] = str(machine.project)
    machine.table.variables[7] = {"PATH": "/usr/bin"}
    configure(doctor, "codex", command="npx-of-mine")

    fix = f"set PATH in the entry's variables to {machine.home}/bin:/usr/bin"
    assert doctor.find_only()["fix"] == fix


@pytest.mark.parametrize("manager", ["nvm", "pyenv", "fnm_multishells"])
def test_a_path_of_a_version_that_is_gone_names_its_manager(manager: str, doctor: Doctor) -> None:
    command = f"{doctor.machine.home}/.{manager}/versions/20/bin/npx"
    configure(doctor, "codex", command=command)

    name = manager.partition("_")[0]
    assert doctor.find_only()["fix"] == f"write a path that {name} keeps when versions come and go"


@pytest.mark.parametrize("what", BROKEN)
def test_a_file_that_would_not_run_says_why(what: str, doctor: Doctor) -> None:
    content, told = BROKEN[what]
    file = install(doctor.machine, "server", "")
    file.write_bytes(content)
    configure(doctor, "codex", command=str(file))

    finding = doctor.find_only()

    assert finding["code"] == "ML201"
    assert told in finding["message"]


@pytest.mark.parametrize("what", SOUND)
def test_a_file_that_runs_is_not_found_fault_with(what: str, doctor: Doctor) -> None:
    file = install(doctor.machine, "server", SOUND[what])
    configure(doctor, "codex", command=str(file))

    assert doctor.list_codes() == []


def test_what_the_system_would_refuse_is_reported_with_what_to_do(doctor: Doctor) -> None:
    file = install(doctor.machine, "~/bin/server", mode=0o644)
    configure(doctor, "codex", command="server")
    assert doctor.find_only()["fix"] == f"run: chmod +x {file}"

    inner = install(doctor.machine, "inner", "#!/opt/gone/ruby\n")
    configure(doctor, "codex", command=str(install(doctor.machine, "outer", f"#!{inner}\n")))
    assert f"{inner} is run by /opt/gone/ruby" in doctor.find_only()["message"]

    configure(doctor, "codex", command=str(doctor.machine.project))
    assert "is a directory" in doctor.find_only()["message"]

    configure(doctor, "codex", command=" ")
    assert doctor.find_only()["message"] == "the command is empty"


# Variables: ML205.

DOCKER = [
    "run",
    "-i",
    "--rm",
    "--network",
    "host",
    "-e",
    "TOKEN",
    "--env=KEY=1",
    "image",
    "-e",
    "X",
]


@pytest.mark.parametrize(
    ("host", "fix", "more"),
    [
        ("codex", 'add "TOKEN" to env_vars', {"env_vars": ["TOKEN"]}),
        ("claude-desktop", "the `env` of the entry", {"env": {"TOKEN": "x"}}),
        ("gemini", '"env": {"TOKEN": "$TOKEN"}', {"env": {"TOKEN": "x"}}),
        ("claude", "", {}),
    ],
)
def test_a_variable_that_a_host_strips_is_missed(
    host: str, fix: str, more: dict[str, Any], doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = str(install(doctor.machine, "~/bin/docker"))
    configure(doctor, host, command=docker, args=DOCKER)
    assert doctor.list_codes() == []  # what is set nowhere may be optional

    monkeypatch.setenv("TOKEN", "not-for-anybodys-eyes")
    found = doctor.find("--select", "ML205")
    assert len(found) == bool(fix)
    assert all("does not pass TOKEN on, but docker" in one["message"] for one in found)
    assert all(fix in one["fix"] for one in found)

    configure(doctor, host, command=docker, args=DOCKER, **more)
    assert doctor.list_codes() == []


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("docker run -e A -e B=1 image", ["A"]),
        ("docker run -eA --env B --env=C image", ["A", "B", "C"]),
        ("docker run -it -v /x:/y --name -e image -e A", []),
        ("podman run --rm --env A image", ["A"]),
        ("docker --context it run -e A image", ["A"]),
        ("docker ps -e A", []),
        ("npx -e A", []),
        ("docker", []),
        ("sh -c $A", []),
    ],
)
def test_what_a_command_needs_is_read_from_it(
    words: str, names: list[str], doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *args = words.split()
    install(doctor.machine, f"~/bin/{program}")
    for name in "ABCD":
        monkeypatch.setenv(name, "x")
    configure(doctor, "codex", command=program, args=args)

    found = doctor.find("--select", "ML205")

    assert [one["message"].split(" on, but")[0].split()[-1] for one in found] == names


def test_a_host_that_was_started_too_early_is_to_be_started_anew(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = doctor.machine
    install(machine, "~/bin/docker")
    monkeypatch.setenv("TOKEN", "x")
    machine.table.add(7, "claude")
    machine.table.cwds[7] = str(machine.project)
    machine.table.variables[7] = {"PATH": f"{machine.home}/bin"}
    configure(doctor, "claude", command="docker", args=DOCKER)

    finding = doctor.find_only()

    assert "the running Claude Code was started without TOKEN" in finding["message"]
    assert finding["fix"] == "restart Claude Code from where TOKEN is set"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--env", "TOKEN=local"], "TOKEN is not set anywhere, but --env or a profile"),
        (["--server", "it"], "TOKEN is not set anywhere, but the profile's env uses it for KEY"),
    ],
    ids=["an option", "a profile"],
)
def test_a_wrapped_server_needs_what_its_launch_asks_for(
    args: list[str], message: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(doctor.machine, "~/bin/mcp-launch")
    text = '[servers.it]\nenv = { KEY = "${TOKEN}", OTHER = "${X:-1}" }\nenv_vars = ["Y"]\n'
    doctor.machine.write(OWN, text).chmod(0o600)
    configure(doctor, "claude", command="mcp-launch", args=["run", *args, "--", "sh"])
    assert message in doctor.find_only()["message"]

    monkeypatch.setenv("TOKEN", "x")
    assert doctor.list_codes() == []


@pytest.mark.parametrize(("given", "count"), [("mine", 0), ("${OPENAI_API_KEY}", 1)])
def test_a_key_of_the_entry_is_withheld_if_it_is_the_hosts_own(
    given: str, count: int, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(doctor.machine, "~/bin/mcp-launch")
    monkeypatch.setenv("OPENAI_API_KEY", "the host's")
    words = ["run", "--pass-env", "safe", "--", "sh"]
    variables = {"OPENAI_API_KEY": given}
    configure(doctor, "claude", command="mcp-launch", args=words, env=variables)

    found = [(one["code"], one["message"], one["fix"]) for one in doctor.find()]

    message = (
        "the entry sets OPENAI_API_KEY, but --pass-env safe removes it: Claude Code has it itself"
    )
    fix = "pass it on: mcp-launch wrap --host claude it -- --env OPENAI_API_KEY=local"
    assert found == [("ML205", message, fix)] * count


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        ({"env": {"TOKEN": "x", "PATH": "{home}/other"}}, []),
        ({"env": {"PATH": "{home}/other"}}, ["ML106"]),
        ({}, ["ML201", "ML106"]),
    ],
    ids=["both", "only PATH", "nothing"],
)
def test_claude_code_has_what_its_settings_set(
    settings: dict[str, Any], codes: list[str], doctor: Doctor
) -> None:
    install(doctor.machine, "~/other/server-of-mine")
    configure(doctor, "claude", command="server-of-mine", env={"KEY": "${TOKEN}"})
    text = json.dumps(settings).replace("{home}", str(doctor.machine.home))
    doctor.machine.write("~/.claude/settings.json", text)

    assert doctor.list_codes() == codes


# Credentials: ML206.


@pytest.mark.parametrize(
    ("args", "codes"),
    [
        (["--pass-env", "safe"], []),
        (["--pass-env", "PATH"], []),
        (["--server", "it"], []),
        ([], ["ML206"]),
    ],
    ids=["safe", "by name", "a profile", "all"],
)
def test_a_wrapped_server_may_be_spared(
    args: list[str], codes: list[str], doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(doctor.machine, "~/bin/mcp-launch")
    doctor.machine.write(OWN, '[servers.it]\npass_env = "safe"\n').chmod(0o600)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    configure(doctor, "claude", command="mcp-launch", args=["run", *args, "--", "sh"])

    assert doctor.list_codes("--ignore", "ML019") == codes


@pytest.mark.parametrize(
    ("host", "name", "codes"),
    [
        ("claude", "CLAUDE_CODE_MESSAGING_TOKEN", ["ML206"]),
        ("vscode", "ANTHROPIC_API_KEY", ["ML206"]),
        ("codex", "ANTHROPIC_API_KEY", []),
        ("claude-desktop", "ANTHROPIC_API_KEY", []),
    ],
)
def test_a_host_that_hands_its_credentials_on_is_reported(
    host: str, name: str, codes: list[str], doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "x")
    configure(doctor, host, command="sh")

    assert doctor.list_codes() == codes


@pytest.mark.parametrize("way", ["wrap", "[defaults]"])
def test_the_advice_on_credentials_works_when_it_is_followed(
    way: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    configure(doctor, "claude", command="sh")
    finding = doctor.find_only()
    assert "mcp-launch wrap --host claude -- --pass-env safe" in finding["fix"]

    words = ["--", "--pass-env", "safe"]
    if way == "[defaults]":
        doctor.machine.write(OWN, '[defaults]\npass_env = "safe"\n').chmod(0o600)
        words = []
    wrap = run_command("wrap", "--host", "claude", "--yes", *words, cwd=doctor.machine.project)

    assert wrap.returncode == 0
    assert doctor.list_codes() == []


def test_a_launcher_that_was_never_written_is_not_named(doctor: Doctor) -> None:
    configure(doctor, "codex", command="mcp-launch", args=["run", "--", "sh"])
    script = doctor.machine.survey().launcher
    assert not os.path.exists(script)

    finding = doctor.find_only()

    assert script not in finding["message"]
    assert finding["fix"] == "run: mcp-launch doctor --fix"

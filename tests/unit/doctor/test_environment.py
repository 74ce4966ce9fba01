"""What a server finds when its host starts it: its program, its variables, its directory."""

from __future__ import annotations

import json
import os
import struct
import sys
from typing import TYPE_CHECKING, Any

import pytest
from fake_machine import list_codes
from git_repository import track
from mcp_launch.doctor.checks import (
    binary_format,
    environment,
    needed_variables,
    program_not_runnable,
)
from mcp_launch.doctor.checks.binary_format import System
from mcp_launch.doctor.checks.version_manager import explain_shim_failure
from script_files import BROKEN, SOUND

from mcp_launch.config_files.planned_changes import Wish, look
from mcp_launch.doctor import registry
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.launch import program_help
from mcp_launch.machine import host_environment
from mcp_launch.machine.preview import predict

if TYPE_CHECKING:
    from fake_machine import FakeMachine
    from mcp_launch.doctor.finding import Finding

# Where each host's file is, and what its servers stand in.
FILES = {
    "codex": ("~/.codex/config.toml", "mcp_servers"),
    "claude": ("~/.claude.json", "mcpServers"),
    "claude-desktop": ("~/.config/Claude/claude_desktop_config.json", "mcpServers"),
    "cursor": ("~/.cursor/mcp.json", "mcpServers"),
    "vscode": (".vscode/mcp.json", "servers"),
    "gemini": ("~/.gemini/settings.json", "mcpServers"),
    "opencode": ("opencode.json", "mcp"),
    "cline": (
        "~/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        "mcpServers",
    ),
    "goose": ("~/.config/goose/config.yaml", "extensions"),
}


def configure(machine: FakeMachine, host: str, **entry: Any) -> None:
    """Write a host's file with one server, `it`."""
    path, key = FILES[host]
    if host == "claude-desktop" and machine.platform == "darwin":
        path = "~/Library/Application Support/Claude/claude_desktop_config.json"
    if host == "codex":
        lines = [f"{name} = {spell(value)}" for name, value in entry.items()]
        machine.write(path, "\n".join([f"[{key}.it]", *lines, ""]))
        return
    if host == "opencode":
        entry["command"] = [entry["command"], *entry.pop("args", [])]
    if host == "goose":
        entry = {"type": "stdio", "cmd": entry.pop("command"), **entry}
    machine.write(path, json.dumps({key: {"it": entry}}))


def spell(value: object) -> str:
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{name} = {json.dumps(text)}" for name, text in value.items()) + " }"
        )
    return json.dumps(value)


def check(machine: FakeMachine) -> list[Finding]:
    """Return what the checks of this part find."""
    survey = machine.survey()
    found = [one for check in environment.OF_ALL for one in check(survey)]
    for item in survey.servers:
        found += [one for check in environment.OF_ITEMS for one in check(survey, item)]
    assert survey.servers, "the test's own file has no server"
    return found


def only(machine: FakeMachine) -> Finding:
    [finding] = check(machine)
    return finding


def install(machine: FakeMachine, path: str, text: str = "#!/bin/sh\n", mode: int = 0o755) -> str:
    file = machine.write(path, text)
    file.chmod(mode)
    return str(file)


@pytest.fixture(autouse=True)
def plain_machine(machine: FakeMachine) -> None:
    """Let nothing depend on what is installed here: PATH is ~/bin, and what is on it a test's."""
    (machine.home / "bin").mkdir()
    machine.environ["PATH"] = f"{machine.home}/bin"


@pytest.fixture
def mac(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine be a Mac, but for its programs, which are those that are here."""
    here = binary_format.look_at_system(sys.platform, os.uname().machine)
    machine.platform = "darwin"
    monkeypatch.setattr(binary_format, "look_at_system", lambda *_: here)


# ML201


@pytest.mark.parametrize("host", FILES)
def test_a_command_that_is_nowhere_is_found_missing_for_every_host(
    machine: FakeMachine, host: str
) -> None:
    configure(machine, host, command="no-such-server-anywhere")
    finding = only(machine)
    assert finding.code == "ML201"
    assert "no-such-server-anywhere is not on the PATH that " in finding.message
    assert finding.subject.line > 0


def test_a_runner_that_is_nowhere_is_to_be_installed(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_help, "_find_managed", lambda _: None)  # whatever is installed here
    configure(machine, "codex", command="uvx")
    assert only(machine).fix.startswith("install uv; if it is installed, use its absolute path")


@pytest.mark.parametrize("command", ["", " "])
def test_an_empty_command_is_reported(machine: FakeMachine, command: str) -> None:
    configure(machine, "cursor", command=command)

    finding = only(machine)

    assert (finding.code, finding.message) == ("ML201", "the command is empty")


@pytest.mark.parametrize("host", FILES)
def test_a_command_on_the_shells_path_is_found_by_all_who_get_it(
    machine: FakeMachine, host: str
) -> None:
    install(machine, "~/bin/some-server")
    configure(machine, host, command="some-server")
    assert check(machine) == []


@pytest.mark.usefixtures("mac")
def test_claude_desktop_does_not_find_what_the_shell_finds(machine: FakeMachine) -> None:
    found = install(machine, "~/bin/uvx-of-mine")
    configure(machine, "claude-desktop", command="uvx-of-mine")
    finding = only(machine)
    assert "is not on the PATH that Claude Desktop gives (/usr/local/bin:" in finding.message
    assert finding.message.endswith(f"your shell finds {found}")
    assert finding.fix == f"replace uvx-of-mine with {found}"


@pytest.mark.usefixtures("mac")
def test_a_script_of_node_needs_more_than_its_path(machine: FakeMachine) -> None:
    install(machine, "~/bin/node-of-mine")
    install(machine, "~/bin/npx-of-mine", "#!/usr/bin/env node-of-mine\n")
    configure(machine, "claude-desktop", command="npx-of-mine")
    assert only(machine).fix.startswith(
        f"set PATH in the entry's variables to {machine.home}/bin:/usr/local/bin:"
    )


@pytest.mark.usefixtures("mac")
def test_claude_desktop_finds_what_nvm_installed(machine: FakeMachine) -> None:
    for version in ("v9.0.0", "v20.1.0"):
        install(machine, f"~/.nvm/versions/node/{version}/bin/npx-of-mine")
    configure(machine, "claude-desktop", command="npx-of-mine")
    assert check(machine) == []
    [item] = machine.survey().servers
    first, second, *_ = predict(machine.survey(), item).situation.environ["PATH"].split(":")
    assert ("v9.0.0" in first, "v20.1.0" in second) == (True, True)  # as it does itself


def test_the_path_of_a_host_that_runs_is_the_one_that_counts(machine: FakeMachine) -> None:
    install(machine, "~/bin/some-server")
    configure(machine, "claude", command="some-server")
    machine.table.add(7, "claude")
    machine.table.cwds[7] = str(machine.project)
    machine.table.variables[7] = {"PATH": "/nothing"}
    assert list_codes(check(machine)) == ["ML201"]
    machine.table.variables[7] = {"PATH": f"{machine.home}/bin"}
    assert check(machine) == []


@pytest.mark.parametrize(
    ("host", "path", "codes"),
    [
        ("codex", "{home}/other", []),
        ("codex", "${{HOME}}/other", ["ML201"]),
        ("claude", "${{HOME}}/other", []),
        ("claude", "${{NOTHING:-{home}/other}}", []),
        ("vscode", "${{env:HOME}}/other", []),
        ("vscode", "${{userHome}}/other", []),
        ("gemini", "$HOME/other", []),
        ("opencode", "{{env:HOME}}/other", []),
    ],
)
def test_an_entrys_own_path_counts_as_its_host_reads_it(
    machine: FakeMachine, host: str, path: str, codes: list[str]
) -> None:
    install(machine, "~/other/some-server")
    variables = {"PATH": path.format(home=machine.home)}
    key = "environment" if host == "opencode" else "env"
    configure(machine, host, command="some-server", **{key: variables})
    assert list_codes(check(machine)) == codes


def test_vs_code_adds_an_entrys_path_to_its_own(machine: FakeMachine) -> None:
    install(machine, "~/bin/some-server")
    configure(machine, "vscode", command="some-server", env={"PATH": "/nothing"})
    assert check(machine) == []


@pytest.mark.parametrize("host", ["codex", "claude", "claude-desktop"])
def test_a_tilde_is_nobodys_home_to_hosts_that_do_not_know_it(
    machine: FakeMachine, host: str
) -> None:
    install(machine, "~/bin/some-server")
    configure(machine, host, command="~/bin/some-server")
    finding = only(machine)
    assert finding.code == "ML201"
    assert "does not expand ~/bin/some-server" in finding.message
    assert finding.fix == f"write {machine.home}/bin/some-server"


def test_a_tilde_is_the_home_to_vs_code(machine: FakeMachine) -> None:
    install(machine, "~/bin/some-server")
    configure(machine, "vscode", command="~/bin/some-server")
    assert check(machine) == []


def test_a_relative_command_is_looked_for_where_the_server_starts(machine: FakeMachine) -> None:
    install(machine, "tools/server")
    configure(machine, "codex", command="./tools/server")
    assert check(machine) == []
    configure(machine, "codex", command="./server", cwd=f"{machine.project}/tools")
    assert check(machine) == []
    configure(machine, "codex", command="./tools/server", cwd=str(machine.home))
    assert list_codes(check(machine)) == ["ML201"]


def test_a_command_that_only_its_host_can_tell_is_not_judged(machine: FakeMachine) -> None:
    configure(machine, "vscode", command="${input:server}")
    assert check(machine) == []


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("node", ["{project}/gone.js"]),
        ("python3", ["-u", "{project}/gone.py"]),
        ("sh", ["./gone.sh"]),
    ],
)
def test_a_file_that_an_interpreter_is_to_run_must_be_there(
    machine: FakeMachine, command: str, args: list[str]
) -> None:
    install(machine, f"~/bin/{command}")
    words = [word.format(project=machine.project) for word in args]
    configure(machine, "codex", command=command, args=words)
    finding = only(machine)
    assert (finding.code, "which does not exist" in finding.message) == ("ML201", True)
    machine.write(words[-1].removeprefix(f"{machine.project}/"), "")
    assert check(machine) == []


@pytest.mark.parametrize("args", [["-m", "a/b"], ["-c", "open('/x/y')"], ["-e", "1/2"], ["server"]])
def test_what_may_be_no_file_is_not_looked_for(machine: FakeMachine, args: list[str]) -> None:
    install(machine, "~/bin/node")
    configure(machine, "codex", command="node", args=args)
    assert check(machine) == []


# ML201 of wrapped entries


@pytest.mark.usefixtures("mac")
def test_a_launcher_without_its_path_is_not_found_by_claude_desktop(machine: FakeMachine) -> None:
    install(machine, "~/bin/mcp-launch")
    args = ["run", "--cwd", "~", "--", "/bin/sh"]
    configure(machine, "claude-desktop", command="mcp-launch", args=args)
    finding = only(machine)
    assert finding.fix == f"replace mcp-launch with {machine.home}/bin/mcp-launch"
    machine.platform = "linux"
    configure(machine, "claude", command="mcp-launch", args=["run", "--", "/bin/sh"])
    assert check(machine) == []


def test_a_wrapped_server_is_looked_for_too(machine: FakeMachine) -> None:
    launcher = install(machine, "~/bin/mcp-launch")
    configure(machine, "codex", command=launcher, args=["run", "--", "no-such-server-anywhere"])
    finding = only(machine)
    assert "no-such-server-anywhere is not on the PATH" in finding.message


def test_a_launcher_that_is_gone_is_said_elsewhere(machine: FakeMachine) -> None:
    configure(machine, "codex", command="/gone/mcp-launch", args=["run", "--", "/bin/sh"])
    assert check(machine) == []


def test_the_command_of_a_profile_is_looked_for_and_nothing_is_written(
    machine: FakeMachine,
) -> None:
    launcher = install(machine, "~/bin/mcp-launch")
    configure(machine, "codex", command=launcher, args=["run", "--server", "it"])
    profile = machine.write(
        "~/.config/mcp-launch/config.toml", '[servers.it]\ncommand = "gone-it"\n'
    )
    profile.chmod(0o600)
    assert "gone-it is not on the PATH" in only(machine).message
    install(machine, "~/bin/gone-it")
    assert check(machine) == []
    assert not (machine.home / ".local").exists()


def test_a_profile_that_nobody_trusts_is_passed_over(machine: FakeMachine) -> None:
    launcher = install(machine, "~/bin/mcp-launch")
    configure(machine, "codex", command=launcher, args=["run", "--server", "it"])
    machine.write(".mcp-launch.toml", '[servers.it]\ncommand = "gone-it"\n')
    assert check(machine) == []


# ML121


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["run", "--cwdd", "x", "--", "/bin/sh"], "unknown option --cwdd"),
        (["run"], "no server command was given"),
        (["run", "--server", "nosuch"], "no profile defines the server nosuch"),
        (["run", "--env", "A=threads", "--", "/bin/sh"], "asks for a source that does not exist"),
        (["run", "--max-servers", "0", "--", "/bin/sh"], "does not take 0"),
        (["run", "--share=project", "--direct", "--", "/bin/sh"], "does not work with --direct"),
        (["run", "--share=project", "--env=A=session", "--", "/bin/sh"], "A (source session)"),
        (["run", "--dotenv", "/dev/zero", "--", "/bin/sh"], "/dev/zero is not a regular file"),
        (["run", "--dotenv", "/bin", "--", "/bin/sh"], "the dotenv file /bin is a directory"),
        (["run", "--dotenv", "/gone/.env", "--", "/bin/sh"], "/gone/.env does not exist"),
        (["run", "--dotenv", "~/gone.env", "--", "/bin/sh"], "gone.env does not exist"),
        (["run", "--dotenv", "${HOME}/gone.env", "--", "/bin/sh"], "gone.env does not exist"),
    ],
)
def test_what_the_launcher_refuses_is_reported(
    machine: FakeMachine, words: list[str], problem: str
) -> None:
    configure(machine, "claude", command=install(machine, "~/bin/mcp-launch"), args=words)

    finding = only(machine)

    assert finding.code == "ML121"
    assert finding.message.startswith("mcp-launch does not start 'it': ")
    assert problem in finding.message
    assert finding.fix


PLACES = (
    (["--cwd", "below"], "below (--cwd) does not exist"),
    (["--dotenv", ".env"], ".env does not exist"),
    (["--cwd", "project_root"], "there is no project root"),
)


@pytest.mark.parametrize(("words", "problem"), PLACES)
def test_a_relative_place_is_judged_where_it_is_known(
    machine: FakeMachine, words: list[str], problem: str
) -> None:
    args = ["run", *words, "--", "/bin/sh"]
    entry = {"command": install(machine, "~/bin/mcp-launch"), "args": args}
    machine.write(".mcp.json", json.dumps({"mcpServers": {"it": entry}}))
    (machine.project / ".git").rmdir()
    assert problem in only(machine).message

    machine.write(".mcp-launch.toml", "")
    machine.write("below/.env", "")
    machine.write(".env", "")
    assert check(machine) == []

    # The user's own servers start wherever a session does.
    machine.project = machine.home / "elsewhere"
    machine.project.mkdir()
    configure(machine, "claude", **entry)
    assert check(machine) == []


# ML202 and shims


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (".nvm/versions/node/v20.1.0/bin/npx", "is nvm's v20.1.0: the server keeps using it"),
        (".local/share/fnm/node-versions/v20.1.0/installation/bin/npx", "is fnm's v20.1.0"),
        (".volta/tools/image/node/20.1.0/bin/npx", "is volta's 20.1.0"),
        (".local/share/mise/installs/node/20.1.0/bin/npx", "is mise's 20.1.0"),
        (".asdf/installs/nodejs/20.1.0/bin/npx", "is asdf's 20.1.0"),
        (".pyenv/versions/3.11.7/bin/uvx", "is pyenv's 3.11.7"),
        (".local/state/fnm_multishells/123_456/bin/npx", "fnm made for one shell"),
    ],
)
def test_a_path_of_one_version_does_not_follow_an_upgrade(
    machine: FakeMachine, path: str, told: str
) -> None:
    configure(machine, "codex", command=install(machine, f"~/{path}"))
    finding = only(machine)
    assert (finding.code, told in finding.message) == ("ML202", True)


def test_a_link_to_the_newest_version_lasts(machine: FakeMachine) -> None:
    install(machine, "~/.local/share/mise/installs/node/22.3.0/bin/npx")
    link = machine.home / ".local/share/mise/installs/node/22"
    link.symlink_to("22.3.0")
    configure(machine, "codex", command=f"{link}/bin/npx")
    assert check(machine) == []


def test_a_name_on_the_path_follows_every_upgrade(machine: FakeMachine) -> None:
    install(machine, "~/.nvm/versions/node/v20.1.0/bin/npx")
    machine.environ["PATH"] = f"{machine.home}/.nvm/versions/node/v20.1.0/bin"
    configure(machine, "codex", command="npx")
    assert check(machine) == []


def test_a_shim_of_pyenv_finds_nothing_in_a_project_of_another_python(machine: FakeMachine) -> None:
    shim = install(machine, "~/.pyenv/shims/some-server")
    install(machine, "~/.pyenv/versions/3.12.1/bin/some-server")
    install(machine, "~/.pyenv/versions/3.9.2/bin/python")
    machine.write("~/.pyenv/version", "3.12.1\n")
    configure(machine, "codex", command=shim)
    assert check(machine) == []
    machine.write(".python-version", "system\n")
    assert check(machine) == []
    machine.write(".python-version", "3.9\n")
    finding = only(machine)
    assert finding.code == "ML201"
    assert f"pyenv chooses 3.9 for {machine.project}" in finding.message
    assert "which has no some-server" in finding.message


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "asdf has no version for {project}, and no global one"),
        ({".tool-versions": "nodejs 20.1.0"}, ""),
        ({"~/.tool-versions": "nodejs 20.1.0"}, ""),
        ({"~/.asdfrc": "legacy_version_file = yes"}, ""),
    ],
    ids=["nothing", "the project", "the home", "other files may"],
)
def test_a_shim_of_asdf_needs_somebody_to_choose(
    machine: FakeMachine, said: dict[str, str], why: str
) -> None:
    for path, text in said.items():
        machine.write(path, text)
    shim = install(machine, "~/.asdf/shims/npx")
    place, home = str(machine.project), str(machine.home)
    assert explain_shim_failure(shim, place, {}, home) == why.format(project=place)


# ML203, ML204


def test_a_file_that_may_not_be_executed_is_reported_with_what_to_do(machine: FakeMachine) -> None:
    file = install(machine, "~/bin/server", mode=0o644)
    configure(machine, "codex", command="server")
    finding = only(machine)
    assert (finding.code, finding.fix) == ("ML203", f"run: chmod +x {file}")
    os.chmod(file, 0o755)  # noqa: S103
    assert check(machine) == []


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("host", ["codex", "claude"])
def test_a_file_that_would_not_run_says_why(machine: FakeMachine, what: str, host: str) -> None:
    content, told = BROKEN[what]
    file = machine.write("server", "")
    file.write_bytes(content)
    file.chmod(0o755)
    machine.environ["PATH"] = "/usr/bin:/bin"
    configure(machine, host, command=str(file))
    finding = only(machine)
    assert (finding.code, told in finding.message) == ("ML204", True), finding.message


@pytest.mark.parametrize("what", SOUND)
def test_a_file_that_runs_is_not_found_fault_with(machine: FakeMachine, what: str) -> None:
    file = install(machine, "server", SOUND[what])
    machine.environ["PATH"] = "/usr/bin:/bin"
    configure(machine, "codex", command=file)
    assert check(machine) == []


def test_the_launcher_and_hosts_of_node_give_a_text_to_the_shell(machine: FakeMachine) -> None:
    file = install(machine, "server", "exit 0\n")
    configure(machine, "gemini", command=file)
    assert check(machine) == []
    configure(machine, "gemini", command="mcp-launch", args=["run", "--", file])
    install(machine, "~/bin/mcp-launch")
    assert check(machine) == []


def test_an_interpreter_that_is_broken_itself_is_seen(machine: FakeMachine) -> None:
    inner = install(machine, "inner", "#!/opt/gone/ruby\n")
    configure(machine, "codex", command=install(machine, "server", f"#!{inner}\n"))
    assert f"{inner} is run by /opt/gone/ruby" in only(machine).message


def test_a_directory_is_no_command(machine: FakeMachine) -> None:
    configure(machine, "codex", command=str(machine.project))
    finding = only(machine)
    assert (finding.code, "is a directory" in finding.message) == ("ML204", True)


def make_elf(machine: int) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, machine) + bytes(44)


def make_macho(*machines: int) -> bytes:
    if len(machines) == 1:
        return b"\xcf\xfa\xed\xfe" + struct.pack("<I", machines[0]) + bytes(56)
    parts = b"".join(struct.pack(">I", one) + bytes(16) for one in machines)
    return b"\xca\xfe\xba\xbe" + struct.pack(">I", len(machines)) + parts + bytes(20)


X86, ARM = 0x01000007, 0x0100000C
LINUX, MAC = System("linux", "x86_64"), System("darwin", "x86_64")


@pytest.mark.parametrize(
    ("head", "system", "told"),
    [
        (make_elf(62), LINUX, ""),
        (make_elf(3), LINUX, ""),
        (make_elf(183), LINUX, "a program for aarch64, but this machine is x86_64"),
        (make_elf(183), System("linux", "aarch64"), ""),
        (make_elf(62), System("linux", "aarch64"), "a program for x86_64"),
        (make_elf(183), System("linux", "x86_64", has_emulators=True), ""),
        (make_elf(999), LINUX, ""),
        (make_macho(X86), LINUX, "a program for macOS"),
        (b"MZ" + bytes(100), LINUX, "a program for Windows"),
        (make_macho(X86), MAC, ""),
        (make_macho(ARM), MAC, "a program for aarch64"),
        (make_macho(X86, ARM), MAC, ""),
        (make_macho(X86), System("darwin", "aarch64"), ""),
        (make_elf(62), MAC, "a program for Linux"),
        (b"\x7fELF", LINUX, ""),
    ],
    ids=[
        *("own", "own elder", "foreign", "own arm", "foreign to arm", "emulated", "unknown"),
        *("of a Mac", "of Windows", "Mac's own", "of a newer Mac", "of both Macs", "by Rosetta"),
        *("of Linux", "torn"),
    ],
)
def test_a_program_of_another_machine_is_reported(head: bytes, system: System, told: str) -> None:
    fault = binary_format.find_fault("it", head, system)
    assert told in (fault.problem if fault else "")
    assert bool(fault) == bool(told)


def test_this_machines_own_programs_are_in_order() -> None:
    system = binary_format.look_at_system(sys.platform, os.uname().machine)
    for file in (sys.executable, "/bin/sh", "/usr/bin/env"):
        assert program_not_runnable.find_fault(file, "", system, has_shell=False) is None


@pytest.mark.skipif(sys.platform != "linux", reason="ELF files are Linux's")
def test_a_program_whose_loader_is_missing_is_reported() -> None:
    with open("/bin/sh", "rb") as file:
        head = file.read(binary_format.HEAD)
    begin = head.index(b"/lib")
    broken = head[:begin] + b"/gon" + head[begin + 4 :]
    system = binary_format.look_at_system("linux", os.uname().machine)._replace(has_emulators=False)
    fault = binary_format.find_fault("it", broken, system)
    assert fault
    assert "it needs /gon" in fault.problem


# ML205


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


def test_docker_needs_what_codex_strips(machine: FakeMachine) -> None:
    install(machine, "~/bin/docker")
    machine.environ["TOKEN"] = "not-for-anybodys-eyes"
    configure(machine, "codex", command="docker", args=DOCKER)
    finding = only(machine)
    assert finding.code == "ML205"
    assert finding.message == "Codex does not pass TOKEN on, but docker expects it (-e)"
    assert finding.fix == 'add "TOKEN" to env_vars in [mcp_servers.it]: env_vars = ["TOKEN"]'
    configure(machine, "codex", command="docker", args=DOCKER, env_vars=["TOKEN"])
    assert check(machine) == []


@pytest.mark.parametrize(
    ("host", "message", "fix"),
    [
        ("claude-desktop", "Claude Desktop does not pass TOKEN on", "the `env` of the entry"),
        ("cline", "Cline does not pass TOKEN on", "the `env` of the entry"),
        ("gemini", "Gemini CLI does not pass TOKEN on", '"env": {"TOKEN": "$TOKEN"}'),
    ],
)
def test_other_hosts_strip_it_too(machine: FakeMachine, host: str, message: str, fix: str) -> None:
    docker = install(machine, "~/bin/docker")
    machine.environ["TOKEN"] = "not-for-anybodys-eyes"
    configure(machine, host, command=docker, args=DOCKER)
    finding = only(machine)
    assert (message in finding.message, fix in finding.fix) == (True, True), finding
    configure(machine, host, command=docker, args=DOCKER, env={"TOKEN": "x"})
    assert check(machine) == []


def test_a_variable_that_is_set_nowhere_may_be_optional(machine: FakeMachine) -> None:
    install(machine, "~/bin/docker")
    configure(machine, "claude", command="docker", args=DOCKER)
    assert check(machine) == []


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("~/.claude/settings.json", {"env": {"TOKEN": "x", "PATH": "{home}/other"}}),
        ("~/.claude.json", {"env": {"TOKEN": "x", "PATH": "{home}/other"}}),
    ],
)
def test_claude_code_has_what_its_settings_set(
    machine: FakeMachine, path: str, settings: dict[str, Any]
) -> None:
    install(machine, "~/other/server-of-mine")
    configure(machine, "claude", command="server-of-mine", env={"KEY": "${TOKEN}"})
    assert only(machine).code == "ML201"
    file = machine.home / path.removeprefix("~/")
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    text = json.dumps(known | settings).replace("{home}", str(machine.home))
    machine.write(path, text)

    assert check(machine) == []

    survey = machine.survey()
    [item] = survey.servers
    assert predict(survey, item).situation.environ["KEY"] == "x"


def test_a_projects_settings_of_claude_code_reach_its_servers_only(machine: FakeMachine) -> None:
    configure(machine, "claude", command="/bin/sh", env={"KEY": "${TOKEN}"})
    machine.write(".claude/settings.local.json", '{"env": {"TOKEN": "x"}}')

    survey = machine.survey()
    [item] = survey.servers

    given = predict(survey, item).situation.environ
    assert (given["TOKEN"], given["KEY"]) == ("x", "${TOKEN}")
    assert "TOKEN" not in host_environment.read_host(survey, item.host)


def test_the_users_settings_of_claude_code_go_before_its_own_file(machine: FakeMachine) -> None:
    machine.write("~/.claude.json", '{"env": {"A": "1", "B": "1"}, "mcpServers": {}}')
    machine.write("~/.claude/settings.json", '{"env": {"A": "2"}}')
    machine.environ["B"] = "0"

    survey = machine.survey("claude")

    read = host_environment.read_host(survey, survey.hosts[0])
    assert (read["A"], read["B"]) == ("2", "1")


def test_zeds_entries_of_old_have_variables_too(machine: FakeMachine) -> None:
    command = {"path": "/bin/sh", "args": ["-c", "echo $TOKEN"], "env": {"TOKEN": "x"}}
    entry = {"command": command, "settings": {}}
    machine.write("~/.config/zed/settings.json", json.dumps({"context_servers": {"it": entry}}))

    [item] = machine.survey().servers

    assert item.variables == {"TOKEN": "x"}


def test_a_host_that_was_started_too_early_is_to_be_started_anew(machine: FakeMachine) -> None:
    install(machine, "~/bin/docker")
    machine.environ["TOKEN"] = "x"
    machine.table.add(7, "claude")
    machine.table.cwds[7] = str(machine.project)
    machine.table.variables[7] = {"PATH": machine.environ["PATH"]}
    configure(machine, "claude", command="docker", args=DOCKER)
    finding = only(machine)
    assert "the running Claude Code was started without TOKEN" in finding.message
    assert finding.fix == "restart Claude Code from where TOKEN is set"


def test_a_script_of_the_shell_needs_what_it_uses(machine: FakeMachine) -> None:
    machine.environ |= {"TOKEN": "x", "OTHER": "x"}
    script = "export OTHER=1; exec server --token \"$TOKEN\" --other $OTHER '$QUOTED' ${UNSET}"
    configure(machine, "codex", command="/bin/sh", args=["-c", script])
    assert only(machine).message == "Codex does not pass TOKEN on, but its script for sh uses it"
    configure(machine, "codex", command="/bin/sh", args=["-lc", script])
    assert check(machine) == []  # its own files may set it


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("docker run -e A -e B=1 image", ["A"]),
        ("docker run -eA --env B --env=C image", ["A", "B", "C"]),
        ("docker run -it -v /x:/y --name -e image -e A", []),
        ("/usr/bin/podman run --rm --env A image", ["A"]),
        ("docker --context it run -e A image", ["A"]),
        ("docker ps -e A", []),
        ("npx -e A", []),
        ("docker", []),
        ("", []),
    ],
)
def test_what_a_container_needs_stands_before_its_image(words: str, names: list[str]) -> None:
    assert [need.name for need in needed_variables.list_of_command(words.split())] == names


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("server $A ${B} ${C:-none} \\$D", ["A", "B"]),
        ("A=1 server $A", []),
        ("for one in *; do echo $one; done", []),
        ("read line; echo $line $PWD $1 $$", []),
        ("awk '{print $A}'", []),
    ],
)
def test_what_a_script_uses_is_distinguished_from_what_it_makes(
    script: str, names: list[str]
) -> None:
    found = needed_variables.list_of_command(["bash", "-c", script])
    assert [need.name for need in found] == names


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--env", "TOKEN=local"], "TOKEN is not set anywhere, but --env or a profile"),
        (["--server", "it"], "TOKEN is not set anywhere, but the profile's env uses it for KEY"),
    ],
    ids=["an option", "a profile"],
)
def test_a_wrapped_server_needs_what_its_launch_asks_for(
    machine: FakeMachine, args: list[str], message: str
) -> None:
    launcher = install(machine, "~/bin/mcp-launch")
    profile = machine.write(
        "~/.config/mcp-launch/config.toml",
        '[servers.it]\nenv = { KEY = "${TOKEN}", OTHER = "${X:-1}" }\nenv_vars = ["Y"]\n',
    )
    profile.chmod(0o600)
    configure(machine, "claude", command=launcher, args=["run", *args, "--", "/bin/sh"])
    assert message in only(machine).message
    machine.environ["TOKEN"] = "x"
    assert check(machine) == []


@pytest.mark.parametrize(("given", "count"), [("mine", 0), ("${OPENAI_API_KEY}", 1)])
def test_a_key_of_the_entry_is_withheld_if_it_is_the_hosts_own(
    machine: FakeMachine, given: str, count: int
) -> None:
    launcher = install(machine, "~/bin/mcp-launch")
    machine.environ["OPENAI_API_KEY"] = "the host's"
    words = ["run", "--pass-env", "safe", "--", "/bin/sh"]
    configure(machine, "claude", command=launcher, args=words, env={"OPENAI_API_KEY": given})
    found = [(one.code, one.message, one.fix) for one in check(machine)]
    message = (
        "the entry sets OPENAI_API_KEY, but --pass-env safe removes it: Claude Code has it itself"
    )
    fix = "pass it on: mcp-launch wrap --host claude it -- --env OPENAI_API_KEY=local"
    assert found == [("ML205", message, fix)] * count


def test_what_the_launcher_takes_out_is_not_the_hosts_fault(machine: FakeMachine) -> None:
    launcher, docker = install(machine, "~/bin/mcp-launch"), install(machine, "~/bin/docker")
    machine.environ["TOKEN"] = "x"
    words = ["run", "--pass-env", "OTHER", "--", docker, *DOCKER]
    configure(machine, "claude", command=launcher, args=words)
    finding = only(machine)
    assert "--pass-env (or a profile's pass_env) removes TOKEN" in finding.message
    words[2] = "OTHER,TOKEN"
    configure(machine, "claude", command=launcher, args=words)
    assert check(machine) == []


def test_a_file_of_variables_and_a_keyring_give_what_is_needed(machine: FakeMachine) -> None:
    install(machine, "~/bin/docker")
    machine.write(".env", "TOKEN=x\n")
    file = "${workspaceFolder}/.env"
    configure(machine, "vscode", command="docker", args=DOCKER, envFile=file)
    configure(machine, "goose", command="docker", args=DOCKER, env_keys=["TOKEN"])
    assert check(machine) == []


# ML206


def test_a_hosts_credentials_are_named_and_never_shown(machine: FakeMachine) -> None:
    machine.environ["ANTHROPIC_API_KEY"] = "sk-not-for-anybodys-eyes"
    machine.environ["CLAUDE_CODE_OAUTH_TOKEN"] = "which-it-keeps-to-itself"
    configure(machine, "claude", command="/bin/sh")
    finding = only(machine)
    assert finding.code == "ML206"
    assert finding.message == (
        "Claude Code passes its credentials on to 1 of its servers (it): ANTHROPIC_API_KEY"
    )
    assert "run: mcp-launch wrap --host claude -- --pass-env safe; or write" in finding.fix
    assert finding.subject == ("claude", "", "", "", 0, 0, 0)


def test_a_server_that_is_given_a_key_of_its_own_is_meant_to_have_one(machine: FakeMachine) -> None:
    machine.environ["OPENAI_API_KEY"] = "x"
    configure(machine, "claude", command="/bin/sh", env={"OPENAI_API_KEY": "${OPENAI_API_KEY}"})
    assert check(machine) == []


def test_claude_code_can_be_told_to_keep_its_credentials(machine: FakeMachine) -> None:
    machine.environ |= {"ANTHROPIC_API_KEY": "x", "CLAUDE_CODE_SUBPROCESS_ENV_SCRUB": "1"}
    configure(machine, "claude", command="/bin/sh")
    assert check(machine) == []


@pytest.mark.parametrize("host", ["codex", "gemini", "claude-desktop"])
def test_hosts_that_keep_theirs_to_themselves_are_not_blamed(
    machine: FakeMachine, host: str
) -> None:
    machine.environ["OPENAI_API_KEY"] = "x"
    configure(machine, host, command="/bin/sh")
    assert check(machine) == []


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
    machine: FakeMachine, args: list[str], codes: list[str]
) -> None:
    launcher = install(machine, "~/bin/mcp-launch")
    profile = machine.write("~/.config/mcp-launch/config.toml", '[servers.it]\npass_env = "safe"\n')
    profile.chmod(0o600)
    machine.environ["ANTHROPIC_API_KEY"] = "x"
    configure(machine, "claude", command=launcher, args=["run", *args, "--", "/bin/sh"])
    assert list_codes(check(machine)) == codes


@pytest.mark.parametrize("way", ["wrap", "defaults", "profile"])
def test_the_advice_on_credentials_works_when_it_is_followed(
    machine: FakeMachine, way: str
) -> None:
    machine.environ["ANTHROPIC_API_KEY"] = "x"
    configure(machine, "claude", command="/bin/sh")
    file = machine.home / ".claude.json"
    wish = Wish(install(machine, "~/bin/mcp-launch"), (), ())
    if way == "wrap":
        wish = wish._replace(options=("--pass-env", "safe"))
    else:
        table = "[defaults]" if way == "defaults" else "[servers.it]"
        text = f'{table}\npass_env = "safe"\n'
        machine.write("~/.config/mcp-launch/config.toml", text).chmod(0o600)
    assert list_codes(check(machine)) == ["ML206"]
    claude, *_ = HOSTS["claude"].list_files(machine.survey().site)

    after = look(HOSTS["claude"], claude, file.read_text(encoding="utf-8"), wish).after
    file.write_text(after, encoding="utf-8")

    assert check(machine) == []


# ML207


@pytest.mark.parametrize("host", ["codex", "vscode", "gemini", "opencode", "cline"])
def test_a_directory_that_is_gone_stops_a_server(machine: FakeMachine, host: str) -> None:
    configure(machine, host, command="/bin/sh", cwd=f"{machine.home}/gone")
    finding = only(machine)
    assert finding.code == "ML207"
    assert f"{machine.home}/gone (cwd) does not exist" in finding.message
    machine.write("~/gone", "")
    assert "is not a directory" in only(machine).message
    configure(machine, host, command="/bin/sh", cwd=str(machine.home))
    assert check(machine) == []


def test_a_cwd_that_the_host_ignores_stops_nothing(machine: FakeMachine) -> None:
    configure(machine, "claude", command="/bin/sh", cwd="/gone")
    assert check(machine) == []


@pytest.mark.parametrize(
    ("where", "codes"),
    [("/gone", ["ML207"]), ("~/gone", ["ML207"]), ("~", []), ("session", []), ("keep", [])],
)
def test_the_directory_of_a_wrapped_server_is_looked_for(
    machine: FakeMachine, where: str, codes: list[str]
) -> None:
    launcher = install(machine, "~/bin/mcp-launch")
    configure(machine, "codex", command=launcher, args=["run", "--cwd", where, "--", "/bin/sh"])
    assert list_codes(check(machine)) == codes


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        ([], ["ML208"]),
        (["--server", "it"], ["ML208"]),
        (["--cwd", "keep"], []),
        (["--cwd", "~"], []),
        (["--strict"], ["ML121"]),
        (["--strict", "--cwd", "~"], []),
    ],
    ids=["as wrap writes it", "by name", "kept", "chosen", "strict", "strict, but chosen"],
)
@pytest.mark.parametrize("host", ["claude-desktop", "cursor", "cline"])
def test_a_host_that_starts_servers_in_a_home_is_foreseen(
    machine: FakeMachine, host: str, words: list[str], codes: list[str]
) -> None:
    launcher = install(machine, "~/bin/mcp-launch")
    configure(machine, host, command=launcher, args=["run", *words, "--", "/bin/sh"])
    found = check(machine)
    assert list_codes(found) == codes
    assert all(f"/ or {machine.home}" in finding.message for finding in found)


def test_a_server_that_has_its_directory_is_not_in_a_home(machine: FakeMachine) -> None:
    launcher = install(machine, "~/bin/mcp-launch")
    wrapped = {"command": launcher, "args": ["run", "--", "/bin/sh"]}
    configure(machine, "cline", cwd=str(machine.project), **wrapped)
    assert check(machine) == []


def test_a_project_in_the_home_directory_is_foreseen(machine: FakeMachine) -> None:
    machine.project = machine.home
    launcher = install(machine, "~/bin/mcp-launch")
    configure(machine, "vscode", command=launcher, args=["run", "--", "/bin/sh"])
    finding = only(machine)
    assert (finding.code, finding.level) == ("ML208", "note")
    assert finding.message == f"VS Code starts 'it' in {machine.home}, not in a project"
    assert finding.fix.endswith(": mcp-launch wrap --host vscode it -- --cwd DIR")


def test_where_a_servers_host_is_started_is_its_users_affair(machine: FakeMachine) -> None:
    machine.project = machine.home
    launcher = install(machine, "~/bin/mcp-launch")
    configure(machine, "codex", command=launcher, args=["run", "--strict", "--", "/bin/sh"])
    assert check(machine) == []


def test_the_project_that_uv_is_given_is_looked_for(machine: FakeMachine) -> None:
    install(machine, "~/bin/uv")
    configure(machine, "codex", command="uv", args=["--directory", "/gone", "run", "server.py"])
    assert list_codes(check(machine)) == ["ML207"]
    configure(machine, "codex", command="uv", args=["--directory", str(machine.home), "run", "x"])
    assert check(machine) == []


# Surroundings


SHELL = {
    "HOME": "/home/me",
    "PATH": "/bin",
    "LANG": "C",
    "SSH_AUTH_SOCK": "/x",
    "MY_TOKEN": "x",
    "MINE": "1",
    "OTEL_EXPORTER": "x",
    "DATABASE_URL": "x",
    "PROXY": "https://me:password@proxy",
}


@pytest.mark.parametrize(
    ("host", "stripped"),
    [
        ("codex", set(SHELL) - {"HOME", "PATH", "LANG"}),
        ("claude", {"OTEL_EXPORTER"}),
        ("claude-desktop", set(SHELL) - {"HOME", "PATH"}),
        ("cline", set(SHELL) - {"HOME", "PATH"}),
        ("gemini", {"MY_TOKEN", "SSH_AUTH_SOCK", "DATABASE_URL", "PROXY"}),
        ("vscode", set()),
        ("opencode", set()),
        ("goose", set()),
    ],
)
def test_each_host_strips_what_it_strips(
    machine: FakeMachine, host: str, stripped: set[str]
) -> None:
    machine.environ = dict(SHELL)
    configure(machine, host, command="/bin/sh")
    [item] = machine.survey().servers
    assert set(SHELL) - set(predict(machine.survey(), item).situation.environ) == stripped


def test_gemini_cli_can_be_told_what_to_hand_on(machine: FakeMachine) -> None:
    machine.environ = {"MY_TOKEN": "x", "MY_KEY": "x"}
    settings = {"environmentVariableRedaction": {"allowed": ["MY_TOKEN"]}}
    servers = {"it": {"command": "/bin/sh"}}
    machine.write(
        "~/.gemini/settings.json", json.dumps({"security": settings, "mcpServers": servers})
    )
    [item] = machine.survey().servers
    assert predict(machine.survey(), item).situation.environ == {"MY_TOKEN": "x", "GEMINI_CLI": "1"}


@pytest.mark.parametrize(
    ("name", "text"),
    [("CLAUDE_CODE_MCP_ALLOWLIST_ENV", "1"), ("CLAUDE_CODE_ENTRYPOINT", "local-agent")],
)
def test_claude_code_can_be_told_to_be_sparing(machine: FakeMachine, name: str, text: str) -> None:
    machine.environ = SHELL | {name: text}
    configure(machine, "claude", command="/bin/sh")
    [item] = machine.survey().servers
    own = {"CLAUDECODE", "CLAUDE_PROJECT_DIR"}
    assert set(predict(machine.survey(), item).situation.environ) == {"HOME", "PATH"} | own


def test_the_daemon_of_codex_is_asked_before_its_terminals(machine: FakeMachine) -> None:
    configure(machine, "codex", command="/bin/sh", env_vars=["MINE"])
    for pid, argv in ((7, ["codex"]), (8, ["codex", "app-server", "--listen", "unix://"])):
        machine.table.add(pid, "codex")
        machine.table.argv[pid] = argv
        machine.table.variables[pid] = {"MINE": str(pid)}
    [item] = machine.survey().servers
    assert predict(machine.survey(), item).situation.environ == {"MINE": "8"}


@pytest.mark.parametrize(
    "files",
    [
        {
            "~/.cursor/mcp.json": {
                "mcpServers": {
                    "good": {"command": "no-such-program"},
                    "bad": {
                        "command": "mcp-launch",
                        "args": ["run", "--dotenv", "\0", "--env", "X=dotenv", "--", "cat"],
                    },
                }
            }
        },
        {
            "~/.claude.json": {"mcpServers": {"good": {"command": "no-such-program"}}},
            "~/.claude/settings.json": {"env": {"PATH": "/x\0"}},
        },
        {
            "~/.claude.json": {
                "mcpServers": {"good": {"command": "no-such-program"}},
                "projects": {"\0": {"mcpServers": {"z": {"command": "cat"}}}},
            }
        },
    ],
    ids=["the name of a dotenv file", "PATH", "the name of a project"],
)
def test_a_nul_in_a_hosts_file_hides_no_other_finding(
    machine: FakeMachine, files: dict[str, object]
) -> None:
    for path, content in files.items():
        machine.write(path, json.dumps(content))

    codes = [finding.code for finding in registry.examine(machine.survey())]

    assert "ML001" not in codes
    assert "ML201" in codes


# What `--fix` does about a launcher that is not on the host's PATH, and who is to blame.


def test_the_launchers_path_can_be_written_for_a_host_that_does_not_find_it(
    machine: FakeMachine,
) -> None:
    install(machine, "~/bin/server")
    path = machine.write(
        "~/.codex/config.toml",
        '[mcp_servers.it]\ncommand = "mcp-launch" # mine\n'
        'args = ["run", "--server", "it", "--", "server"]\n',
    )
    survey = machine.survey()
    launcher = survey.launcher = "/opt/mcp-launch/bin/mcp-launch"

    [finding] = [one for one in registry.examine(survey) if one.code == "ML201"]

    assert finding.message.startswith("mcp-launch is not on the PATH that Codex gives")
    assert finding.fix == f"replace mcp-launch with {launcher}"
    assert finding.repair is not None
    assert finding.repair.what == f"write {launcher} as the command of it in {path}"
    finding.repair.act()
    assert f'command = "{launcher}" # mine\n' in path.read_text("utf-8")


def test_a_launcher_in_a_file_that_git_tracks_keeps_its_name(machine: FakeMachine) -> None:
    entry = {"command": "mcp-launch", "args": ["run", "--server", "it", "--", "sh"]}
    machine.write(".vscode/mcp.json", json.dumps({"servers": {"it": entry}}))
    track(machine.project, ".vscode/mcp.json")
    survey = machine.survey()
    survey.launcher = "/opt/mcp-launch/bin/mcp-launch"

    [finding] = [one for one in registry.examine(survey) if "is not on" in one.message][:1]

    assert finding.repair is None


@pytest.mark.parametrize(
    ("argv", "is_blamed"), [(["codex", "app-server"], True), (["codex"], False)]
)
def test_a_daemon_with_an_older_path_is_named(
    machine: FakeMachine, argv: list[str], is_blamed: bool
) -> None:
    found = install(machine, "~/bin/server")
    machine.table.add(7, "codex")
    machine.table.argv[7] = argv
    machine.table.cwds[7] = str(machine.project)
    machine.table.variables[7] = {"PATH": "/old"}
    configure(machine, "codex", command="server")

    finding = only(machine)

    assert finding.message == (
        f"server is not on the PATH that Codex gives (/old); your shell finds {found}"
    )
    blame = "; or end Codex's daemon (process 7), which was started with an older PATH: kill 7"
    assert finding.fix == f"replace server with {found}{blame if is_blamed else ''}"


def test_a_long_path_is_not_shown_whole(machine: FakeMachine) -> None:
    machine.environ["PATH"] = ":".join(f"/opt/tools/number-{number}/bin" for number in range(9))
    configure(machine, "codex", command="server")

    assert only(machine).message == (
        "server is not on the PATH that Codex gives (/opt/tools/number-0/bin:"
        "/opt/tools/number-1/bin:/opt/tools/number-2/bin and 6 more)"
    )


# ML209


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('bearer_token_env_var = "T"', "T is not set where Codex runs, but 'far' needs it (bearer"),
        ('env_http_headers = { X-Key = "T" }', "'far' needs it (env_http_headers.X-Key)"),
        ('bearer_token_env_var = "HOME"', ""),
        ('bearer_token_env_var = "T"\nenabled = false', ""),
    ],
)
def test_a_variable_of_a_remote_server_of_codex_has_to_be_set(
    machine: FakeMachine, line: str, message: str
) -> None:
    install(machine, "~/bin/server")
    own = '[mcp_servers.it]\ncommand = "server"\n[mcp_servers.far]\nurl = "https://x"\n'
    machine.write("~/.codex/config.toml", f"{own}{line}\n")

    found = check(machine)

    assert list_codes(found) == (["ML209"] if message else [])
    assert message in "".join(one.message for one in found)
    assert all((one.subject.server, one.subject.line) == ("far", 5) for one in found)


@pytest.mark.parametrize(
    ("text", "codes"), [("Bearer ${T}", ["ML209"]), ("${T:-x}", []), ("Bearer ${HOME}", [])]
)
def test_a_variable_in_a_header_for_claude_code_has_to_be_set(
    machine: FakeMachine, text: str, codes: list[str]
) -> None:
    install(machine, "~/bin/server")
    far = {"type": "http", "url": "https://x", "headers": {"Authorization": text}}
    servers = {"it": {"command": "server"}, "far": far}
    machine.write("~/.claude.json", json.dumps({"mcpServers": servers}))

    assert list_codes(check(machine)) == codes


def test_a_host_that_was_started_without_the_variable_is_to_be_restarted(
    machine: FakeMachine,
) -> None:
    install(machine, "~/bin/server")
    machine.environ["T"] = "x"
    machine.table.add(7, "codex")
    machine.table.cwds[7] = str(machine.project)
    machine.table.variables[7] = {"PATH": machine.environ["PATH"]}
    own = '[mcp_servers.it]\ncommand = "server"\n[mcp_servers.far]\nurl = "https://x"\n'
    machine.write("~/.codex/config.toml", f'{own}bearer_token_env_var = "T"\n')

    finding = only(machine)

    assert finding.message.startswith("the running Codex was started without T, but 'far' needs it")
    assert finding.fix == "restart Codex from where T is set"


# An invalid profile


def test_an_invalid_profile_is_reported_once_and_hides_nothing(machine: FakeMachine) -> None:
    install(machine, "~/bin/server")
    machine.write("~/.config/mcp-launch/config.toml", "[servers.it]\ncwdd = 3\n")
    run = ["run", "--server", "it", "--"]
    launcher = install(machine, "~/bin/mcp-launch")
    entries = {
        "gone": {"command": launcher, "args": [*run, "no-such-thing"]},
        "well": {"command": launcher, "args": [*run, "server"]},
    }
    projects = {"/elsewhere": {"mcpServers": {"far": entries["well"]}}}
    machine.write("~/.claude.json", json.dumps({"mcpServers": entries, "projects": projects}))

    found = [(one.code, one.subject.server) for one in registry.examine(machine.survey("claude"))]

    assert ("ML013", "") in found
    assert ("ML201", "gone") in found
    assert "ML121" not in [code for code, _ in found]

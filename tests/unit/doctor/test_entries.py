"""What a single entry starts: packages, agents, the launcher before it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fake_machine import examine_module, list_codes
from git_repository import track
from mcp_launch.doctor.checks import (
    agent_timeouts,
    allowlists,
    configuration,
    not_wrapped,
    packages,
)
from mcp_launch.doctor.finding import CHECKS

from mcp_launch.errors import FileRefused
from mcp_launch.hosts.claude import settings
from mcp_launch.machine.installed_hosts import Program

if TYPE_CHECKING:
    from types import ModuleType

    from fake_machine import FakeMachine
    from mcp_launch.doctor.finding import Finding

CODEX = "~/.codex/config.toml"
CLAUDE = "~/.claude.json"
LAUNCHER = str(Path(sys.executable).parent / "mcp-launch")


def find_script(machine: FakeMachine) -> str:
    """Return what wrapped entries start."""
    return f"{machine.home}/.local/state/mcp-launch/mcp-launch"


def look(machine: FakeMachine, module: ModuleType) -> list[Finding]:
    return examine_module(machine.survey(), module)


def configure(machine: FakeMachine, *command: str, path: str = CLAUDE, **entry: Any) -> Path:
    """Write a file with one server, docs."""
    value = {"command": command[0], "args": list(command[1:]), **entry}
    if path != CODEX:
        return machine.write(path, json.dumps({"mcpServers": {"docs": value}}))
    lines = [f"{key} = {json.dumps(one)}" for key, one in value.items()]
    return machine.write(path, "\n".join(["[mcp_servers.docs]", *lines, ""]))


# Packages.


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("npx codex mcp-server", "codex on npm is a documentation generator"),
        ("npx -y codex@latest", "codex on npm"),
        ("npx --yes --package codex codex", "codex on npm"),
        ("cmd /c npx -y claude", "claude on npm is not a program by Anthropic"),
        ("bunx claude-code", "claude-code on npm is a pointer"),
        ("pnpm dlx gemini", "gemini on npm is a screenshot tool"),
        ("npm exec -- mcp-server-filesystem /x", "mcp-server-filesystem on npm"),
        ("uvx codex", "codex on PyPI is a comic reader"),
        ("uvx --python 3.12 --from claude-code==1 claude", "claude-code on PyPI is empty"),
        ("pipx run claude", "claude on PyPI is empty"),
        ("uv tool run mcp-server-memory", "mcp-server-memory on PyPI is empty"),
    ],
)
def test_a_package_that_is_not_what_its_name_suggests_is_reported(
    machine: FakeMachine, command: str, told: str
) -> None:
    configure(machine, *command.split())

    messages = [one.message for one in look(machine, packages) if one.code == "ML113"]

    assert len(messages) == 1
    assert messages[0].startswith(told)


@pytest.mark.parametrize(
    "command",
    [
        "npx -y @openai/codex",
        "npx @anthropic-ai/claude-code mcp serve",
        "uvx mcp-server-fetch",
        "codex",
        "npx",
        "npx -y some codex",
        "uvx --from git+https://example.org/codex codex",
    ],
)
def test_a_package_that_is_what_it_says_is_all_right(machine: FakeMachine, command: str) -> None:
    configure(machine, *command.split())

    assert look(machine, packages) == []


def test_npx_prefers_what_is_installed(machine: FakeMachine) -> None:
    configure(machine, "npx", "codex")
    machine.write("node_modules/.bin/codex", "")

    assert look(machine, packages) == []
    configure(machine, "npx", "codex@1")
    assert list_codes(look(machine, packages)) == ["ML113"]


@pytest.mark.parametrize(
    ("command", "installed", "told"),
    [
        ("codex mcp-server", "0.166.0", "the installed Codex 0.166.0 has no mcp-server"),
        ("/opt/bin/codex -c a=b mcp-server", "0.154.0", "the installed Codex 0.154.0"),
        ("codex mcp-server", "0.153.4", ""),
        ("codex mcp-server", "0.154.0-alpha.2", "the installed Codex 0.154.0-alpha.2"),
        ("codex mcp-server", "0.153.5-alpha.1", ""),
        ("codex mcp-server", "", ""),
        ("codex app-server", "0.166.0", ""),
        ("npx -y @openai/codex mcp-server", "0.149.0", "the newest @openai/codex has no"),
        ("npx -y @openai/codex@latest mcp-server", "", "@openai/codex latest has no"),
        ("npx -y @openai/codex@0.160.0 mcp-server", "", "@openai/codex 0.160.0 has no"),
        ("npx -y @openai/codex@0.149.0 mcp-server", "0.166.0", ""),
    ],
)
def test_a_codex_that_is_no_longer_a_server_is_reported(
    machine: FakeMachine, command: str, installed: str, told: str
) -> None:
    configure(machine, *command.split())
    machine.programs["codex"] = Program("/bin/codex", installed)

    found = look(machine, packages)

    assert list_codes(found) == (["ML114"] if told else [])
    assert all(one.message.startswith(told) for one in found)


def test_a_codex_that_is_not_installed_is_not_judged(machine: FakeMachine) -> None:
    configure(machine, "codex", "mcp-server")

    assert look(machine, packages) == []


def test_cmd_before_a_command_is_reported(machine: FakeMachine) -> None:
    configure(machine, "cmd", "/c", "npx", "-y", "docs")

    survey = machine.survey()
    [finding] = examine_module(survey, packages)
    survey.site = survey.site._replace(platform="win32")
    [on_windows] = examine_module(survey, packages)

    assert (finding.code, finding.fix) == ("ML115", "begin with npx")
    assert on_windows.code == "ML115"
    assert "breaks arguments with quotes" in on_windows.message
    configure(machine, "npx", "-y", "docs")
    assert look(machine, packages) == []


# Agents.


@pytest.mark.parametrize(
    ("path", "command", "entry", "told"),
    [
        (CODEX, "claude mcp serve", {}, "Codex waits only 300 s for an answer by default"),
        (CODEX, "claude mcp serve", {"tool_timeout_sec": 60}, "Codex waits only 60 s"),
        (CODEX, "claude mcp serve", {"tool_timeout_sec": 600}, ""),
        (
            CODEX,
            "npx -y @anthropic-ai/claude-code mcp serve",
            {},
            "Codex waits only 300 s for an answer by default",
        ),
        (CODEX, "npx -y claude-mcp", {}, "Codex waits only 300 s for an answer by default"),
        (CODEX, "npx -y docs", {}, ""),
        (CLAUDE, "codex mcp-server", {"timeout": 60000}, "Claude Code waits only 60 s"),
        (CLAUDE, "codex mcp-server", {"timeout": 600000}, ""),
        (CLAUDE, "codex mcp-server", {}, ""),
    ],
)
def test_an_agent_that_is_not_waited_for_is_reported(
    machine: FakeMachine, path: str, command: str, entry: dict[str, Any], told: str
) -> None:
    configure(machine, *command.split(), path=path, **entry)

    found = look(machine, agent_timeouts)

    assert list_codes(found) == (["ML112"] if told else [])
    assert all(one.message.startswith(told) for one in found)


def test_an_agent_behind_the_launcher_is_one(machine: FakeMachine) -> None:
    configure(machine, LAUNCHER, "run", "--", "claude", "mcp", "serve", path=CODEX)

    assert list_codes(look(machine, agent_timeouts)) == ["ML112"]


# The launcher.


def test_an_entry_that_is_not_wrapped_is_noted_and_wrapped(machine: FakeMachine) -> None:
    file = configure(machine, "npx", "docs", path="~/.cursor/mcp.json")

    [finding] = look(machine, not_wrapped)

    assert (finding.code, finding.level) == ("ML117", "note")
    assert finding.fix == "wrap it: mcp-launch wrap --host cursor docs"
    assert finding.repair
    assert finding.repair.what == f"wrap docs in {file}"
    finding.repair.act()
    assert look(machine, not_wrapped) == []
    entry = json.loads(file.read_text("utf-8"))["mcpServers"]["docs"]
    words = [find_script(machine), "run", "--server", "docs", "npx", "docs"]
    assert [entry["command"], *entry["args"]] == words


def test_only_the_entry_that_was_meant_is_wrapped(machine: FakeMachine) -> None:
    docs = {"mcpServers": {"docs": {"command": "x"}}}
    one, other = str(machine.project), str(machine.home)
    file = machine.write(CLAUDE, json.dumps({**docs, "projects": {one: docs, other: docs}}))
    found = look(machine, not_wrapped)
    [second] = [finding for finding in found if finding.subject.scope == f"local: {other}"]
    assert second.repair
    assert second.repair.what == f"wrap docs (local: {other}) in {file}"

    # Its host has written meanwhile, and moved everything.
    file.write_text("\n" + file.read_text("utf-8"), "utf-8")
    second.repair.act()

    scopes = sorted(finding.subject.scope for finding in look(machine, not_wrapped))
    assert scopes == [f"local: {one}", "user"]


def test_a_file_that_others_share_is_not_changed_by_the_way(machine: FakeMachine) -> None:
    configure(machine, "npx", path=".mcp.json")
    track(machine.project, ".mcp.json")

    [finding] = look(machine, not_wrapped)

    assert finding.code == "ML117"
    assert finding.repair is None
    assert "changes it for everyone" in finding.fix


def test_a_file_above_the_project_is_offered_by_its_path_alone(machine: FakeMachine) -> None:
    file = configure(machine, "npx", path="../.mcp.json").resolve()

    [finding] = look(machine, not_wrapped)

    assert finding.repair is None
    assert finding.fix == f"wrap it: mcp-launch wrap --file {file} docs"


def test_an_entry_that_is_gone_meanwhile_is_not_wrapped(machine: FakeMachine) -> None:
    file = configure(machine, "x")
    [finding] = look(machine, not_wrapped)
    file.write_text("{}", "utf-8")

    assert finding.repair
    with pytest.raises(FileRefused, match="was not changed"):
        finding.repair.act()


@pytest.mark.parametrize(
    ("command", "entry"),
    [
        (["mcp-launch", "run", "npx"], {}),
        (["uvx", "mcp-launch", "run", "--", "npx"], {}),
        (["npx"], {"disabled": True}),
    ],
    ids=["wrapped", "wrapped otherwise", "disabled"],
)
def test_what_need_not_be_wrapped_is_not_noted(
    machine: FakeMachine, command: list[str], entry: dict[str, Any]
) -> None:
    configure(machine, *command, **entry)

    assert look(machine, not_wrapped) == []


def test_launchers_that_are_gone_are_reported_once_each(machine: FakeMachine) -> None:
    words = ["run", "--server", "x", "npx"]
    servers = {f"s{at}": {"command": "/old/mcp-launch", "args": words} for at in range(15)}
    machine.write(CLAUDE, json.dumps({"mcpServers": servers}))
    configure(machine, "/older/mcp-launch", "run", "npx", path="~/.cursor/mcp.json")

    found = look(machine, not_wrapped)

    assert list_codes(found) == ["ML116", "ML116"]
    assert {one.servers for one in found} == {tuple(servers), ("docs",)}
    assert {one.fix for one in found} == {"mcp-launch wrap"}
    for one in found:
        assert one.repair
        one.repair.act()
    assert look(machine, not_wrapped) == []


def test_a_script_that_was_removed_is_written_again(machine: FakeMachine) -> None:
    file = configure(machine, find_script(machine), "run", "npx")
    before = file.read_text("utf-8")

    [finding] = look(machine, not_wrapped)
    assert (finding.code, finding.fix) == ("ML116", "mcp-launch wrap")
    assert finding.repair
    finding.repair.act()

    assert look(machine, not_wrapped) == []
    assert file.read_text("utf-8") == before


def test_an_entry_that_names_the_program_itself_is_noted_and_renewed(machine: FakeMachine) -> None:
    file = configure(machine, LAUNCHER, "run", "--", "npx")

    [finding] = look(machine, not_wrapped)
    assert (finding.code, finding.level, finding.servers) == ("ML125", "note", ("docs",))
    assert finding.repair
    finding.repair.act()

    assert look(machine, not_wrapped) == []
    assert json.loads(file.read_text("utf-8"))["mcpServers"]["docs"]["command"] == find_script(
        machine
    )


@pytest.mark.parametrize("launcher", ["mcp-launch", LAUNCHER], ids=["its name", "its path"])
def test_a_variable_that_stops_the_launcher_is_reported_and_the_entry_renewed(
    machine: FakeMachine, launcher: str
) -> None:
    env = {"PYTHONHOME": "/opt/python", "PYTHONPATH": "/opt"}
    configure(machine, launcher, "run", "npx", env=env)

    found = [one for one in look(machine, not_wrapped) if one.code == "ML126"]

    [finding] = found
    assert finding.level == "error"
    assert finding.message.startswith("PYTHONHOME in the entry also reaches")
    assert finding.repair
    finding.repair.act()
    assert look(machine, not_wrapped) == []


@pytest.mark.parametrize("is_there", [False, True], ids=["gone", "not executable"])
def test_a_launcher_that_cannot_be_started_is_reported_and_replaced(
    machine: FakeMachine, is_there: bool
) -> None:
    launcher = machine.home / "old/mcp-launch"
    if is_there:
        machine.write("~/old/mcp-launch", "").chmod(0o644)
    file = configure(machine, str(launcher), "run", "--strict", "--", "npx")

    [finding] = look(machine, not_wrapped)

    assert (finding.code, finding.level) == ("ML116", "error")
    assert ("is not executable" if is_there else "does not exist") in finding.message
    assert finding.repair
    finding.repair.act()
    assert look(machine, not_wrapped) == []
    entry = json.loads(file.read_text("utf-8"))["mcpServers"]["docs"]
    assert [entry["command"], *entry["args"]] == [
        *(find_script(machine), "run", "--strict", "--server", "docs"),
        *("--", "npx"),
    ]


# What else wrapping brings about.


@pytest.mark.parametrize(
    ("allowed", "codes"),
    [
        ([{"serverCommand": ["npx"]}], ["ML118"]),
        ([{"serverCommand": [LAUNCHER, "run", "--", "npx"]}], []),
        ([{"serverName": "docs"}], []),
        (None, []),
    ],
)
def test_an_organisation_that_allows_commands_is_reported(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, allowed: object, codes: list[str]
) -> None:
    managed = machine.write("~/managed.json", json.dumps({"allowedMcpServers": allowed}))
    monkeypatch.setattr(settings, "list_managed_settings", lambda _: [str(managed)])
    configure(machine, LAUNCHER, "run", "--", "npx")

    found = look(machine, allowlists)

    assert list_codes(found) == codes
    assert all(str(managed) in one.message for one in found)
    configure(machine, "npx")
    assert look(machine, allowlists) == []


@pytest.mark.parametrize(("word", "codes"), [("docs", ["ML119"]), ("other", [])])
def test_a_plugin_that_brings_a_wrapped_server_is_reported(
    machine: FakeMachine, word: str, codes: list[str]
) -> None:
    plugin = configure(machine, "npx", word, path="~/.claude/plugins/shop/it/.mcp.json")
    configure(machine, LAUNCHER, "run", "--", "npx", "docs")

    found = look(machine, allowlists)

    assert list_codes(found) == codes
    assert all(str(plugin) in one.message for one in found)


# All of them.


def test_a_healthy_machine_has_nothing(machine: FakeMachine) -> None:
    configure(machine, "mcp-launch", "run", "npx", "-y", "docs", path=CODEX)
    configure(machine, "mcp-launch", "run", "npx", "-y", "docs")

    assert look(machine, configuration) == []


def test_every_check_has_a_code_of_its_own() -> None:
    told = {
        code
        for check in (*configuration.OF_ALL, *configuration.OF_ITEMS)
        for code in CHECKS
        if f"({code})" in str(check.__doc__)
    }

    # ML121 is about the launch, not about the file.
    assert told == {f"ML{number}" for number in range(101, 127) if number != 121}


def test_several_entries_of_a_file_are_wrapped_at_once(machine: FakeMachine) -> None:
    servers = {f"docs-{number}": {"command": "npx"} for number in range(3)}
    file = machine.write(CLAUDE, json.dumps({"mcpServers": servers | {"odd": {"command": 3}}}))
    acts = [one.repair.act for one in look(machine, not_wrapped) if one.repair]

    not_wrapped.wrap_all([act for act in acts if isinstance(act, not_wrapped.Wrapping)])

    entries = json.loads(file.read_text("utf-8"))["mcpServers"]
    assert [entry["command"] for entry in entries.values()] == [find_script(machine)] * 3 + [3]

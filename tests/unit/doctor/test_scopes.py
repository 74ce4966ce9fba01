"""Which of several servers a host takes, and whether it may start it: names, scopes, trust.

What is expected here of Codex and Claude Code was seen on Codex 0.166 and Claude Code 2.1.325.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from fake_machine import examine_module, list_codes
from git_repository import add_worktree, track
from mcp_launch.doctor.checks import names as name_checks
from mcp_launch.doctor.checks import not_approved

if TYPE_CHECKING:
    from types import ModuleType

    from fake_machine import FakeMachine
    from mcp_launch.doctor.finding import Finding

CODEX = "~/.codex/config.toml"
OF_PROJECT = ".codex/config.toml"
CLAUDE = "~/.claude.json"

PLAIN = '[mcp_servers.docs]\ncommand = "npx"\n'

GIT = shutil.which("git") or ""


def look(machine: FakeMachine, module: ModuleType) -> list[Finding]:
    return examine_module(machine.survey(), module)


def write_servers(machine: FakeMachine, path: str, **servers: Any) -> None:
    machine.write(path, json.dumps({"mcpServers": servers}))


# Names.


@pytest.mark.parametrize(
    ("path", "name", "codes"),
    [
        (CODEX, "my docs", ["ML108"]),
        (CODEX, "my.docs@v2:a/b", []),
        (CLAUDE, "my docs", []),
        (CLAUDE, "workspace", ["ML108"]),
        (CLAUDE, "ide", []),
        ("~/.cursor/mcp.json", "workspace", []),
    ],
)
def test_a_name_that_the_host_refuses_is_reported(
    machine: FakeMachine, path: str, name: str, codes: list[str]
) -> None:
    if path == CODEX:
        machine.write(path, f'[mcp_servers."{name}"]\ncommand = "x"\n')
    else:
        write_servers(machine, path, **{name: {"command": "x"}})

    assert list_codes(look(machine, name_checks)) == codes


def trust(directory: object, level: str = "trusted") -> str:
    return f'[projects."{directory}"]\ntrust_level = "{level}"\n'


def test_codex_merges_what_is_in_both_files(machine: FakeMachine) -> None:
    mine = PLAIN + 'args = ["-y"]\nenv = { A = "1" }\n' + trust(machine.project)
    machine.write(CODEX, mine)
    machine.write(OF_PROJECT, '[mcp_servers.docs]\ncommand = "docs"\nenv = { B = "1" }\n')

    [finding] = look(machine, name_checks)

    assert finding.code == "ML107"
    assert "the result has the project's command and the user's args" in finding.message
    machine.write(OF_PROJECT, '[mcp_servers.docs]\nurl = "http://x"\n')
    [finding] = look(machine, name_checks)
    assert "a command and a url, and Codex does not start" in finding.message


@pytest.mark.parametrize(
    ("text", "is_trusted"),
    [
        ("[mcp_servers.docs]\nenabled = false\n", True),
        (PLAIN, False),
        (PLAIN.replace("docs", "other"), True),
    ],
    ids=["it changes the user's", "it is not read", "it has another name"],
)
def test_what_codex_need_not_merge_is_all_right(
    machine: FakeMachine, text: str, is_trusted: bool
) -> None:
    machine.write(CODEX, PLAIN + (trust(machine.project) if is_trusted else ""))
    machine.write(OF_PROJECT, text)

    assert look(machine, name_checks) == []


def approve(machine: FakeMachine, **settings: Any) -> None:
    machine.write("~/.claude/settings.json", json.dumps(settings))


def test_claude_code_takes_one_of_several(machine: FakeMachine) -> None:
    entry = {"command": "x"}
    own: dict[str, Any] = {"mcpServers": {"docs": entry}}
    machine.write(CLAUDE, json.dumps(own))
    write_servers(machine, ".mcp.json", docs={"command": "y"})

    [finding] = look(machine, name_checks)
    assert finding.code == "ML107"
    assert "uses only the one in user until you approve the project's" in finding.message
    assert "claude mcp remove docs -s project" in finding.fix

    approve(machine, enabledMcpjsonServers=["docs"])
    [finding] = look(machine, name_checks)
    assert finding.message.endswith("Claude Code uses only the one in project")

    own["projects"] = {str(machine.project): {"mcpServers": {"docs": entry}}}
    machine.write(CLAUDE, json.dumps(own))
    [finding] = look(machine, name_checks)
    assert finding.message.endswith("Claude Code uses only the one in local")

    approve(machine, disabledMcpjsonServers=["docs"])
    [finding] = look(machine, name_checks)
    assert "local and user and project, with the same content" in finding.message


def test_what_claude_code_keeps_for_another_project_does_not_count(machine: FakeMachine) -> None:
    docs = {"docs": {"command": "x"}}
    own = {"mcpServers": docs, "projects": {"/elsewhere": {"mcpServers": docs}}}
    machine.write(CLAUDE, json.dumps(own))

    assert look(machine, name_checks) == []


# Trust and approval.


def test_servers_of_a_project_that_codex_does_not_trust_are_reported(machine: FakeMachine) -> None:
    machine.write(OF_PROJECT, PLAIN)

    [finding] = look(machine, not_approved)
    assert finding.code == "ML109"
    assert f"Codex does not trust {machine.project}" in finding.message
    assert "does not start docs" in finding.message

    machine.write(CODEX, trust(machine.project, "untrusted"))
    [finding] = look(machine, not_approved)
    assert "as untrusted" in finding.message

    machine.write(CODEX, trust(machine.project))
    assert look(machine, not_approved) == []


def test_a_worktree_is_trusted_with_its_repository(machine: FakeMachine) -> None:
    main = machine.home / "main"
    track(main)
    add_worktree(main, machine.home / "tree")
    machine.project = machine.home / "tree" / "below"
    machine.write(OF_PROJECT, PLAIN)
    assert list_codes(look(machine, not_approved)) == ["ML109"]

    machine.write(CODEX, trust(main))

    assert look(machine, not_approved) == []


@pytest.mark.parametrize(
    ("path", "settings", "is_trusted", "codes"),
    [
        ("", {}, True, ["ML110"]),
        ("~/.claude/settings.json", {"enabledMcpjsonServers": ["docs"]}, False, []),
        ("~/.claude/settings.json", {"enabledMcpjsonServers": ["web"]}, True, ["ML110"]),
        ("~/.claude/settings.json", {"enableAllProjectMcpServers": True}, False, []),
        ("~/.claude/settings.json", {"disabledMcpjsonServers": ["docs"]}, True, []),
        (".claude/settings.json", {"enabledMcpjsonServers": ["docs"]}, False, ["ML110"]),
        (".claude/settings.json", {"enabledMcpjsonServers": ["docs"]}, True, []),
        (".claude/settings.local.json", {"enabledMcpjsonServers": ["docs"]}, True, []),
        (
            ".claude/settings.local.json",
            {"enabledMcpjsonServers": ["docs"], "disabledMcpjsonServers": ["docs"]},
            True,
            ["ML110"],
        ),
    ],
)
def test_servers_that_claude_code_asks_about_are_reported(
    machine: FakeMachine, path: str, settings: dict[str, Any], is_trusted: bool, codes: list[str]
) -> None:
    write_servers(machine, ".mcp.json", docs={"command": "x"})
    project = {"hasTrustDialogAccepted": is_trusted}
    machine.write(CLAUDE, json.dumps({"projects": {str(machine.project): project}}))
    if path:
        machine.write(path, json.dumps(settings))

    found = look(machine, not_approved)

    assert list_codes(found) == codes
    assert all(finding.repair is None for finding in found)


@pytest.mark.parametrize("host", ["codex", "claude", "cursor"])
def test_what_a_host_would_not_start_is_known(machine: FakeMachine, host: str) -> None:
    machine.write(OF_PROJECT, PLAIN)
    write_servers(machine, ".mcp.json", docs={"command": "x"})
    write_servers(machine, ".cursor/mcp.json", docs={"command": "x"})
    survey = machine.survey(host)
    [item] = survey.items

    why = {
        "codex": f"Codex does not trust {machine.project}",
        "claude": "you have not approved it in Claude Code",
        "cursor": "it came with the project, and only Cursor knows whether you trust the project",
    }
    assert not_approved.explain_not_started(survey, item) == why[host]


def test_what_a_host_would_start_is_known(machine: FakeMachine) -> None:
    machine.write(CODEX, PLAIN + trust(machine.project))
    machine.write(OF_PROJECT, PLAIN)
    write_servers(machine, ".mcp.json", docs={"command": "x"})
    write_servers(machine, CLAUDE, web={"command": "x"})
    write_servers(machine, "~/.cursor/mcp.json", docs={"command": "x"})
    approve(machine, enabledMcpjsonServers=["docs"])
    survey = machine.survey()

    assert len(survey.items) == 5
    assert [not_approved.explain_not_started(survey, item) for item in survey.items] == [""] * 5


# What is switched off.


def list_started(machine: FakeMachine) -> list[str]:
    return [item.name for item in machine.survey("claude").servers]


def test_what_claude_code_was_told_to_leave_out_is_not_looked_at(machine: FakeMachine) -> None:
    names = ("off", "denied", "by-command", "on")
    servers = {name: {"command": "npx", "args": [name]} for name in names}
    own: dict[str, Any] = {"mcpServers": servers}
    machine.write(CLAUDE, json.dumps(own))
    write_servers(machine, ".mcp.json", rejected={"command": "x"}, waiting={"command": "x"})
    assert list_started(machine) == [*names, "rejected", "waiting"]

    own["projects"] = {str(machine.project): {"disabledMcpServers": ["off"]}}
    machine.write(CLAUDE, json.dumps(own))
    denied = [{"serverName": "denied"}, {"serverCommand": ["npx", "by-command"]}]
    approve(machine, deniedMcpServers=denied, disabledMcpjsonServers=["rejected"])

    assert list_started(machine) == ["on", "waiting"]


def test_claude_code_keeps_what_is_off_for_the_repository(machine: FakeMachine) -> None:
    repository, docs = machine.project, {"docs": {"command": "x"}}
    projects = {str(repository): {"disabledMcpServers": ["docs"]}}
    machine.write(CLAUDE, json.dumps({"mcpServers": docs, "projects": projects}))
    machine.project = repository / "below"
    machine.project.mkdir()
    assert list_started(machine) == []

    (repository / ".git").rmdir()

    assert list_started(machine) == ["docs"]


def test_private_servers_of_a_project_that_is_gone_are_not_looked_at(machine: FakeMachine) -> None:
    docs = {"mcpServers": {"docs": {"command": "x"}}}
    projects = {str(machine.project): docs, str(machine.home / "gone"): docs}
    machine.write(CLAUDE, json.dumps({"projects": projects}))

    here, gone = machine.survey().items

    assert (here.why_not, gone.why_not) == ("", "its project is gone")


# Files above the project.


@pytest.fixture
def package(machine: FakeMachine) -> FakeMachine:
    """Return a machine whose project is a package in a repository."""
    machine.write("package/package.json", "{}")
    write_servers(machine, ".mcp.json", docs={"command": "outer"}, web={"command": "x"})
    machine.write(OF_PROJECT, PLAIN + 'args = ["x"]\n')
    machine.project /= "package"
    return machine


def test_what_is_above_a_package_is_read_too(package: FakeMachine) -> None:
    assert [(item.host.name, item.name) for item in package.survey().servers] == [
        ("codex", "docs"),
        ("claude", "docs"),
        ("claude", "web"),
    ]


def test_claude_code_takes_the_nearest(package: FakeMachine) -> None:
    write_servers(package, ".mcp.json", docs={"command": "inner"})

    started = [(item.name, item.words) for item in package.survey("claude").servers]

    assert started == [("docs", ["inner"]), ("web", ["x"])]
    assert [one.subject.server for one in look(package, not_approved) if one.code == "ML110"] == [
        "docs",
        "web",
    ]
    assert look(package, name_checks) == []


def test_codex_reads_no_higher_than_the_repository(package: FakeMachine) -> None:
    above = package.project.parent
    (above / ".git").rmdir()

    assert package.survey("codex").items == []


def test_codex_trusts_each_directory_by_itself(package: FakeMachine) -> None:
    package.write(OF_PROJECT, PLAIN)
    package.write(CODEX, trust(package.project))
    [finding] = [one for one in look(package, not_approved) if one.code == "ML109"]
    assert finding.subject.file == str(package.project.parent / OF_PROJECT)

    package.write(CODEX, trust(package.project.parent))
    assert "ML109" not in list_codes(look(package, not_approved))
    [finding] = look(package, name_checks)
    assert finding.subject.file == str(package.project / OF_PROJECT)
    assert "the result has the project's command and the outer project's args" in finding.message


def test_a_server_of_one_host_does_not_hide_that_of_another(machine: FakeMachine) -> None:
    for path in (".mcp.json", ".cursor/mcp.json", ".gemini/settings.json"):
        write_servers(machine, path, docs={"command": "npx"})

    found = {item.host.name: item.why_not for item in machine.survey().items}

    assert found == {"claude": "", "cursor": "", "gemini": ""}

"""What `doctor` makes of the hosts' files: syntax, commands, directories, variables, scopes.

What is expected here of Codex and Claude Code was seen on Codex 0.166 and Claude Code 2.1.325.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from doctor_runs import install, spell, spell_codex
from git_repository import add_worktree, track
from privileges import run_unprivileged

if TYPE_CHECKING:
    from doctor_runs import Doctor

CODEX = "~/.codex/config.toml"
OF_PROJECT = ".codex/config.toml"
CLAUDE = "~/.claude.json"
CURSOR = "~/.cursor/mcp.json"

SH = {"command": "sh"}
PLAIN = spell_codex(docs=SH)


def list_messages(doctor: Doctor, *words: str) -> list[str]:
    return [one["message"] for one in doctor.find("--ignore", "ML117", *words)]


# Files that cannot be read: ML101.


@pytest.mark.parametrize(
    ("path", "text", "line", "loss"),
    [
        (CODEX, "[mcp_servers.docs\n", 1, "Codex does not start, in a terminal or in"),
        (OF_PROJECT, 'a = 1\n"', 2, "Codex does not start in this project if the project is"),
        (CLAUDE, '{"mcpServers": {"a" {}}}', 1, "Claude Code does not start"),
        (CURSOR, "{}}", 1, "Cursor does not get its servers"),
        ("~/.config/goose/config.yaml", "a: [", 1, "Goose does not get its servers"),
        ("~/.gemini/config/mcp_config.json", "{", 1, "`agy` does not start"),
    ],
    ids=["Codex", "Codex's project", "Claude Code", "Cursor", "Goose", "agy"],
)
def test_a_file_that_does_not_parse_is_shown_with_its_place_and_what_it_breaks(
    path: str, text: str, line: int, loss: str, doctor: Doctor
) -> None:
    doctor.machine.write(path, text)

    finding = doctor.find_only()

    assert (finding["code"], finding["subject"]["line"]) == ("ML101", line)
    assert finding["subject"]["column"] > 0
    assert "this is not valid " in finding["message"]
    assert loss in finding["message"]


BOTH = "does not allow comments or trailing commas"
COMMAS = "does not allow trailing commas"


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        (".mcp.json", '{"mcpServers": {}} // mine', BOTH),
        (".mcp.json", '{"mcpServers": {},\n}', BOTH),
        ("~/.kimi-code/mcp.json", '{"mcpServers": {}} // mine', BOTH),
        ("~/.cline/data/settings/cline_mcp_settings.json", '{"mcpServers": {},\n}', BOTH),
        ("~/.gemini/settings.json", '{"mcpServers": {}} // {"a": 1,}\n/* { ,} */', ""),
        (
            "~/.gemini/settings.json",
            '{ // "//"\n  "mcpServers": {"a//b": {"url": "x"}},\n}',
            COMMAS,
        ),
        (".qwen/settings.json", '{"mcpServers": {},}', "keeps settings.json.corrupted"),
        (".vscode/mcp.json", '{"servers": {}, } // mine', ""),
        (".mcp.json", '{"mcpServers": {}, "mcpServers": {}}', "uses only the last one"),
    ],
    ids=[
        *("Claude Code, a comment", "Claude Code, a comma", "Kimi Code", "Cline"),
        *("Gemini CLI, comments", "Gemini CLI, a comma", "Qwen Code", "VS Code", "a name twice"),
    ],
)
def test_each_host_allows_its_own_json(path: str, text: str, problem: str, doctor: Doctor) -> None:
    doctor.machine.write(path, text)

    found = list_messages(doctor)

    assert len(found) == bool(problem)
    assert all(problem in one for one in found)


def test_a_path_that_is_not_a_file_of_text_is_reported(doctor: Doctor) -> None:
    machine = doctor.machine
    (machine.home / ".claude.json").mkdir()
    (machine.home / ".cursor").mkdir()
    (machine.home / ".cursor/mcp.json").write_bytes(b"{\xff}")
    (machine.project / ".gemini").mkdir()
    (machine.project / ".gemini/settings.json").symlink_to("../gone.json")

    of_claude, of_cursor, of_gemini = list_messages(doctor)

    assert "is not a regular file, or is too large: Claude Code does not start" in of_claude
    assert "is not UTF-8: Cursor does not get its servers" in of_cursor
    assert "is a link to ../gone.json, where there is no file: Gemini CLI does" in of_gemini


def test_a_file_that_may_not_be_read_is_reported(doctor: Doctor) -> None:
    doctor.machine.write(CODEX, PLAIN).chmod(0)

    finding = run_unprivileged(doctor.find_only)

    assert "Permission denied" in finding["message"]
    assert finding["fix"].startswith("chmod u+r ")


# Entries without a command: ML101.


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        (CURSOR, spell(docs={}), "cannot start 'docs': it has no command"),
        (CURSOR, spell(docs={"command": ["npx"]}), "its command must be a string"),
        (CURSOR, spell(docs={"command": "npx", "args": "a b"}), "its args must be a list of str"),
        (CURSOR, spell(docs="npx"), "it is not a table"),
        ("opencode.json", '{"mcp": {"docs": {"command": ["sh"]}, "timeout": 5}}', ""),
        (CURSOR, '{"mcpServers": [{"name": "a"}]}', "finds no servers: mcpServers is a list"),
        (CODEX, '[[mcp_servers]]\ncommand = "x"\n', "finds no servers: mcp_servers is a list"),
        (CODEX, "mcp_servers = 3\n", "mcp_servers is neither a table nor a list"),
        (OF_PROJECT, "[mcp_servers.docs]\nenabled = false\n", ""),
        (".vscode/mcp.json", spell("servers", docs={"type": "stdio"}), "it has no command"),
        ("opencode.json", spell("mcp", docs={"command": "npx"}), "command must be a list of str"),
        ("~/.config/goose/config.yaml", "extensions: {a: {type: stdio}}", "it has no cmd"),
        ("~/.config/goose/config.yaml", "extensions: {a: {type: builtin}}", ""),
        ("~/.config/zed/settings.json", '{"context_servers": {"a": {"settings": {}}}}', ""),
        ("~/.config/zed/settings.json", '{"context_servers": {"a": {}}}', "it has no command"),
        ("~/.vibe/config.toml", '[mcp_servers.a]\ncommand = "x"\n', "mcp_servers is a table"),
    ],
)
def test_an_entry_without_a_usable_command_is_reported(
    path: str, text: str, problem: str, doctor: Doctor
) -> None:
    doctor.machine.write(path, text)

    found = doctor.find("--select", "ML101")

    assert len(found) == bool(problem)
    assert all(problem in one["message"] for one in found)
    assert all(one["subject"]["line"] for one in found)


# Sources: ML103.


@pytest.mark.parametrize(
    ("source", "fix"),
    [("thread", "wrap the entry"), ("moon", "take the variable out of env_vars")],
)
def test_a_source_is_mended_if_the_launcher_knows_it(source: str, fix: str, doctor: Doctor) -> None:
    entry = {**SH, "env_vars": ["A", {"name": "T", "source": source}]}
    file = doctor.machine.write(CODEX, spell_codex(docs=entry) + "# mine\n")

    finding = doctor.find_only()
    doctor.run("--fix", "--yes", "--select", "ML103")

    assert f"Codex does not know the source '{source}'" in finding["message"]
    assert fix in finding["fix"]
    is_mended = source == "thread"
    assert (doctor.list_codes() == []) == is_mended
    assert ('"--env", "T=thread"' in file.read_text("utf-8")) == is_mended
    assert "# mine" in file.read_text("utf-8")


# Directories: ML104, ML207.


@pytest.mark.parametrize(
    ("path", "entry", "fix"),
    [
        (CLAUDE, {**SH, "cwd": "/srv"}, "then begin its args with"),
        (
            CLAUDE,
            {"command": "mcp-launch", "args": ["run", "sh"], "cwd": "/srv"},
            "remove cwd, and",
        ),
        (
            CLAUDE,
            {"command": "mcp-launch", "args": ["run", "--cwd", "~", "--", "sh"], "cwd": "/"},
            "remove cwd: the --cwd in its args is used",
        ),
        (CODEX, {**SH, "cwd": "tools"}, "write an absolute path, or remove cwd"),
        (CODEX, {**SH, "cwd": "/"}, ""),
        (CURSOR, {**SH, "cwd": "tools"}, ""),
    ],
    ids=["ignored", "wrapped", "wrapped with --cwd", "relative", "absolute", "of another host"],
)
def test_a_directory_without_effect_is_reported(
    path: str, entry: dict[str, Any], fix: str, doctor: Doctor
) -> None:
    install(doctor.machine, "~/bin/mcp-launch")
    text = spell_codex(docs=entry) if path == CODEX else spell(docs=entry)
    doctor.machine.write(path, text)

    found = doctor.find("--select", "ML104")

    assert len(found) == bool(fix)
    assert all(fix in one["fix"] for one in found)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (CODEX, spell_codex(it={**SH, "cwd": "{gone}"})),
        (".vscode/mcp.json", spell("servers", it={**SH, "cwd": "{gone}"})),
        ("~/.gemini/settings.json", spell(it={**SH, "cwd": "{gone}"})),
        ("opencode.json", spell("mcp", it={"command": ["sh"], "cwd": "{gone}"})),
        ("~/.warp/.mcp.json", spell(it={**SH, "working_directory": "{gone}"})),
        (CODEX, spell_codex(it={"command": "uv", "args": ["--directory", "{gone}", "run", "x"]})),
        (CODEX, spell_codex(it={"command": "mcp-launch", "args": ["run", "--cwd={gone}", "sh"]})),
        (CODEX, spell_codex(it={"command": "mcp-launch", "args": ["run", "--cwd=~/gone", "sh"]})),
    ],
    ids=["Codex", "VS Code", "Gemini CLI", "opencode", "Warp", "uv", "--cwd", "--cwd in the home"],
)
def test_a_directory_that_is_gone_stops_a_server(path: str, text: str, doctor: Doctor) -> None:
    for name in ("uv", "mcp-launch"):
        install(doctor.machine, f"~/bin/{name}")
    gone = doctor.machine.home / "gone"
    doctor.machine.write(path, text.replace("{gone}", str(gone)))

    assert f"{gone} (" in doctor.find_only()["message"]
    assert "does not exist, so the server does not start" in doctor.find_only()["message"]

    gone.touch()
    assert "is not a directory" in doctor.find_only()["message"]
    gone.unlink()
    gone.mkdir()
    assert doctor.list_codes() == []


# Variables: ML106.


@pytest.mark.parametrize(
    ("path", "entry", "fix"),
    [
        (
            CLAUDE,
            {**SH, "args": ["${GONE}/x"]},
            "set it before you start claude, or write ${GONE:-",
        ),
        (CLAUDE, {**SH, "env": {"KEY": "${GONE:-x}"}}, ""),
        (CLAUDE, {**SH, "args": ["${HOME}/x"]}, ""),
        (CLAUDE, {**SH, "args": ["$HOME/x"]}, "write ${HOME}"),
        (CLAUDE, {**SH, "args": ["~/x"]}, "write ${HOME}/"),
        (CLAUDE, {**SH, "env": {"PW": "pa$$word"}}, ""),
        (CLAUDE, {**SH, "args": ["-c", "echo $HOME ~/x"]}, ""),
        (CLAUDE, {"command": "npx", "args": ["@x/server-filesystem", "~/x"]}, ""),
        (CODEX, {**SH, "args": ["${HOME}/x"]}, 'env_vars = ["HOME"]'),
        (CODEX, {**SH, "cwd": "~/x"}, "/home/"),
        (CURSOR, {**SH, "args": ["$HOME/x"]}, ""),
    ],
    ids=[
        *("unset", "a default", "set", "bare", "a tilde", "a password", "of a shell"),
        *("a server that expands it", "Codex", "Codex's cwd", "a host nobody has tried"),
    ],
)
def test_a_variable_that_is_not_replaced_is_reported(
    path: str, entry: dict[str, Any], fix: str, doctor: Doctor
) -> None:
    text = spell_codex(docs=entry) if path == CODEX else spell(docs=entry)
    doctor.machine.write(path, text)

    found = doctor.find("--select", "ML106")

    assert len(found) == bool(fix)
    assert all(fix in one["fix"] for one in found)


# Scopes and approval: ML107, ML110.


def trust(directory: object, level: str = "trusted") -> str:
    return f'[projects."{directory}"]\ntrust_level = "{level}"\n'


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (
            '[mcp_servers.docs]\ncommand = "sh"\nenv = { B = "1" }\n',
            "leaves out comes from the user's",
        ),
        ('[mcp_servers.docs]\nurl = "http://x"\n', "a command and a url, and Codex does not start"),
        ("[mcp_servers.docs]\nenabled = false\n", ""),
        (PLAIN.replace("docs", "other"), ""),
    ],
    ids=["both", "a command and a url", "it changes the user's", "it has another name"],
)
def test_what_codex_merges_is_reported(text: str, result: str, doctor: Doctor) -> None:
    mine = PLAIN + 'args = ["-y"]\nenv = { A = "1" }\n' + trust(doctor.machine.project)
    doctor.machine.write(CODEX, mine)
    doctor.machine.write(OF_PROJECT, text)

    found = list_messages(doctor, "--select", "ML107")

    assert len(found) == bool(result)
    assert all(result in one for one in found)


def test_claude_code_takes_one_of_several(doctor: Doctor) -> None:
    machine, settings = doctor.machine, "~/.claude/settings.json"
    own: dict[str, Any] = {"mcpServers": {"docs": SH}}
    machine.write(CLAUDE, json.dumps(own))
    machine.write(".mcp.json", spell(docs={"command": "cat"}))
    machine.write("~/.claude/settings.json", '{"enabledMcpjsonServers": ["docs"]}')
    [message] = list_messages(doctor, "--select", "ML107")
    assert message.endswith("Claude Code uses only the one in project")

    own["projects"] = {str(machine.project): {"mcpServers": {"docs": SH}}}
    machine.write(CLAUDE, json.dumps(own))
    [message] = list_messages(doctor, "--select", "ML107")
    assert message.endswith("Claude Code uses only the one in local")

    machine.write(settings, '{"disabledMcpjsonServers": ["docs"]}')
    [message] = list_messages(doctor, "--select", "ML107")
    assert "local and user and project, with the same content" in message

    own["projects"] = {"/elsewhere": {"mcpServers": {"docs": SH}}}
    machine.write(CLAUDE, json.dumps(own))
    assert list_messages(doctor, "--select", "ML107") == []


def test_servers_of_a_project_that_codex_does_not_trust_are_reported(doctor: Doctor) -> None:
    machine = doctor.machine
    machine.write(OF_PROJECT, PLAIN)
    finding = doctor.find_only()
    assert (finding["code"], finding["level"]) == ("ML110", "warning")
    assert f"Codex does not trust {machine.project}" in finding["message"]
    assert "does not start docs" in finding["message"]

    machine.write(CODEX, trust(machine.project, "untrusted"))
    assert "as untrusted" in doctor.find_only()["message"]

    machine.write(CODEX, trust(machine.project))
    assert doctor.list_codes() == []


def test_a_worktree_is_trusted_with_its_repository(doctor: Doctor) -> None:
    machine = doctor.machine
    main = machine.home / "main"
    track(main)
    add_worktree(main, machine.home / "tree")
    machine.project = machine.home / "tree"
    machine.write(OF_PROJECT, PLAIN)
    assert doctor.list_codes() == ["ML110"]

    machine.write(CODEX, trust(main))
    assert doctor.list_codes() == []


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
        (
            ".claude/settings.local.json",
            {"enabledMcpjsonServers": ["docs"], "disabledMcpjsonServers": ["docs"]},
            True,
            ["ML110"],
        ),
    ],
    ids=[
        *("nobody was asked", "approved", "another is approved", "all are approved", "rejected"),
        *("approved in a stranger's project", "approved in the project", "approved and rejected"),
    ],
)
def test_servers_that_claude_code_asks_about_are_reported(
    path: str, settings: dict[str, Any], is_trusted: bool, codes: list[str], doctor: Doctor
) -> None:
    machine = doctor.machine
    machine.write(".mcp.json", spell(docs=SH))
    project = {"hasTrustDialogAccepted": is_trusted}
    machine.write(CLAUDE, json.dumps({"projects": {str(machine.project): project}}))
    if path:
        machine.write(path, json.dumps(settings))

    assert doctor.list_codes() == codes


def test_what_claude_code_was_told_to_leave_out_is_not_checked(doctor: Doctor) -> None:
    machine = doctor.machine
    names = ("off", "denied", "by-command", "on")
    own: dict[str, Any] = {"mcpServers": {one: {"command": "nope", "args": [one]} for one in names}}
    own["projects"] = {str(machine.project): {"disabledMcpServers": ["off"]}}
    own["projects"][str(machine.home / "gone")] = {"mcpServers": {"private": {"command": "nope"}}}
    machine.write(CLAUDE, json.dumps(own))
    machine.write(".mcp.json", spell(rejected={"command": "nope"}, waiting={"command": "nope"}))
    denied = [{"serverName": "denied"}, {"serverCommand": ["nope", "by-command"]}]
    settings = {"deniedMcpServers": denied, "disabledMcpjsonServers": ["rejected"]}
    machine.write("~/.claude/settings.json", json.dumps(settings))

    found = doctor.find("--select", "ML201")

    assert [one["subject"]["server"] for one in found] == ["on", "waiting"]


def test_claude_code_keeps_what_is_off_for_the_repository(doctor: Doctor) -> None:
    machine, repository = doctor.machine, doctor.machine.project
    docs = {"docs": {"command": "nope"}}
    projects = {str(repository): {"disabledMcpServers": ["docs"]}}
    machine.write(CLAUDE, json.dumps({"mcpServers": docs, "projects": projects}))
    machine.project = repository / "below"
    machine.project.mkdir()
    assert doctor.list_codes() == []

    (repository / ".git").rmdir()
    assert doctor.list_codes() == ["ML201"]


def test_files_above_the_project_are_checked_as_their_hosts_read_them(doctor: Doctor) -> None:
    machine, repository = doctor.machine, doctor.machine.project
    machine.write(".mcp.json", spell(docs={"command": "outer"}, web={"command": "nope"}))
    machine.write(OF_PROJECT, spell_codex(docs={"command": "sh", "args": ["x"]}))
    machine.project = repository / "package"
    machine.write("package.json", "{}")
    machine.write(".mcp.json", spell(docs={"command": "inner"}))
    machine.write(OF_PROJECT, PLAIN)
    machine.write(CODEX, trust(repository) + trust(machine.project))

    # Claude Code takes the nearest.
    found = doctor.find("--select", "ML201", "--host", "claude")
    assert [one["message"].split()[0] for one in found] == ["inner", "nope"]
    # Codex merges what is in the repository, and reads nothing above it.
    [finding] = doctor.find("--select", "ML107")
    assert finding["subject"]["file"] == str(machine.project / OF_PROJECT)
    assert "what the project's leaves out comes from the outer project's" in finding["message"]
    (repository / ".git").rmdir()
    assert doctor.find("--select", "ML107") == []


# Wrapped or not: ML117, ML121.


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["run", "--cwdd", "x", "--", "sh"], "unknown option --cwdd"),
        (["run"], "no server command was given"),
        (["run", "--server", "nosuch"], "no profile defines the server nosuch"),
        (["run", "--share=project", "--env=A=session", "--", "sh"], "A (source session)"),
        (["run", "--server", "shared", "--direct", "--", "sh"], "cannot be combined with --direct"),
        (["run", "--dotenv", "/dev/zero", "--", "sh"], "/dev/zero is not a regular file"),
        (["run", "--dotenv", "${HOME}/gone.env", "--", "sh"], "gone.env does not exist"),
        (["sh"], "the word `run` is missing"),
    ],
    ids=lambda words: words if isinstance(words, str) else None,
)
def test_what_the_launcher_refuses_is_reported(
    words: list[str], problem: str, doctor: Doctor
) -> None:
    install(doctor.machine, "~/bin/mcp-launch")
    profiles = '[servers.shared]\nshare = "project"\n'
    doctor.machine.write("~/.config/mcp-launch/config.toml", profiles).chmod(0o600)
    doctor.machine.write(CLAUDE, spell(it={"command": "mcp-launch", "args": words}))

    finding = doctor.find_only("--ignore", "ML019")

    assert finding["code"] == "ML121"
    assert finding["message"].startswith("mcp-launch does not start 'it': ")
    assert problem in finding["message"]
    assert finding["fix"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [(["--cwd", "below"], "below (--cwd) does not exist"), (["--dotenv", ".env"], ".env does not")],
    ids=["a directory", "a dotenv file"],
)
def test_a_relative_place_is_judged_where_it_is_known(
    words: list[str], problem: str, doctor: Doctor
) -> None:
    machine = doctor.machine
    entry = {"command": str(install(machine, "~/bin/mcp-launch")), "args": ["run", *words, "sh"]}
    machine.write(".mcp.json", spell(it=entry))
    [message] = list_messages(doctor, "--select", "ML121")
    assert problem in message

    machine.write("below/.env", "")
    machine.write(".env", "")
    assert doctor.find("--select", "ML121") == []

    # The user's own servers start wherever a session does.
    machine.project = machine.home / "elsewhere"
    machine.project.mkdir()
    machine.write(CLAUDE, spell(it=entry))
    assert doctor.find("--select", "ML121") == []


# Homes: ML408.


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        ([], ["ML408"]),
        (["--server", "it"], ["ML408"]),
        (["--cwd", "keep"], []),
        (["--cwd", "~"], []),
        (["--strict"], ["ML121"]),
        (["--strict", "--cwd", "~"], []),
    ],
    ids=["as wrap writes it", "by name", "kept", "chosen", "strict", "strict, but chosen"],
)
@pytest.mark.parametrize(
    "path",
    ["~/.config/Claude/claude_desktop_config.json", CURSOR],
    ids=["Claude Desktop", "Cursor"],
)
def test_a_host_that_starts_servers_in_a_home_is_foreseen(
    path: str, words: list[str], codes: list[str], doctor: Doctor
) -> None:
    install(doctor.machine, "~/bin/mcp-launch")
    doctor.machine.write(path, spell(it={"command": "mcp-launch", "args": ["run", *words, "sh"]}))

    found = doctor.find("--ignore", "ML117")

    assert [one["code"] for one in found] == codes
    assert all(f"/ or {doctor.machine.home}" in one["message"] for one in found)


def test_a_project_in_the_home_directory_is_foreseen(doctor: Doctor) -> None:
    machine = doctor.machine
    machine.project = machine.home
    install(machine, "~/bin/mcp-launch")
    entry = {"command": "mcp-launch", "args": ["run", "sh"]}
    machine.write(".vscode/mcp.json", spell("servers", it=entry))
    # Where a user starts a host is the user's affair.
    machine.write(CODEX, spell_codex(it=entry))

    finding = doctor.find_only()

    assert finding["message"] == f"VS Code starts 'it' in {machine.home}, not in a project"
    assert finding["fix"].endswith(": mcp-launch wrap --host vscode it -- --cwd DIR")

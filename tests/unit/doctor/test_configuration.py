"""What the hosts' files say, and what the hosts make of it: files, keys, directories, variables.

What is expected here of Codex and Claude Code was seen on Codex 0.166 and Claude Code 2.1.325.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from fake_machine import examine_module, list_codes
from mcp_launch.doctor.checks import (
    directory,
    misplaced_table,
    not_approved,
    refused_keys,
    skipped_entries,
    unexpanded_variables,
    unreadable_file,
)
from privileges import run_unprivileged

if TYPE_CHECKING:
    from types import ModuleType

    from fake_machine import FakeMachine
    from mcp_launch.doctor.finding import Finding

CODEX = "~/.codex/config.toml"
OF_PROJECT = ".codex/config.toml"
CLAUDE = "~/.claude.json"

PLAIN = '[mcp_servers.docs]\ncommand = "npx"\n'


def look(machine: FakeMachine, module: ModuleType) -> list[Finding]:
    return examine_module(machine.survey(), module)


def write_servers(machine: FakeMachine, path: str, **servers: Any) -> None:
    machine.write(path, json.dumps({"mcpServers": servers}))


# Files that cannot be read.


@pytest.mark.parametrize(
    ("path", "text", "line", "loss"),
    [
        (CODEX, "[mcp_servers.docs\n", 1, "Codex does not start, in a terminal or in"),
        (
            OF_PROJECT,
            'a = 1\n"',
            2,
            "Codex does not start in this project if the project is trusted",
        ),
        (CLAUDE, '{"mcpServers": {"a" {}}}', 1, "Claude Code does not start"),
        (".mcp.json", "{\n", 1, "Claude Code starts without its servers"),
        ("~/.cursor/mcp.json", "{}}", 1, "Cursor does not get its servers"),
        ("~/.config/goose/config.yaml", "a: [", 1, "Goose does not get its servers"),
    ],
)
def test_a_file_that_does_not_parse_is_shown_with_its_place_and_what_it_breaks(
    machine: FakeMachine, path: str, text: str, line: int, loss: str
) -> None:
    file = machine.write(path, text)

    [finding] = look(machine, unreadable_file)

    assert finding.code == "ML101"
    assert (finding.subject.file, finding.subject.line) == (str(file), line)
    assert finding.subject.column > 0
    assert "this is not valid " in finding.message
    assert loss in finding.message


def test_a_file_that_parses_is_all_right(machine: FakeMachine) -> None:
    machine.write(CODEX, PLAIN)
    machine.write(".mcp.json", '{"mcpServers": {}}')
    machine.write(".vscode/mcp.json", '{"servers": {}, } // mine')

    assert look(machine, unreadable_file) == []


@pytest.mark.parametrize("text", ['{"mcpServers": {}} // mine', '{"mcpServers": {},\n}'])
def test_claude_code_reads_less_than_other_hosts(machine: FakeMachine, text: str) -> None:
    machine.write(".mcp.json", text)

    [finding] = look(machine, unreadable_file)

    assert finding.code == "ML101"
    assert "does not allow comments or trailing commas" in finding.message
    # Python before 3.13 points behind the comma, a later one at it.
    assert finding.subject.line in {1, text.count("\n") + 1}
    assert finding.subject.column > 0


@pytest.mark.parametrize(
    ("file", "loss"),
    [
        (".gemini/settings.json", "Gemini CLI does not start"),
        (".qwen/settings.json", "Qwen Code does not start"),
    ],
)
def test_gemini_and_qwen_allow_comments_but_no_trailing_commas(
    machine: FakeMachine, file: str, loss: str
) -> None:
    machine.write(f"~/{file}", '{"mcpServers": {}} // {"a": 1,}\n/* { ,} */')
    assert look(machine, unreadable_file) == []

    machine.write(f"~/{file}", '{ // "//"\n  "mcpServers": {"a//b": {}},\n}')
    [finding] = look(machine, unreadable_file)

    assert finding.code == "ML101"
    assert f"does not allow trailing commas: {loss}" in finding.message
    assert finding.subject.line in {2, 3}


def test_qwen_code_replaces_a_projects_file_that_it_cannot_read(machine: FakeMachine) -> None:
    machine.write(".qwen/settings.json", '{"mcpServers": {},}')

    [finding] = look(machine, unreadable_file)

    assert "replaces it by an empty one and keeps settings.json.corrupted" in finding.message


@pytest.mark.parametrize("text", ['{"mcpServers": {}} // mine', '{"mcpServers": {},\n}'])
@pytest.mark.parametrize(
    ("file", "host"),
    [
        (".kimi-code/mcp.json", "Kimi Code"),
        (".cline/data/settings/cline_mcp_settings.json", "Cline"),
    ],
)
def test_kimi_code_and_cline_allow_neither_comments_nor_trailing_commas(
    machine: FakeMachine, file: str, host: str, text: str
) -> None:
    machine.write(f"~/{file}", text)

    [finding] = look(machine, unreadable_file)

    expected = f"{host} does not allow comments or trailing commas: {host} does not get its servers"
    assert finding.message == expected


def test_a_name_that_is_there_twice_is_reported_as_such(machine: FakeMachine) -> None:
    machine.write(".mcp.json", '{"mcpServers": {}, "mcpServers": {}}')

    [finding] = look(machine, unreadable_file)

    assert "mcpServers appears twice" in finding.message
    assert "uses only the last one" in finding.message


def test_a_path_that_is_not_a_file_is_reported(machine: FakeMachine) -> None:
    (machine.home / ".claude.json").mkdir()
    (machine.home / ".cursor").mkdir()
    (machine.home / ".cursor/mcp.json").write_bytes(b"{\xff}")

    messages = [finding.message for finding in look(machine, unreadable_file)]

    assert "is not a regular file, or is too large: Claude Code does not start" in messages[0]
    assert "is not UTF-8: Cursor does not get its servers" in messages[1]


def test_a_file_that_may_not_be_read_is_reported(machine: FakeMachine) -> None:
    machine.write(CODEX, PLAIN).chmod(0)

    [finding] = run_unprivileged(lambda: look(machine, unreadable_file))

    assert "Permission denied" in finding.message


@pytest.mark.parametrize("target", ["../gone.json", "mcp.json"], ids=["nothing", "itself"])
def test_a_link_to_nothing_is_reported(machine: FakeMachine, target: str) -> None:
    (machine.project / ".cursor").mkdir()
    (machine.project / ".cursor/mcp.json").symlink_to(target)

    [finding] = look(machine, unreadable_file)

    assert finding.code == "ML101"
    assert f"is a link to {target}, where there is no file: Cursor does" in finding.message
    assert machine.survey().items == []


def test_a_link_to_a_file_is_all_right(machine: FakeMachine) -> None:
    write_servers(machine, "gone.json", docs={"command": "x"})
    (machine.project / ".cursor").mkdir()
    (machine.project / ".cursor/mcp.json").symlink_to("../gone.json")

    assert look(machine, unreadable_file) == []
    assert [item.name for item in machine.survey().items] == ["docs"]


def test_a_file_in_toml_1_1_is_read_as_codex_reads_it(machine: FakeMachine) -> None:
    machine.write(CODEX, 'mcp_servers.docs = { command = "x",\n}\n')

    assert look(machine, unreadable_file) == []
    assert [item.name for item in machine.survey().items] == ["docs"]


def test_what_is_wrong_in_toml_1_1_is_named_with_its_place(machine: FakeMachine) -> None:
    machine.write(CODEX, 'mcp_servers.docs = {\n  command = "x", # it\n  args = y\n}\n')

    [finding] = look(machine, unreadable_file)

    assert (finding.subject.line, finding.subject.column) == (3, 10)
    assert (
        "this is not valid TOML: Unexpected character: 'y': Codex does not start" in finding.message
    )


def test_the_same_file_by_two_ways_is_looked_at_once(machine: FakeMachine) -> None:
    machine.project = machine.home  # somebody works in the home directory
    machine.write(CODEX, PLAIN)

    assert [item.scope for item in machine.survey().items] == ["user"]


# Keys of Codex.


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("tool_timeout = 5", "did you mean tool_timeout_sec?"),
        ("headers = {}", "did you mean http_headers?"),
        ("disabled = true", "did you mean enabled?"),
        ('type = "stdio"', "remove or rename it"),
    ],
)
def test_a_key_that_codex_does_not_know_is_reported(
    machine: FakeMachine, key: str, fix: str
) -> None:
    machine.write(CODEX, f"{PLAIN}{key}\n")

    [finding] = look(machine, refused_keys)

    assert finding.code == "ML102"
    assert finding.subject.line == 3
    assert fix in finding.fix


def test_all_that_codex_knows_is_all_right(machine: FakeMachine) -> None:
    machine.write(
        CODEX,
        """
[mcp_servers.one]
command = "x"
args = ["a"]
env = { A = "1" }
env_vars = ["A", { name = "B" }, { name = "C", source = "remote" }]
cwd = "/"
environment_id = "local"
startup_timeout_sec = 1.5
startup_timeout_ms = 10
tool_timeout_sec = 60
enabled = true
required = false
supports_parallel_tool_calls = true
omit_tools_from = ["direct", "deferred", "code_mode"]
default_tools_approval_mode = "writes"
enabled_tools = ["a"]
disabled_tools = []
scopes = []
name = "x"
startup_readiness = "catalog"
tool_input_schema_max_bytes = 5
tools.a = { approval_mode = "auto", more = 1 }
[mcp_servers.two]
url = "https://example.org"
bearer_token_env_var = "A"
http_headers = { A = "1" }
env_http_headers = { A = "B" }
http_headers_helper = "x"
oauth = { client_id = "a", callback_port = 8080 }
oauth_resource = "x"
auth = "oauth"
""",
    )

    assert look(machine, refused_keys) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('command = "x"\nargs = "a b"', "args has to be a list of strings"),
        ('command = "x"\nargs = [1]', "args has to be a list of strings"),
        ('command = ["x"]', "command has to be a string"),
        ('command = "x"\nenv = { A = 1 }', "env has to be a table of strings"),
        ('command = "x"\nstartup_timeout_sec = "30"', "has to be a number, and not below 0"),
        ('command = "x"\ntool_timeout_sec = true', "has to be a number, and not below 0"),
        ('command = "x"\nstartup_timeout_sec = -1', "has to be a number, and not below 0"),
        ('command = "x"\nstartup_timeout_ms = 1.5', "has to be a whole number"),
        ('command = "x"\nenabled = "no"', "enabled has to be true or false"),
        ('command = "x"\nstartup_readiness = "no"', "has to be one of connection, catalog"),
        ('command = "x"\ntools = ["a"]', "tools has to be a table"),
        ('command = "x"\nurl = "http://x"', "url is not for a server that is started"),
        ('command = "x"\nhttp_headers = {}', "http_headers is not for a server that is started"),
        ('url = "http://x"\nargs = []', "args is not for one behind a url"),
        ('url = "http://x"\nbearer_token = "x"', "a token may not stand in the file"),
        ('command = "x"\nenv_vars = [{ name = "A", default = "" }]', "env_vars may hold names"),
        ('command = "x"\nenv_vars = [{ source = "local" }]', "env_vars may hold names"),
        ('args = ["x"]', "it has neither a command nor a url"),
        ('command = "x"\nstartup_timeout_sec = inf', "not below 0 nor without end"),
        ('command = "x"\ntool_timeout_sec = 1e30', "not below 0 nor without end"),
        ('command = "x"\ntools.a.approval_mode = "no"', "is one of auto, prompt, writes, approve"),
        ('command = "x"\ntools = { a = "b" }', "tools has to be a table of tables"),
        ('command = "x"\nomit_tools_from = ["x"]', "a list of code_mode, deferred, direct"),
        ('url = "http://x"\noauth = { client_id = 3 }', "oauth has to be a table of"),
        ('url = "http://x"\noauth = { callback_port = 70000 }', "a port callback_port"),
    ],
)
def test_what_codex_refuses_is_reported_with_what_that_breaks(
    machine: FakeMachine, text: str, problem: str
) -> None:
    machine.write(CODEX, f"[mcp_servers.docs]\n{text}\n")

    [finding] = look(machine, refused_keys)

    assert finding.code == "ML120"
    assert finding.message.startswith("Codex refuses 'docs': ")
    assert problem in finding.message
    assert "Codex does not start" in finding.message


def test_an_entry_that_is_no_table_is_refused(machine: FakeMachine) -> None:
    machine.write(CODEX, '[mcp_servers]\ndocs = "npx"\n')

    [finding] = look(machine, refused_keys)

    assert (finding.code, finding.subject.line) == ("ML120", 2)


@pytest.mark.parametrize("text", ["mcp_servers = 3", '[[mcp_servers]]\ncommand = "x"'])
def test_servers_that_are_no_table_are_refused(machine: FakeMachine, text: str) -> None:
    machine.write(CODEX, f"{text}\n")

    [finding] = look(machine, refused_keys)

    assert (finding.code, finding.subject.line) == ("ML120", 1)
    assert "Codex refuses mcp_servers: it is not a table" in finding.message


def test_a_projects_entry_may_only_change_the_users(machine: FakeMachine) -> None:
    machine.write(OF_PROJECT, "[mcp_servers.docs]\nenabled = false\n")

    assert look(machine, refused_keys) == []


SOURCES = PLAIN + 'env_vars = ["A", { name = "T", source = "thread" }] # mine\n'


def test_a_source_that_codex_refuses_is_reported_and_fixed(machine: FakeMachine) -> None:
    file = machine.write(CODEX, SOURCES)

    [finding] = look(machine, refused_keys)

    assert finding.code == "ML103"
    assert "Codex does not know the source 'thread', only local and remote" in finding.message
    assert "mcp-launch wrap --host codex docs" in finding.fix
    assert finding.repair
    finding.repair.act()
    assert look(machine, refused_keys) == []
    assert '"--env", "T=thread"' in file.read_text("utf-8")
    assert "# mine" in file.read_text("utf-8")


def test_a_source_that_nobody_knows_is_not_mended(machine: FakeMachine) -> None:
    machine.write(CODEX, SOURCES.replace("thread", "moon"))

    [finding] = look(machine, refused_keys)

    assert finding.code == "ML103"
    assert finding.repair is None
    assert "take the variable out" in finding.fix


# Keys of Claude Code.


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"command": "x", "env": {"PORT": 3000}}, "env must be a table of strings"),
        ({"command": "x", "env": None}, "env must be a table of strings"),
        ({"command": "x", "args": "a b"}, "args must be a list of strings"),
        ({"command": "x", "args": [1]}, "args must be a list of strings"),
        ({"command": ["x"]}, "command must be a string"),
        ({"command": ""}, "its command is empty"),
        ({"args": ["x"]}, "it has no command"),
        ({}, "it has no command"),
        ("x", "it is not a table"),
        ({"command": "x", "type": "local"}, "there is no type local"),
        ({"command": "x", "type": []}, "type must be a string"),
        ({"command": "x", "type": None}, "type must be a string"),
        ({"command": "x", "timeout": 1.5}, "timeout must be a whole number above 0"),
        ({"command": "x", "alwaysLoad": "yes"}, "alwaysLoad must be true or false"),
        ({"url": "http://x"}, "it has a url, but no type"),
        ({"type": "http"}, "it has no url"),
        ({"type": "sse", "url": "http://x", "headers": {"A": 1}}, "headers must be a table of"),
    ],
)
def test_an_entry_that_claude_code_skips_is_reported_once(
    machine: FakeMachine, entry: object, problem: str
) -> None:
    write_servers(machine, ".mcp.json", docs=entry, web={"command": "x"})

    [finding] = look(machine, skipped_entries)

    assert finding.code == "ML122"
    assert finding.subject.line == 1
    assert finding.message.startswith(f"Claude Code skips 'docs': {problem}")
    survey = machine.survey()
    assert [item.name for item in survey.servers] == ["web"]
    asked = [one.subject.server for one in not_approved.check_approval(survey)]
    assert asked == ["web"]  # it could not be approved


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "args": [], "env": {"A": "1"}, "type": "stdio", "cwd": 3, "more": 1},
        {"command": "x", "timeout": 5, "alwaysLoad": True},
        {"type": "http", "url": "http://x", "headers": {"A": "1"}},
        {"type": "streamable-http", "url": "http://x"},
        {"command": "x", "url": "http://x"},
    ],
)
def test_an_entry_that_claude_code_takes_is_all_right(
    machine: FakeMachine, entry: dict[str, Any]
) -> None:
    write_servers(machine, CLAUDE, docs=entry)

    assert look(machine, skipped_entries) == []


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("{}", 'write "mcpServers", and'),
        ('{"servers": {"docs": {"command": "x"}}}', 'write "mcpServers" in place of servers'),
        ('{"mcpServers": []}', 'write "mcpServers", and'),
        ("[]", 'write "mcpServers", and'),
    ],
)
def test_a_projects_file_without_servers_is_skipped(
    machine: FakeMachine, text: str, fix: str
) -> None:
    machine.write(".mcp.json", text)

    [finding] = [*look(machine, skipped_entries), *look(machine, misplaced_table)]

    assert finding.code == "ML122"
    assert "skips the whole file" in finding.message
    assert fix in finding.fix
    machine.write(".mcp.json", '{"mcpServers": {}}')
    machine.write(CLAUDE, "{}")
    assert look(machine, skipped_entries) == []


# Tables of servers that belong to another host.


@pytest.mark.parametrize(
    ("path", "key", "wanted"),
    [
        (CODEX, "mcpServers", "mcp_servers"),
        (CODEX, "mcp-servers", "mcp_servers"),
        (".vscode/mcp.json", "mcpServers", "servers"),
        ("~/.cursor/mcp.json", "servers", "mcpServers"),
        (CLAUDE, "mcp_servers", "mcpServers"),
        ("opencode.json", "mcpServers", "mcp"),
    ],
)
def test_servers_below_a_key_that_the_host_ignores_are_reported(
    machine: FakeMachine, path: str, key: str, wanted: str
) -> None:
    def write(key: str) -> None:
        text = json.dumps({key: {"docs": {"command": "x"}}})
        machine.write(path, f'["{key}".docs]\ncommand = "x"\n' if path == CODEX else text)

    write(key)
    [finding] = look(machine, misplaced_table)
    assert (finding.code, finding.subject.line) == ("ML102", 1)
    assert f"does not know the key {key}, and ignores the servers under it" in finding.message
    assert finding.fix == f"write {wanted} instead"

    write(wanted)
    assert look(machine, misplaced_table) == []


def test_a_key_that_means_something_else_is_all_right(machine: FakeMachine) -> None:
    machine.write("~/.gemini/settings.json", '{"mcp": {"allowed": ["x"]}, "servers": {"a": 1}}')

    assert look(machine, misplaced_table) == []


# Directories.


@pytest.mark.parametrize("path", [CLAUDE, "~/.config/Claude/claude_desktop_config.json"])
def test_a_directory_that_the_host_ignores_is_reported(machine: FakeMachine, path: str) -> None:
    write_servers(machine, path, docs={"command": "npx", "cwd": "/work"})

    [finding] = look(machine, directory)

    assert finding.code == "ML104"
    assert '"run", "--cwd", "/work", "--"' in finding.fix


def test_a_directory_that_counts_is_all_right(machine: FakeMachine) -> None:
    write_servers(machine, "~/.gemini/settings.json", docs={"command": "npx", "cwd": "below"})
    machine.write(CODEX, PLAIN + 'cwd = "/work"\n')

    assert look(machine, directory) == []


def test_a_relative_directory_is_reported(machine: FakeMachine) -> None:
    machine.write(CODEX, PLAIN + 'cwd = "below"\n')

    [finding] = look(machine, directory)

    assert (finding.code, finding.subject.line) == ("ML105", 3)
    assert "relative cwd below" in finding.message


# Variables in entries.


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"args": ["--key", "${NOPE}"]}, "NOPE is not set where Claude Code runs"),
        ({"env": {"A": "${NOPE}/${NONE}"}}, "NOPE, NONE are not set where"),
        ({"args": ["$HOME/x"]}, "passes $HOME to 'docs' unexpanded"),
        ({"args": ["--dir=~/x"]}, "passes ~/ to 'docs' unexpanded"),
        ({"args": ["${CLAUDE_PROJECT_DIR}"]}, "CLAUDE_PROJECT_DIR is not set"),
    ],
)
def test_a_variable_that_claude_code_does_not_replace_is_reported(
    machine: FakeMachine, entry: dict[str, Any], message: str
) -> None:
    write_servers(machine, CLAUDE, docs={"command": "npx", **entry})

    [finding] = look(machine, unexpanded_variables)

    assert finding.code == "ML106"
    assert message in finding.message


@pytest.mark.parametrize(
    "entry",
    [
        {"args": ["${HOME}/x", "${NOPE:-x}", "${NOPE:-}"]},
        {"args": ["-c", "exec $HOME/x ${NOPE2}", "~/x"], "command": "sh", "env": {"NOPE2": "1"}},
        {"env": {"PASSWORD": "pa$word", "COST": "5$"}},
        {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "~/x"]},
    ],
    ids=["set or with a default", "a script", "dollars", "a server that knows the tilde"],
)
def test_what_is_replaced_by_somebody_is_all_right(
    machine: FakeMachine, entry: dict[str, Any]
) -> None:
    write_servers(machine, CLAUDE, docs={"command": "npx", **entry})
    machine.environ["NOPE2"] = "1"

    assert look(machine, unexpanded_variables) == []


def test_the_environment_of_the_host_that_runs_is_the_one_that_counts(machine: FakeMachine) -> None:
    write_servers(machine, CLAUDE, docs={"command": "npx", "args": ["${TEAM}"]})
    machine.environ["TEAM"] = "a"
    machine.table.add(7, "claude")
    machine.table.variables[7] = {"PATH": "/bin"}
    machine.table.cwds[7] = str(machine.project)

    assert list_codes(look(machine, unexpanded_variables)) == ["ML106"]

    machine.table.cwds[7] = "/srv"  # another project's

    assert look(machine, unexpanded_variables) == []


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ('args = ["${HOME}/x"]', "${HOME}"),
        ('args = ["--root=$HOME"]', "$HOME"),
        ('env = { A = "${A:-b}" }', "${A:-b}"),
        ('cwd = "~/work"', "~/"),
    ],
)
def test_codex_replaces_nothing(machine: FakeMachine, line: str, written: str) -> None:
    machine.write(CODEX, PLAIN + line + "\n")

    [finding] = look(machine, unexpanded_variables)

    assert finding.code == "ML106"
    assert f"Codex passes {written} to 'docs' unexpanded" in finding.message
    assert finding.subject.line == 3


def test_codex_leaves_scripts_to_the_shell(machine: FakeMachine) -> None:
    machine.write(CODEX, '[mcp_servers.docs]\ncommand = "/bin/sh"\nargs = ["-lc", "$HOME/x"]\n')

    assert look(machine, unexpanded_variables) == []


def test_editors_have_ways_of_their_own(machine: FakeMachine) -> None:
    write_servers(machine, "~/.cursor/mcp.json", docs={"command": "x", "args": ["${env:NOPE}"]})

    assert look(machine, unexpanded_variables) == []


# ML124


@pytest.mark.parametrize(
    ("entry", "problem", "column"),
    [
        ({"args": ["x"]}, "it has no command", 17),
        ({"command": ["npx", "-y"]}, "its command must be a string", 26),
        ({"command": 3}, "its command must be a string", 26),
        ({"command": "npx", "args": "-y"}, "its args must be a list of strings", 44),
        ({"command": "npx", "args": [3]}, "its args must be a list of strings", 44),
        ("npx", "it is not a table", 17),
        ({"command": "npx"}, "", 0),
        ({"url": "https://x"}, "", 0),
        ({"disabled": True}, "", 0),
    ],
)
def test_an_entry_without_a_usable_command_is_reported(
    machine: FakeMachine, entry: object, problem: str, column: int
) -> None:
    machine.write("~/.cursor/mcp.json", json.dumps({"mcpServers": {"docs": entry}}))

    found = look(machine, skipped_entries)

    if not problem:
        assert found == []
        return
    [finding] = found
    assert finding.code == "ML124"
    assert finding.message == f"Cursor cannot start 'docs': {problem}"
    assert (finding.subject.server, finding.subject.column) == ("docs", column)


@pytest.mark.parametrize(
    ("path", "content", "codes"),
    [
        (".vscode/mcp.json", {"servers": {"docs": {"type": "stdio"}}}, ["ML124"]),
        ("opencode.json", {"mcp": {"docs": {"command": "npx"}}}, ["ML124"]),
        ("opencode.json", {"mcp": {"docs": {"command": ["npx"]}, "timeout": 5}}, []),
        ("~/.config/goose/config.yaml", {"extensions": {"docs": {"type": "stdio"}}}, ["ML124"]),
        ("~/.config/goose/config.yaml", {"extensions": {"docs": {"type": "builtin"}}}, []),
        ("~/.config/zed/settings.json", {"context_servers": {"docs": {"settings": {}}}}, []),
        ("~/.config/zed/settings.json", {"context_servers": {"docs": {}}}, ["ML124"]),
        ("~/.gemini/settings.json", {"mcpServers": [{"command": "npx"}]}, ["ML124"]),
        ("~/.gemini/settings.json", {"mcpServers": {}}, []),
        # What these do is known: other findings.
        ("~/.claude.json", {"mcpServers": {"docs": {}}}, ["ML122"]),
    ],
)
def test_each_host_has_its_own_way_to_write_a_command(
    machine: FakeMachine, path: str, content: object, codes: list[str]
) -> None:
    machine.write(path, json.dumps(content))

    assert list_codes(look(machine, skipped_entries)) == codes


def test_servers_in_a_list_are_reported_with_what_to_write(machine: FakeMachine) -> None:
    machine.write("~/.cursor/mcp.json", '{"mcpServers": [{"name": "docs", "command": "npx"}]}')

    [finding] = look(machine, skipped_entries)

    assert finding.message == "Cursor finds no servers: mcpServers is a list"
    assert '"mcpServers": {"NAME": {' in finding.fix
    assert (finding.subject.line, finding.subject.column) == (1, 2)

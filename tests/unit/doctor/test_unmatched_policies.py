"""Policies that match no remembered tool: what is named, and when nothing is said."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from fake_machine import list_codes
from mcp_launch.doctor.checks import unmatched_policies

from mcp_launch.commands import trust as trust_command
from mcp_launch.doctor import registry
from mcp_launch.protocol.memory import Remembered
from mcp_launch.state.handshakes import Handshakes

if TYPE_CHECKING:
    from pathlib import Path

    from fake_machine import FakeMachine
    from mcp_launch.doctor.finding import Finding

TOOLS = ("read_page", "list_pages", "delete_page")
NO_TOOL = "no tool of docs (3 remembered)"


def make_tool(name: str, *arguments: str, **schema: Any) -> dict[str, Any]:
    listed = {"type": "object", "properties": {one: {} for one in arguments}}
    return {"name": name, "inputSchema": listed | schema}


def remember(
    machine: FakeMachine,
    server: str,
    *tools: str | dict[str, Any],
    key: str = "here",
    cursor: str = "",
) -> None:
    """Write what a launch keeps of a server; `cursor`: another page follows, which is unknown."""
    listed = [make_tool(one) if isinstance(one, str) else one for one in tools]
    page: dict[str, Any] = {"tools": listed} | ({"nextCursor": cursor} if cursor else {})
    answers = {
        ("initialize", b""): b'{"result":{}}',
        ("tools/list", b""): json.dumps({"result": page}).encode(),
    }
    now = time.time()
    store = Handshakes(machine.environ, f"{server}-{key}", server)
    store.write(Remembered("client", now, answers), now)


def write_profile(machine: FakeMachine, text: str) -> Path:
    file = machine.write("~/.config/mcp-launch/config.toml", text)
    file.chmod(0o600)
    return file


def look(machine: FakeMachine, profile: str = "") -> list[Finding]:
    if profile:
        write_profile(machine, profile)
    return list(unmatched_policies.check(machine.survey()))


def list_messages(machine: FakeMachine, profile: str) -> list[str]:
    return [one.message for one in look(machine, profile)]


# Patterns


def test_a_pattern_that_matches_nothing_is_named_with_its_place_and_a_suggestion(
    machine: FakeMachine,
) -> None:
    remember(machine, "docs", *TOOLS)
    file = write_profile(
        machine, '[servers.docs]\ntools = { allow = ["*"],\n  deny = ["read_*", "delte_*"] }\n'
    )

    (finding,) = look(machine)

    assert (finding.code, finding.level) == ("ML018", "warning")
    assert finding.message == (
        "`delte_*` in `deny` matches no tool of docs (3 remembered), so it hides nothing"
    )
    assert finding.fix == (
        "did you mean delete_*? correct or remove it; the tools are read_page, list_pages, "
        "delete_page"
    )
    subject = finding.subject
    assert (subject.server, subject.file) == ("docs", str(file))
    assert (subject.line, subject.column) == (3, 21)


@pytest.mark.parametrize(
    ("pattern", "suggestion"),
    [
        ("raed_*", "did you mean read_*? "),
        ("Read_*", "did you mean read_*? "),
        ("delete-page", "did you mean delete_page? "),
        ("zzz", ""),
        ("zzz*", ""),
    ],
)
def test_what_may_have_been_meant_is_suggested(
    machine: FakeMachine, pattern: str, suggestion: str
) -> None:
    remember(machine, "docs", *TOOLS)

    (finding,) = look(machine, f'[servers.docs]\ntools = {{ deny = ["{pattern}"] }}\n')

    assert finding.fix.startswith(f"{suggestion}correct or remove it; ")


@pytest.mark.parametrize(
    "tools",
    [
        '{ allow = ["read_*", "list_pages"], deny = ["delete_???e"] }',
        '{ deny = ["*"] }',
        "{ allow = ['[rl]*'] }",
        "{}",
    ],
)
def test_nothing_is_said_of_patterns_that_match(machine: FakeMachine, tools: str) -> None:
    remember(machine, "docs", *TOOLS)

    assert look(machine, f"[servers.docs]\ntools = {tools}\n") == []


@pytest.mark.parametrize(
    ("tools", "messages"),
    [
        (
            '{ allow = ["raed_*"] }',
            [f"`raed_*` in `allow` matches {NO_TOOL}, so all its tools are hidden"],
        ),
        (
            '{ allow = ["raed_*", "list_*"] }',
            [f"`raed_*` in `allow` matches {NO_TOOL}, so it allows nothing"],
        ),
        (
            '{ allow = ["read_*"], deny = ["*_page"] }',
            [f"`allow` and `deny` leave {NO_TOOL}, so its host sees none"],
        ),
        (
            "{ allow = [] }",
            [f"`allow` and `deny` leave {NO_TOOL}, so its host sees none"],
        ),
    ],
)
def test_patterns_that_leave_no_tool_are_named_once(
    machine: FakeMachine, tools: str, messages: list[str]
) -> None:
    remember(machine, "docs", *TOOLS)

    assert list_messages(machine, f"[servers.docs]\ntools = {tools}\n") == messages


def test_a_table_for_a_tool_that_does_not_exist_is_named(machine: FakeMachine) -> None:
    remember(machine, "codex", make_tool("codex", "cwd"))
    profile = "[servers.codex]\n\n[servers.codex.tools.codx.arguments]\ncwd = { remove = true }\n"

    (finding,) = look(machine, profile)

    assert finding.message == (
        "`codx` in `tools` matches no tool of codex (1 remembered), so its arguments are not "
        "checked"
    )
    assert finding.fix.startswith("did you mean codex? ")
    assert finding.subject.line == 3


# Arguments


@pytest.mark.parametrize(
    ("table", "message", "line"),
    [
        ("arguments", "no tool of codex (2 remembered) has the argument `cdw`", 2),
        (
            "tools.codex.arguments",
            "no tool of codex (2 remembered) that matches `codex` has the argument `cdw`",
            2,
        ),
        (
            "tools.'codex*'.arguments",
            "no tool of codex (2 remembered) that matches `codex*` has the argument `cdw`",
            2,
        ),
    ],
)
def test_an_argument_that_no_tool_has_is_named(
    machine: FakeMachine, table: str, message: str, line: int
) -> None:
    remember(machine, "codex", make_tool("codex", "cwd"), make_tool("codex-reply", "prompt"))

    (finding,) = look(machine, f"[servers.codex.{table}]\ncdw = {{ remove = true }}\n")

    assert finding.message == message
    assert finding.fix.startswith("did you mean cwd? correct or remove it; the arguments are cwd")
    assert finding.subject.line == line


def test_an_argument_that_one_of_the_matching_tools_has_is_fine(machine: FakeMachine) -> None:
    remember(machine, "codex", make_tool("codex", "cwd"), make_tool("codex-reply", "prompt"))

    assert look(machine, "[servers.codex.arguments]\ncwd = { remove = true }\n") == []
    (finding,) = look(
        machine, "[servers.codex.tools.codex-reply.arguments]\ncwd = { remove = true }\n"
    )
    assert "that matches `codex-reply` has the argument `cwd`" in finding.message


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": None},
        {"properties": []},
        {"$ref": "#/$defs/all"},
        {"patternProperties": {"c.*": {}}},
        {"allOf": [{"properties": {"cdw": {}}}]},
        {"anyOf": [{"oneOf": [{"if": {}, "then": {"properties": {"cdw": {}}}}]}]},
        {"anyOf": [{"$ref": "#/$defs/all"}]},
    ],
)
def test_nothing_is_said_if_a_tool_may_have_an_argument(
    machine: FakeMachine, schema: dict[str, Any]
) -> None:
    remember(machine, "codex", make_tool("codex", "cwd"), make_tool("other", "x", **schema))

    assert look(machine, "[servers.codex.arguments]\ncdw = { remove = true }\n") == []


@pytest.mark.parametrize(
    "schema", [{"additionalProperties": True}, {"allOf": 3, "anyOf": [3, None]}, {"if": True}]
)
def test_an_argument_that_is_listed_nowhere_is_named_whatever_else_the_schema_says(
    machine: FakeMachine, schema: dict[str, Any]
) -> None:
    remember(machine, "codex", make_tool("codex", "cwd", **schema))

    found = look(machine, "[servers.codex.arguments]\ncdw = { remove = true }\n")

    assert list_codes(found) == ["ML018"]


def test_tools_without_arguments_are_said_to_have_none(machine: FakeMachine) -> None:
    remember(machine, "docs", make_tool("read"))

    (finding,) = look(machine, "[servers.docs.arguments]\ncwd = { remove = true }\n")

    assert finding.fix == "correct or remove it; there are no arguments"


# What is remembered

WRONG = '[servers.docs]\ntools = { deny = ["delte_*"] }\narguments = { x = { remove = true } }\n'


def test_nothing_is_said_of_a_server_that_was_never_started(machine: FakeMachine) -> None:
    assert look(machine, WRONG) == []
    remember(machine, "other", *TOOLS)
    assert look(machine, WRONG) == []


def test_nothing_is_said_if_only_a_part_of_the_tools_is_known(machine: FakeMachine) -> None:
    remember(machine, "docs", *TOOLS)
    assert list_codes(look(machine, WRONG)) == ["ML018", "ML018"]

    remember(machine, "docs", *TOOLS, key="elsewhere", cursor="2")

    assert look(machine, WRONG) == []


def test_a_tool_of_any_version_or_directory_counts(machine: FakeMachine) -> None:
    remember(machine, "docs", *TOOLS)
    remember(machine, "docs", make_tool("delte_old", "x"), key="older")

    assert look(machine, WRONG) == []


@pytest.mark.parametrize("page", ['{"result":{"tools":3}}', '{"error":{}}', "["])
def test_a_list_that_cannot_be_read_is_not_known(machine: FakeMachine, page: str) -> None:
    answers = {("initialize", b""): b'{"result":{}}', ("tools/list", b""): page.encode()}
    Handshakes(machine.environ, "one", "docs").write(Remembered("c", 1.0, answers), 1.0)

    assert look(machine, WRONG) == []


def test_tools_without_a_name_are_passed_over(machine: FakeMachine) -> None:
    remember(machine, "docs", {"name": 3}, {}, "delte_x")

    (finding,) = look(machine, WRONG)

    assert "(1 remembered) has the argument `x`" in finding.message


def test_control_characters_of_files_and_servers_are_escaped(machine: FakeMachine) -> None:
    remember(machine, "do\x1bcs", make_tool("evil\x1b[2J\u202e", "cw\x07d"))
    profile = (
        '[servers."do\\u001bcs"]\n'
        'tools = { deny = ["evil\\u001b"], "no\\u001b" = {}, '
        '"*" = { arguments = { "cw\\u0007" = { remove = true } } } }\n'
    )

    found = look(machine, profile)

    assert list_codes(found) == ["ML018", "ML018", "ML018"]
    assert all((one.message + one.fix).isprintable() for one in found)
    assert "did you mean cw\\x07d? " in found[2].fix


def test_only_some_of_many_tools_are_listed(machine: FakeMachine) -> None:
    remember(machine, "docs", *(f"tool_{at}_{'x' * 100}" for at in range(30)))

    (finding,) = look(machine, '[servers.docs]\ntools = { deny = ["zzz"] }\n')

    assert finding.fix.endswith(", and 20 more")
    assert len(finding.fix) < 800


# Files


def test_a_default_is_named_only_if_it_matches_no_tool_of_any_server(
    machine: FakeMachine,
) -> None:
    remember(machine, "docs", make_tool("read", "path"))
    remember(machine, "", make_tool("write", "file"))
    profile = """
[defaults]
tools = { deny = ["read", "wri*", "none"] }
[defaults.arguments]
file = { remove = true }
no = { remove = true }
"""

    found = look(machine, profile)

    assert [(one.subject.server, one.subject.line, one.message) for one in found] == [
        (
            "",
            3,
            "`none` in `deny` matches no tool of any server (2 remembered), so it hides nothing",
        ),
        ("", 6, "no tool of any server (2 remembered) has the argument `no`"),
    ]


def test_a_server_of_which_a_default_leaves_nothing_is_named(machine: FakeMachine) -> None:
    remember(machine, "docs", "read")
    remember(machine, "disk", "write")
    remember(machine, "own", "write")
    remember(machine, "", "write")
    profile = '[defaults]\ntools = { allow = ["re*"] }\n[servers.own]\ntools = { deny = [] }\n'

    (finding,) = look(machine, profile)

    assert (finding.subject.server, finding.subject.line) == ("disk", 2)
    assert finding.message.startswith("`allow` and `deny` leave no tool of disk (1 remembered)")


def test_a_default_is_not_named_while_a_list_is_not_whole(machine: FakeMachine) -> None:
    remember(machine, "docs", "read")
    remember(machine, "disk", "write", cursor="2")

    assert look(machine, '[defaults]\ntools = { allow = ["read"], deny = ["none"] }\n') == []


def test_the_file_of_a_project_counts_once_it_is_trusted(machine: FakeMachine) -> None:
    remember(machine, "docs", *TOOLS)
    file = machine.write(".mcp-launch.toml", '[servers.docs]\ntools = { deny = ["delte_*"] }\n')
    assert look(machine) == []

    record = trust_command.read(str(file), machine.environ)
    trust_command.decide(record, machine.environ, is_trusted=True)

    (finding,) = look(machine)
    assert (finding.subject.file, finding.subject.line) == (str(file), 2)
    file.write_text(WRONG, encoding="utf-8")
    assert look(machine) == []


@pytest.mark.parametrize(("text", "mode"), [("[servers", 0o600), (WRONG, 0o622)])
def test_a_file_that_cannot_be_used_is_not_judged(
    machine: FakeMachine, text: str, mode: int
) -> None:
    remember(machine, "docs", *TOOLS)
    write_profile(machine, text).chmod(mode)

    assert look(machine) == []


def test_the_doctor_runs_the_check(machine: FakeMachine) -> None:
    remember(machine, "docs", *TOOLS)
    write_profile(machine, WRONG)

    codes = list_codes(registry.examine(machine.survey()))

    assert codes.count("ML018") == 2
    assert "ML001" not in codes

"""What a profile says of tools and their arguments: what is valid, and every refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcp_launch.launch import profile_file, profile_tables

if TYPE_CHECKING:
    from mcp_launch.errors import ProfileRefused

PATH = "/home/me/.config/mcp-launch/config.toml"


def parse(text: str) -> Any:
    """Return the policies of the one server in a file."""
    (server,) = profile_file.parse(text.encode(), PATH)["servers"].values()
    return server["policies"]


def refuse(text: str) -> ProfileRefused:
    """Return the error in the one server of a file."""
    content = profile_file.parse(text.encode(), PATH)
    (refused,) = profile_tables.UserFile(PATH, content).refused.values()
    return refused


VALID: dict[str, tuple[str, object, object, object]] = {
    "nothing": ("[servers.a]\n", None, None, None),
    "an empty table": ("[servers.a]\ntools = {}\n", None, None, None),
    "patterns": (
        '[servers.a.tools]\nallow = ["read_*", "list"]\ndeny = ["read_secret"]\n',
        {"allow": ["read_*", "list"], "deny": ["read_secret"]},
        None,
        None,
    ),
    "an empty list, which allows nothing": (
        "[servers.a.tools]\nallow = []\n",
        {"allow": []},
        None,
        None,
    ),
    "an argument of all tools": (
        '[servers.a.arguments]\ncwd = { inside = "project_root" }\n',
        None,
        {"cwd": {"inside": "project_root"}},
        None,
    ),
    "arguments of one tool": (
        '[servers.a.tools."write_*".arguments]\nmode = { value = 384 }\nforce.value = false\n',
        None,
        None,
        {"write_*": {"mode": {"value": 384}, "force": {"value": False}}},
    ),
    "a tool that is called like a list": (
        '[servers.a.tools]\nallow = ["x"]\n[servers.a.tools.deny.arguments]\nb.value = 1\n',
        {"allow": ["x"]},
        None,
        {"deny": {"b": {"value": 1}}},
    ),
    "a tool without arguments": ("[servers.a.tools.x]\n", None, None, {"x": {}}),
    "an argument that is called like a demand": (
        '[servers.a.arguments]\ninside = { value = "x" }\n',
        None,
        {"inside": {"value": "x"}},
        None,
    ),
    "a value with structure": (
        '[servers.a.arguments]\nx = { value = { a = [1, 2.5, true, "y"] } }\n',
        None,
        {"x": {"value": {"a": [1, 2.5, True, "y"]}}},
        None,
    ),
}


@pytest.mark.parametrize(
    ("text", "tools", "arguments", "of_tools"), list(VALID.values()), ids=list(VALID)
)
def test_policies_are_read_from_a_server_s_table(
    text: str, tools: Any, arguments: Any, of_tools: Any
) -> None:
    assert parse(text) == {"tools": tools, "arguments": arguments, "arguments_of": of_tools}


@pytest.mark.parametrize("place", ["project_root", "cwd", "/", "/srv/data", "~", "~/notes"])
def test_a_path_is_compared_with_a_directory_of_the_session_or_a_named_one(place: str) -> None:
    text = f'[servers.a.arguments]\nx = {{ inside = "{place}" }}\n'

    assert parse(text)["arguments"] == {"x": {"inside": place}}


def test_policies_can_be_set_for_all_servers() -> None:
    text = '[defaults.tools]\ndeny = ["x"]\n[defaults.arguments]\ny = { value = 1 }\n'

    defaults = profile_file.parse(text.encode(), PATH)["defaults"]

    assert defaults["policies"] == {
        "tools": {"deny": ["x"]},
        "arguments": {"y": {"value": 1}},
        "arguments_of": None,
    }


EXAMPLE = 'write { inside = "project_root" } or { value = "…" }'
DEMANDS = "inside, value"

# The text, where it is refused, the problem, and a part of the fix.
REFUSED = {
    "tools is a list": (
        '[servers.a]\ntools = ["x"]\n',
        "2:1",
        "`tools` must be a table, not a list",
        'write tools = { deny = ["x"] }',
    ),
    "a pattern alone": (
        '[servers.a.tools]\nallow = "read_*"\n',
        "2:1",
        "`allow` must be a list of names",
        'such as ["read_*"]',
    ),
    "an empty pattern": (
        '[servers.a.tools]\nallow = [""]\n',
        "2:10",
        "an element of `allow` is empty",
        "write a value",
    ),
    "a list with a misspelt name": (
        '[servers.a.tools]\nalow = ["x"]\n',
        "2:1",
        "`alow` in `tools` is neither a list of patterns nor a tool with arguments",
        'did you mean allow? write allow = ["…"] or deny = ["…"], or a table such as ',
    ),
    "an unknown key of a tool": (
        "[servers.a.tools.x]\nargument = {}\n",
        "2:1",
        "unknown key `argument` in [servers.a.tools.x]",
        "did you mean arguments?",
    ),
    "an argument in the table of its tool": (
        '[servers.a.tools.x]\npath = { inside = "cwd" }\n',
        "2:1",
        "unknown key `path` in [servers.a.tools.x]",
        "if `path` is an argument of the tool, move it to [servers.a.tools.x.arguments]",
    ),
    "arguments is a list": (
        "[servers.a]\narguments = []\n",
        "2:1",
        "`arguments` must be a table, such as cwd = {",
        "write a table",
    ),
    "an argument with a plain value": (
        '[servers.a.arguments]\ncwd = "project_root"\n',
        "2:1",
        "`cwd` must be { inside",
        EXAMPLE,
    ),
    "an unknown demand": (
        '[servers.a.arguments]\ncwd = { within = "cwd" }\n',
        "2:9",
        "unknown key `within` in [servers.a.arguments.cwd]",
        "the keys are inside, value",
    ),
    "no demand": (
        "[servers.a.arguments]\ncwd = {}\n",
        "2:1",
        f"the argument `cwd` needs one of these: {DEMANDS}",
        EXAMPLE,
    ),
    "two demands": (
        '[servers.a.arguments]\ncwd = { inside = "cwd", value = 1 }\n',
        "2:1",
        f"the argument `cwd` cannot have more than one of these: {DEMANDS}",
        EXAMPLE,
    ),
    "a misspelt directory": (
        '[servers.a.arguments]\ncwd = { inside = "project_rot" }\n',
        "2:9",
        "`inside` does not take project_rot",
        "did you mean project_root? write one of project_root, cwd, or a path that begins with",
    ),
    "a relative directory": (
        '[servers.a.arguments]\ncwd = { inside = "sub/dir" }\n',
        "2:9",
        "`inside` does not take sub/dir",
        "or a path that begins with / or ~",
    ),
    "a date as a value": (
        "[servers.a.arguments]\nday = { value = 2026-11-18 }\n",
        "2:9",
        "`value` must be a text, a number, true or false, or a list or table of these",
        "put a date or a time in quotes",
    ),
    "a value that JSON does not have": (
        "[servers.a.arguments]\nx = { value = nan }\n",
        "2:7",
        "`value` must be a text",
        "put a date",
    ),
    "an argument of one tool": (
        '[servers.a.tools."x y".arguments]\n\ncwd = { inside = "x" }\n',
        "3:9",
        "`inside` does not take x",
        "write one of project_root, cwd",
    ),
}


@pytest.mark.parametrize(
    ("text", "place", "problem", "fix"), list(REFUSED.values()), ids=list(REFUSED)
)
def test_an_invalid_policy_is_refused_with_its_place_and_a_fix(
    text: str, place: str, problem: str, fix: str
) -> None:
    refused = refuse(text)

    assert f"{refused.line}:{refused.column}" == place
    assert refused.problem.startswith(f"{PATH}:{place}: ")
    assert problem in refused.problem
    assert fix in refused.fix

"""`mcp-launch schema`: what editors complete and check in the user's file."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command_line import run_command

EXAMPLE = Path(__file__).parents[2] / "configs" / "profile.toml"

WRONG = {
    "an unknown table": "[server.a]",
    "an unknown key": "[servers.a]\ncomand = 'x'",
    "a key of one server": "[defaults]\ncommand = 'x'",
    "arguments alone": "[servers.a]\nargs = ['x']",
    "an unknown choice": "[servers.a]\nrestart = 'maybe'",
    "a number out of range": "[servers.a]\nmax_servers = 65",
    "a time that is none": "[servers.a]\nrest = '10'",
    "a variable of ours": "[servers.a]\nenv = { MCP_LAUNCH_ID = 'x' }",
    "an unknown source": "[servers.a]\nenv_vars = [{ name = 'A', source = 'thread_id' }]",
    "a variable without a name": "[servers.a]\nenv_vars = [{ source = 'thread' }]",
    "two demands": "[servers.a.arguments]\nx = { inside = 'cwd', value = 1 }",
    "an unknown demand": "[servers.a.arguments]\nx = { inside = 'cwd', default = 'cwd' }",
    "a relative place": "[servers.a.arguments]\nx = { inside = 'sub' }",
}


@pytest.fixture(scope="module")
def schema() -> Any:
    done = run_command("schema")
    assert done.returncode == 0
    return json.loads(done.stdout)


def test_the_example_is_valid(schema: Any) -> None:
    jsonschema.Draft7Validator.check_schema(schema)

    jsonschema.validate(tomllib.loads(EXAMPLE.read_text(encoding="utf-8")), schema)


@pytest.mark.parametrize("text", WRONG.values(), ids=list(WRONG))
def test_what_a_launch_would_refuse_is_marked(text: str, schema: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), schema)

"""`mcp-launch schema`: the schemas of the profile files and of what commands print."""

from __future__ import annotations

import json

import jsonschema
import pytest
from command_line import run_command
from json_formats import SCHEMAS, read_schema

from mcp_launch.commands import schema


def test_all_schemas_are_listed_with_their_titles() -> None:
    done = run_command("schema")

    assert done.returncode == 0
    lines = dict(line.split(None, 1) for line in done.stdout.splitlines())
    names = {path.stem for path in SCHEMAS.glob("*.json")}
    assert set(lines) == {"config", "project", *names}
    assert lines["config"] == "mcp-launch: config.toml"


@pytest.mark.parametrize("name", schema.list_names())
def test_every_schema_is_printed_and_valid(name: str) -> None:
    done = run_command("schema", name)

    assert done.returncode == 0
    printed = json.loads(done.stdout)
    jsonschema.validators.validator_for(printed).check_schema(printed)
    assert printed["title"]
    if name not in {"config", "project"}:
        assert printed == read_schema(name)


def test_an_unknown_schema_is_refused_with_the_near_one() -> None:
    done = run_command("schema", "confg")

    assert done.returncode == 2
    assert done.stdout == ""
    assert "did you mean config?" in done.stderr

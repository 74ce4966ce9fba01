"""The schema of the profile files accepts what the parser accepts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from mcp_launch.errors import ProfileRefused
from mcp_launch.launch import options, profile_file, profile_policies, profile_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIGS = Path(__file__).parents[3] / "configs"

USERS = profile_schema.describe(is_projects=False)
PROJECTS = profile_schema.describe(is_projects=True)
BOTH = pytest.mark.parametrize("schema", [USERS, PROJECTS], ids=["user", "project"])


def get_server(schema: dict[str, Any]) -> dict[str, Any]:
    server: dict[str, Any] = schema["properties"]["servers"]["additionalProperties"]
    return server


@BOTH
def test_the_schema_is_valid(schema: dict[str, Any]) -> None:
    jsonschema.Draft7Validator.check_schema(schema)


@BOTH
def test_every_key_of_the_parser_is_in_the_schema_and_no_other(schema: dict[str, Any]) -> None:
    server = get_server(schema)["properties"]

    assert tuple(server) == profile_file.KEYS
    variable = server["env_vars"]["items"]["anyOf"][1]["properties"]
    assert tuple(variable) == profile_file.KEYS_OF_A_VARIABLE


def test_the_defaults_have_what_all_servers_can_have() -> None:
    defaults = USERS["properties"]["defaults"]["properties"]

    assert set(defaults) == set(profile_file.KEYS) - set(profile_file.KEYS_OF_ONE_SERVER)
    assert "defaults" not in PROJECTS["properties"]


@BOTH
def test_every_table_of_the_parser_is_in_the_schema_and_no_other(schema: dict[str, Any]) -> None:
    is_projects = schema is PROJECTS
    known = ("servers", "defaults", profile_file.OF_DOCTOR, "other")

    taken = {name for name in known if accepts_parser({name: {}}, is_projects=is_projects)}

    assert set(schema["properties"]) == taken


@pytest.mark.parametrize(
    ("ignored", "is_valid"),
    [(["ML117", "ML2", "ML206:docs"], True), ([], True), (["117"], False), ("ML117", False)],
)
def test_what_doctor_ignores_is_a_list_of_codes(ignored: object, is_valid: bool) -> None:
    assert accepts_schema(USERS, {"doctor": {"ignore": ignored}}) == is_valid


def list_properties(schema: Any) -> list[tuple[str, dict[str, Any]]]:
    if isinstance(schema, list):
        return [found for one in schema for found in list_properties(one)]
    if not isinstance(schema, dict):
        return []
    own = list(schema["properties"].items()) if isinstance(schema.get("properties"), dict) else []
    rest = [one for key, one in schema.items() if key != "dependencies"]
    return own + [found for one in rest for found in list_properties(one)]


@BOTH
def test_every_key_is_described(schema: dict[str, Any]) -> None:
    described = [(name, one.get("description", "")) for name, one in list_properties(schema)]

    assert len(described) > len(profile_file.KEYS)
    assert [name for name, text in described if not text.endswith((".", "…"))] == []


def test_the_help_text_describes_every_option() -> None:
    described = profile_schema.list_descriptions()

    known = (*options.TAKE_A_VALUE, *options.SWITCHES)
    assert set(described) == {option[2:].replace("-", "_") for option in known}
    assert described["no_log"] == "Keep no log of this launch (see mcp-launch logs)."


def test_the_example_is_valid() -> None:
    example = tomllib.loads((CONFIGS / "profile.toml").read_text(encoding="utf-8"))

    jsonschema.validate(example, USERS, jsonschema.Draft7Validator)
    assert not accepts_schema(PROJECTS, example)  # for its [defaults]


def accepts_schema(schema: dict[str, Any], document: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft7Validator(schema).is_valid(document))


def accepts_parser(document: dict[str, Any], *, is_projects: bool) -> bool:
    try:
        profile_file.parse(tomlkit.dumps(document).encode(), "/p.toml", is_projects=is_projects)
    except ProfileRefused:
        return False
    return True


# Values of every kind of TOML that a JSON Schema can tell apart, and texts that some key takes.
# Not dates, which editors treat as texts; and no line ends, before which Python's `$` matches.
SAMPLES = (
    *("", "x", "all", "safe", "session", "on", "off", "now", "called", "keep", "fail", "auto"),
    *("90s", "0s", "00s", "10m", "2h", "1d", "5", "s", "1.5h", "-1s", "A", "A_1", "1A", "A-B"),
    *("A*", "*", "\0", "x\0", "MCP_LAUNCH_ID", "MCP_LAUNCH_HOME", "thread", "thread_id"),
    *("local", "dotenv", "refuse", "strict", "placeholder", "known", "${A", "~/x", "~", "~x"),
    *("project_root", "cwd", "/", "/x", "/\0", "read_*"),
)
WORDS = st.sampled_from(SAMPLES)
SCALARS = WORDS | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3)
VARIABLES = st.dictionaries(st.sampled_from([*profile_file.KEYS_OF_A_VARIABLE, "nam"]), SCALARS)
TABLES = st.dictionaries(WORDS.filter(bool), SCALARS, max_size=2) | VARIABLES
LISTS = st.lists(SCALARS | VARIABLES, max_size=2)
KEYS_OF_A_PIN = (*profile_policies.DEMANDS, profile_policies.DEFAULT, "insde")
PINS = st.dictionaries(st.sampled_from(KEYS_OF_A_PIN), SCALARS | LISTS | TABLES, max_size=2)
ARGUMENTS = st.dictionaries(st.sampled_from(["cwd", "", "inside"]), PINS | SCALARS, max_size=2)
TOOLS = st.dictionaries(
    st.sampled_from([*profile_policies.GLOBS, "alow", "*"]),
    st.dictionaries(st.sampled_from(["arguments", "argument"]), ARGUMENTS | SCALARS)
    | st.lists(SCALARS, max_size=2)
    | SCALARS,
    max_size=2,
)
SERVERS = st.dictionaries(
    st.sampled_from([*profile_file.KEYS, "comand"]),
    SCALARS | LISTS | TABLES | ARGUMENTS | TOOLS,
    max_size=2,
)
POLICIES = st.fixed_dictionaries({}, optional={"tools": TOOLS, "arguments": ARGUMENTS})
DOCUMENTS = st.dictionaries(
    st.sampled_from(["servers", "defaults", "server"]),
    st.dictionaries(st.just("a"), SERVERS | SCALARS) | SERVERS | SCALARS,
    max_size=2,
)


@BOTH
@given(data=st.data())
def test_the_schema_and_the_parser_accept_the_same(
    schema: dict[str, Any], data: st.DataObject
) -> None:
    document = data.draw(DOCUMENTS)
    is_accepted = accepts_parser(document, is_projects=schema is PROJECTS)

    if not is_accepted and sets_a_variable_twice(document):
        return  # no schema can say that
    assert accepts_schema(schema, document) == is_accepted


# Few documents of the test above get as far as the arguments of a tool.
@BOTH
@given(policies=POLICIES)
def test_the_schema_and_the_parser_accept_the_same_policies(
    schema: dict[str, Any], policies: dict[str, Any]
) -> None:
    document = {"servers": {"a": policies}}
    is_accepted = accepts_parser(document, is_projects=schema is PROJECTS)

    assert accepts_schema(schema, document) == is_accepted


def list_pins() -> Iterator[Any]:
    """Return every demand with every kind of value, and every two demands together."""
    yield from ({}, [], "cwd", True)
    for one in KEYS_OF_A_PIN:
        for value in (*SAMPLES, True, False, 0, 1, 1.5, [], {}, ["x", 1], {"a": [True]}):
            yield {one: value}
            yield {"inside": "cwd", one: value}
        yield from ({one: "/x", other: "cwd"} for other in KEYS_OF_A_PIN)
        yield from ({one: "/x", "remove": True}, {"value": 1, one: "cwd"})


def test_each_demand_takes_the_same_values_in_both() -> None:
    validator = jsonschema.Draft7Validator(get_server(USERS))

    for pin in list_pins():
        for server in (
            {"arguments": {"x": pin}},
            {"tools": {"x*": {"arguments": {"y": pin}}}},
            {"tools": {"deny": {"arguments": {"y": pin}}, "allow": ["x"]}},
        ):
            is_accepted = accepts_parser({"servers": {"a": server}}, is_projects=False)
            assert validator.is_valid(server) == is_accepted, server


def list_values() -> Iterator[Any]:
    """Return every scalar, alone and wherever a list, a table or a variable can have it."""
    yield from ([], {}, [[]], [{}], {"A": {}}, ["A", "B*"])
    for source in (*options.SOURCES, *options.SPELLINGS, "remote"):
        yield [{"name": "A", "source": source}]
        yield [{"name": "A", "source": source, "from": "B"}]
    for scalar in (*SAMPLES, True, False, 0, 1, 1.5):
        yield from (scalar, [scalar], {"A": scalar})
        yield from ([{key: scalar}] for key in (*profile_file.KEYS_OF_A_VARIABLE, "nam"))
        yield from ([{"name": "A", key: scalar}] for key in profile_file.KEYS_OF_A_VARIABLE[1:])
        yield from ({key: scalar} for key in profile_policies.GLOBS)
        yield from ({key: [scalar]} for key in (*profile_policies.GLOBS, "alow"))
        if isinstance(scalar, str):
            yield {scalar: "x"}


# One key with one value at a time, and all of them: a document with two mistakes hides a gap.
@pytest.mark.parametrize("key", profile_file.KEYS)
def test_each_key_takes_the_same_values_in_both(key: str) -> None:
    validator = jsonschema.Draft7Validator(get_server(USERS))

    for value in list_values():
        server = {"command": "x", key: value}
        is_accepted = accepts_parser({"servers": {"a": server}}, is_projects=False)
        assert validator.is_valid(server) == is_accepted, value


def test_arguments_need_a_command_in_both() -> None:
    servers: list[tuple[dict[str, Any], bool]] = [
        ({"args": []}, False),
        ({"args": [], "command": "x"}, True),
    ]
    for server, is_valid in servers:
        document = {"servers": {"a": server}}
        assert accepts_schema(USERS, document) == is_valid
        assert accepts_parser(document, is_projects=False) == is_valid


def sets_a_variable_twice(document: dict[str, Any]) -> bool:
    servers = document.get("servers")
    tables = list(servers.values()) if isinstance(servers, dict) else []
    return any(_has_twice(table) for table in [*tables, document.get("defaults")])


def _has_twice(table: Any) -> bool:
    if not isinstance(table, dict):
        return False
    env, wanted = table.get("env"), table.get("env_vars")
    asked = wanted if isinstance(wanted, list) else []
    names = [*(env if isinstance(env, dict) else ())]
    names += [one.get("name") if isinstance(one, dict) else one for one in asked]
    texts = [name for name in names if isinstance(name, str)]
    return len(texts) != len(set(texts))

"""The words after `run`: what is ours, and what is the server's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_launch.errors import UsageError
from mcp_launch.launch import options, profile

values = st.text(min_size=1).filter(lambda text: text != "--")
given_options = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(options.MAY_REPEAT), values),
        st.tuples(st.sampled_from(options.SWITCHES)),
    )
)
commands = st.lists(st.text(), min_size=1)


@given(given_options, commands)
def test_everything_behind_two_dashes_is_the_servers(
    given: list[tuple[str, ...]], command: list[str]
) -> None:
    own = [word for option in given for word in option]

    found, rest = options.split([*own, "--", *command])

    assert rest == command
    assert found == {
        option[0]: [value for name, *more in given if name == option[0] for value in more]
        for option in given
    }


@given(given_options, commands)
def test_our_own_words_end_where_the_command_begins(
    given: list[tuple[str, ...]], command: list[str]
) -> None:
    own = [word for option in given for word in option]

    assert options.list_own_words([*own, "--", *command]) == own


@pytest.mark.parametrize(
    ("words", "found", "command"),
    [
        (["server", "--strict"], {}, ["server", "--strict"]),
        (["--strict", "server"], {"--strict": []}, ["server"]),
        (["--cwd=-", "server"], {"--cwd": ["-"]}, ["server"]),
        (["--env=A=b", "--env", "C=d", "x"], {"--env": ["A=b", "C=d"]}, ["x"]),
        (["-", "x"], {}, ["-", "x"]),
        ([], {}, []),
    ],
)
def test_options_stand_before_the_command(
    words: list[str], found: dict[str, list[str]], command: list[str]
) -> None:
    assert options.split(words) == (found, command)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--cwd"], "--cwd needs a value"),
        (["--share"], "--share needs a value"),
        (["--cwd=", "x"], "--cwd needs a value"),
        (["--cwd", "--", "x"], "--cwd needs a value"),
        (["--cwd", "a", "--cwd", "b", "x"], "--cwd was given twice"),
        (["--strict=1", "x"], "--strict takes no value"),
        (["--strct", "x"], "unknown option --strct"),
    ],
)
def test_words_that_are_invalid_are_refused(words: list[str], problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        options.split(words)

    assert refused.value.problem == problem


def test_a_variable_that_says_neither_yes_nor_no_is_refused() -> None:
    with pytest.raises(UsageError, match="MCP_LAUNCH_STRICT=maybe: neither yes nor no"):
        options.read_variables({"MCP_LAUNCH_STRICT": "maybe"})


@pytest.mark.parametrize(
    ("name", "is_own"),
    [
        ("MCP_LAUNCH_CWD", True),
        ("MCP_LAUNCH_ID", True),
        ("MCP_LAUNCH_TRACE", False),
        ("MCP_LAUNCH_HOME", False),
        ("PATH", False),
    ],
)
def test_what_is_meant_for_one_launch_does_not_reach_those_below_it(
    name: str, is_own: bool
) -> None:
    assert options.is_own_variable(name) is is_own


def test_the_servers_own_trace_is_not_ours() -> None:
    assert options.is_on("--trace", ["--cwd", "keep", "--trace", "cat"], {})
    assert not options.is_on("--trace", ["--", "cat", "--trace"], {})
    assert not options.is_on("--trace", ["cat", "--trace"], {"MCP_LAUNCH_TRACE": "0"})


@pytest.mark.parametrize(
    ("words", "variable", "found"),
    [
        (["--strickt", "--on-failure", "tool", "cat"], "", "tool"),
        (["--on-failure=error", "--cwd", "--", "cat"], "tool", "error"),
        (["--nonsense", "cat"], "tool", "tool"),
        (["cat", "--on-failure", "tool"], "", ""),
        (["--", "--on-failure=tool"], "", ""),
        (["--on-failure", "nothing", "cat"], "", ""),
        (["--on-failure"], "", ""),
    ],
    ids=["beside an error", "the option first", "variable", "server's", "after", "wrong", "none"],
)
def test_an_option_can_be_read_although_others_are_invalid(
    words: list[str], variable: str, found: str
) -> None:
    environ = {"MCP_LAUNCH_ON_FAILURE": variable}

    assert options.peek("--on-failure", words, environ) == found


def test_every_option_has_an_environment_variable() -> None:
    environ = {
        "MCP_LAUNCH_SERVER": "docs",
        "MCP_LAUNCH_ENV": "A=thread,B=host",
        "MCP_LAUNCH_SET": "C=x,y=z",
        "MCP_LAUNCH_DOTENV": "a.env,b.env",
        "MCP_LAUNCH_PASS_ENV": "A,B_*",
        "MCP_LAUNCH_CWD": "keep",
        "MCP_LAUNCH_ON_CHANGE": "restart",
        "MCP_LAUNCH_MAX_SERVERS": "16",
        "MCP_LAUNCH_SHARE": "project",
        "MCP_LAUNCH_ON_FAILURE": "tool",
        "MCP_LAUNCH_WHEN_UNKNOWN": "fail",
        "MCP_LAUNCH_RESTART": "off",
        "MCP_LAUNCH_RUNNER": "keep",
        "MCP_LAUNCH_START": "called",
        "MCP_LAUNCH_REST": "10m",
        "MCP_LAUNCH_REST_ANYWAY": "1",
        "MCP_LAUNCH_NO_META": "yes",
        "MCP_LAUNCH_STRICT": "1",
        "MCP_LAUNCH_DIRECT": "true",
        "MCP_LAUNCH_NO_LOG": "on",
        "MCP_LAUNCH_CALL_TIMEOUT": "2h",
        "MCP_LAUNCH_MAX_CONCURRENT": "4",
        "MCP_LAUNCH_NO_RECORD": "1",
        "MCP_LAUNCH_RECORD_ARGUMENTS": "1",
        "MCP_LAUNCH_TRACE": "0",
        "HOME": "/nowhere",
    }

    wanted = profile.load(["cat"], environ)

    facts = {name: getattr(wanted, name) for name in profile.Profile.__slots__}
    variables = facts.pop("env")
    assert {name: one.source for name, one in variables.items()} == {"A": "thread", "B": "host"}
    assert set(facts.pop("set_by_option")) == {"C"}
    assert facts == {
        "command": ["cat"],
        "call_timeout": 7200.0,
        "max_concurrent": 4,
        "no_record": True,
        "record_arguments": True,
        "policies": {},
        "start": "called",
        "rest": 600.0,
        "rest_anyway": True,
        "server": "docs",
        "profile_name": "docs",
        "literals": {"C": "x,y=z"},
        "pass_env": ["A", "B_*"],
        "trace": False,
        "dotenv": ["a.env", "b.env"],
        "cwd": "keep",
        "cwd_origin": "MCP_LAUNCH_CWD",
        "on_change": "restart",
        "max_servers": 16,
        "share": "project",
        "on_failure": "tool",
        "when_unknown": "fail",
        "restart": "off",
        "runner": "keep",
        "no_meta": True,
        "no_log": True,
        "strict": True,
        "direct": True,
    }


@pytest.mark.parametrize("text", ["0", "65", "-1", "08", "8.0", "²", "many", "9" * 5000])
def test_another_number_of_servers_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        profile.load([f"--max-servers={text}", "cat"], {"HOME": "/nowhere"})

    options_named = "--max-servers (or MCP_LAUNCH_MAX_SERVERS)"
    assert refused.value.problem == f"{options_named} does not take {text}"
    assert refused.value.fix == "write a number from 1 to 64"


def test_a_choice_that_does_not_exist_is_refused_with_the_near_one() -> None:
    with pytest.raises(UsageError) as refused:
        profile.load(["--share", "projects", "cat"], {"HOME": "/nowhere"})

    assert refused.value.problem == "--share (or MCP_LAUNCH_SHARE) does not take projects"
    assert refused.value.fix == "did you mean project? write one of off, project"


def load_fixed(*words: str, **environ: str) -> dict[str, str]:
    return profile.load([*words, "cat"], {"HOME": "/nowhere", **environ}).literals


def test_a_fixed_value_may_be_anything_and_the_last_one_counts() -> None:
    given = load_fixed("--set", "A=b", "--set=B=--c=d", "--set", "E=", "--set", "A=last, not first")

    assert given == {"A": "last, not first", "B": "--c=d", "E": ""}
    assert load_fixed("--set", "A=b", MCP_LAUNCH_SET="A=c") == {"A": "b"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hunter2", "is not NAME=VALUE"),
        ("1A=hunter2", "is not NAME=VALUE: 1A"),
        ("=hunter2", "is not NAME=VALUE"),
        ("MCP_LAUNCH_ID=hunter2", "MCP_LAUNCH_ID .* is reserved for mcp-launch"),
        ("MCP_LAUNCH_HOME=hunter2", "is reserved"),
    ],
)
def test_a_fixed_value_that_is_invalid_is_not_repeated(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as refused:
        load_fixed("--set", text)

    assert "hunter2" not in refused.value.problem + refused.value.fix


def test_a_value_for_a_source_is_answered_with_the_option_that_takes_it() -> None:
    with pytest.raises(UsageError, match="asks for a source that does not exist") as refused:
        profile.load(["--env", "A=hunter2", "cat"], {"HOME": "/nowhere"})

    assert refused.value.fix.endswith("for a fixed value write --set A=VALUE")
    assert "hunter2" not in refused.value.problem + refused.value.fix

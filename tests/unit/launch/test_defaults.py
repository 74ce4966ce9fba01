"""`[defaults]` in the user's file, and how a wrapped entry meets its profile."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from command_line import run_command
from fakes import make_context

from mcp_launch.errors import ProfileRefused, UsageError
from mcp_launch.launch import plan, profile, profile_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def user_file(own_home: Path) -> Path:
    """Return the user's file, which is not there yet."""
    path = own_home / ".config" / "mcp-launch" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


TEXT = """
[defaults]
pass_env = "safe"
stdout = "strict"
strict = true
dotenv = "all.env"
env = { A = "all", B = "all", C = "all" }
env_vars = [{ name = "D", source = "host" }]

[servers.it]
stdout = "off"
strict = false
dotenv = "it.env"
env = { B = "it", D = "it" }
env_vars = [{ name = "C", source = "cwd" }]
"""


def test_defaults_apply_to_every_server(user_file: Path) -> None:
    write(user_file, TEXT)

    for words in ([], ["--server", "other"]):
        wanted = profile.load([*words, "--", "x"], os.environ)
        assert (wanted.pass_env, wanted.stdout, wanted.strict) == (["safe"], "strict", True)
        assert wanted.literals == {"A": "all", "B": "all", "C": "all"}
        assert (wanted.env["D"].source, wanted.dotenv) == ("host", ["all.env"])


def test_a_servers_own_table_goes_before_them(user_file: Path) -> None:
    write(user_file, TEXT)

    wanted = profile.load(["--server", "it", "--", "x"], os.environ)

    assert (wanted.pass_env, wanted.stdout, wanted.strict) == (["safe"], "off", False)
    assert wanted.literals == {"A": "all", "B": "it", "D": "it"}
    assert {name: one.source for name, one in wanted.env.items()} == {"C": "cwd"}
    assert wanted.dotenv == ["all.env", "it.env"]


def test_options_and_twins_go_before_them(user_file: Path) -> None:
    write(user_file, TEXT)
    environ = {**os.environ, "MCP_LAUNCH_STRICT": "0"}

    wanted = profile.load(["--pass-env", "all", "--", "x"], environ)

    assert (wanted.pass_env, wanted.strict) == (["all"], False)


def test_defaults_are_no_profile_of_a_server(user_file: Path) -> None:
    write(user_file, TEXT)

    with pytest.raises(UsageError, match="no profile defines the server other"):
        profile.load(["--server", "other"], os.environ)
    with pytest.raises(UsageError, match="the profile of it has no command"):
        profile.load(["--server", "it"], os.environ)


BROKEN = {
    "a command": ('[defaults]\ncommand = "x"\n', False, "2:1: `command` cannot be set for every"),
    "arguments": ("[defaults]\nargs = []\n", False, "2:1: `args` cannot be set for every server"),
    "no table": ("defaults = 1\n", False, "1:1: `defaults` must be a table"),
    "a slip": ('[defaults]\npas_env = "x"\n', False, "2:1: unknown key `pas_env` in [defaults]"),
    "a slip in the table": ("[default]\n", False, "1:1: unknown key `default`"),
    "in a project's file": ("[defaults]\n", True, "1:1: a project's file cannot have [defaults]"),
}


@pytest.mark.parametrize(("text", "is_projects", "problem"), BROKEN.values(), ids=list(BROKEN))
def test_what_is_invalid_is_reported_with_its_place(
    text: str, is_projects: bool, problem: str
) -> None:
    with pytest.raises(ProfileRefused) as refused:
        profile_file.parse(text.encode(), "/p.toml", is_projects=is_projects)

    assert refused.value.problem.startswith(f"/p.toml:{problem}")


@pytest.mark.parametrize(
    ("words", "variables", "origin"),
    [
        ([], {}, "the profile"),
        ([], {"MCP_LAUNCH_CWD": "/"}, "MCP_LAUNCH_CWD"),
        (["--cwd", "/"], {"MCP_LAUNCH_CWD": "/"}, "--cwd"),
    ],
)
def test_the_servers_directory_is_reported_with_the_place_that_names_it(
    user_file: Path, words: list[str], variables: dict[str, str], origin: str
) -> None:
    write(user_file, "[servers.it]\ncwd = '/'\n")
    environ = {"HOME": str(user_file.parents[2]), **variables}
    wanted = profile.load(["--server", "it", *words, "--", "x"], environ)

    decided = plan.decide(wanted, make_context(), environ, plan.Dotenv({}, ""))

    assert (decided.cwd.value, decided.cwd.origin) == ("/", origin)


def test_options_that_are_invalid_are_reported_and_nothing_is_written(own_home: Path) -> None:
    file = own_home / ".claude.json"
    text = json.dumps({"mcpServers": {"it": {"command": "x"}}})
    write(file, text)

    done = run_command("wrap", "--yes", "--", "--pass-env", "saef")

    assert done.returncode == 2
    assert "did you mean safe?" in done.stderr
    assert file.read_text(encoding="utf-8") == text


def test_a_slip_in_defaults_is_answered_with_the_keys_that_go_there(user_file: Path) -> None:
    with pytest.raises(ProfileRefused) as caught:
        profile_file.parse(b'[defaults]\ncomand = "x"\n', str(user_file))

    assert "the keys are cwd, env_vars" in caught.value.fix
    assert "command" not in caught.value.fix

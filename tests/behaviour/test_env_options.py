"""`env --explain --OPTION`: which value is in force, and where it comes from."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command

from mcp_launch.launch import options

if TYPE_CHECKING:
    from pathlib import Path

USER_FILE = ".config/mcp-launch/config.toml"


def explain(option: str, *words: str, **environ: str) -> Any:
    """Return the explanation of an option for a launch from here."""
    done = run_command(
        "env", "--json", "--explain", option, "--", *words, "npx", cwd=None, **environ
    )
    assert done.returncode == 0 or option == "--strict", done.stderr  # which fails from here
    return json.loads(done.stdout)["explained"]


def find(explained: Any) -> tuple[str, str]:
    """Return the value that is in force, and its place."""
    step = explained["steps"][explained["used"]]
    return step["value"], step["place"]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


@pytest.fixture(autouse=True)
def program(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a program to start, in a project."""
    assert project.is_dir()
    write(tmp_path / "bin" / "npx", "#!/bin/sh\n").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")


def test_the_layers_are_shown_in_the_order_of_precedence(own_home: Path) -> None:
    path = write(own_home / USER_FILE, '[defaults]\nrunner = "keep"\n[servers.docs]\ncwd = "."\n')
    words = ["--server", "docs"]

    assert find(explain("--runner")) == ("keep", f"[defaults] in {path}")
    assert find(explain("--runner", *words)) == ("keep", f"[defaults] in {path}")
    write(path, '[defaults]\nrunner = "keep"\n[servers.docs]\nrunner = "auto"\n')
    assert find(explain("--runner", *words)) == ("auto", str(path))
    exported = explain("--runner", *words, MCP_LAUNCH_RUNNER="keep")
    assert find(exported) == ("keep", "MCP_LAUNCH_RUNNER")
    given = explain("--runner", *words, "--runner", "auto", MCP_LAUNCH_RUNNER="keep")
    assert find(given) == ("auto", "the option --runner")
    assert [step["why"] for step in given["steps"]] == [
        "in force",
        "the option --runner takes precedence",
        "the option --runner takes precedence",
        "the option --runner takes precedence",
        "the option --runner takes precedence",
    ]


DEFAULTS = {
    "--cwd": "session",
    "--pass-env": "all",
    "--restart": "on",
    "--start": "known",
    "--rest": "off",
    "--on-change": "auto",
    "--max-servers": "8",
    "--share": "off",
}
OPTIONS = {*options.TAKE_A_VALUE, *options.SWITCHES} - {*options.MAY_REPEAT, "--server"}


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_without_any_setting_the_default_of_every_option_is_in_force(option: str) -> None:
    value, place = find(explain(option))

    assert (DEFAULTS.get(option, value), "the default") == (value, place)


def test_a_person_sees_which_one_is_in_force() -> None:
    done = run_command("env", "--explain", "--restart", "--", "--restart", "off", "npx")

    assert done.stdout.splitlines() == [
        "> the option --restart: off (in force)",
        "  MCP_LAUNCH_RESTART: it is not set",
        "  the default: on (the option --restart takes precedence)",
    ]
    assert done.returncode == 0


def test_a_switch_is_on_or_off(own_home: Path) -> None:
    switch, key, variable = "--no-meta", "no_meta", "MCP_LAUNCH_NO_META"

    assert find(explain(switch)) == ("off", "the default")
    assert find(explain(switch, switch)) == ("on", f"the option {switch}")
    path = write(own_home / USER_FILE, f"[defaults]\n{key} = true\n[servers.a]\n{key} = false\n")
    assert find(explain(switch)) == ("on", f"[defaults] in {path}")
    assert find(explain(switch, "--server", "a")) == ("off", str(path))
    exported = explain(switch, "--server", "a", **{variable: "1"})
    assert find(exported) == ("on", variable)
    assert find(explain(switch, **{variable: "no"})) == ("off", variable)


@pytest.mark.parametrize(
    ("option", "problem"),
    [("--strct", "did you mean --strict?"), ("--env", "--env has no single value")],
)
def test_an_option_that_cannot_be_explained_is_refused(option: str, problem: str) -> None:
    done = run_command("env", "--explain", option)

    assert done.returncode == 2
    assert problem in done.stderr
    assert done.stdout == ""


def test_which_sessions_share_a_server_is_shown_with_the_origin(own_home: Path) -> None:
    path = write(own_home / USER_FILE, '[servers.docs]\nshare = "project"\n')

    done = run_command("env", "--json", "--", "--server", "docs", "npx")

    assert json.loads(done.stdout)["frame"]["share"] == {"value": "project", "origin": str(path)}


def test_a_server_that_cannot_be_shared_is_a_problem_and_everything_else_is_shown(
    own_home: Path,
) -> None:
    write(own_home / USER_FILE, '[defaults]\nshare = "project"\n')

    done = run_command("env", "--json", "--", "--env", "ID=launch", "npx")

    told = json.loads(done.stdout)
    assert done.returncode == 1
    [problem] = told["problems"]
    assert "ID (source launch)" in problem["problem"]
    assert told["frame"]["program"]["value"]
    assert "ID" in [one["name"] for one in told["variables"]]

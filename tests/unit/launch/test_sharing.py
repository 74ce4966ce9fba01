"""Which servers `--share` refuses to share, and what it says; which launches share one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from fakes import make_context

from mcp_launch.errors import UsageError
from mcp_launch.launch import plan, profile, sharing
from mcp_launch.launch.options import SOURCES

if TYPE_CHECKING:
    from pathlib import Path

SHARE = ("--share", "project")

OF_ALL = [one for one in SOURCES if one not in {"session", "thread", "host_pid", "launch"}]


def check(*words: str) -> None:
    sharing.check(profile.load([*words, "cat"], {"HOME": "/nowhere"}))


def refuse(*words: str) -> UsageError:
    with pytest.raises(UsageError) as refused:
        check(*SHARE, *words)
    return refused.value


@pytest.mark.parametrize(
    "words",
    [["--direct"], ["--env", "A=session"], ["--on-change", "isolate"], ["--on-change", "restart"]],
    ids=" ".join,
)
def test_nothing_is_refused_unless_a_server_is_shared(words: list[str]) -> None:
    check(*words)
    check("--share", "off", *words)


@pytest.mark.parametrize(
    "words",
    [
        *(["--env", f"A={source}"] for source in OF_ALL),
        ["--on-change", "follow", "--start", "called", "--rest", "10m"],
        ["--on-change", "refuse"],
    ],
    ids=" ".join,
)
def test_a_server_that_is_the_same_for_all_sessions_can_be_shared(words: list[str]) -> None:
    check(*SHARE, *words)


def test_a_server_that_is_connected_directly_is_not_shared() -> None:
    error = refuse("--direct")

    assert error.problem == (
        "--share project cannot be combined with --direct: a server that is connected to its host "
        "directly cannot be shared"
    )
    assert error.fix == "remove --direct, or write --share off"


@pytest.mark.parametrize(
    ("on_change", "why"),
    [
        ("isolate", "one gives several sessions the same server, the other each its own"),
        ("restart", "a new server for one session would end the one that the others use"),
    ],
)
def test_a_server_is_not_both_shared_and_replaced(on_change: str, why: str) -> None:
    error = refuse("--on-change", on_change)

    assert (
        error.problem == f"--share project cannot be combined with --on-change {on_change}: {why}"
    )
    assert error.fix == f"remove --on-change {on_change}, or write --share off"


@pytest.mark.parametrize("source", ["session", "thread", "host_pid", "launch"])
def test_a_variable_of_one_session_is_not_shared(source: str) -> None:
    error = refuse("--env", "ROOT=project_root", "--env", f"ID={source}", "--env", "B=session")

    named = f"the variable ID (source {source})"
    assert error.problem.startswith(f"--share project cannot be combined with {named}: it differs")
    assert error.fix == f"remove {named}, or write --share off"


def test_a_variable_that_has_a_fixed_value_instead_can_be_shared() -> None:
    check(*SHARE, "--env", "A=session", "--set", "A=x")


def describe(
    home: Path, environ: dict[str, str], *words: str, dotenv: dict[str, str | None] | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the name of a launch's pool, and the environment of its server."""
    own = {"HOME": str(home), **environ}
    wanted, context = profile.load([*SHARE, *words, "cat"], own), make_context()
    started = plan.decide(wanted, context, own, plan.Dotenv(dotenv or {}, "file"), lambda _: True)
    stem, job = sharing.describe(wanted, context, started, own, [])
    return stem, json.loads(job)["environ"]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"CLAUDE_CODE_ENTRYPOINT": "cli"}, {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}),
        ({"PATH": "/a/codex-path:/bin"}, {"PATH": "/b/codex-path:/a/codex-path:/bin"}),
        ({"PATH": "/a/codex-arg0kZqCny:/bin"}, {"PATH": "/bin"}),
        ({"TERM": "xterm", "SHLVL": "1"}, {"TERM": "tmux", "TMUX": "x", "SSH_TTY": "y"}),
        ({"XDG_SESSION_PATH": "/a/Session1"}, {"XDG_SESSION_PATH": "/a/Session2"}),
    ],
    ids=[
        "Claude Code in a terminal and for one turn",
        "Codex and its daemon",
        "Codex with and without a directory of its own",
        "two terminals",
        "two logins",
    ],
)
def test_sessions_share_a_server_however_their_host_was_started(
    tmp_path: Path, one: dict[str, str], two: dict[str, str]
) -> None:
    path = {"PATH": "/bin"}

    pools = [describe(tmp_path, path | environ)[0] for environ in (one, two, {"A": "1"})]

    assert pools[0] == pools[1] != pools[2]


def test_a_shared_server_gets_how_its_host_was_started_only_if_asked(
    tmp_path: Path,
) -> None:
    environ = {"PATH": "/codex-path:/bin", "CLAUDE_CODE_ENTRYPOINT": "cli"}
    asked_for = ["--set", "CLAUDE_CODE_ENTRYPOINT=x"]
    _, given = describe(tmp_path, environ)
    assert "CLAUDE_CODE_ENTRYPOINT" not in given
    assert given["PATH"] == "/codex-path:/bin"

    pools = {describe(tmp_path, environ, *words)[0] for words in ([], asked_for)}

    assert len(pools) == 2
    assert describe(tmp_path, environ, *asked_for)[1]["CLAUDE_CODE_ENTRYPOINT"] == "x"


@pytest.mark.parametrize("name", ["SSH_HOST", "SSH_PASSWORD", "WARP_API_KEY", "SYSTEMD_UNIT"])
def test_variables_of_the_server_are_not_taken_for_those_of_a_terminal(
    tmp_path: Path, name: str
) -> None:
    pools = {describe(tmp_path, {"PATH": "/bin", name: value})[0] for value in ("one", "two")}

    assert len(pools) == 2


@pytest.mark.parametrize("name", ["A", "TERM", "SSH_TTY", "KITTY_PID"])
def test_what_a_user_sets_for_the_server_counts_whatever_its_name_is(
    tmp_path: Path, name: str
) -> None:
    environ = {"PATH": "/bin"}
    pools = {describe(tmp_path, environ, "--set", f"{name}={value}")[0] for value in "ab"}
    from_file = ["--env", f"{name}=dotenv"]
    pools |= {describe(tmp_path, environ, *from_file, dotenv={name: value})[0] for value in "xy"}

    assert len(pools) == 4


@pytest.mark.parametrize("name", ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY"])
def test_sessions_of_two_logins_do_not_share_what_ends_with_one(tmp_path: Path, name: str) -> None:
    pools = {describe(tmp_path, {"A": "1", name: value})[0] for value in ("one", "two")}

    assert len(pools) == 2

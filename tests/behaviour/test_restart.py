"""`mcp-launch restart`: which servers it means, and what it says about each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from command_line import Done, run_command
from made_up_launches import MadeUpLaunches, make_binding, record

if TYPE_CHECKING:
    from pathlib import Path

THREADS = ("01a1ec36-aed9-72a2-bd8e-5e131a00bd48", "01a1ec36-b512-7410-8a9e-43ba0e7e5e1f")


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUpLaunches:
    """Return `docs` in two threads of Codex, and `files` in one of them."""
    made_up = MadeUpLaunches(tmp_path / "state", monkeypatch)
    host = made_up.start("codex")
    for launch, server, thread in (
        ("l-1", "docs", THREADS[0]),
        ("l-2", "docs", THREADS[1]),
        ("l-3", "files", THREADS[1]),
    ):
        launcher = made_up.start("mcp-launch", host)
        processes = {"launcher": record(launcher), "host": record(host)}
        processes |= made_up.start_server(launcher)
        made_up.write_lease(launch, processes, server=server, binding=make_binding(thread))
    return made_up


def restart(made_up: MadeUpLaunches, *words: str) -> Done:
    home = str(made_up.state)
    return run_command("restart", *words, table=made_up.table, MCP_LAUNCH_HOME=home)


def list_chosen(made_up: MadeUpLaunches, *words: str) -> list[Any]:
    servers = json.loads(restart(made_up, *words, "--json").stdout)["servers"]
    return [one["launch"] for one in servers]


@pytest.mark.parametrize(
    ("words", "launches"),
    [
        (["docs"], ["l-1", "l-2"]),
        (["docs", "files", "docs"], ["l-1", "l-2", "l-3"]),
        (["--all"], ["l-1", "l-2", "l-3"]),
        (["docs", "--session", THREADS[1]], ["l-2"]),
        (["docs", "--session", "01a1ec36"], ["l-1", "l-2"]),
        (["--all", "--host", "codex"], ["l-1", "l-2", "l-3"]),
    ],
    ids=["a name", "names", "all", "a session", "the beginning of an id", "a host"],
)
def test_the_servers_that_are_meant_are_restarted(
    words: list[str], launches: list[str], made_up: MadeUpLaunches
) -> None:
    assert list_chosen(made_up, *words) == launches


def test_servers_of_one_launch_are_restarted_together(made_up: MadeUpLaunches) -> None:
    host, launcher = made_up.start("codex"), made_up.start("mcp-launch")
    backends = [
        {"name": name, "state": "running", "binding": make_binding(name)}
        | {"processes": made_up.start_server(launcher)}
        for name in ("server", "server-2")
    ]
    processes = {"launcher": record(launcher), "host": record(host)}
    made_up.write_lease("l-4", processes, server="both", backends=backends)

    done = restart(made_up, "both", "--session", "server-2", "--json")

    servers = json.loads(done.stdout)["servers"]
    assert [(one["thread"], one["is_asked_for"]) for one in servers] == [
        ("server-2", True),
        ("server", False),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dosc"], "no server called dosc runs\n"),
        (["dosc"], "did you mean docs? "),
        (["dosc", "--session", "01a1"], "no server called dosc runs there"),
        (["files", "--session", THREADS[0]], "its sessions: 01a1ec36"),
        (["docs", "--host", "claude"], "docs runs, but not in claude; it runs in codex"),
        (["--all", "--host", "claude"], "no server of mcp-launch runs there"),
        (["--all", "docs"], "--all and names of servers cannot be combined"),
        ([], "which server is to be restarted?"),
    ],
    ids=["a wrong name", "the nearest", "there", "a session", "a host", "none", "both", "nothing"],
)
def test_what_cannot_be_meant_is_refused_with_what_can(
    words: list[str], said: str, made_up: MadeUpLaunches
) -> None:
    done = restart(made_up, *words)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_each_server_that_is_not_restarted_has_a_reason_and_a_fix(made_up: MadeUpLaunches) -> None:
    done = restart(made_up, "docs")

    assert done.returncode == 1
    first, fix, second, _ = done.stdout.splitlines()
    # Threads that began in the same minute can be told apart.
    assert first.startswith("docs (Codex, thread 01a1ec36-aed9): not restarted: ")
    assert second.startswith("docs (Codex, thread 01a1ec36-b512): not restarted: ")
    assert fix.startswith("  fix: ")
    assert fix.endswith("; see also mcp-launch logs docs")

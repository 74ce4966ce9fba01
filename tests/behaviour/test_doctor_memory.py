"""What `doctor` says of servers that nobody calls, and of those that sessions could share."""

from __future__ import annotations

import json
import shlex
import time
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from doctor_runs import install
from git_repository import track
from made_up_launches import MadeUpLaunches, make_binding, record

from mcp_launch.system import linux

if TYPE_CHECKING:
    from doctor_runs import Doctor

HOUR_AGO = 3600.0

START = "start them with their first call: mcp-launch wrap docs -- --start called"
REST = (
    "end them when they are idle, until the next call: mcp-launch wrap docs -- --rest 10m "
    "(not for a server that keeps something in memory between calls: it would be lost)"
)
SHARE = "mcp-launch wrap docs -- --share project"


@pytest.fixture
def made_up(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> MadeUpLaunches:
    """Return made-up launches on a machine on which docs is a wrapped server of Codex."""
    made_up = MadeUpLaunches(doctor.machine.home / ".local/state/mcp-launch", monkeypatch)
    doctor.machine.table = made_up.table
    monkeypatch.setattr(linux, "measure_swapped", lambda _: 0)
    install(doctor.machine, "~/bin/mcp-launch")
    configure(doctor)
    return made_up


def configure(doctor: Doctor, *options: str, path: str = "~/.codex/config.toml") -> None:
    args = json.dumps(["run", "--server", "docs", *options, "--", "sh"])
    doctor.machine.write(path, f'[mcp_servers.docs]\ncommand = "mcp-launch"\nargs = {args}\n')


def launch(made_up: MadeUpLaunches, megabytes: int, **facts: Any) -> int:
    """Add a launch in ~/shop; return its launcher."""
    host = made_up.start("codex")
    launcher = made_up.start("mcp-launch", host, 15)
    parts = {"launcher": record(launcher), "host": record(host)}
    context = {"host": {"value": "codex"}, "cwd": {"value": f"{made_up.state.parents[2]}/shop"}}
    usual = {"mark": "0a1b", "context": context, "calls": 0, "wire": "guarded"}
    server = made_up.start_server(launcher, megabytes)
    made_up.write_lease(f"l-{launcher}", parts | server, **(usual | facts))
    return launcher


def find(doctor: Doctor, *words: str) -> list[dict[str, Any]]:
    return doctor.find("--select", "ML409", *words)


# Idle servers.


def test_both_kinds_are_added_up_and_get_a_fix_each(
    doctor: Doctor, made_up: MadeUpLaunches
) -> None:
    for megabytes in (300, 200):
        launch(made_up, megabytes)
    launch(made_up, 100, server="git", calls=2, last_call=time.time() - HOUR_AGO)

    [finding] = find(doctor)

    assert finding["message"].startswith("3 servers not called in the last 10 minutes take 606 MB")
    assert finding["message"].endswith(": docs 504 MB (2 servers), git 102 MB")
    first, second = finding["fix"].split("; end them")
    assert first == START
    own = f"{doctor.machine.home}/.config/mcp-launch/config.toml"
    assert f'write rest = "10m" under [servers.git] in {own}' in second


@pytest.mark.parametrize(
    ("megabytes", "age", "facts"),
    [
        (400, HOUR_AGO, {}),
        (600, 30.0, {}),
        (600, HOUR_AGO, {"calls": 1, "last_call": time.time()}),
        (600, HOUR_AGO, {"wire": "direct"}),
    ],
    ids=["little", "just started", "just called", "calls are not seen"],
)
def test_servers_that_may_be_in_use_are_not_mentioned(
    megabytes: int, age: float, facts: dict[str, Any], doctor: Doctor, made_up: MadeUpLaunches
) -> None:
    made_up.table.age = age
    launch(made_up, megabytes, **facts)

    assert find(doctor) == []


@pytest.mark.parametrize("state", ["not started", "resting"])
def test_a_server_that_does_not_run_takes_nothing(
    state: str, doctor: Doctor, made_up: MadeUpLaunches
) -> None:
    host = made_up.start("codex")
    launcher = made_up.start("mcp-launch", host, 600)
    parts = {"launcher": record(launcher), "host": record(host)}
    made_up.write_lease("l-1", parts, state=state, wire="guarded")

    assert find(doctor) == []


@pytest.mark.parametrize(
    ("options", "calls", "is_found"),
    [
        (["--start", "called"], 0, False),
        (["--rest", "10m"], 0, False),
        (["--start", "now", "--rest", "off"], 0, True),
        (["--start", "called"], 3, True),
        (["--rest", "1h"], 3, False),
    ],
)
def test_a_server_that_has_the_remedy_is_not_mentioned(
    options: list[str], calls: int, is_found: bool, doctor: Doctor, made_up: MadeUpLaunches
) -> None:
    """It was started before that, or something keeps it awake."""
    configure(doctor, *options)
    launch(made_up, 600, calls=calls, last_call=time.time() - HOUR_AGO if calls else None)

    assert bool(find(doctor)) == is_found


def test_an_entry_that_others_share_is_left_alone(doctor: Doctor, made_up: MadeUpLaunches) -> None:
    own = doctor.machine.home / ".codex/config.toml"
    own.write_text(f'[projects."{doctor.machine.project}"]\ntrust_level = "trusted"\n', "utf-8")
    (doctor.machine.project / ".git").rmdir()
    track(doctor.machine.project, ".codex/config.toml")
    configure(doctor, path=".codex/config.toml")
    launch(made_up, 600)

    assert 'write start = "called" under [servers.docs] in ' in find(doctor)[0]["fix"]
    text = '[servers.docs]\nstart = "called"\n'
    doctor.machine.write("~/.config/mcp-launch/config.toml", text).chmod(0o600)
    assert find(doctor) == []


@pytest.mark.parametrize("calls", [0, 3], ids=["never called", "called"])
def test_an_idle_server_is_named_with_the_command_that_saves_its_memory(
    calls: int, doctor: Doctor, made_up: MadeUpLaunches, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Keeper and guardian count, the launcher does not: it stays.
    monkeypatch.setattr(linux, "measure_swapped", lambda _: 200_000_000)
    launch(made_up, 10, calls=calls, last_call=time.time() - HOUR_AGO if calls else None)
    [finding] = find(doctor)
    assert (finding["level"], finding["fix"]) == ("note", REST if calls else START)
    assert finding["message"] == (
        "1 server not called in the last 10 minutes takes 612 MB: docs 612 MB"
    )
    program, *words = shlex.split(finding["fix"].partition(": ")[2].partition(" (")[0])

    done = run_command(words[0], "--yes", *words[1:], cwd=doctor.machine.project)

    assert (program, done.returncode) == ("mcp-launch", 0), done.stderr
    assert find(doctor) == []


def test_only_the_hosts_that_were_asked_about_count(
    doctor: Doctor, made_up: MadeUpLaunches
) -> None:
    launch(made_up, 600)

    assert find(doctor, "--host", "claude") == []
    assert find(doctor, "--host", "codex") != []


# Servers that sessions could share.


@pytest.mark.parametrize(
    ("eras", "beginning"),
    [
        (("2026", "2026", "2026"), f"let them share one, which its protocol allows: {SHARE}"),
        (
            ("2025", "2026", "2025"),
            f"if it keeps no state for each client, let them share one: {SHARE} (",
        ),
    ],
    ids=["its protocol allows it", "one connection is of an earlier protocol"],
)
def test_sessions_that_could_share_a_server_are_told_what_that_saves(
    eras: tuple[str, ...], beginning: str, doctor: Doctor, made_up: MadeUpLaunches
) -> None:
    for megabytes, era in zip((40, 50, 45), eras, strict=True):
        launch(made_up, megabytes, shareable=era)

    [finding] = find(doctor)

    # Two of the three, with keeper and guardian: all but the largest.
    assert finding["message"] == (
        "3 sessions in ~/shop each run their own docs: one shared server would save about 89 MB"
    )
    assert finding["fix"].startswith(beginning)


@pytest.mark.parametrize(
    "option",
    [["--share", "project"], ["--env", "ID=session"], ["--on-change", "isolate"]],
    ids=["shared from now on", "asks for its session", "one for each session"],
)
def test_a_server_whose_settings_have_decided_about_it_is_not_counted(
    option: list[str], doctor: Doctor, made_up: MadeUpLaunches
) -> None:
    configure(doctor, *option)
    for _ in range(2):
        launch(made_up, 40, shareable="2025")

    assert find(doctor) == []


ELSEWHERE = {"host": {"value": "codex"}, "cwd": {"value": "/work/blog"}}


@pytest.mark.parametrize(
    "other",
    [
        {"mark": "ffff"},
        {"context": ELSEWHERE},
        {"shareable": None},
        {"shareable": ""},
        {"shareable": "2031"},
        {"shared": {"pool": record(7), "key": "5f3a", "sessions": 1}},
        {"backends": [{"name": "server"}, {"name": "server-2", "processes": {}}]},
    ],
    ids=[
        *("another command", "another directory", "something speaks against it", "never"),
        *("a later version's word", "shared already", "a server for each session"),
    ],
)
def test_servers_that_cannot_be_shared_are_not_counted(
    other: dict[str, Any], doctor: Doctor, made_up: MadeUpLaunches
) -> None:
    launch(made_up, 40, shareable="2025")
    launch(made_up, 40, **({"shareable": "2025"} | other))
    launch(made_up, 10, shareable="2025")  # which saves too little

    assert find(doctor) == []


# Servers that are shared, and several of one launch.


def share(made_up: MadeUpLaunches, *last_calls: float) -> None:
    """Add launches that share a server of 600 MB, which was started for another session."""
    pool = made_up.start("mcp-launch", 1)
    parts = {"pool": record(pool), **made_up.start_server(pool, 600)}
    made_up.table.variables[parts["server"]["pid"]] = {"MCP_LAUNCH_THREAD_ID": "t-9"}
    for at, last_call in enumerate(last_calls):
        host = made_up.start("codex")
        launcher = made_up.start("mcp-launch", host)
        made_up.write_lease(
            f"l-{at}",
            {"launcher": record(launcher), "host": record(host), "server": parts["server"]},
            shared={"pool": parts["pool"], "key": "5f3a", "sessions": len(last_calls)},
            binding=make_binding(f"t-{at}"),
            calls=1,
            last_call=last_call,
        )


def test_a_shared_server_counts_once_and_is_idle_when_no_session_calls_it(
    doctor: Doctor, made_up: MadeUpLaunches
) -> None:
    now = time.time()
    share(made_up, now - HOUR_AGO, now - HOUR_AGO)
    [finding] = find(doctor)
    assert finding["message"].endswith("takes 612 MB: docs 612 MB")
    assert doctor.list_codes("--select", "ML4") == ["ML409"]

    share(made_up, now - HOUR_AGO, now)
    assert find(doctor) == []


def test_a_server_for_each_session_is_one_instance_for_its_host(
    doctor: Doctor, made_up: MadeUpLaunches
) -> None:
    """Otherwise they would seem to be left from earlier sessions."""
    host = made_up.start("claude")
    launcher = made_up.start("mcp-launch", host)
    servers = [made_up.start_server(launcher) for _ in range(3)]
    backends = [
        {"name": name, "processes": parts, "state": "running", "binding": make_binding(name)}
        for name, parts in zip(("server", "server-2", "server-3"), servers, strict=True)
    ]
    parts = {"launcher": record(launcher), "host": record(host)}
    context = {"host": {"value": "claude"}}
    made_up.write_lease("l-1", parts | servers[0], backends=backends, context=context)
    assert doctor.list_codes("--select", "ML4") == []

    other = made_up.start("mcp-launch", host)
    parts = {"launcher": record(other), "host": record(host)}
    made_up.write_lease("l-2", parts | made_up.start_server(other), context=context)
    assert doctor.list_codes("--select", "ML4") == ["ML402"]

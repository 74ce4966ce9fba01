"""What the doctor says of servers that sessions could share, and of those that they do share."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from fake_machine import list_codes
from made_up_launches import MadeUpLaunches, make_binding, record
from mcp_launch.doctor.checks import idle_servers, processes

from mcp_launch.machine import units

if TYPE_CHECKING:
    from fake_machine import FakeMachine
    from mcp_launch.doctor.finding import Finding

SHARE = "mcp-launch wrap docs -- --share project"


@pytest.fixture
def made_up(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> MadeUpLaunches:
    """Return made-up launches on a machine on which docs is a wrapped server of Codex."""
    made_up = MadeUpLaunches(machine.home / ".local/state/mcp-launch", monkeypatch)
    machine.table = made_up.table
    monkeypatch.setattr(units, "measure_swapped", lambda _: 0)
    args = json.dumps(["run", "--server", "docs", "--", "npx", "docs-server"])
    entry = f'[mcp_servers.docs]\ncommand = "/opt/mcp-launch"\nargs = {args}\n'
    machine.write("~/.codex/config.toml", entry)
    return made_up


def launch(made_up: MadeUpLaunches, megabytes: int, host: int = 0, **facts: Any) -> int:
    """Add a launch in ~/shop whose server could be shared; return its launcher."""
    host = host or made_up.start("codex")
    launcher = made_up.start("mcp-launch", host, 15)
    parts = {"launcher": record(launcher), "host": record(host)}
    home = made_up.state.parents[2]
    context = {"host": {"value": "codex"}, "cwd": {"value": f"{home}/shop"}}
    usual = {"mark": "0a1b", "shareable": "2025", "context": context}
    server = made_up.start_server(launcher, megabytes)
    made_up.write_lease(f"l-{launcher}", parts | server, **(usual | facts))
    return launcher


def check(machine: FakeMachine, code: str = "ML411", *only: str) -> list[Finding]:
    return [one for one in processes.check(machine.survey(*only)) if one.code == code]


def test_sessions_that_could_share_a_server_are_told_what_that_saves(
    machine: FakeMachine, made_up: MadeUpLaunches
) -> None:
    for megabytes in (40, 50, 45):
        launch(made_up, megabytes)

    (finding,) = check(machine)

    assert finding.level == "note"
    # Two of the three, with keeper and guardian: all but the largest.
    assert finding.message == (
        "3 sessions in ~/shop each run their own docs: one shared server would save about 89 MB"
    )
    assert finding.fix == (
        f"if it keeps no state for each client, let them share one: {SHARE} "
        "(nothing seen so far speaks against it, but only you can know)"
    )


def test_a_protocol_that_allows_it_is_named(machine: FakeMachine, made_up: MadeUpLaunches) -> None:
    for _ in range(2):
        launch(made_up, 40, shareable="2026")

    (finding,) = check(machine)

    assert finding.fix == f"let them share one, which its protocol allows: {SHARE}"


def test_one_connection_of_an_earlier_protocol_is_enough_for_doubt(
    machine: FakeMachine, made_up: MadeUpLaunches
) -> None:
    launch(made_up, 40, shareable="2026")
    launch(made_up, 40)

    (finding,) = check(machine)

    assert finding.fix.startswith("if it keeps no state for each client")


def test_a_server_whose_entry_is_elsewhere_can_have_a_profile(
    machine: FakeMachine, made_up: MadeUpLaunches
) -> None:
    (machine.home / ".codex" / "config.toml").unlink()
    for _ in range(2):
        launch(made_up, 40, shareable="2026")

    (finding,) = check(machine)

    assert finding.fix.endswith(
        f'write share = "project" under [servers.docs] in '
        f"{machine.home}/.config/mcp-launch/config.toml"
    )


@pytest.mark.parametrize(
    "option",
    [["--share", "project"], ["--env", "ID=session"], ["--on-change", "isolate"]],
    ids=["shared from now on", "asks for its session", "one for each session"],
)
def test_a_server_whose_settings_have_decided_about_it_is_not_counted(
    machine: FakeMachine, made_up: MadeUpLaunches, option: list[str]
) -> None:
    args = json.dumps(["run", "--server", "docs", *option, "--", "npx", "docs-server"])
    entry = f'[mcp_servers.docs]\ncommand = "/opt/mcp-launch"\nargs = {args}\n'
    machine.write("~/.codex/config.toml", entry)
    for _ in range(2):
        launch(made_up, 40)

    assert check(machine) == []


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
    other: dict[str, Any], machine: FakeMachine, made_up: MadeUpLaunches
) -> None:
    launch(made_up, 40)
    launch(made_up, 40, **other)

    assert check(machine) == []


def test_what_saves_little_is_not_mentioned(machine: FakeMachine, made_up: MadeUpLaunches) -> None:
    for megabytes in (500, 10):
        launch(made_up, megabytes)

    assert check(machine) == []


def test_only_the_hosts_that_were_asked_about_count(
    machine: FakeMachine, made_up: MadeUpLaunches
) -> None:
    for _ in range(2):
        launch(made_up, 40)

    assert check(machine, "ML411", "claude") == []
    assert check(machine, "ML411", "codex") != []


# Servers of one launch, and servers that are shared


def test_a_server_for_each_session_is_one_instance_for_its_host(
    machine: FakeMachine, made_up: MadeUpLaunches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise they would seem to be left from earlier sessions."""
    monkeypatch.setattr(processes, "_count_expected", lambda *_: 1)
    host = made_up.start("codex")
    launcher = made_up.start("mcp-launch", host)
    servers = [made_up.start_server(launcher) for _ in range(3)]
    backends = [
        {"name": name, "processes": parts, "state": "running", "binding": make_binding(name)}
        for name, parts in zip(("server", "server-2", "server-3"), servers, strict=True)
    ]
    parts = {"launcher": record(launcher), "host": record(host)}
    made_up.write_lease("l-1", parts | servers[0], backends=backends)

    assert len(machine.survey().census.hosts[0].servers) == 3
    assert list_codes(processes.check(machine.survey())) == []

    launch(made_up, 10, host)
    assert list_codes(processes.check(machine.survey())) == ["ML402"]


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


def test_a_shared_server_that_nobody_calls_counts_once_as_idle(
    machine: FakeMachine, made_up: MadeUpLaunches
) -> None:
    long_ago = time.time() - idle_servers.IDLE_AFTER - 60
    share(made_up, long_ago, long_ago)

    (finding,) = check(machine, "ML409")

    assert finding.message == (
        "1 server not called in the last 10 minutes takes 612 MB: docs 612 MB"
    )


def test_a_shared_server_is_not_idle_while_one_session_calls_it(
    machine: FakeMachine, made_up: MadeUpLaunches
) -> None:
    now = time.time()
    share(made_up, now - idle_servers.IDLE_AFTER - 60, now)

    assert check(machine, "ML409") == []


def test_a_shared_server_may_have_been_started_for_another_session(
    machine: FakeMachine, made_up: MadeUpLaunches
) -> None:
    share(made_up, time.time(), time.time())

    assert check(machine, "ML405") == []

"""Launches that have a server for each session, and launches that share one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from made_up_launches import MadeUpLaunches, make_binding, record

from mcp_launch.machine import end_server, process_snapshot, running, server_pools
from mcp_launch.machine.pipe_ends import End

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.machine.process_snapshot import Server
    from mcp_launch.machine.running import Census


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUpLaunches:
    return MadeUpLaunches(tmp_path / "state", monkeypatch)


@pytest.fixture
def closed_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nobody at the other ends of any stdin and stdout."""
    gone = (End("gone"), End("gone"))
    monkeypatch.setattr(process_snapshot.Population, "look_at_ends", lambda *_: gone)


def list_all(census: Census) -> list[Server]:
    return [server for host in census.hosts for server in host.servers]


def ps(made_up: MadeUpLaunches, *words: str) -> str:
    done = run_command("ps", *words, table=made_up.table, MCP_LAUNCH_HOME=str(made_up.state))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def show(made_up: MadeUpLaunches, *words: str) -> list[str]:
    return ps(made_up, *words).splitlines()[1:]  # without the names of the columns


# A server for each session


def isolate(made_up: MadeUpLaunches) -> dict[str, int]:
    """Write the lease of a launch with two servers that run and one that rests."""
    host = made_up.start("codex")
    launcher = made_up.start("mcp-launch", host, 15)
    first, second = made_up.start_server(launcher, 40), made_up.start_server(launcher, 70)
    made_up.write_lease(
        "l-1",
        {"launcher": record(launcher), "host": record(host), **first},
        binding=make_binding("t-1"),
        calls=9,
        refusals=1,
        backends=[
            {"name": "server", "state": "running", "calls": 5, "binding": make_binding("t-1")}
            | {"processes": first},
            {"name": "server-2", "state": "running", "calls": 3, "binding": make_binding("t-2")}
            | {"processes": second, "context": {"cwd": {"value": "/work/shop"}}},
            {"name": "server-3", "state": "resting", "calls": 1, "binding": make_binding("t-3")}
            | {"processes": {}, "saved": 50_000_000},
        ],
    )
    pids = {"host": host, "launcher": launcher}
    return pids | {"first": first["server"]["pid"], "second": second["server"]["pid"]}


def test_every_server_of_a_launch_is_below_its_own_session(made_up: MadeUpLaunches) -> None:
    pids = isolate(made_up)
    census = made_up.take()

    (host,) = census.hosts
    assert [session.thread for session in host.sessions] == ["t-1", "t-2", "t-3"]
    first, second, third = host.servers
    assert [one.pid for one in host.servers] == [pids["first"], pids["second"], pids["launcher"]]
    assert {one.launcher for one in host.servers} == {pids["launcher"]}
    assert third.is_absent
    assert host.saved == 50_000_000
    # Each process is counted with one of the servers.
    assert [one.memory.amount // 1_000_000 for one in host.servers] == [57, 72, 0]
    assert host.memory.amount == 129_000_000
    assert pids["launcher"] in first.processes
    assert not set(first.processes) & set(second.processes)
    assert third.processes == ()

    assert [" ".join(line.split()) for line in show(made_up)[2::2]] == [
        f"docs {pids['first']} 1h 57 MB 5 - running, 1 refusal",
        f"docs {pids['second']} 1h 72 MB 3 - running",
        "docs - - - 1 - resting, saves 50 MB",
    ]
    said = "      server-2 of this launch (one per session)"
    assert said in show(made_up, "-v")

    (data,) = json.loads(ps(made_up, "--json"))["hosts"]
    servers = [server for session in data["sessions"] for server in session["servers"]]
    assert [one["launch"]["backend"] for one in servers] == ["server", "server-2", "server-3"]
    assert {one["launch"]["id"] for one in servers} == {"l-1"}
    assert {one["shared"] for one in servers} == {None}


def test_a_server_that_outlives_its_launcher_is_listed_alone(made_up: MadeUpLaunches) -> None:
    pids = isolate(made_up)
    first = made_up.table.look(pids["first"])
    guardian = made_up.table.look(first.parent)
    made_up.end(pids["launcher"], pids["first"], first.parent, guardian.parent)

    (server,) = list_all(made_up.take())

    assert server.pid == pids["second"]


@pytest.mark.usefixtures("closed_pipes")
def test_a_launch_without_a_host_is_one_orphan_with_all_its_processes(
    made_up: MadeUpLaunches,
) -> None:
    """Ending its launcher ends all of them."""
    pids = isolate(made_up)
    made_up.end(pids["host"])
    made_up.table.add(pids["launcher"], "mcp-launch", 1)

    census = made_up.take()

    (orphan,) = census.ownerless
    assert census.hosts == []
    assert orphan.pid == pids["first"]
    assert {pids["launcher"], pids["first"], pids["second"]} <= set(orphan.processes)
    assert len(orphan.roots) == 7


@pytest.mark.parametrize("damaged", ["nonsense", {"name": "server-2"}, {"processes": 3}, None])
def test_a_damaged_server_does_not_hide_the_others(
    damaged: object, made_up: MadeUpLaunches
) -> None:
    host = made_up.start("codex")
    launcher = made_up.start("mcp-launch", host)
    parts = made_up.start_server(launcher)
    processes = {"launcher": record(launcher), "host": record(host), **parts}
    made_up.write_lease("l-1", processes, backends=[{"processes": parts}, damaged])

    (server,) = list_all(made_up.take())

    assert server.pid == parts["server"]["pid"]


# A shared server


def start_pool(made_up: MadeUpLaunches, parent: int = 1) -> dict[str, Any]:
    """Add the processes of a pool, with a server of 80 MB; return their records."""
    pool = made_up.start("mcp-launch", parent, 20)
    made_up.table.argv[pool] = ["mcp-launch", "run", "--server", "docs", "--", "docs-server"]
    return {"pool": record(pool), **made_up.start_server(pool, 80)}


def use(made_up: MadeUpLaunches, parts: dict[str, Any], thread: str, host: int) -> int:
    """Add a launch that uses a pool; return its launcher."""
    launcher = made_up.start("mcp-launch", host, 5)
    made_up.write_lease(
        f"l-{thread}",
        {"launcher": record(launcher), "host": record(host), "server": parts["server"]},
        binding=make_binding(thread),
        shared={"pool": parts["pool"], "key": "5f3a", "sessions": 2},
    )
    return launcher


def share(made_up: MadeUpLaunches, parent: int = 1) -> dict[str, Any]:
    """Add a pool that two threads of a host use."""
    host = made_up.start("codex")
    parts = start_pool(made_up, parent)
    launchers = [use(made_up, parts, thread, host) for thread in ("thread-1", "thread-2")]
    made_up.write_pool("5f3a", parts, sessions=["l-thread-1", "l-thread-2"])
    return {"host": host, "launchers": launchers, **parts}


def test_a_shared_server_is_in_every_session_that_uses_it_and_counted_once(
    made_up: MadeUpLaunches,
) -> None:
    parts = share(made_up)
    pid = str(parts["server"]["pid"])

    host, _, first, _, second = show(made_up)
    assert "  1 server  112 MB" in host
    for row, memory in ((first, "107 MB"), (second, "5.0 MB")):
        assert " ".join(row.split()) == f"docs {pid} 1h {memory} 0 - running, shared by 2"
    kept = f"      shared by 2 sessions; pool process {parts['pool']['pid']}"
    assert show(made_up, "-v").count(kept) == 2
    assert ps(made_up, "--short") == "2 sessions, 1 server, 112 MB\n"

    (data,) = json.loads(ps(made_up, "--json"))["hosts"]
    servers = [server for session in data["sessions"] for server in session["servers"]]
    expected = {"pool": parts["pool"]["pid"], "sessions": 2}
    assert [one["shared"] for one in servers] == [expected, expected]
    assert sum(one["memory"]["bytes"] for one in servers) == data["memory"]["bytes"] == 112_000_000

    # Shown alone, a session has all of the memory.
    (server,) = list_all(running.select(made_up.take(), ["thread-2"], []))
    assert server.memory.amount == 107_000_000


def share_among_kinds(made_up: MadeUpLaunches) -> dict[str, Any]:
    """Add a pool with a server for Codex and one for Claude Code."""
    first = start_pool(made_up)
    second = {**first, **made_up.start_server(first["pool"]["pid"], 60)}
    for thread, parts, name in (("t-1", first, "codex"), ("t-2", second, "claude")):
        use(made_up, parts, thread, made_up.start(name))
    made_up.write_pool("5f3a", first, sessions=["l-t-1", "l-t-2"])
    return {"first": first, "second": second}


def test_each_server_of_a_pool_has_its_own_memory(made_up: MadeUpLaunches) -> None:
    share_among_kinds(made_up)

    census = made_up.take()

    # The first has the pool's own process, and each has its launcher.
    assert [one.memory.amount for one in list_all(census)] == [107_000_000, 67_000_000]
    assert ps(made_up, "--short") == "2 sessions, 2 servers, 174 MB\n"
    (alone,) = list_all(running.select(made_up.take(), ["t-2xx", "claude"], []))
    assert alone.memory.amount == 87_000_000


def test_a_pool_that_its_launcher_has_adopted_is_not_part_of_that_launch(
    made_up: MadeUpLaunches,
) -> None:
    """A launcher adopts what is left below it, and so a pool that it has started."""
    host = made_up.start("codex")
    launcher = made_up.start("mcp-launch", host, 5)
    parts = start_pool(made_up, launcher)
    use(made_up, parts, "t-2", host)
    made_up.write_lease(
        "l-t-1",
        {"launcher": record(launcher), "host": record(host), "server": parts["server"]},
        binding=make_binding("t-1"),
        shared={"pool": parts["pool"], "key": "5f3a", "sessions": 2},
    )

    servers = list_all(made_up.take())

    assert [one.memory.amount for one in servers] == [107_000_000, 5_000_000]


@pytest.mark.usefixtures("closed_pipes")
@pytest.mark.parametrize(
    ("is_used", "has_record"),
    [(True, True), (True, False), (False, True), (False, False)],
    ids=["used", "used but not recorded", "not used any more", "unknown"],
)
def test_what_belongs_to_a_pool_is_never_an_orphan_while_it_lives_or_is_used(
    is_used: bool, has_record: bool, made_up: MadeUpLaunches
) -> None:
    parts = start_pool(made_up)
    made_up.table.argv[parts["server"]["pid"]] = ["docs-server"]
    if is_used:
        use(made_up, parts, "t-1", made_up.start("codex"))
    if has_record:
        made_up.write_pool("5f3a", parts, sessions=["l-t-1"] * is_used)

    census = made_up.take()
    if is_used and has_record:
        assert show(made_up)[2].endswith("  running, shared"), "it has one session"

    is_known = is_used or has_record
    assert len(list_all(census)) == int(is_used)
    assert bool(census.ownerless) is not is_known
    spared = server_pools.list_spared(made_up.table, str(made_up.state))
    assert (parts["server"]["pid"] in spared) == is_known


def test_a_server_whose_pool_is_gone_is_an_orphan_once_nobody_can_talk_to_it(
    made_up: MadeUpLaunches, request: pytest.FixtureRequest
) -> None:
    parts = start_pool(made_up)
    made_up.write_pool("5f3a", parts)
    made_up.end(parts["pool"]["pid"])
    assert made_up.take().ownerless == []

    request.getfixturevalue("closed_pipes")

    (orphan,) = made_up.take().ownerless
    assert (orphan.name, orphan.pid) == ("docs", parts["server"]["pid"])
    assert orphan.why_ownerless == f"its pool, process {parts['pool']['pid']}, is gone"
    assert len(orphan.processes) == 3


@pytest.mark.usefixtures("closed_pipes")
def test_a_server_whose_pool_is_gone_is_spared_while_a_launch_uses_it(
    made_up: MadeUpLaunches,
) -> None:
    parts = share(made_up)
    made_up.end(parts["pool"]["pid"])

    census = made_up.take()

    assert census.ownerless == []
    assert {one.pool.pid for one in list_all(census) if one.pool} == {0}
    assert "shared by 2 sessions; its pool is gone" in "\n".join(show(made_up, "-v"))


@pytest.mark.usefixtures("closed_pipes")
def test_a_launch_without_a_host_that_shares_a_server_is_an_orphan_without_it(
    made_up: MadeUpLaunches,
) -> None:
    parts = share(made_up)
    made_up.end(parts["host"])
    for launcher in parts["launchers"]:
        made_up.table.add(launcher, "mcp-launch", 1)

    orphans = made_up.take().ownerless

    assert [one.processes for one in orphans] == [(one,) for one in parts["launchers"]]
    assert [one.pid for one in orphans] == parts["launchers"]


def test_ending_an_orphan_spares_a_pool_below_it(
    made_up: MadeUpLaunches, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = made_up.start("codex")
    launcher = made_up.start("mcp-launch", host)
    child = made_up.start("x", launcher)
    parts = start_pool(made_up, launcher)
    made_up.write_lease("l-1", {"launcher": record(launcher), "host": record(host)})
    made_up.write_pool("5f3a", parts)
    (server,) = list_all(made_up.take())
    signalled: list[int] = []

    def send(_table: object, one: Any, _number: int) -> bool:
        is_alive = one.pid in made_up.table.processes
        if is_alive:
            signalled.append(one.pid)
            made_up.end(one.pid)
        return is_alive

    monkeypatch.setattr(end_server, "send", send)
    spared = server_pools.list_spared(made_up.table, str(made_up.state))

    assert end_server.end(made_up.table, server, spared) == []
    assert signalled == [launcher, child]

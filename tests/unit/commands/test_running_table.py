"""The table of `ps`, on paper of any width."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from made_up_census import (
    HOME,
    make_census,
    make_host,
    make_launch,
    make_server,
    make_session,
)
from rich.cells import cell_len
from screens import open_screen

from mcp_launch.commands import running_table
from mcp_launch.commands.status_line import sum_up
from mcp_launch.machine import running
from mcp_launch.machine.process_snapshot import RecentCalls

if TYPE_CHECKING:
    from mcp_launch.machine.running import Census

THREADS = ("01a1ebf6-14a1-7fd0-8b12-02ae8e0b4675", "01a1ebf6-193e-7d90-a25f-5d5f19161259")
SESSION = "c618771a-1d3a-4149-94d5-2d1179c74c8f"


def show(census: Census, width: int | None = 80, **how: Any) -> list[str]:
    screen = open_screen(width, is_ascii=how.pop("is_ascii", False))
    lines = running_table.draw(census, running_table.TableRequest(screen, HOME, **how))
    return [line.plain for line in lines]


@pytest.fixture
def census() -> Census:
    """Two hosts and three sessions."""
    now = time.time()
    resting = make_launch(server_state="resting", since=now - 185, saved=80_000_000, calls=2)
    first = make_session(
        make_server("files", 1196, launch=make_launch(calls=12, last_call=now - 185)),
        make_server("docs", 1201, age=12.0, megabytes=82, launch=make_launch(restarts=1)),
        make_server("db", 1188, megabytes=9, launch=resting),
        thread=THREADS[0],
        title="Fix the login bug that only occurs with single sign-on in Safari",
    )
    second = make_session(
        make_server("files", 1310, project=f"{HOME}/src/blog", launch=make_launch()),
        thread=THREADS[1],
        title="Write tests",
    )
    third = make_session(
        make_server("mcp-server-fetch", 2011),
        make_server("broken", 2030, project="/opt/x", launch=make_launch(server_state="failed")),
        session=SESSION,
    )
    return make_census(
        make_host(first, second, role="daemon"),
        make_host(third, title="Claude Code", name="claude", pid=1942),
        ownerless=[make_server("mcp-old", 77, why_ownerless="process 1 (init) adopted it")],
    )


def test_each_server_has_one_row_below_its_session_and_host(census: Census) -> None:
    assert show(census) == [
        "    SERVER             PID     UP  MEMORY  CALLS  LAST  STATE",
        "Codex daemon  pid 1050  up 2h 5m  4 servers  183 MB (saves 80 MB)",
        "  thread 01a1ebf6-14a1  ~/src/shop  Fix the login bug that only occurs with sin…",
        "    files             1196  2h 5m   46 MB     12    3m  running",
        "    docs              1201    12s   82 MB      0     -  running, 1 restart",
        "    db                   -      -  9.0 MB      2     -  resting 3m, saves 80 MB",
        "  thread 01a1ebf6-193e  ~/src/blog  Write tests",
        "    files             1310  2h 5m   46 MB      0     -  running",
        "Claude Code  pid 1942  up 2h 5m  2 servers  92 MB",
        "  session c618771a  ~/src/shop",
        "    mcp-server-fetch  2011  2h 5m   46 MB      -     -  running",
        "    broken               -      -   46 MB      0     -  failed, in /opt/x",
        "No host (mcp-launch reap ends them)",
        "    mcp-old             77  2h 5m   46 MB      -     -  orphan",
    ]


def test_a_server_that_could_not_be_started_shows_why() -> None:
    failure = {"problem": "npx was not found on PATH", "fix": "install Node"}
    launch = make_launch(server_state="failed", failure=failure)
    census = make_census(make_host(make_session(make_server("docs", 5, launch=launch))))

    assert show(census)[3].endswith("  failed, npx was not found on PATH")
    assert "      fix: install Node" in show(census, is_verbose=True)


def test_a_pipe_gets_everything_whole(census: Census) -> None:
    lines = show(census, None)

    assert len(lines) == 14
    assert lines[2].endswith("  Fix the login bug that only occurs with single sign-on in Safari")
    assert f"thread {THREADS[0]}  " in lines[2]


@pytest.mark.parametrize("width", [30, 40, 60, 79, 80, 81, 120, 200])
@pytest.mark.parametrize("is_verbose", [False, True], ids=["short", "verbose"])
def test_no_line_is_wider_than_the_terminal(width: int, is_verbose: bool, census: Census) -> None:
    launch = make_launch(
        calls=12345,
        last_call=time.time(),
        refusals=3,
        noise=2,
        place_note="the home directory",
        evidence="/a/very/long/path" * 9,
        runner={"left_out": True, "why": "its package is installed"},
    )
    odd = make_server(
        "日本語のとても長い名前のサーバーです", 4_000_000, launch=launch, megabytes=1234
    )
    long = make_session(odd, session=SESSION[:-1] + "0", title="タイトル " * 30)
    wide = make_host(long, title="A host with a name")
    both = census._replace(hosts=[*census.hosts, wide])

    lines = show(both, width, is_verbose=is_verbose)

    assert [line for line in lines if cell_len(line) > width] == []
    assert all("4000000" in line for line in lines if line.startswith("    日") and width > 50)


def test_a_terminal_that_has_only_ascii_gets_no_other_mark(census: Census) -> None:
    shown = "\n".join(show(census, is_ascii=True))

    assert shown.isascii()
    assert "with s..." in shown


def test_reasons_come_with_verbose_below_their_server() -> None:
    launch = make_launch(
        noise=1, outer="launch-0", runner={"left_out": True, "why": "its package is installed"}
    )
    server = make_server("docs", 20, launch=launch, processes=(19, 20, 21))
    census = make_census(make_host(make_session(server, thread=THREADS[0])))

    assert show(census, None, is_verbose=True)[2:-1] == [
        f"  thread {THREADS[0]}  ~/src/shop",
        "    docs     20  2h 5m   46 MB      0     -  running, noise",
        "      launch 8fe1, confirmed (the call's _meta.threadId)",
        "      1 line of its stdout were not messages",
        "      started without its runner: its package is installed",
        "      inside launch launch-0",
        "      launcher: process 19; also processes 21",
        "      command: npx docs",
    ]


def test_calls_that_nobody_counts_are_not_said_to_be_none() -> None:
    server = make_server("docs", 20, launch=make_launch(wire="direct"))

    assert "     -     -  running" in show(make_census(make_host(make_session(server))))[3]


# One line for a prompt


def test_a_prompt_gets_the_sum_of_everything(census: Census) -> None:
    assert sum_up(census) == "3 sessions, 6 servers, 321 MB, 1 orphan"


# Filters


@pytest.mark.parametrize(
    ("names", "hosts", "left"),
    [
        (["files"], [], [1196, 1310]),
        (["claude"], [], [2011, 2030]),
        ([], ["codex"], [1196, 1201, 1188, 1310]),
        ([THREADS[1][:13]], [], [1310]),
        ([THREADS[1][:8]], [], [1196, 1201, 1188, 1310]),
        (["c61"], [], []),
        (["files", "mcp-server-fetch"], ["claude"], [2011]),
        (["mcp-old"], [], [77]),
        (["mcp-old"], ["codex"], []),
        (["nothing"], [], []),
    ],
    ids=lambda value: " ".join(map(str, value)) or "-",
)
def test_names_choose_servers_hosts_and_sessions(
    names: list[str], hosts: list[str], left: list[int], census: Census
) -> None:
    chosen = running.select(census, names, hosts)

    servers = [server for host in chosen.hosts for server in host.servers]
    assert [server.pid for server in (*servers, *chosen.ownerless)] == left
    assert running.is_empty(chosen) is not bool(left)


def test_where_processes_cannot_be_seen_nothing_is_said_to_be_missing() -> None:
    shown = " ".join(show(make_census(sees_all=False)))

    assert "No MCP servers" not in shown
    assert "servers may run that are not listed" in shown


def test_calls_per_minute_and_failures_are_shown_while_there_are_some() -> None:
    busy = make_launch(calls=12, last_call=time.time() - 1)
    census = make_census(
        make_host(
            make_session(
                make_server("files", 5, launch=busy, recent=RecentCalls(12, 2)),
                make_server("docs", 7, launch=make_launch(), recent=RecentCalls(0, 1)),
                make_server("other", 9),
            )
        )
    )

    header, _, _, files, docs, other = show(census, None)
    assert header.split() == ["SERVER", "PID", "UP", "MEMORY", "CALLS", "/MIN", "LAST", "STATE"]
    assert files.endswith("12    12    1s  running, 2 failed calls")
    assert docs.endswith("0     0     -  running, 1 failed call")
    assert other.endswith("-     -     -  running")
    hint = "mcp-launch calls --failed --since 1h files"
    assert any(line.endswith(hint) for line in show(census, None, is_verbose=True))


def test_a_narrow_table_leaves_calls_per_minute_out_first() -> None:
    server = make_server("a-long-name-of-a-server", 5, recent=RecentCalls(3), launch=make_launch())
    census = make_census(make_host(make_session(server)))

    assert "/MIN" in show(census, 100)[0]
    assert show(census, 60)[0].split() == [
        "SERVER",
        "PID",
        "UP",
        "MEMORY",
        "CALLS",
        "LAST",
        "STATE",
    ]

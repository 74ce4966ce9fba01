"""`mcp-launch restart`: which servers it means, and what it says about each."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from made_up_census import make_launch

from mcp_launch.commands import restart
from mcp_launch.commands.restart import Chosen, RestartRequest
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError
from mcp_launch.machine.pipe_ends import End
from mcp_launch.machine.process_snapshot import KnownPool, LeasedLaunch, Server
from mcp_launch.machine.restart_server import Restarted
from mcp_launch.machine.running import Census, HostProcess, Session

HELD = End("held")


def make_server(name: str, pid: int, *, is_launched: bool = True) -> Server:
    launch = LeasedLaunch(f"launch-{pid}", pid, "", "", 0, None, 0, 0, 0, "", "", None)
    return Server(
        name=name,
        pid=pid,
        roots=(),
        processes=(pid,),
        command=(name,),
        project="/work/app",
        age=1.0,
        stdin=HELD,
        stdout=HELD,
        launch=launch if is_launched else None,
        is_unrecorded=not is_launched,
    )


def make_census(*servers: Server) -> Census:
    sessions = [Session("s-1", "", list(servers[:1])), Session("s-2", "t-2", list(servers[1:]))]
    return Census([HostProcess(1, "codex", "Codex", 1.0, "", (), sessions)], [])


def choose(census: Census, *names: str, session: str = "", is_all: bool = False) -> list[int]:
    request = RestartRequest(names, (), session, is_all=is_all)
    return [one.server.pid for one in restart.choose(request, census)]


OURS = make_server("docs", 10)
ALSO_OURS = make_server("docs", 11)
FILES = make_server("files", 12)
FOREIGN = make_server("docs", 13, is_launched=False)
ELSEWHERE = make_server("web", 14, is_launched=False)


def test_all_servers_of_a_name_are_restarted_but_only_those_of_ours() -> None:
    census = make_census(OURS, ALSO_OURS, FILES, FOREIGN, ELSEWHERE)

    assert choose(census, "docs") == [10, 11]
    assert choose(census, "docs", "files", "docs") == [10, 11, 12]
    assert choose(census, is_all=True) == [10, 11, 12]
    assert choose(census, "docs", session="t-2") == [11]
    assert choose(census, "docs", session="s-") == [10, 11]


def make_isolated() -> Census:
    """Return a census of a launch with a server for each of two sessions, and another launch."""
    launch = make_launch(id="l-1", backend="server")
    first = replace(make_server("docs", 20), launch=launch)
    second = replace(make_server("docs", 21), launch=launch._replace(backend="server-2"))
    return make_census(first, second, ALSO_OURS)


def test_servers_that_are_restarted_with_the_one_of_a_session_are_chosen_too() -> None:
    request = RestartRequest(("docs",), (), "s-1")

    chosen = restart.choose(request, make_isolated())

    assert [(one.server.pid, one.is_asked_for) for one in chosen] == [(20, True), (21, False)]
    assert choose(make_isolated(), "docs") == [20, 21, 11]


OF_ANOTHER = (
    "Note: a launcher restarts all its servers. The server of another session was restarted, too: "
    "t-2."
)


def test_servers_of_other_sessions_have_their_own_lines_and_a_note() -> None:
    request = RestartRequest(("docs",), (), "s-1")
    first, second = restart.choose(request, make_isolated())
    done = [Restarted("restarted", 20, 30, 1.2), Restarted("restarted", 21, 31, 1.2)]

    assert show(*zip((first, second), done, strict=True)) == [
        "docs (Codex, session s-1): restarted, pid 20 -> 30, 1.2 s",
        "docs (Codex, thread t-2): restarted, pid 21 -> 31, 1.2 s",
        OF_ANOTHER,
    ]


def make_shared(pid: int, launch: str) -> Server:
    pool = KnownPool("5f3a", 50, 2)
    server = replace(make_server("docs", pid), launcher=60, pool=pool)
    return replace(server, launch=make_launch(id=launch))


def test_a_server_that_sessions_share_has_one_line() -> None:
    census = make_census(make_shared(40, "l-1"), make_shared(40, "l-2"))
    chosen = restart.choose(RestartRequest(("docs",)), census)
    done = [Restarted("restarted", 40, 41, 1.0), Restarted("restarted", 40, 42, 1.1)]

    lines = show(*zip(chosen, done, strict=True))

    assert lines == ["docs: restarted for 2 sessions, pid 40 -> 42, 1.1 s"]


def test_a_shared_server_is_replaced_for_sessions_that_were_not_asked_for() -> None:
    census = make_census(make_shared(40, "l-1"), make_shared(40, "l-2"))
    (chosen,) = restart.choose(RestartRequest(("docs",), (), "t-2"), census)

    lines = show((chosen, Restarted("restarted", 40, 41, 1.0)))

    assert lines == ["docs: restarted for 2 sessions, pid 40 -> 41, 1.0 s"]


def test_servers_of_one_pool_for_hosts_of_different_kinds_have_a_line_each() -> None:
    census = make_census(make_shared(40, "l-1"), make_shared(41, "l-2"))
    chosen = restart.choose(RestartRequest(("docs",)), census)
    done = [Restarted("restarted", 40, 45, 1.0), Restarted("restarted", 41, 46, 1.1)]

    assert show(*zip(chosen, done, strict=True)) == [
        "docs (Codex, session s-1): restarted, pid 40 -> 45, 1.0 s",
        "docs (Codex, thread t-2): restarted, pid 41 -> 46, 1.1 s",
    ]


def show(*outcomes: tuple[Chosen, Restarted]) -> list[str]:
    out = io.StringIO()
    restart.show(Screen(file=out, width=200), list(outcomes))
    return out.getvalue().splitlines()


def test_a_server_of_others_is_named_if_there_is_none_of_ours() -> None:
    assert choose(make_census(FILES, FOREIGN, ELSEWHERE), "docs", "web") == [13, 14]


@pytest.mark.parametrize(
    ("names", "session", "said"),
    [
        (["dosc"], "", "did you mean docs?"),
        (["dosc"], "", "no server called dosc runs"),
        (["dosc"], "s-1", "no server called dosc runs there"),
        (["files"], "s-1", "files runs, but for no session s-1; its sessions: t-2"),
        (["files"], "nosuch", "files runs, but for no session nosuch; its sessions: t-2"),
    ],
)
def test_a_name_that_does_not_run_is_refused_with_those_that_do(
    names: list[str], session: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        choose(make_census(OURS, FILES), *names, session=session)

    assert said in f"{caught.value.problem} {caught.value.fix}"


def test_a_name_that_runs_in_another_host_is_said_to() -> None:
    request = RestartRequest(("docs",), ("claude",))

    with pytest.raises(UsageError, match="docs runs, but not in claude; it runs in codex"):
        restart.choose(request, make_census(OURS))


def test_nothing_to_restart_is_an_error() -> None:
    with pytest.raises(UsageError, match="no server of mcp-launch runs"):
        choose(make_census(FOREIGN), is_all=True)


FAILED = """\
docs (Codex, thread t-2): not restarted: broken
  fix: repair it; see also mcp-launch logs docs
"""


@pytest.mark.parametrize(
    ("done", "shown"),
    [
        (
            Restarted("restarted", 10, 20, 1.26),
            "docs (Codex, thread t-2): restarted, pid 10 -> 20, 1.3 s\n",
        ),
        (
            Restarted("not running"),
            "docs (Codex, thread t-2): not running: the next call starts a fresh one\n",
        ),
        (
            Restarted("failed", 10, problem="broken", fix="repair it"),
            FAILED,
        ),
    ],
    ids=["restarted", "not running", "failed"],
)
def test_each_outcome_is_told_in_one_line(done: Restarted, shown: str) -> None:
    [host] = make_census(OURS, OURS).hosts

    assert show((Chosen(host, "s-2", "t-2", OURS), done)) == shown.splitlines()


def test_threads_that_began_in_the_same_minute_can_be_told_apart() -> None:
    [host] = make_census(OURS, OURS).hosts
    ids = ["01a1ec36-aed9-72a2-bd8e-5e131a00bd48", "01a1ec36-b512-7410-8a9e-43ba0e7e5e1f"]

    lines = show(*((Chosen(host, one, one, OURS), Restarted("not running")) for one in ids))

    assert [line.split(":")[0] for line in lines] == [
        "docs (Codex, thread 01a1ec36-aed9)",
        "docs (Codex, thread 01a1ec36-b512)",
    ]

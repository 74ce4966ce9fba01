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
from mcp_launch.machine.process_snapshot import LeasedLaunch, Server
from mcp_launch.machine.restart_server import Restarted
from mcp_launch.machine.running import Census, HostProcess, Session

HELD = End("held")


def make_server(name: str, pid: int, *, is_launched: bool = True, state: str = "") -> Server:
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
        state=state,
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
ELSEWHERE = make_server("web", 14, state="/other/state")


def test_all_servers_of_a_name_are_restarted_but_only_those_of_ours() -> None:
    census = make_census(OURS, ALSO_OURS, FILES, FOREIGN, ELSEWHERE)

    assert choose(census, "docs") == [10, 11]
    assert choose(census, "docs", "files", "docs") == [10, 11, 12]
    assert choose(census, is_all=True) == [10, 11, 12]
    assert choose(census, "docs", session="t-2") == [11]
    assert choose(census, "docs", session="s-") == [10, 11]


def test_a_launcher_with_several_servers_is_asked_once() -> None:
    """It restarts all of them."""
    launch = make_launch(id="l-1", backend="server", server_state="resting")
    servers = [
        replace(make_server("docs", 20), launch=launch),
        replace(make_server("docs", 21), launch=launch._replace(server_state="running")),
        replace(make_server("docs", 22), launch=launch._replace(server_state="running")),
    ]

    assert choose(make_census(*servers, ALSO_OURS), "docs") == [21, 11]
    assert choose(make_census(*servers), "docs", session="s-1") == [20]


def test_a_server_of_others_is_named_if_there_is_none_of_ours() -> None:
    assert choose(make_census(FILES, FOREIGN, ELSEWHERE), "docs", "web") == [13, 14]


@pytest.mark.parametrize(
    ("names", "session", "said"),
    [
        (["dosc"], "", "did you mean docs?"),
        (["dosc"], "", "no server called dosc runs"),
        (["files"], "s-1", "no server called files runs there"),
    ],
)
def test_a_name_that_does_not_run_is_refused_with_those_that_do(
    names: list[str], session: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        choose(make_census(OURS, FILES), *names, session=session)

    assert said in f"{caught.value.problem} {caught.value.fix}"


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
    out = io.StringIO()
    [host] = make_census(OURS, OURS).hosts

    restart.show(Screen(file=out, width=200), Chosen(host, "s-2", "t-2", OURS), done, ["t-2"])

    assert out.getvalue() == shown


def test_threads_that_began_in_the_same_minute_can_be_told_apart() -> None:
    out = io.StringIO()
    [host] = make_census(OURS, OURS).hosts
    ids = ["01a1ec36-aed9-72a2-bd8e-5e131a00bd48", "01a1ec36-b512-7410-8a9e-43ba0e7e5e1f"]

    for one in ids:
        chosen = Chosen(host, one, one, OURS)
        restart.show(Screen(file=out, width=200), chosen, Restarted("not running"), ids)

    assert [line.split(":")[0] for line in out.getvalue().splitlines()] == [
        "docs (Codex, thread 01a1ec36-aed9)",
        "docs (Codex, thread 01a1ec36-b512)",
    ]

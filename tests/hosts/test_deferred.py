"""Servers that hosts know from memory: started by the first call, and ended when idle."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hosts import claude, codex
from hosts.codex_and_claude import HOSTS
from hosts.fake_models import LIMIT
from hosts.isolation import describe, list_below
from hosts.notes import Notes, Start
from hosts.probe_server import TOOLS
from hosts.workspace import LAUNCHED, LAUNCHER, SERVER, Observation, Workspace, end, promise

if TYPE_CHECKING:
    from hosts.terminal import Terminal

# Codex speaks the older era of the protocol, Claude Code also the newer one.
IN_EACH_ERA = pytest.mark.parametrize(
    ("host", "era"), [("codex", []), ("claude", ["--modern"])], ids=["codex", "claude-2026"]
)

# What `--rest` says, in seconds; and how long a server lives on that does not rest.
REST = 1
RESTLESS = REST + 1.5

# How soon after a failed start a call starts the server again, in seconds.
BACK_OFF = 1.1

ESCAPE = "\x1b"

FAULT = "first line\nno database at localhost:5432"


@pytest.fixture
def notes(workspace: Workspace) -> Notes:
    """Return what the servers of the test record, and what they read."""
    return Notes(str(workspace.place / "notes"))


def record(notes: Notes, *options: str) -> list[str]:
    """Return the command of a server that keeps notes."""
    return [*SERVER, "--notes", notes.path, *options]


def run_once(workspace: Workspace, project: str, notes: Notes, host: Any, **options: str) -> int:
    """Run a session in which the server is called, so that it is remembered; count its starts."""
    host.run(workspace, project, **options).wait(LIMIT)
    return len(notes.read_starts())


def list_servers(terminal: Terminal, count: int) -> None:
    """Open Claude Code's list of servers, and wait until all of them have their tools."""
    terminal.type("/mcp")
    terminal.wait_until(
        lambda screen: len(re.findall(rf"probe\S* +{len(TOOLS)} tools", screen)) == count
    )


def remember(workspace: Workspace, project: str, *, servers: int) -> None:
    """Open a terminal until Claude Code has the tools of all servers."""
    terminal = claude.open_terminal(workspace, project)
    list_servers(terminal, servers)
    end(terminal.process)


def count_informed(starts: list[Start], sights: list[Observation]) -> int:
    """Return how many calls had a server that was started for their own thread."""
    threads = {start.pid: start.env.get("CODEX_THREAD_ID") for start in starts}
    return sum(threads[sight.pid] == sight.asker for sight in sights)


def test_six_threads_at_once_start_six_servers_each_for_its_own_thread(
    workspace: Workspace, notes: Notes
) -> None:
    project = workspace.make_project("project")
    codex.configure(workspace, workspace.wrap(record(notes)))
    before = run_once(workspace, project, notes, codex)
    host = codex.AppServer(workspace)

    threads = host.start_threads(*[project] * 6)
    host.prompt(*threads)

    sights = workspace.wait_for_observations(7)[1:]
    starts = notes.read_starts()[before:]
    informed = count_informed(starts, sights)
    promise(informed == 6, f"{len(starts)} servers start, {informed} of them with a thread id")
    assert {sight.asker for sight in sights} == set(threads)
    assert {start.env["CODEX_THREAD_ID"] for start in starts} == set(threads)
    assert len(starts) == 6
    for sight in sights:
        workspace.check(sight, project)


def test_a_server_that_needs_its_thread_is_started_once(workspace: Workspace, notes: Notes) -> None:
    project = workspace.make_project("project")
    needy = record(notes, "--needs", "CODEX_THREAD_ID")
    codex.configure(workspace, workspace.wrap(needy, "--env", "CODEX_THREAD_ID=thread"))
    before = run_once(workspace, project, notes, codex, name="old-codex")

    codex.run(workspace, project, name="old-codex")
    workspace.models.wait_for(2)

    promise(workspace.models.answers, "the server does not start, its tools are missing")
    sight = workspace.wait_for_observations(2)[1]
    starts = notes.read_starts()[before:]
    assert [start.env["CODEX_THREAD_ID"] for start in starts] == [sight.asker]
    workspace.check(sight, project)


def test_tools_of_a_slow_server_are_there_in_the_first_turn(
    workspace: Workspace, notes: Notes
) -> None:
    project = workspace.make_project("project")
    # Codex waits for a required server, so that nothing here depends on the second it gives others.
    command = workspace.wrap(record(notes))
    codex.configure(workspace, command, required=True, startup_timeout_sec=LIMIT)
    codex.run(workspace, project).wait(LIMIT)
    notes.hold()
    workspace.models.before_call = notes.release

    codex.run(workspace, project).wait(LIMIT)

    promise(len(workspace.models.answers) == 2, "the first turn has to do without its tools")
    sight = workspace.wait_for_observations(2)[1]
    assert count_informed(notes.read_starts(), [sight]) == 1
    workspace.check(sight, project)


def test_five_servers_that_nobody_calls_are_listed_but_not_started(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    names = [f"probe-{number}" for number in range(5)]
    noted = {name: Notes(str(workspace.place / name)) for name in names}
    claude.configure_all(
        workspace,
        {name: workspace.wrap(record(one), "--start", "called") for name, one in noted.items()},
    )
    remember(workspace, project, servers=5)
    assert [len(one.read_starts()) for one in noted.values()] == [1] * 5

    terminal = claude.open_terminal(workspace, project)
    terminal.type("no call")
    terminal.wait_for("done")
    list_servers(terminal, 5)
    terminal.press("\r")
    terminal.wait_for("View tools")
    terminal.press("\r")
    terminal.wait_for("look")

    started = [len(one.read_starts()) - 1 for one in noted.values()]
    promise(not any(started), f"{sum(started)} servers are started")


@IN_EACH_ERA
def test_a_server_rests_between_two_calls(
    workspace: Workspace, notes: Notes, host: str, era: list[str]
) -> None:
    project = workspace.make_project("project")
    command = workspace.wrap(record(notes, *era), "--rest", f"{REST}s")
    HOSTS[host].configure(workspace, command)
    patience = LIMIT / 2 if workspace.launcher else RESTLESS
    left: list[set[psutil.Process]] = []

    def wait_until_it_rests() -> None:
        if workspace.models.answers:
            _, alive = psutil.wait_procs(list_processes(notes), timeout=patience)
            left.append({*alive, *list_processes(notes)})

    workspace.models.before_call = wait_until_it_rests
    HOSTS[host].run(workspace, project, words=2 * f"{codex.LOOK} ")

    first, second = workspace.wait_for_observations(2)
    assert left
    promise(not any(left), "it runs on")
    assert [first.calls, second.calls] == [1, 1]
    # On a busy machine the server rests before the first call, too.
    assert [start.pid for start in notes.read_starts()][-2:] == [first.pid, second.pid]
    for sight in (first, second):
        workspace.check(sight, project)
    assert first.context["launchId"] == second.context["launchId"]


def list_processes(notes: Notes) -> set[psutil.Process]:
    """Return the processes of a server, and everything else below its launchers."""
    ours = {one for one in list_below() if notes.path in describe(one)}
    launchers = {one for one in ours if LAUNCHER[0] in describe(one)}
    below = {one for launcher in launchers for one in launcher.children(recursive=True)}
    return ours - launchers | below


@LAUNCHED
def test_a_new_tool_of_a_remembered_server_can_be_called(
    workspace: Workspace, notes: Notes
) -> None:
    project = workspace.make_project("project")
    command = workspace.wrap(record(notes, "--modern"), "--start", "called")
    claude.configure(workspace, command)
    remember(workspace, project, servers=1)
    notes.offer("look", "fresh")

    terminal = claude.open_terminal(workspace, project)
    list_servers(terminal, 1)
    assert len(notes.read_starts()) == 1
    terminal.press(ESCAPE)
    terminal.wait_until(lambda screen: "MCP servers" not in screen)
    terminal.type(claude.LOOK)
    workspace.models.wait_for(1)
    terminal.wait_for("● done")
    terminal.type("call mcp__probe__fresh {}")

    look, fresh = workspace.wait_for_observations(2)
    assert [look.calls, fresh.calls] == [1, 2]
    assert [start.pid for start in notes.read_starts()[1:]] == [fresh.pid]


@LAUNCHED
def test_codex_finds_a_new_tool_if_its_feature_is_on(workspace: Workspace, notes: Notes) -> None:
    project = workspace.make_project("project")
    command = workspace.wrap(record(notes), "--start", "called")
    codex.configure(workspace, command, features=["mcp_tool_list_changed"])
    before = run_once(workspace, project, notes, codex)
    notes.offer("look", "fresh")
    host = codex.AppServer(workspace)

    [thread] = host.start_threads(project)
    host.wait_until_ready("probe")
    assert len(notes.read_starts()) == before
    host.prompt(thread)
    host.prompt(thread, words="call mcp__probe__fresh {}")

    assert workspace.wait_for_observations(3)[2].calls == 2


@LAUNCHED
@IN_EACH_ERA
def test_a_call_to_a_remembered_tool_that_is_gone_gets_the_servers_own_error(
    workspace: Workspace, notes: Notes, host: str, era: list[str]
) -> None:
    project = workspace.make_project("project")
    command = workspace.wrap(record(notes, *era), "--start", "called")
    HOSTS[host].configure(workspace, command)
    run_once(workspace, project, notes, HOSTS[host])
    notes.offer("look")

    HOSTS[host].run(workspace, project, words=f"call mcp__probe__wait {{}} {codex.LOOK}")

    _, gone, look = workspace.models.wait_for(3)
    assert "no tool wait" in gone.text
    assert Observation(look).calls == 2


@LAUNCHED
@IN_EACH_ERA
def test_a_deferred_start_that_fails_is_explained_to_the_model_and_tried_again(
    workspace: Workspace, notes: Notes, host: str, era: list[str]
) -> None:
    project = workspace.make_project("project")
    command = workspace.wrap(record(notes, *era), "--start", "called")
    HOSTS[host].configure(workspace, command)
    before = run_once(workspace, project, notes, HOSTS[host])
    notes.fail(FAULT)

    def recover() -> None:
        if len(workspace.models.answers) == 2:
            notes.recover()
            time.sleep(BACK_OFF)

    workspace.models.before_call = recover
    HOSTS[host].run(workspace, project, words=2 * f"{codex.LOOK} ")

    _, failed, answered = workspace.models.wait_for(3)
    assert all(line in failed.text for line in FAULT.splitlines())
    sight = Observation(answered)
    assert len(notes.read_starts()) == before + 2
    assert notes.read_starts()[-1].pid == sight.pid
    workspace.check(sight, project)


@LAUNCHED
def test_claude_code_that_only_lists_servers_starts_them(
    workspace: Workspace, notes: Notes
) -> None:
    project = workspace.make_project("project")
    claude.configure(workspace, workspace.wrap(record(notes), "--start", "called"))
    before = run_once(workspace, project, notes, claude)

    assert claude.list_servers(workspace, project).wait(LIMIT) == 0

    assert "Connected" in workspace.read_output()
    assert len(notes.read_starts()) == before + 1


@LAUNCHED
def test_codex_that_only_asks_for_the_state_of_servers_starts_them(
    workspace: Workspace, notes: Notes
) -> None:
    codex.configure(workspace, workspace.wrap(record(notes), "--start", "called"))

    for count in (1, 2):  # the first one is remembered
        host = codex.AppServer(workspace)
        [server] = host.ask("mcpServerStatus/list")["data"]
        host.close()

        assert server["tools"].keys() == set(TOOLS)
        assert len(notes.read_starts()) == count

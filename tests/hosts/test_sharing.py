"""Sessions of one project that share a server (`--share project`)."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from hosts import claude, codex
from hosts.codex_and_claude import HOSTS
from hosts.fake_models import LIMIT
from hosts.isolation import describe, list_below
from hosts.workspace import LAUNCHED, LAUNCHER, SERVER, Observation, Workspace, promise

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

# Codex speaks the older era of the protocol, Claude Code also the newer one.
IN_EACH_ERA = pytest.mark.parametrize(
    ("host", "era"), [("codex", []), ("claude", ["--modern"])], ids=["codex", "claude-2026"]
)

SHARE = ["--share", "project"]

# With these, the servers of Codex and Claude Code have the same environment.
SAME_ENVIRONMENT = ["--pass-env", "HOME", "--set", "PATH=/usr/local/bin:/usr/bin:/bin"]

SESSIONS = 4
ROUNDS = 3

# What two terminals of a developer differ in: a login over SSH in tmux, and a local window.
TERMINALS = [
    {
        "TERM": "tmux-256color",
        "TMUX": "/run/tmux-0/default,123,0",
        "TMUX_PANE": "%3",
        "SSH_CONNECTION": "10.0.0.2 50000 10.0.0.1 22",
        "SSH_CLIENT": "10.0.0.2 50000 22",
        "SSH_TTY": "/dev/pts/3",
        "SHLVL": "4",
        "XDG_SESSION_ID": "7",
        "OLDPWD": "/",
    },
    {
        "TERM": "xterm-kitty",
        "COLORTERM": "truecolor",
        "KITTY_WINDOW_ID": "1",
        "SHLVL": "1",
        "XDG_SESSION_ID": "2",
        "WINDOWID": "12345",
    },
]


def mark(session: int, count: int = ROUNDS) -> str:
    """Return a prompt whose calls say which session and which of its calls they are."""
    return " ".join(f'call mcp__probe__look {{"mark": "{session}-{one}"}}' for one in range(count))


def configure(workspace: Workspace, host: str, command: Sequence[str]) -> None:
    """Give a host the server, and have it wait until that is ready.

    Codex gives the model no tool of a server that takes longer than a second, unless the server is
    required. On a busy machine that is too short, and a session without the tool makes no call.
    """
    more = {"required": True, "startup_timeout_sec": LIMIT} if host == "codex" else {}
    HOSTS[host].configure(workspace, command, **more)


def call_together(workspace: Workspace, count: int) -> set[str]:
    """Have every call wait for one of each other session; return the sockets that are there then.

    So the calls arrive together. That no socket is left later says nothing unless it was there.
    """
    sockets: set[str] = set()

    def note_sockets() -> None:
        sockets.update(name for name in list_pool_files(workspace) if name.endswith(".sock"))

    together = threading.Barrier(count, action=note_sockets, timeout=LIMIT)
    workspace.models.before_call = together.wait
    return sockets


def check_shared(workspace: Workspace, sights: Sequence[Observation], project: str) -> None:
    """Check that one server answered all calls, each with its own session's content."""
    for sight in sights:
        workspace.check(sight, project)
    marks: dict[str, list[str]] = {}
    for sight in sights:
        marks.setdefault(sight.asker, []).append(sight.arguments["mark"])
    # Every session got the answers to its own calls, in their order, and nothing else.
    for own in marks.values():
        session = own[0].partition("-")[0]
        assert own == [f"{session}-{one}" for one in range(len(own))]
    promise(len({sight.pid for sight in sights}) == 1, "every session has a server of its own")
    assert sorted(sight.calls for sight in sights) == [*range(1, len(sights) + 1)]


def list_pool_files(workspace: Workspace) -> list[str]:
    """Return the names of the sockets, records and locks of all pools."""
    directory = workspace.home / ".local/state/mcp-launch/pools"
    return sorted(path.name for path in directory.glob("*"))


def check_nothing_is_left(workspace: Workspace) -> None:
    """Check that the last session has taken everything with it."""
    if not workspace.launcher:
        return
    deadline = time.monotonic() + LIMIT
    while left := [one for one in list_below() if _is_ours(one)]:
        assert time.monotonic() < deadline, [describe(one) for one in left]
        psutil.wait_procs(left, timeout=0.1)
    assert list_pool_files(workspace) == []


def _is_ours(process: psutil.Process) -> bool:
    words = describe(process)
    return any(part in words for part in (LAUNCHER[0], "mcp-launch-pool", SERVER[-1]))


@IN_EACH_ERA
def test_sessions_of_a_project_at_once_share_a_server_that_knows_whose_call_it_is(
    workspace: Workspace, host: str, era: list[str]
) -> None:
    project = workspace.make_project("project")
    configure(workspace, host, workspace.wrap([*SERVER, *era], *SHARE))

    sockets = call_together(workspace, SESSIONS)

    running = [
        run_in(workspace, project, host, mark(one), TERMINALS[one % 2]) for one in range(SESSIONS)
    ]
    assert [one.wait(LIMIT) for one in running] == [0] * SESSIONS, workspace.read_output()

    sights = workspace.wait_for_observations(SESSIONS * ROUNDS)
    assert len({sight.asker for sight in sights}) == SESSIONS
    check_shared(workspace, sights, project)
    assert len(sockets) == bool(workspace.launcher)
    check_nothing_is_left(workspace)


def test_threads_of_an_app_server_share_a_server_that_knows_whose_call_it_is(
    workspace: Workspace,
) -> None:
    project, other = workspace.make_project("project"), workspace.make_project("other")
    configure(workspace, "codex", workspace.wrap(SERVER, *SHARE))
    host = codex.AppServer(workspace)
    threads = host.start_threads(*[project] * SESSIONS, other)
    call_together(workspace, SESSIONS + 1)

    for number in range(ROUNDS):
        words = f'call mcp__probe__look {{"mark": "{number}"}}'
        host.prompt(*threads, words=words)

    sights = workspace.wait_for_observations((SESSIONS + 1) * ROUNDS)
    elsewhere = [sight for sight in sights if sight.asker == threads[-1]]
    here = [sight for sight in sights if sight.asker != threads[-1]]
    for sight in elsewhere:
        workspace.check(sight, other)
    for sight in here:
        workspace.check(sight, project)
        assert sight.meta["threadId"] == sight.asker
    promise(len({sight.pid for sight in here}) == 1, "every session has a server of its own")
    assert {sight.pid for sight in here}.isdisjoint(sight.pid for sight in elsewhere)
    assert sorted(sight.calls for sight in here) == [*range(1, SESSIONS * ROUNDS + 1)]
    host.close()
    check_nothing_is_left(workspace)


def run_in(
    workspace: Workspace, project: str, host: str, words: str, variables: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start a session with these variables."""
    if host == "claude":
        return claude.run(workspace, project, words=words, **variables)
    return codex.run(workspace, project, words=words, env=workspace.environment(**variables))


@LAUNCHED
def test_codex_and_claude_code_in_one_project_are_served_rightly_at_once(
    workspace: Workspace,
) -> None:
    """They offer servers different things, so they have different ones, even in one pool."""
    project = workspace.make_project("project")
    for name in HOSTS:
        configure(workspace, name, workspace.wrap(SERVER, *SHARE, *SAME_ENVIRONMENT))
    sockets = call_together(workspace, 4)

    for number, host in enumerate([*HOSTS.values()] * 2):
        host.run(workspace, project, words=mark(number))

    sights = workspace.wait_for_observations(4 * ROUNDS)
    servers = {}
    for name in HOSTS:
        own = [sight for sight in sights if sight.context["host"] == name]
        assert len({sight.asker for sight in own}) == 2
        check_shared(workspace, own, project)
        servers[name] = own[0].pid
    assert servers["codex"] != servers["claude"]
    assert len(sockets) == 1


@LAUNCHED
def test_after_clear_in_one_of_two_terminals_both_keep_their_shared_server(
    workspace: Workspace,
) -> None:
    project = workspace.make_project("project")
    claude.configure(workspace, workspace.wrap([*SERVER, "--modern"], *SHARE))
    one, two = (claude.open_terminal(workspace, project) for _ in range(2))

    for count, terminal in enumerate((one, two), 1):
        terminal.type(claude.LOOK)
        workspace.models.wait_for(count)
        terminal.wait_for("done")
    one.type("/clear")
    one.wait_until(lambda screen: "done" not in screen)
    one.type(claude.LOOK)
    workspace.models.wait_for(3)
    two.type(claude.LOOK)
    workspace.models.wait_for(4)
    # A session without a terminal shares it, too.
    assert claude.run(workspace, project).wait(LIMIT) == 0

    sights = workspace.wait_for_observations(5)
    assert len({sight.asker for sight in sights}) == 4
    assert sights[1].asker == sights[3].asker
    assert len({sight.pid for sight in sights}) == 1
    assert [sight.calls for sight in sights] == [1, 2, 3, 4, 5]
    assert "CLAUDE_CODE_ENTRYPOINT" not in sights[0].env
    for sight in sights:
        workspace.check(sight, project)


@LAUNCHED
def test_codex_with_and_without_a_terminal_shares_a_server(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    configure(workspace, "codex", workspace.wrap(SERVER, *SHARE))
    terminal = codex.open_terminal(workspace, project)
    app_server = codex.AppServer(workspace)

    terminal.type(mark(0, 1))
    workspace.models.wait_for(1)
    [thread] = app_server.start_threads(project)
    app_server.prompt(thread, words=mark(1))
    assert codex.run(workspace, project, words=mark(2)).wait(LIMIT) == 0

    sights = workspace.wait_for_observations(1 + 2 * ROUNDS)
    assert len({sight.asker for sight in sights}) == 3
    check_shared(workspace, sights, project)


@LAUNCHED
@IN_EACH_ERA
def test_a_killed_session_leaves_the_shared_server_to_the_others(
    workspace: Workspace, host: str, era: list[str]
) -> None:
    project = workspace.make_project("project")
    configure(workspace, host, workspace.wrap([*SERVER, *era], *SHARE))
    calls = itertools.count()
    together, killed = threading.Barrier(2, timeout=LIMIT), threading.Event()

    def delay() -> None:
        """Let the first calls arrive together, and the others after one session was killed."""
        if next(calls) < 2:
            together.wait()
        else:
            killed.wait(LIMIT)

    workspace.models.before_call = delay
    doomed, other = (HOSTS[host].run(workspace, project, words=mark(one)) for one in range(2))
    workspace.models.wait_for(2)
    doomed.kill()
    doomed.wait(LIMIT)
    killed.set()

    assert other.wait(LIMIT) == 0
    check_shared(workspace, workspace.wait_for_observations(1 + ROUNDS), project)
    check_nothing_is_left(workspace)

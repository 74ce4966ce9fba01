"""Hosts in real terminals: the thread or session changes while a server runs."""

from __future__ import annotations

from hosts import claude, codex
from hosts.isolation import find_above
from hosts.workspace import SERVER, Workspace, promise


def test_two_terminals_on_one_daemon_and_a_new_thread_have_servers_that_know_them(
    workspace: Workspace,
) -> None:
    projects = [workspace.make_project("one"), workspace.make_project("two")]
    codex.configure(workspace, workspace.wrap(SERVER))
    one, two = (codex.open_terminal(workspace, project) for project in projects)

    one.type(codex.LOOK)
    workspace.models.wait_for(1)
    two.type(codex.LOOK)
    workspace.models.wait_for(2)
    one.wait_for("done")
    two.wait_for("done")
    one.type("/new")
    one.wait_for("Where should the new conversation run")
    one.press("\r")
    one.wait_until(lambda screen: "done" not in screen and codex.MODEL in screen)
    one.type(codex.LOOK)
    workspace.models.wait_for(3)
    two.type(codex.LOOK)

    sights = workspace.wait_for_observations(4)
    assert len({sight.asker for sight in sights}) == 3
    # One process is the host of them all.
    assert len({find_above(sight.pid, "codex") for sight in sights}) == 1
    for sight, project in zip(sights, [*projects, *projects], strict=True):
        promise(sight.env.get("CODEX_THREAD_ID") == sight.asker, "the server gets no thread id")
        workspace.check(sight, project)


def test_after_clear_and_resume_in_a_terminal_every_call_carries_its_session(
    workspace: Workspace,
) -> None:
    project = workspace.make_project("project")
    claude.configure(workspace, workspace.wrap(SERVER))
    terminal = claude.open_terminal(workspace, project)

    terminal.type(claude.LOOK)
    [first] = workspace.models.wait_for(1)
    terminal.wait_for("done")
    terminal.type("/clear")
    terminal.wait_until(lambda screen: "done" not in screen)
    terminal.type(claude.LOOK)
    workspace.models.wait_for(2)
    terminal.wait_for("done")
    terminal.type(f"/resume {first.asker}")
    terminal.wait_until(lambda screen: first.asker not in screen)
    terminal.type(claude.LOOK)

    sights = workspace.wait_for_observations(3)
    assert [sight.asker == first.asker for sight in sights] == [True, False, True]
    for number, sight in enumerate(sights, 1):
        promise(
            sight.asker == sight.context.get("sessionId"),
            "after /clear nothing tells the server that its session has changed",
        )
        workspace.check(sight, project)
        # The session was not requested in its environment, so the server is not replaced.
        assert sight.calls == number


def test_after_clear_in_a_terminal_a_server_that_asks_for_its_session_gets_it(
    workspace: Workspace,
) -> None:
    project = workspace.make_project("project")
    claude.configure(workspace, workspace.wrap(SERVER, "--env", "CLAUDE_CODE_SESSION_ID=session"))
    terminal = claude.open_terminal(workspace, project)

    terminal.type(claude.LOOK)
    workspace.models.wait_for(1)
    terminal.wait_for("done")
    terminal.type("/clear")
    terminal.wait_until(lambda screen: "done" not in screen)
    terminal.type(claude.LOOK)

    sights = workspace.wait_for_observations(2)
    assert len({sight.asker for sight in sights}) == 2
    promise(
        all(sight.env["CLAUDE_CODE_SESSION_ID"] == sight.asker for sight in sights),
        "after /clear the server's environment names the old session",
    )
    for sight in sights:
        workspace.check(sight, project)

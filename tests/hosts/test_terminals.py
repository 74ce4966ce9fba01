"""Hosts in real terminals: the thread or session changes while a server runs, and `ps` shows it."""

from __future__ import annotations

import json

from hosts import claude, codex
from hosts.fake_models import LIMIT
from hosts.isolation import find_above
from hosts.our_commands import find_hosts, list_servers, list_titles, run, wait_for_host
from hosts.workspace import SERVER, Workspace, promise


def test_two_terminals_on_one_daemon_and_a_new_thread_have_servers_that_know_them(
    workspace: Workspace,
) -> None:
    projects = [workspace.make_project("one"), workspace.make_project("two")]
    codex.configure(workspace, workspace.wrap(SERVER))
    one, two = (codex.open_terminal(workspace, project) for project in projects)
    for count, (terminal, words) in enumerate([(one, "Fix the login"), (two, "Write tests")], 1):
        terminal.type(f"{words} {codex.LOOK}")
        workspace.models.wait_for(count)
        terminal.wait_for("done")

    (daemon,) = find_hosts(workspace)
    assert (daemon["host"], daemon["role"]) == ("codex", "daemon")
    promise(len(daemon["sessions"]) == 2, "nothing shows which of its threads it serves")
    titles = [f"Fix the login {codex.LOOK}", f"Write tests {codex.LOOK}"]
    assert list_titles(workspace) == dict(zip(projects, titles, strict=True))
    one.type("/rename")
    one.wait_for("Type a name")
    one.type("The login bug")
    one.wait_for("· The login bug")
    assert list_titles(workspace)[projects[0]] == "The login bug"
    assert "  The login bug" in run(workspace, "ps", "codex").stdout

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

    two.wait_for("done")
    for terminal in (one, two):
        for _ in range(2):
            terminal.press("\x03")
        terminal.process.wait(LIMIT)


def test_after_clear_and_resume_in_a_terminal_every_call_carries_its_session(
    workspace: Workspace,
) -> None:
    """One of the two servers asks for the session in its environment."""
    project = workspace.make_project("project")
    servers = {
        "probe": workspace.wrap(SERVER),
        "asks": workspace.wrap(SERVER, "--env", "CLAUDE_CODE_SESSION_ID=session"),
    }
    claude.configure_all(workspace, servers)
    look = f"{claude.LOOK} call mcp__asks__look {{}}"
    terminal = claude.open_terminal(workspace, project)

    terminal.type(f"Fix the login {look}")
    first = workspace.wait_for_observations(2)[0]
    terminal.wait_for("done")
    assert list_titles(workspace) == {project: f"Fix the login {look}"}
    terminal.type("/rename the-login-bug")
    terminal.wait_for(" the-login-bug ")
    wait_for_host(workspace, lambda host: host["sessions"][0]["title"] == "the-login-bug")
    assert "  the-login-bug" in run(workspace, "ps", "claude").stdout

    terminal.type("/clear")
    terminal.wait_until(lambda screen: "done" not in screen)
    shown = list_servers(workspace)[first.pid]
    (record,) = (workspace.home / ".claude" / "sessions").glob("*.json")
    session = json.loads(record.read_text(encoding="utf-8"))["sessionId"]
    assert session != first.asker
    assert (shown["asker"], shown["pid"]) == (session, first.pid)
    assert shown["earlier_session"] == (first.asker if workspace.launcher else None)

    terminal.type(look)
    workspace.models.wait_for(4)
    terminal.wait_for("done")
    terminal.type(f"/resume {first.asker}")
    terminal.wait_until(lambda screen: first.asker not in screen)
    terminal.type(look)

    sights = workspace.wait_for_observations(6)
    follows, asks = sights[::2], sights[1::2]
    assert [one.asker for one in follows] == [first.asker, session, first.asker]
    for sight in sights:
        promise(
            sight.asker == sight.context.get("sessionId"),
            "after /clear nothing tells the server that its session has changed",
        )
        workspace.check(sight, project)
    # The session was not requested in its environment, so the server is not replaced.
    assert [sight.calls for sight in follows] == [1, 2, 3]
    promise(
        all(sight.env["CLAUDE_CODE_SESSION_ID"] == sight.asker for sight in asks),
        "after /clear the server's environment names the old session",
    )
    assert [sight.calls for sight in asks] == [1, 1, 1]

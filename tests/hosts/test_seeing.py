"""`doctor`, `ps` and `reap` with real hosts that are configured, run and killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from fake_hosts import limit_to_subtree
from hosts import claude, codex
from hosts.codex_and_claude import HOSTS
from hosts.fake_models import LIMIT
from hosts.survivors import ROLES, list_survivors
from hosts.workspace import HERE, LAUNCHER, SERVER, Workspace, promise
from launches import LivenessSocket, wait_until_gone

from mcp_launch.commands import reap
from mcp_launch.hosts import configured
from mcp_launch.machine import process_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = LAUNCHER[0]

# What is wrong with each of the servers below, and with nothing else.
WRONG = {
    "typo": {"ML201"},
    "thread": {"ML103", "ML117"},
    "moved": {"ML116"},
    "agent": {"ML112", "ML114"},
    "unset": {"ML106"},
    "dies": {"ML301"},
}

CODEX_SERVERS = f"""
[mcp_servers.typo]
command = "{PROGRAM}"
args = ["run", "--", "pithon3", "-c", "pass"]

[mcp_servers.thread]
command = "{SERVER[0]}"
args = {json.dumps(SERVER[1:])}
env_vars = [{{ name = "CODEX_THREAD_ID", source = "thread" }}]

[mcp_servers.moved]
command = "/opt/old/bin/mcp-launch"
args = {json.dumps(["run", "--", *SERVER])}

[mcp_servers.agent]
command = "{PROGRAM}"
args = ["run", "--", "codex", "mcp-server"]
"""


def run(workspace: Workspace, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one of our commands as the workspace's owner, who has Codex and Claude Code installed."""
    path = ":".join(str(Path(workspace.programs[name]).parent) for name in ("codex", "claude"))
    environ = workspace.environment()
    return subprocess.run(
        [PROGRAM, *words],
        cwd=workspace.projects[0],
        env=environ | {"PATH": f"{path}:{environ['PATH']}"},
        check=False,
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
    )


def examine(workspace: Workspace, *words: str) -> dict[str, set[str]]:
    """Return the doctor's findings for each server in the workspace."""
    done = run(workspace, "doctor", "--json", *words)
    assert done.returncode in {0, 1}, done.stderr
    found: dict[str, set[str]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        assert finding["fix"]
        # Not about the launcher's installation and running processes: those are the developer's.
        if finding["subject"].get("file", "").startswith(str(workspace.place)):
            found.setdefault(finding["subject"]["server"], set()).add(finding["code"])
    return found


def test_the_doctor_names_what_is_wrong_with_six_servers_and_nothing_else(
    workspace_without_launcher: Workspace,
) -> None:
    workspace = workspace_without_launcher
    project = workspace.make_project("project")
    workspace.used |= {"codex", "claude"}
    codex.configure(workspace, [*LAUNCHER, "--", *SERVER], server="healthy")
    path = workspace.home / ".codex" / "config.toml"
    path.write_text(path.read_text(encoding="utf-8") + CODEX_SERVERS, encoding="utf-8")
    claude.configure(workspace, [*LAUNCHER, "--", *SERVER], server="healthy-too")
    settings = json.loads((workspace.home / ".claude.json").read_text(encoding="utf-8"))
    dying = [sys.executable, "-c", "raise SystemExit('no database')"]
    for name, words in (("unset", [*SERVER, "${NOT_SET_ANYWHERE}"]), ("dies", dying)):
        entry = {"command": PROGRAM, "args": ["run", "--", *words]}
        settings["mcpServers"][name] = entry
    (workspace.home / ".claude.json").write_text(json.dumps(settings), encoding="utf-8")

    assert examine(workspace, "--live") == WRONG
    assert workspace.start("codex", "mcp", "list", cwd=project).wait(LIMIT) != 0

    # What can be repaired is repaired, and Codex starts again.
    assert run(workspace, "doctor", "--fix", "--yes").returncode == 1
    left = examine(workspace)
    assert "thread" not in left
    assert "moved" not in left
    assert workspace.start("codex", "mcp", "list", cwd=project).wait(LIMIT) == 0


@pytest.mark.parametrize("host", ["codex", "claude"])
def test_the_doctor_offers_a_server_what_its_host_offers(workspace: Workspace, host: str) -> None:
    project, heard = workspace.make_project("project"), workspace.place / "heard"
    server = ["sh", "-c", 'tee "$0" | "$@"', str(heard), *SERVER]
    if host == "codex":
        codex.configure(workspace, server)
        codex.run(workspace, project)
    else:
        claude.configure(workspace, server)
        claude.run(workspace, project, "--session-id", str(uuid.uuid4()))
    workspace.wait_for_observations(1)

    requests = map(json.loads, heard.read_text(encoding="utf-8").splitlines())
    [greeting] = [one["params"] for one in requests if one["method"] == "initialize"]

    offered = greeting["capabilities"].keys() - {"experimental"}
    assert offered == {*configured.HOSTS[host].quirks.greeting.capabilities}


def list_servers(workspace: Workspace) -> dict[int, dict[str, Any]]:
    """Return the servers in the workspace that `ps` shows by their processes, by pid."""
    found: dict[int, dict[str, Any]] = {}
    for host in json.loads(run(workspace, "ps", "--json").stdout)["hosts"]:
        for session in host["sessions"]:
            for server in session["servers"]:
                if server["project"] in workspace.projects:
                    whose = {"host": host["host"], "asker": session["thread"] or session["session"]}
                    launch = server["launch"] or {"server": server["pid"]}
                    found[launch["server"]] = server | whose
    return found


def test_ps_shows_which_server_runs_for_which_session(workspace: Workspace) -> None:
    projects = [workspace.make_project(name) for name in ("one", "two")]
    codex.configure(workspace, workspace.wrap(SERVER))
    claude.configure(workspace, workspace.wrap(SERVER))
    host = codex.AppServer(workspace)
    threads = host.start_threads(*projects)
    host.prompt(*threads)
    workspace.wait_for_observations(2)
    # Both sessions stay: the second call of each is never answered.
    called = threading.Semaphore(0)
    workspace.models.before_call = called.release
    for project in projects:
        claude.run(workspace, project, words=f"{claude.LOOK} call mcp__probe__wait {{}}")
    for _ in range(4):
        assert called.acquire(timeout=LIMIT)

    sights = workspace.wait_for_observations(4)
    shown = list_servers(workspace)

    assert shown.keys() == {sight.pid for sight in sights}
    for sight in sights:
        server = shown[sight.pid]
        assert server["project"] == sight.cwd
        assert server["host"] == ("codex" if sight.asker in threads else "claude")
        whole = [psutil.Process(pid) for pid in server["pids"]]
        memory = sum(one.memory_full_info().pss for one in whole)
        assert server["memory"]["bytes"] == pytest.approx(memory, rel=0.3)
        assert bool(server["launch"]) is bool(workspace.launcher)
        promise(server["asker"] == sight.asker, "nothing shows which of its threads it serves")
    assert "probe" in run(workspace, "ps").stdout


def test_after_clear_in_a_terminal_ps_shows_the_new_session(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    claude.configure(workspace, workspace.wrap(SERVER))
    terminal = claude.open_terminal(workspace, project)
    terminal.type(claude.LOOK)
    [sight] = workspace.wait_for_observations(1)
    terminal.wait_for("done")
    terminal.type("/clear")
    terminal.wait_until(lambda screen: "done" not in screen)

    shown = list_servers(workspace)[sight.pid]

    (record,) = (workspace.home / ".claude" / "sessions").glob("*.json")
    session = json.loads(record.read_text(encoding="utf-8"))["sessionId"]
    assert session != sight.asker
    assert shown["asker"] == session
    assert shown["pid"] == sight.pid
    assert shown["earlier_session"] == (sight.asker if workspace.launcher else None)


def list_titles(workspace: Workspace) -> dict[str, str | None]:
    """Return the title that `ps` shows for each project of the workspace."""
    return {
        session["project"]: session["title"]
        for host in find_hosts(workspace)
        for session in host["sessions"]
    }


def find_hosts(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the hosts that `ps` shows in the workspace."""
    shown = json.loads(run(workspace, "ps", "--json").stdout)
    projects = set(workspace.projects)
    return [
        host
        for host in shown["hosts"]
        if not projects.isdisjoint(session["project"] for session in host["sessions"])
    ]


def wait_for_host(workspace: Workspace, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the only host, once it is shown like this."""
    deadline = time.monotonic() + LIMIT
    while True:
        (host,) = find_hosts(workspace)
        if is_so(host):
            return host
        assert time.monotonic() < deadline, host


def test_ps_shows_what_codex_threads_are_called_and_its_daemons_terminals(
    workspace: Workspace,
) -> None:
    projects = [workspace.make_project(name) for name in ("one", "two")]
    codex.configure(workspace, workspace.wrap(SERVER))
    one, two = (codex.open_terminal(workspace, project) for project in projects)
    for count, (terminal, words) in enumerate([(one, "Fix the login"), (two, "Write tests")], 1):
        terminal.type(f"{words} {codex.LOOK}")
        workspace.models.wait_for(count)
        terminal.wait_for("done")

    (daemon,) = find_hosts(workspace)
    assert (daemon["host"], daemon["role"], daemon["note"]) == ("codex", "daemon", None)
    pids = {client["pid"] for client in daemon["clients"]}
    assert pids == {terminal.process.pid for terminal in (one, two)}
    assert all(client["terminal"].startswith("/dev/pts/") for client in daemon["clients"])
    promise(len(daemon["sessions"]) == 2, "nothing shows which of its threads it serves")
    titles = list_titles(workspace)
    assert titles == {
        projects[0]: f"Fix the login {codex.LOOK}",
        projects[1]: f"Write tests {codex.LOOK}",
    }
    one.type("/rename")
    one.wait_for("Type a name")
    one.type("The login bug")
    one.wait_for("· The login bug")
    assert list_titles(workspace)[projects[0]] == "The login bug"
    assert "  The login bug" in run(workspace, "ps", "codex").stdout

    for terminal in (one, two):
        for _ in range(2):
            terminal.press("\x03")
        terminal.process.wait(LIMIT)
    left = wait_for_host(workspace, lambda host: host["clients"] == [])
    assert left["note"] == "no terminal; Codex ends it in about a minute"


def test_ps_shows_what_a_claude_code_session_is_called(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    claude.configure(workspace, workspace.wrap(SERVER))
    terminal = claude.open_terminal(workspace, project)
    terminal.type(f"Fix the login {claude.LOOK}")
    workspace.wait_for_observations(1)
    terminal.wait_for("done")

    assert list_titles(workspace) == {project: f"Fix the login {claude.LOOK}"}

    terminal.type("/rename the-login-bug")
    terminal.wait_for(" the-login-bug ")
    wait_for_host(workspace, lambda host: host["sessions"][0]["title"] == "the-login-bug")
    assert "  the-login-bug" in run(workspace, "ps", "claude").stdout


@pytest.mark.parametrize("host", list(HOSTS))
def test_reap_removes_what_a_killed_host_left_and_nothing_else(
    workspace_without_launcher: Workspace,
    host: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(process_snapshot, "SETTLED", 0.0)  # nothing here is ten seconds old
    workspace = workspace_without_launcher
    project = workspace.make_project("project")
    init = workspace.place / "init"
    init.symlink_to(os.path.realpath(sys.executable))
    fake_init = [str(init), "-S", "-E", str(HERE.parent / "support" / "scripts" / "fake_init.py")]
    liveness = LivenessSocket(workspace.place)
    HOSTS[host].configure(workspace, [*SERVER, "--liveness", liveness.path, "hostile"])
    left, living = (
        start_with_descendants(workspace, project, liveness, HOSTS[host], fake_init)
        for _ in range(2)
    )
    killed = psutil.Process(left["server"]).parent()
    assert killed
    killed.kill()
    wait_until_gone(killed.pid)

    # Only look at what this test has started: a developer may have orphans of their own.
    assert (
        reap.run(reap.ReapRequest(is_sure=True), workspace.environment(), table=limit_to_subtree())
        == 0
    )

    assert str(left["server"]) in capsys.readouterr().out
    assert all(psutil.Process(pid).is_running() for pid in living.values())
    liveness.pids = left
    # Without us, a process that forked twice and left its session cannot be attributed.
    assert set(list_survivors(liveness)) <= {"daemon"}
    liveness.pids |= {f"living {role}": pid for role, pid in living.items()}
    liveness.close()


def start_with_descendants(
    workspace: Workspace, project: str, liveness: LivenessSocket, host: Any, fake_init: list[str]
) -> dict[str, int]:
    """Start a host below its own init, and return the pids of its server's processes."""
    for connection in liveness.connections.values():
        connection.close()  # these belong to the previous host
    liveness.connections.clear()
    liveness.pids.clear()
    host.run(workspace, project, words="call mcp__probe__wait {}", before=fake_init)
    liveness.wait_for(*ROLES)
    return dict(liveness.pids)

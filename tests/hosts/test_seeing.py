"""`doctor`, `ps` and `reap` with real hosts that are configured, run and killed."""

from __future__ import annotations

import json
import os
import sys
import threading
import uuid

import psutil
import pytest
from command_line import run_command
from fake_hosts import limit_to_subtree
from hosts import claude, codex
from hosts.fake_models import LIMIT
from hosts.our_commands import PROGRAM, list_servers, run
from hosts.survivors import ROLES
from hosts.workspace import HERE, LAUNCHER, SERVER, Workspace, promise
from launches import LivenessSocket, wait_until_gone

from mcp_launch.hosts import configured
from mcp_launch.machine import process_snapshot

# What is wrong with each of the servers below, and with nothing else.
WRONG = {
    "typo": {"ML201"},
    "thread": {"ML103", "ML117"},
    "moved": {"ML116"},
    "gone": {"ML207"},
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

[mcp_servers.gone]
command = "{PROGRAM}"
args = {json.dumps(["run", "--cwd", "/no/such/directory", "--", *SERVER])}
"""


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


def test_reap_removes_what_a_killed_host_left_and_nothing_else(
    workspace_without_launcher: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_snapshot, "SETTLED", 0.0)  # nothing here is ten seconds old
    workspace = workspace_without_launcher
    project = workspace.make_project("project")
    init = workspace.place / "init"
    init.symlink_to(os.path.realpath(sys.executable))
    fake_init = [str(init), "-S", "-E", str(HERE.parent / "support" / "scripts" / "fake_init.py")]
    liveness = LivenessSocket(workspace.place)
    codex.configure(workspace, [*SERVER, "--liveness", liveness.path, "hostile"])
    left, living = (
        start_with_descendants(workspace, project, liveness, fake_init) for _ in range(2)
    )
    killed = psutil.Process(left["server"]).parent()
    assert killed
    killed.kill()
    wait_until_gone(killed.pid)

    # Only look at what this test has started: a developer may have orphans of their own.
    done = run_command(
        "reap", "--yes", cwd=None, table=limit_to_subtree(), **workspace.environment()
    )

    assert done.returncode == 0
    assert str(left["server"]) in done.stdout
    assert all(psutil.Process(pid).is_running() for pid in living.values())
    # Without us, a process that forked twice and left its session cannot be attributed.
    for role in {*ROLES} - {"daemon"}:
        wait_until_gone(left[role])
    liveness.pids = left
    liveness.pids |= {f"living {role}": pid for role, pid in living.items()}
    liveness.close()


def start_with_descendants(
    workspace: Workspace, project: str, liveness: LivenessSocket, fake_init: list[str]
) -> dict[str, int]:
    """Start a host below its own init, and return the pids of its server's processes."""
    for connection in liveness.connections.values():
        connection.close()  # these belong to the previous host
    liveness.connections.clear()
    liveness.pids.clear()
    codex.run(workspace, project, words="call mcp__probe__wait {}", before=fake_init)
    liveness.wait_for(*ROLES)
    return dict(liveness.pids)

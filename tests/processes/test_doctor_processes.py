"""What the doctor finds among the processes that run."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from typing import TYPE_CHECKING

import pytest
from fake_hosts import (
    SERVER,
    STAYS,
    FakeHosts,
    configure,
    forget_seconds,
    limit_to_subtree,
    link,
    write_lease,
    write_session,
)
from fake_machine import list_codes
from launches import wait_until_gone
from mcp_launch.doctor.checks import processes, shared_servers

from mcp_launch.errors import LaunchError
from mcp_launch.machine import process_snapshot
from mcp_launch.system import linux

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fake_hosts import FakeHost
    from fake_machine import FakeMachine
    from launches import LaunchRunner
    from mcp_launch.doctor.finding import Finding

THREAD = "01980000-0000-7000-8000-00000000000"

# Starts a command with a pipe that it was given, tells its pid, and holds what else it was given.
PASSES_ON = """
import os, signal, subprocess, sys
stdin, *command = sys.argv[1:]
if command:
    child = subprocess.Popen(command, stdin=int(stdin), stdout=subprocess.PIPE)
    child.stdout.readline()
os.write(1, b"%d\\n" % (child.pid if command else 0))
signal.alarm(120)
while True:
    signal.pause()
"""


@pytest.fixture(autouse=True)
def grown_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take everything for old enough to be what it is."""
    monkeypatch.setattr(process_snapshot, "SETTLED", 0.0)


@pytest.fixture
def real(machine: FakeMachine) -> FakeMachine:
    """Return a machine with the processes of this test."""
    machine.table = limit_to_subtree()
    return machine


@pytest.fixture
def state(machine: FakeMachine) -> Path:
    return machine.home / ".local/state/mcp-launch"


def check(machine: FakeMachine) -> list[Finding]:
    return list(processes.check(machine.survey()))


def start_next(fake_host: FakeHost) -> int:
    """Have a host start the same command once more."""
    fake_host.launch.write(b"next\n")
    told = {fake_host.launch.read_line(), fake_host.launch.read_line()}
    (pid,) = (int(line) for line in told - {b"ready\n"})
    return pid


def lock(directory: Path, count: int) -> list[str]:
    """Return the words by which a stand-in holds the locks of some threads."""
    (directory / "thread-writer-locks").mkdir()
    words = []
    for number in range(count):
        words += ["--open", str(directory / "thread-writer-locks" / f"{THREAD}{number}.lock")]
    return words


def test_where_nothing_runs_nothing_is_wrong(machine: FakeMachine) -> None:
    assert check(machine) == []


# ML401


def test_a_server_whose_host_is_gone_is_found_and_can_be_ended(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    fake_host = fake_hosts.start("claude", "--socket", command=SERVER)
    assert check(real) == []
    fake_host.kill_host()

    (finding,) = check(real)

    assert (finding.code, finding.subject.pid) == ("ML401", fake_host.server)
    assert forget_seconds(finding.message).startswith(
        f"mcp-docs (process {fake_host.server}) has run for 0s and uses"
    )
    assert "PSS, but nothing needs it: process" in finding.message
    assert finding.fix == "end it: mcp-launch reap"
    assert finding.repair
    assert finding.repair.what == f"end mcp-docs (process {fake_host.server})"
    finding.repair.act()
    wait_until_gone(fake_host.server)
    assert check(real) == []


def test_what_was_left_a_moment_ago_is_no_finding(
    fake_hosts: FakeHosts, real: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is probably ending."""
    fake_hosts.start("claude", command=SERVER).kill_host()
    monkeypatch.setattr(process_snapshot, "SETTLED", 3600.0)

    assert check(real) == []


def test_what_has_ended_since_it_was_looked_at_is_not_listed(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    fake_host = fake_hosts.start("claude", command=SERVER)
    survey = real.survey()
    assert len(survey.census.hosts[0].servers) == 1

    fake_host.end()
    wait_until_gone(fake_host.server)

    assert processes.list_memory(survey) == []


def test_a_repair_leaves_alone_what_has_an_owner_by_then(
    fake_hosts: FakeHosts, real: FakeMachine, state: Path
) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS)
    write_lease(state, processes={"launcher": fake_host.server, "host": fake_host.pid})
    fake_host.kill_host()
    (finding,) = check(real)
    write_lease(state, processes={"launcher": fake_host.server, "host": os.getpid()})

    assert finding.repair
    with pytest.raises(LaunchError):
        finding.repair.act()
    assert linux.look(fake_host.server)


# ML402


def test_a_second_server_of_one_name_under_claude_is_found(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    fake_host = fake_hosts.start("claude", "--twice", command=SERVER)
    assert check(real) == []
    second = start_next(fake_host)

    (finding,) = check(real)

    assert finding.code == "ML402"
    assert forget_seconds(finding.message) == (
        f"Claude Code (process {fake_host.pid}) needs 1 of mcp-docs and runs 2: "
        f"process {fake_host.server} (0s), process {second} (0s)"
    )


def test_a_second_server_may_be_a_second_entry(fake_hosts: FakeHosts, real: FakeMachine) -> None:
    entry = {"command": SERVER[0], "args": SERVER[1:]}
    real.write("~/.claude.json", json.dumps({"mcpServers": {"a": entry, "b": entry}}))
    fake_host = fake_hosts.start("claude", "--twice", command=SERVER)
    start_next(fake_host)

    assert check(real) == []


def test_hosts_start_servers_twice_for_a_moment(
    fake_hosts: FakeHosts, real: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_snapshot, "SETTLED", 100.0)
    start_next(fake_hosts.start("claude", "--twice", command=SERVER))

    assert check(real) == []


@pytest.mark.parametrize(
    ("threads", "codes"), [(0, []), (1, ["ML402"]), (2, [])], ids=["not told", "one", "two"]
)
def test_codex_has_a_server_for_each_thread(
    threads: int, codes: list[str], fake_hosts: FakeHosts, real: FakeMachine, tmp_path: Path
) -> None:
    words = lock(tmp_path, threads)
    start_next(fake_hosts.start("codex", *words, "--twice", command=SERVER))

    assert list_codes(check(real)) == codes


@pytest.mark.parametrize(("other", "codes"), [("t-1", ["ML402"]), ("t-2", [])])
def test_two_launches_for_one_thread_are_found(
    other: str, codes: list[str], fake_hosts: FakeHosts, real: FakeMachine, state: Path
) -> None:
    fake_host = fake_hosts.start("codex", "--twice", command=STAYS)
    servers = {"t-1": fake_host.server, other + " ": start_next(fake_host)}
    for thread, pid in servers.items():
        binding = {"state": "confirmed", "thread": thread.strip()}
        parts = {"launcher": pid, "host": fake_host.pid}
        write_lease(state, f"launch-{pid}", processes=parts, binding=binding)

    assert list_codes(check(real)) == codes


# ML403 and ML404: pipes


class Passing:
    """Starts hosts that are given a pipe, and ends their servers."""

    def __init__(self, runner: LaunchRunner) -> None:
        self._runner = runner
        self._servers: list[int] = []

    def start(self, program: str, stdin: int, *held: int, command: list[str]) -> tuple[int, int]:
        """Return the pids of a host and its server."""
        words = [link(self._runner, program), "-S", "-c", PASSES_ON, str(stdin), *command]
        host = self._runner.start(words, pass_fds=(stdin, *held))
        server = int(host.read_line())
        self._servers += [server] if server else []
        return host.pid, server

    def end_all(self) -> None:
        for pid in self._servers:
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def passing(runner: LaunchRunner) -> Iterator[Passing]:
    configure(SERVER)
    passing = Passing(runner)
    yield passing
    passing.end_all()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_a_pipe_of_a_servers_own_host_is_well(
    passing: Passing, real: FakeMachine, pipe: tuple[int, int]
) -> None:
    passing.start("codex", *pipe, command=SERVER)

    assert check(real) == []


def test_two_hosts_that_write_to_one_server_are_found(
    passing: Passing, real: FakeMachine, pipe: tuple[int, int]
) -> None:
    reading, writing = pipe
    codex, server = passing.start("codex", reading, writing, command=SERVER)
    claude, _ = passing.start("claude", writing, command=[])

    (finding,) = check(real)

    assert (finding.code, finding.subject.host) == ("ML403", "codex")
    assert f"Codex (process {codex})" in finding.message
    assert f"Claude Code (process {claude})" in finding.message
    assert f"can write to the stdin of mcp-docs (process {server})" in finding.message


def test_servers_of_two_hosts_that_read_one_pipe_are_found(
    passing: Passing, real: FakeMachine, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_snapshot, "SETTLED", 100.0)  # who writes is not asked here
    reading, writing = pipe
    passing.start("codex", reading, writing, command=SERVER)
    passing.start("claude", reading, writing, command=SERVER)

    (finding,) = check(real)

    assert finding.code == "ML403"
    assert finding.message.endswith("read from the same pipe")


def test_a_server_to_which_another_host_talks_is_found(
    passing: Passing, real: FakeMachine, pipe: tuple[int, int]
) -> None:
    reading, writing = pipe
    codex, server = passing.start("codex", reading, command=SERVER)
    claude, _ = passing.start("claude", writing, command=[])

    (finding,) = check(real)

    assert finding.code == "ML404"
    assert finding.message == (
        f"Claude Code (process {claude}) talks to mcp-docs (process {server}), "
        f"which Codex (process {codex}) started"
    )


# ML404 and ML405: variables


def test_a_session_of_another_host_is_found(fake_hosts: FakeHosts, real: FakeMachine) -> None:
    fake_host = fake_hosts.start(
        "codex", command=SERVER, env={**os.environ, "CLAUDE_CODE_SESSION_ID": "s-1"}
    )

    (finding,) = check(real)

    assert finding.code == "ML404"
    assert finding.message == (
        f"mcp-docs (process {fake_host.server}) runs for Codex (process {fake_host.pid}), but its "
        "environment has CLAUDE_CODE_SESSION_ID=s-1, a session of Claude Code"
    )
    assert finding.fix.startswith("mcp-launch wrap mcp-docs")


def test_sessions_of_several_other_hosts_are_found(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    environ = {**os.environ, "QWEN_CODE_SESSION_ID": "s-1", "COPILOT_AGENT_SESSION_ID": "s-2"}
    fake_hosts.start("goose", command=SERVER, env=environ)

    told = " and ".join(finding.message for finding in check(real))

    assert "QWEN_CODE_SESSION_ID=s-1, a session of Qwen Code" in told
    assert "COPILOT_AGENT_SESSION_ID=s-2, a session of Copilot CLI" in told


# ML408


@pytest.mark.parametrize("host", ["codex", "qwen"])
def test_a_server_that_runs_in_a_home_is_noted(
    host: str, fake_hosts: FakeHosts, real: FakeMachine, state: Path
) -> None:
    fake_host = fake_hosts.start(host, command=STAYS)
    write_lease(
        state,
        processes={"launcher": fake_host.server, "server": fake_host.server, "host": fake_host.pid},
        context={"host": {"value": host}},
        place_note="the home directory",
    )

    (finding,) = check(real)

    assert (finding.code, finding.level) == ("ML408", "note")
    assert finding.subject.pid == fake_host.server
    assert "runs in the home directory, not in a project" in finding.message


def test_a_server_that_does_not_run_is_not_noted(
    fake_hosts: FakeHosts, real: FakeMachine, state: Path
) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS)
    write_lease(
        state,
        processes={"launcher": fake_host.server, "host": fake_host.pid},
        place_note="the home directory",
        state="not started",
    )

    assert check(real) == []
    (share,) = processes.list_memory(real.survey())
    assert share.server.endswith(" (not started)")  # its launcher's process is not the server's


# ML410


def test_a_server_that_an_editors_agent_starts_where_it_runs_is_reported(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    fake_host = fake_hosts.start("gemini", "--acp", command=SERVER)

    (finding,) = check(real)

    assert (finding.code, finding.level) == ("ML410", "warning")
    assert finding.subject.pid == fake_host.server
    assert (
        "runs where Gemini CLI was started, regardless of where its sessions work"
        in finding.message
    )
    assert finding.fix.endswith(": then it gets its session's directory")


@pytest.mark.parametrize(("is_host_directory", "codes"), [(True, ["ML410"]), (False, [])])
def test_a_wrapped_server_of_an_agent_is_reported_while_its_directory_is_not_known(
    is_host_directory: bool,
    codes: list[str],
    fake_hosts: FakeHosts,
    real: FakeMachine,
    state: Path,
) -> None:
    fake_host = fake_hosts.start("gemini", "--acp", command=STAYS)
    write_lease(
        state,
        processes={"launcher": fake_host.server, "server": fake_host.server, "host": fake_host.pid},
        context={"host": {"value": "gemini"}},
        is_host_directory=is_host_directory,
        place_note="the home directory" if is_host_directory else "",  # which is no second finding
    )

    found = check(real)

    assert list_codes(found) == codes
    command = "mcp-launch wrap --host gemini .* -- --cwd DIR, or start Gemini CLI in the project"
    assert all(re.search(command, one.fix) for one in found)


def test_a_server_of_a_host_in_a_terminal_is_where_its_session_is(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    fake_hosts.start("gemini", command=SERVER)

    assert check(real) == []


@pytest.mark.parametrize(("told", "codes"), [("0", []), ("7", ["ML404"])])
def test_a_thread_that_codex_does_not_have_is_found(
    told: str, codes: list[str], fake_hosts: FakeHosts, real: FakeMachine, tmp_path: Path
) -> None:
    command = ["env", f"CODEX_THREAD_ID={THREAD}{told}", *SERVER]
    fake_hosts.start("codex", *lock(tmp_path, 1), command=command)

    assert list_codes(check(real)) == codes


@pytest.mark.parametrize(
    ("at_start", "outer", "codes"),
    [
        ("s-2", None, []),
        ("s-1", None, ["ML405"]),
        ("s-1", "s-1", ["ML404"]),
        ("s-1", "s-0", ["ML405"]),
    ],
    ids=["the same", "changed since", "the outer host's", "changed, below an outer host"],
)
def test_the_session_of_claude_is_compared(
    at_start: str, outer: str | None, codes: list[str], fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    environ = {**os.environ} | ({"CLAUDE_CODE_SESSION_ID": outer} if outer else {})
    command = ["env", f"CLAUDE_CODE_SESSION_ID={at_start}", *SERVER]
    fake_host = fake_hosts.start("claude", command=command, env=environ)
    write_session(real.home, fake_host.pid, "s-2")

    assert list_codes(check(real)) == codes


def test_a_session_that_changed_is_reported_with_both_ids(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    command = ["env", "CLAUDE_CODE_SESSION_ID=s-1", *SERVER]
    fake_host = fake_hosts.start("claude", command=command)
    write_session(real.home, fake_host.pid, "s-2")

    (finding,) = check(real)

    assert finding.message == (
        f"mcp-docs (process {fake_host.server}) now serves s-2, "
        "but was started with CLAUDE_CODE_SESSION_ID=s-1"
    )
    assert finding.fix == (
        'mcp-launch wrap mcp-docs, then read _meta["mcp-launch/context"] of each call, '
        "or start the server with mcp-launch run --env NAME=session"
    )


@pytest.mark.parametrize(("now", "codes"), [("s-1", []), ("s-2", ["ML405"]), (None, [])])
def test_the_session_of_a_launch_is_compared(
    now: str | None, codes: list[str], fake_hosts: FakeHosts, real: FakeMachine, state: Path
) -> None:
    fake_host = fake_hosts.start("claude", command=["env", "MCP_LAUNCH_SESSION_ID=s-1", *STAYS])
    parts = {"launcher": fake_host.server, "server": fake_host.server, "host": fake_host.pid}
    write_lease(state, processes=parts, binding={"state": "confirmed", "session": now})

    assert list_codes(check(real)) == codes


def test_a_launch_may_inherit_what_it_takes_out(
    fake_hosts: FakeHosts, real: FakeMachine, state: Path
) -> None:
    """Our servers are not given another host's variables, though our launcher has them."""
    fake_host = fake_hosts.start("codex", command=["env", "CLAUDE_CODE_SESSION_ID=s-1", *STAYS])
    write_lease(state, processes={"launcher": fake_host.server, "host": fake_host.pid})

    assert check(real) == []


def test_only_the_hosts_that_were_asked_for_are_looked_at(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    fake_hosts.start("codex", command=SERVER, env={**os.environ, "CLAUDE_CODE_SESSION_ID": "s-1"})

    assert list(processes.check(real.survey("claude"))) == []
    assert list_codes(processes.check(real.survey("codex"))) == ["ML404"]


# ML406


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[socket.socket]:
    """Return the socket of a pool that runs."""
    (tmp_path / "pools").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "pools" / "agentdeck-mcp-docs.sock"))
        listening.listen()
        yield listening


def test_a_pool_that_runs_is_found(
    pool: socket.socket, machine: FakeMachine, tmp_path: Path
) -> None:
    (finding,) = shared_servers.check(machine.survey(), str(tmp_path / "pools"))

    assert (finding.code, finding.subject.server) == ("ML406", "docs")
    assert finding.subject.file == pool.getsockname()
    assert finding.message == "agent-deck's pool shares one docs among all sessions"
    assert "exclude_mcps" in finding.fix


def test_who_is_connected_to_a_pool_is_counted(
    pool: socket.socket, machine: FakeMachine, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as session:
        session.connect(pool.getsockname())
        with pool.accept()[0]:
            (finding,) = shared_servers.check(machine.survey(), str(tmp_path / "pools"))

    assert finding.message == "agent-deck's pool shares one docs among all sessions (1 connected)"


def test_a_socket_that_a_pool_left_is_no_pool(
    pool: socket.socket, machine: FakeMachine, tmp_path: Path
) -> None:
    pool.close()

    assert list(shared_servers.check(machine.survey(), str(tmp_path / "pools"))) == []


@pytest.mark.parametrize(
    ("command", "is_pooled"),
    [
        (["agent-deck", "mcp-proxy", "/tmp/agentdeck-mcp-docs.sock"], True),  # noqa: S108
        (["nc", "-U", "/tmp/agentdeck-mcp-docs.sock"], True),  # noqa: S108
        (["/usr/bin/agent-deck", "mcp", "list"], False),
        (["nc", "-U", "/run/docs.sock"], False),
        (["npx", "docs"], False),
    ],
    ids=["proxy", "nc", "another command", "another socket", "no pool"],
)
def test_an_entry_may_go_through_a_pool(
    command: list[str], is_pooled: bool, machine: FakeMachine, tmp_path: Path
) -> None:
    entry = {"command": command[0], "args": command[1:]}
    file = machine.write(".mcp.json", json.dumps({"mcpServers": {"docs": entry}}))

    found = list(shared_servers.check(machine.survey("claude"), str(tmp_path)))

    assert list_codes(found) == ["ML406"] * is_pooled
    assert [(one.subject.file, one.subject.server) for one in found] == [
        (str(file), "docs")
    ] * is_pooled


# ML407


def test_a_stale_lease_is_found_and_can_be_removed(machine: FakeMachine, state: Path) -> None:
    machine.table.boot = "now"
    stale = write_lease(state, "old", boot="then")
    other = write_lease(state, "older", boot="then")

    found = check(machine)

    assert list_codes(found) == ["ML407", "ML407"]
    assert {finding.subject.file for finding in found} == {str(stale), str(other)}
    assert len({finding.repair.what for finding in found if finding.repair}) == 1
    assert found[0].repair
    found[0].repair.act()
    assert check(machine) == []
    assert not stale.exists()


def test_of_one_host_only_its_own_leases_and_pools_are_found(
    pool: socket.socket, machine: FakeMachine, state: Path, tmp_path: Path
) -> None:
    machine.table.boot = "now"
    write_lease(state, "of-codex", boot="then", context={"host": {"value": "codex"}})
    entry = {"command": "npx", "args": [pool.getsockname()]}
    machine.write("~/.claude.json", json.dumps({"mcpServers": {"docs": entry}}))

    found = {}
    for host in ("codex", "claude"):
        survey = machine.survey(host)
        pools = shared_servers.check(survey, str(tmp_path / "pools"))
        found[host] = list_codes([*processes.check(survey), *pools])

    assert found == {"codex": ["ML407"], "claude": ["ML406"]}


def test_the_lease_of_a_launch_that_runs_is_not_stale(real: FakeMachine, state: Path) -> None:
    write_lease(state, processes={"launcher": os.getpid(), "host": os.getppid()})

    assert check(real) == []


# Memory


def test_memory_is_shown_by_host_session_and_server(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    fake_host = fake_hosts.start("claude", command=SERVER)
    write_session(real.home, fake_host.pid, "s-1")
    left = fake_hosts.start("codex", command=SERVER).kill_host()

    shares = processes.list_memory(real.survey())

    assert [share[:3] for share in shares] == [
        (f"Claude Code (process {fake_host.pid})", "s-1", f"mcp-docs (process {fake_host.server})"),
        ("no host", "", f"mcp-docs (process {left.server})"),
    ]
    assert all(share.memory.amount > 0 for share in shares)


def test_one_host_is_shown_by_itself_under_the_names_that_ps_shows(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    claude = fake_hosts.start("claude", command=SERVER)
    fake_hosts.start("codex", command=SERVER)
    fake_hosts.start("codex", command=SERVER).kill_host()
    entry = {"command": SERVER[0], "args": SERVER[1:]}
    real.write("~/.cursor/mcp.json", json.dumps({"mcpServers": {"of-cursor": entry}}))

    shares = processes.list_memory(real.survey("claude"))

    assert [(share.host, share.server) for share in shares] == [
        (f"Claude Code (process {claude.pid})", f"of-cursor (process {claude.server})")
    ]
    everything = processes.list_memory(real.survey())
    assert shares[0].server in [share.server for share in everything]
    assert len(everything) == 3
    assert list(processes.check(real.survey("claude"))) == []  # neither Codex's nor the orphan

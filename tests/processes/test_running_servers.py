"""Real processes are assigned to their hosts, sessions and servers; orphans are found."""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import IO, TYPE_CHECKING

import pytest
from command_line import run_command
from fake_hosts import (
    SERVER,
    STAYS,
    FakeHosts,
    find_server,
    limit_to_subtree,
    link,
    serve,
    take,
    write_lease,
)
from launches import ENVIRONMENT_SERVER, HERE, RUN, python, wait_for_lease

from mcp_launch.machine import running, units
from mcp_launch.machine.pipe_ends import Endpoints
from mcp_launch.machine.recognize_server import Configured
from mcp_launch.state import leases
from mcp_launch.system import linux, portable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from launches import LaunchRunner

THREAD = "01980000-0000-7000-8000-00000000000"


# Runs a command with one of its descriptors turned away from the host.
TURN_TO_NULL = python(
    "import os, sys\n"
    "told = os.dup(1)\n"
    "os.dup2(os.open(os.devnull, os.O_RDWR), int(sys.argv[1]))\n"
    "os.write(told, b'ready\\n')\n"
    "os.execv(sys.argv[2], sys.argv[2:])"
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


# The other ends of stdin and stdout.


@pytest.fixture(params=["pipe", "socket"])
def wired(
    request: pytest.FixtureRequest, runner: LaunchRunner
) -> Iterator[tuple[int, list[IO[bytes]]]]:
    """Return a process, and our ends of its stdin and stdout."""
    if request.param == "pipe":
        (their_in, our_in), (our_out, their_out) = os.pipe(), os.pipe()
    else:
        pairs = [socket.socketpair(), socket.socketpair()]
        (our_in, their_in), (our_out, their_out) = ((a.detach(), b.detach()) for a, b in pairs)
    process = runner.start(STAYS, stdin=their_in, stdout=their_out)
    os.close(their_in)
    os.close(their_out)
    ours: list[IO[bytes]] = [os.fdopen(our_in, "wb", 0), os.fdopen(our_out, "rb", 0)]
    assert os.read(our_out, 100) == b"ready\n"
    yield process.pid, ours
    for stream in ours:
        stream.close()


def test_an_end_is_held_as_long_as_any_process_can_use_it(
    wired: tuple[int, list[IO[bytes]]],
) -> None:
    pid, ours = wired
    me = os.getpid()

    ends = [Endpoints([me, pid]).look(pid, fd) for fd in (0, 1)]
    assert [(end.state, end.holders) for end in ends] == [("held", (me,))] * 2
    somebody_else = [Endpoints([]).look(pid, fd).state for fd in (0, 1)]
    assert somebody_else == ["unknown", "unknown"]

    ours[0].write(b"never read\n")
    for stream in ours:
        stream.close()
    assert [Endpoints([me]).look(pid, fd).state for fd in (0, 1)] == ["gone", "gone"]


def test_a_socket_that_is_closed_one_way_is_held_if_the_kernel_may_be_asked(
    runner: LaunchRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = runner.start(STAYS, stdin=theirs.fileno())
        theirs.close()
        ours.shutdown(socket.SHUT_RDWR)
        assert Endpoints([os.getpid()]).look(process.pid, 0).state == "held"

        def refuse(*_: object) -> None:
            raise PermissionError

        monkeypatch.setattr(socket, "socket", refuse)
        assert Endpoints([os.getpid()]).look(process.pid, 0).state == "unknown"


def test_a_socket_that_nobody_has_accepted_is_unknown(runner: LaunchRunner, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as calling:
        listening.bind(str(tmp_path / "here"))
        listening.listen()
        calling.connect(str(tmp_path / "here"))
        process = runner.start(STAYS, stdin=calling.fileno())

        assert Endpoints([os.getpid()]).look(process.pid, 0).state == "unknown"


# Servers of hosts that live.


def test_a_launch_is_shown_with_the_facts_of_its_lease(runner: LaunchRunner, state: Path) -> None:
    locks = runner.project.parent / "thread-writer-locks"
    locks.mkdir()
    lock = locks / f"{THREAD}1.lock"
    host = runner.launch_below_host(
        "codex",
        "--open",
        str(lock),
        command=[*RUN, "--server", "docs", "--", *ENVIRONMENT_SERVER, "--token=s3cret-key"],
    )
    host.call("look", meta={"threadId": THREAD + "1", "sessionId": "s-1"})
    wait_for_lease(state, lambda lease: lease["calls"] == 1)

    (seen,) = take(state).hosts

    assert (seen.name, seen.title, seen.pid) == ("codex", "Codex", host.pid)
    assert seen.threads == (THREAD + "1",)
    (session,) = seen.sessions
    assert (session.session, session.thread) == ("s-1", THREAD + "1")
    (server,) = session.servers
    assert (server.name, server.project) == ("docs", str(runner.project))
    assert (server.launcher, server.contact) == (host.child, host.child)
    assert linux.read_argv(server.pid) == [*ENVIRONMENT_SERVER, "--token=s3cret-key"]
    assert server.launch
    assert (server.launch.state, server.launch.calls) == ("confirmed", 1)
    assert set(server.processes) == {host.child, *linux.list_descendants(host.child)}
    assert len(server.processes) == 4
    assert server.memory.amount > 0
    assert server.memory.kind == "PSS"
    assert (server.stdin.holders, server.stdout.holders) == ((host.pid,), (host.pid,))
    assert "s3cret-key" not in str(server)
    assert "s3cret-key" not in " ".join(server.command)


def test_a_launch_has_the_name_that_it_was_given_and_else_that_of_its_hosts_file(
    runner: LaunchRunner, state: Path
) -> None:
    def start(program: str, *name: str) -> None:
        host = runner.launch_below_host(program, command=[*RUN, *name, "--", *ENVIRONMENT_SERVER])
        host.ask("look")
        wait_for_lease(state, lambda lease: lease["context"]["host"]["value"] == program)

    def list_names(*configured: Configured) -> dict[str, list[str]]:
        seen = take(state, *configured).hosts
        return {host.name: [server.name for server in host.servers] for host in seen}

    start("codex")
    start("gemini", "--server", "web")

    assert list_names(Configured("it", tuple(ENVIRONMENT_SERVER))) == {
        "codex": ["it"],
        "gemini": ["web"],
    }
    assert list_names()["codex"] == [os.path.basename(ENVIRONMENT_SERVER[0])]


def test_a_launch_with_its_files_elsewhere_is_known_for_one(
    runner: LaunchRunner, state: Path
) -> None:
    elsewhere = str(state.parent / "elsewhere")
    environ = {**os.environ, "MCP_LAUNCH_HOME": elsewhere, "CODEX_THREAD_ID": THREAD + "1"}
    command = [*RUN, "--server", "docs", "--", *ENVIRONMENT_SERVER]
    runner.launch_below_host("claude", command=command, env=environ).ask("look")

    seen = take(state)

    (server,) = seen.hosts[0].servers
    assert (server.name, server.launch) == ("docs", None)
    shown = run_command("ps", "-v", table=limit_to_subtree()).stdout
    assert "its mcp-launch has no lease in this state directory" in shown
    assert "not started" not in shown


def test_a_launch_is_shown_where_there_is_no_proc(fake_hosts: FakeHosts, state: Path) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS)
    table = limit_to_subtree(reader=portable)
    parts = leases.describe_processes(table, launcher=fake_host.server, host=fake_host.pid)
    path = write_lease(state)
    record = json.loads(path.read_text(encoding="utf-8"))
    record |= {"boot": portable.boot_id(), "processes": parts}
    path.write_text(json.dumps(record), encoding="utf-8")

    (host,) = running.take(table, str(state), []).hosts

    assert (host.name, host.pid) == ("codex", fake_host.pid)
    assert [server.pid for server in host.servers] == [fake_host.server]


def test_a_host_that_nobody_knows_is_called_what_it_runs(runner: LaunchRunner, state: Path) -> None:
    """Node's main thread has a name of its own, which the kernel shows as the process's."""
    rename = "import ctypes; ctypes.CDLL(None).prctl(15, b'MainThread', 0, 0, 0)\n"
    script = runner.project / "agent.py"
    host = (HERE / "scripts" / "fake_host.py").read_text(encoding="utf-8")
    script.write_text(host.replace("import os\n", f"import os\n{rename}", 1), encoding="utf-8")
    launch = runner.start(
        [sys.executable, "-S", "-E", str(script), "--", *RUN, "--", *ENVIRONMENT_SERVER]
    )
    launch.read_line()
    launch.ask("look")
    wait_for_lease(state, lambda _: True)

    (seen,) = take(state).hosts

    process = linux.look(launch.pid)
    assert process
    assert process.name == "MainThread"
    assert (seen.name, seen.title, seen.pid) == ("unknown", "agent", launch.pid)
    assert seen.sessions[0].session == ""


# Servers without a host.


def test_the_thread_of_a_server_is_known_if_there_is_only_one(
    fake_hosts: FakeHosts, state: Path, tmp_path: Path
) -> None:
    (tmp_path / "thread-writer-locks").mkdir()
    locks = [str(tmp_path / "thread-writer-locks" / f"{THREAD}{one}.lock") for one in range(3)]
    fake_hosts.start("codex", "--open", locks[0], command=SERVER)
    fake_hosts.start("codex", "--open", locks[1], "--open", locks[2], command=SERVER)

    hosts = sorted(take(state).hosts, key=lambda host: len(host.threads))

    assert [len(host.threads) for host in hosts] == [1, 2]
    assert [session.thread for host in hosts for session in host.sessions] == [THREAD + "0", ""]


def test_neither_a_strange_lease_nor_a_program_that_talks_elsewhere_hides_a_server(
    fake_hosts: FakeHosts, state: Path
) -> None:
    """A host may run a server's program for other reasons."""
    talks_elsewhere = fake_hosts.start("claude", command=[*TURN_TO_NULL, "0", *SERVER])
    fake_host = fake_hosts.start("codex", command=SERVER)
    write_lease(
        state, "odd", processes={"launcher": os.getpid()}, binding="?", context=3, calls="x"
    )
    write_lease(state, "odder").write_text("[]", encoding="utf-8")

    seen = take(state)

    assert find_server(seen, fake_host.server)
    assert find_server(seen, talks_elsewhere.server) is None


def test_what_a_left_server_started_is_a_part_of_it(fake_hosts: FakeHosts, state: Path) -> None:
    """A gateway has servers of its own, and may have closed the ends of one."""
    code = (
        "import os, signal, subprocess\n"
        "pipe = subprocess.PIPE\n"
        f"child = subprocess.Popen({SERVER!r}, stdin=pipe, stdout=pipe)\n"
        "line = child.stdout.readline()\n"
        "child.stdin.close(); child.stdout.close()\n"
        "os.write(1, line); signal.alarm(120)\n"
        "while True: signal.pause()"
    )
    fake_host = fake_hosts.start("codex", command=serve(code))
    fake_host.kill_host()

    seen = take(state)

    assert [server.pid for server in seen.ownerless] == [fake_host.server]


def test_a_server_below_which_a_host_works_is_not_ownerless(
    fake_hosts: FakeHosts, runner: LaunchRunner, state: Path
) -> None:
    code = (
        "import subprocess, sys, signal\n"
        "subprocess.Popen([sys.argv[1], '-S', '-c', sys.argv[2]])\n"
        "signal.alarm(120)\nwhile True: signal.pause()"
    )
    words = [link(runner, "claude"), STAYS[-1], "mcp-docs"]
    fake_host = fake_hosts.start("codex", command=[sys.executable, "-c", code, *words])
    fake_host.kill_host()

    assert take(state).ownerless == []


def test_a_launch_is_not_ownerless_on_the_word_of_its_lease_alone(
    fake_hosts: FakeHosts, runner: LaunchRunner, state: Path
) -> None:
    # A shell may have started it and ended; who holds its stdin may be no host that we know.
    held = runner.start(STAYS)
    held.read_line()
    write_lease(state, "held", processes={"launcher": held.pid, "host": 4_000_001})
    # The lease may be wrong about the host; whoever lives and has it, counts.
    hosted = fake_hosts.start("codex", command=STAYS)
    write_lease(state, "hosted", processes={"launcher": hosted.server, "host": 4_000_001})
    # Of this host nobody can tell whether it lives.
    unsure = fake_hosts.start("claude", command=STAYS)
    path = write_lease(state, "unsure", processes={"launcher": unsure.server})
    record = json.loads(path.read_text(encoding="utf-8"))
    record["processes"]["host"] = {"pid": 4_000_001}
    path.write_text(json.dumps(record), encoding="utf-8")
    unsure.kill_host()

    seen = take(state)

    assert seen.ownerless == []
    assert all(find_server(seen, one) for one in (held.pid, hosted.server, unsure.server))


def test_a_child_that_has_ended_changes_no_kind_of_memory(runner: LaunchRunner) -> None:
    code = (
        "import os, signal\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0)\n"
        "os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)\n"
        "os.write(1, b'%d\\n' % child)\n"
        "signal.pause()"
    )
    parent = runner.start(python(code))
    child = int(parent.read_line())

    both = [units.measure(pid) for pid in (parent.pid, child)]
    assert units.add_up(both).kind == "PSS"
    assert both[1].amount == 0

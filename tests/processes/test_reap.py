"""`reap` ends what is proven ownerless, and nothing else."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from fake_hosts import (
    SERVER,
    STAYS,
    STUBBORN,
    FakeHosts,
    forget_seconds,
    limit_to_subtree,
    link,
    serve,
    take,
    write_lease,
)
from json_formats import check_format
from launches import ENVIRONMENT_SERVER, HERE, LIMIT, RUN, python, wait_for_lease, wait_until_gone

from mcp_launch.commands import reap as reap_command
from mcp_launch.errors import LaunchError, UsageError
from mcp_launch.machine import end_server, process_snapshot, units
from mcp_launch.machine.pipe_ends import Endpoints
from mcp_launch.machine.survey import open_survey
from mcp_launch.system import linux
from mcp_launch.values import ProcessIdentity

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from launches import LaunchRunner

    from mcp_launch.machine.process_snapshot import Server


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait for servers that are known to ignore SIGTERM."""
    monkeypatch.setattr(end_server, "TERMINATED_GRACE", 0.3)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def reap(**options: Any) -> int:
    """Run the command on what this test started."""
    request = reap_command.ReapRequest(**{"is_sure": True, **options})
    return reap_command.run(request, os.environ, table=limit_to_subtree())


def is_there(pid: int) -> bool:
    return linux.look(pid) is not None


@pytest.mark.parametrize("wire", [[], ["--socket"]], ids=["pipe", "socket"])
def test_a_server_whose_host_was_killed_is_ended_with_all_below_it(
    wire: list[str], fake_hosts: FakeHosts, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("codex", *wire, command=STUBBORN).kill_host()
    below = linux.list_descendants(fake_host.server)

    assert reap() == 0

    assert len(below) == 1
    for pid in (fake_host.server, *below):
        wait_until_gone(pid)
    shown = forget_seconds(" ".join(capsys.readouterr().out.split()))
    assert f"mcp-docs (process {fake_host.server}), 0s old" in shown
    assert "adopted it, and the other ends of its stdin and stdout are closed" in shown
    assert shown.endswith(f"Ended mcp-docs (process {fake_host.server})")


def test_a_server_is_asked_to_finish_first(fake_hosts: FakeHosts, tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "def finish(*_): open(sys.argv[2], 'w').close(); os._exit(0)\n"
        "signal.signal(15, finish); signal.alarm(120); os.write(1, b'ready\\n')\n"
        "while True: signal.pause()"
    )
    command = [*serve(code), str(tmp_path / "finished")]
    fake_host = fake_hosts.start("codex", command=command).kill_host()

    assert reap() == 0

    wait_until_gone(fake_host.server)
    assert (tmp_path / "finished").exists()


def test_a_child_that_is_born_while_the_tree_ends_is_ended_too(fake_hosts: FakeHosts) -> None:
    code = (
        "import os, signal\n"
        "def bear(*_):\n"
        "    if os.fork() == 0: os.setsid()\n"
        "signal.signal(15, bear); signal.alarm(120); os.write(1, b'ready\\n')\n"
        "while True: signal.pause()"
    )
    fake_host = fake_hosts.start("codex", command=serve(code)).kill_host()

    assert reap() == 0

    for pid in linux.list_descendants(fake_host.launch.pid):
        wait_until_gone(pid)


def test_where_all_is_well_nothing_is_done(
    fake_hosts: FakeHosts, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("claude", "--socket", command=SERVER)

    assert reap(is_sure=False) == 0

    assert is_there(fake_host.server)
    assert capsys.readouterr().out == (
        "Nothing to reap: no server is provably orphaned.\n"
        "A server is recognised by its command, if a host's file has it, or by the word mcp in the "
        "name of its program, script, module or package.\n"
    )


def test_a_child_of_a_living_parent_is_not_ended(runner: LaunchRunner) -> None:
    child = runner.start(SERVER)
    child.read_line()
    child.close()
    assert child.process.stdout
    child.process.stdout.close()

    assert reap() == 0

    assert child.process.poll() is None


@pytest.mark.parametrize("fd", ["0", "1"], ids=["stdin", "stdout"])
def test_a_server_with_an_end_that_is_unknown_is_not_ended(fd: str, fake_hosts: FakeHosts) -> None:
    code = (
        "import os, sys\n"
        "told = os.dup(1)\n"
        f"os.dup2(os.open(os.devnull, os.O_RDWR), {fd})\n"
        # The server says so itself, where its stdout is still the host's.
        f"if {fd}: os.write(told, b'ready\\n')\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    fake_host = fake_hosts.start("codex", command=[*python(code), *SERVER]).kill_host()

    assert reap() == 0

    assert is_there(fake_host.server)


def test_a_program_that_is_not_a_server_is_not_ended(fake_hosts: FakeHosts) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS).kill_host()

    assert reap() == 0

    assert is_there(fake_host.server)


# How a server may be reached, though its host is gone; argv[2] is a free path.
WAYS = {
    "a port": "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()",
    "a port of version 6": "s = socket.socket(socket.AF_INET6); s.bind(('::1', 0)); s.listen()",
    "a port for datagrams": "s = socket.socket(type=2); s.bind(('127.0.0.1', 0))",
    "a socket that is not bound yet": "s = socket.socket()",
    "a connection": (
        "t = socket.socket(); t.bind(('127.0.0.1', 0)); t.listen()\n"
        "s = socket.create_connection(t.getsockname()); a = t.accept(); t.close()"
    ),
    "a named socket": "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[2]); s.listen()",
    "a named socket for datagrams": "s = socket.socket(socket.AF_UNIX, 2); s.bind(sys.argv[2])",
    "an abstract socket": "s = socket.socket(1); s.bind('\\0' + sys.argv[2]); s.listen()",
    "the kernel's messages": "s = socket.socket(socket.AF_NETLINK, 3, 0)",
    "a port of a child": (
        "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n"
        "import signal\n"
        "if os.fork() == 0: signal.alarm(120); signal.pause()\n"
        "s.close()"
    ),
    "a named pipe": "os.mkfifo(sys.argv[2]); s = os.open(sys.argv[2], os.O_RDWR)",
    "a terminal": "s = os.openpty()",
    "a terminal as stderr": "s, t = os.openpty(); os.dup2(t, 2)",
    "a thread's own socket": (
        "import ctypes, threading\n"
        "done = threading.Event()\n"
        "def work():\n"
        "    assert ctypes.CDLL(None).unshare(0x400) == 0\n"  # CLONE_FILES
        "    s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); done.set()\n"
        "    threading.Event().wait()\n"
        "threading.Thread(target=work, daemon=True).start(); done.wait()"
    ),
}


@pytest.mark.parametrize("open_way", list(WAYS.values()), ids=list(WAYS))
def test_a_server_that_can_be_reached_another_way_is_not_ended(
    open_way: str, fake_hosts: FakeHosts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = f"import os, socket, sys\n{open_way}\n{STAYS[-1]}"
    fake_host = fake_hosts.start("codex", command=[*serve(code), str(tmp_path / "way")]).kill_host()

    assert reap() == 0

    assert is_there(fake_host.server)
    shown = capsys.readouterr().out
    assert "Nothing to reap" in shown
    assert f"Skipped mcp-docs (process {fake_host.server}): process " in shown


# A network of one's own, as root or as nobody in particular.
UNSHARE = (
    "import ctypes; call = ctypes.CDLL(None).unshare; assert 0 in map(call, (1 << 30, 5 << 28))"
)


@pytest.mark.skipif(
    subprocess.run(python(UNSHARE), check=False, stderr=subprocess.DEVNULL).returncode != 0,
    reason="nobody may have a network of his own here",
)
def test_a_socket_in_another_network_is_a_way_too(fake_hosts: FakeHosts) -> None:
    """It is in no list of sockets that we can read as our own."""
    listen = "import socket; s = socket.socket(); s.bind(('', 0)); s.listen()"
    fake_host = fake_hosts.start(
        "codex", command=serve(f"{UNSHARE}\n{listen}\n{STAYS[-1]}")
    ).kill_host()

    assert reap() == 0

    assert is_there(fake_host.server)


def test_a_pipe_is_a_way_as_long_as_somebody_has_its_other_end(fake_hosts: FakeHosts) -> None:
    theirs, ours = os.pipe()
    path = f"/proc/{os.getpid()}/fd/{theirs}"
    code = f"import os\npipe = os.open({path!r}, os.O_RDONLY)\n{STAYS[-1]}"
    fake_host = fake_hosts.start("codex", command=serve(code)).kill_host()
    os.close(theirs)

    assert reap() == 0
    assert is_there(fake_host.server)

    os.close(ours)
    assert reap() == 0
    wait_until_gone(fake_host.server)


# What a server of any language has open, and nobody can use from outside.
NO_WAYS = {
    "a pipe to itself": "s = os.pipe()",
    "sockets to itself": "s = socket.socketpair()",
    "a pipe to a child": "r, w = os.pipe()\nif os.fork() == 0: os.close(w); os.read(r, 1)",
    "sockets to a child": (
        "a, b = socket.socketpair()\nif os.fork() == 0: a.close(); b.recv(1)\nb.close()"
    ),
    "a socket to nobody": "a, b = socket.socketpair(); b.close()",
    "a pipe from nobody": "r, w = os.pipe(); os.close(w)",
    "files": "s = open(sys.argv[2], 'w'); t = os.open('/', 0); u = open('/dev/urandom')",
    "a file without a name": "s = open(sys.argv[2], 'w'); os.unlink(sys.argv[2])",
    "waiting for events": "import select; s = select.epoll(), os.eventfd(0), os.memfd_create('x')",
    "a child that was not collected": (
        "c = os.fork()\nif c == 0: os._exit(0)\nos.waitid(os.P_PID, c, os.WEXITED | os.WNOWAIT)"
    ),
}


@pytest.mark.parametrize("open_it", list(NO_WAYS.values()), ids=list(NO_WAYS))
def test_what_nobody_can_use_from_outside_saves_no_server(
    open_it: str, fake_hosts: FakeHosts, tmp_path: Path
) -> None:
    code = f"import os, socket, sys\n{open_it}\n{STAYS[-1]}"
    fake_host = fake_hosts.start(
        "codex", command=[*serve(code), str(tmp_path / "file")]
    ).kill_host()

    assert reap() == 0

    wait_until_gone(fake_host.server)


def test_a_server_that_has_just_started_is_not_ended(
    fake_hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()
    monkeypatch.setattr(process_snapshot, "SETTLED", 3600.0)

    assert reap() == 0

    assert is_there(fake_host.server)
    told = f"Skipped mcp-docs (process {fake_host.server}): it has just started"
    assert told in capsys.readouterr().out


def test_a_launch_that_has_just_started_is_not_ended(
    fake_hosts: FakeHosts, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS)
    write_lease(state, processes={"launcher": fake_host.server, "host": fake_host.pid})
    fake_host.kill_host()
    monkeypatch.setattr(process_snapshot, "SETTLED", 3600.0)

    assert reap() == 0

    assert is_there(fake_host.server)


# A shell, whose subshell starts a pipeline in the background and ends: the job is adopted, and the
# programs before and behind it have ended.
JOB = '(true | "$@" | true &)\nwhile :; do sleep 1; done'


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shells_background_job_is_not_ended(
    shell: str,
    runner: LaunchRunner,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(process_snapshot, "SETTLED", 0.0)
    job_code = STAYS[-1].replace("os.write(1, b'ready\\n')", "os.write(2, b'%d\\n' % os.getpid())")
    lead = python("import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])")
    init = [link(runner, "init"), "-S", "-E", str(HERE / "scripts" / "fake_init.py")]
    launch = runner.start([*init, *lead, shell, "-c", JOB, shell, *serve(job_code)])
    assert launch.process.stderr
    job = int(launch.process.stderr.readline())
    try:
        wait_until(lambda: list_parents(job) == [launch.pid])
        wait_until(lambda: [Endpoints([]).look(job, fd).state for fd in (0, 1)] == ["gone"] * 2)

        assert reap() == 0

        assert is_there(job)
        told = capsys.readouterr().out
        assert f"Skipped mcp-docs (process {job}): a shell, process " in told
        assert f"({shell}), may have started it" in told
    finally:
        for pid in linux.list_descendants(launch.pid):
            os.kill(pid, signal.SIGKILL)


def list_parents(pid: int) -> list[int]:
    process = linux.look(pid)
    return [process.parent] if process else []


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_server_that_belongs_to_a_terminal_is_not_ended(
    fake_hosts: FakeHosts, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = os.openpty()
    # Who leads a session and opens a terminal has it from then on.
    code = f"import os\nos.setsid(); os.close(os.open({os.ttyname(theirs)!r}, os.O_RDWR))"
    fake_host = fake_hosts.start("codex", command=serve(f"{code}\n{STAYS[-1]}")).kill_host()
    os.close(theirs)

    assert reap() == 0

    assert is_there(fake_host.server)
    assert "it belongs to a terminal" in capsys.readouterr().out

    os.close(ours)  # it hangs up
    assert reap() == 0
    wait_until_gone(fake_host.server)


@pytest.mark.parametrize(("what", "value"), [("getuid", -1), ("getpid", 0)])
def test_another_users_server_and_our_own_ancestor_are_not_ended(
    what: str, value: int, fake_hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()
    assert take_ownerless()  # else this would prove nothing

    # As if we were somebody else, or were run by the server itself.
    monkeypatch.setattr(
        f"mcp_launch.machine.other_servers.os.{what}", lambda: value or fake_host.server
    )

    assert not take_ownerless()


def take_ownerless() -> list[Server]:
    return open_survey(os.environ, limit_to_subtree(TOP)).take_census().ownerless


TOP = os.getpid()


def test_nothing_is_ended_unasked(fake_hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    with pytest.raises(UsageError):
        reap(is_sure=False)

    assert is_there(fake_host.server)


def test_a_dry_run_shows_the_orphans_and_ends_none(
    fake_hosts: FakeHosts, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()

    assert reap(is_sure=False, is_dry=True) == 0

    shown = capsys.readouterr().out
    assert f"mcp-docs (process {fake_host.server})" in shown
    assert shown.endswith("Nothing was ended (--dry-run).\n")
    assert is_there(fake_host.server)


def test_what_was_ended_is_printed_for_programs(
    fake_hosts: FakeHosts, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()

    assert reap(is_sure=False, is_dry=True, is_json=True) == 0
    planned = check_format("reap", capsys.readouterr().out)
    assert is_there(fake_host.server)
    assert reap(is_json=True) == 0
    done = check_format("reap", capsys.readouterr().out)

    wait_until_gone(fake_host.server)
    assert (planned["is_dry_run"], done["is_dry_run"]) == (True, False)
    for document, status in ((planned, "would end"), (done, "ended")):
        [server] = document["servers"]
        assert (server["name"], server["pid"]) == ("mcp-docs", fake_host.server)
        assert (server["status"], server["error"]) == (status, None)
        assert fake_host.server in server["processes"]
        assert server["memory"]["bytes"] > 0
        assert "the other ends of its stdin and stdout are closed" in server["why"]


def test_with_nobody_to_ask_no_json_is_printed(
    fake_hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    with pytest.raises(UsageError):
        reap(is_sure=False, is_json=True)

    assert capsys.readouterr().out == ""
    assert is_there(fake_host.server)


@pytest.mark.parametrize(("answer", "stays"), [("n\n", True), ("\n", True), ("y\n", False)])
def test_the_user_decides(
    answer: str,
    stays: bool,
    fake_hosts: FakeHosts,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()
    typed = io.StringIO(answer)
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", typed)

    assert reap(is_sure=False) == 0

    shown = capsys.readouterr().out
    assert "End 1 server and all child processes? [y/N]" in shown
    assert ("Nothing was ended." in shown) is stays
    if stays:
        assert is_there(fake_host.server)
    else:
        wait_until_gone(fake_host.server)


def test_a_server_that_is_too_young_is_not_ended(fake_hosts: FakeHosts) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()

    assert reap(older_than="1h") == 0
    assert is_there(fake_host.server)
    assert reap(older_than="0s") == 0
    wait_until_gone(fake_host.server)


def test_an_age_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        reap(older_than="soon")

    assert refused.value.problem == "'soon' is not a valid age"
    assert refused.value.fix == "write a number and s, m, h or d, as in 30m"


@pytest.mark.parametrize(
    ("text", "seconds"), [("45s", 45), ("30m", 1800), ("2h", 7200), ("1d", 86400)]
)
def test_ages_are_understood(text: str, seconds: float) -> None:
    assert units.read_age(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "unknown"),
        (-1, "0s"),
        (5.9, "5s"),
        (65, "1m 5s"),
        (3600, "1h"),
        (90061, "1d 1h"),
        (86460, "1d"),
    ],
)
def test_ages_are_said(seconds: float | None, said: str) -> None:
    assert units.tell_age(seconds) == said


@pytest.mark.parametrize(
    ("amount", "said"), [(12, "12 bytes"), (4200, "4.2 kB"), (45_000_000, "45 MB")]
)
def test_sizes_are_said(amount: int, said: str) -> None:
    assert units.tell_size(amount) == said


def test_one_part_in_rss_makes_the_sum_rss() -> None:
    parts = [units.Memory(1), units.Memory(2, "RSS")]

    assert units.add_up(parts) == units.Memory(3, "RSS")
    assert units.add_up(parts[:1]) == units.Memory(1, "PSS")


def test_a_process_that_could_not_be_ended_is_reported(
    fake_hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()
    monkeypatch.setattr(end_server, "KILLED_GRACE", 0.0)

    def refuse(*_: object) -> None:
        raise PermissionError

    with monkeypatch.context() as context:
        context.setattr(signal, "pidfd_send_signal", refuse)
        assert reap() == 1

    told = f"mcp-docs (process {fake_host.server}): could not end process {fake_host.server}"
    assert told in capsys.readouterr().err


def test_a_server_that_has_an_owner_by_now_is_not_ended(fake_hosts: FakeHosts, state: Path) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS)
    write_lease(state, processes={"launcher": fake_host.server, "host": fake_host.pid})
    fake_host.kill_host()
    (server,) = take(state).ownerless
    write_lease(state, processes={"launcher": fake_host.server, "host": os.getpid()})

    with pytest.raises(LaunchError) as left:
        end_server.reap(open_survey(os.environ, limit_to_subtree()), server)

    assert left.value.problem == (
        f"docs (process {fake_host.server}) is no longer provably orphaned, and was not ended"
    )
    assert is_there(fake_host.server)


def test_a_server_that_ended_by_itself_is_no_failure(fake_hosts: FakeHosts, state: Path) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()
    (server,) = take(state).ownerless
    fake_host.end()
    wait_until_gone(fake_host.server)

    end_server.reap(open_survey(os.environ, limit_to_subtree()), server)


def test_another_process_with_the_same_pid_is_never_signalled(
    fake_hosts: FakeHosts, state: Path
) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()
    (server,) = take(state).ownerless
    earlier = ProcessIdentity(fake_host.server, "ticks:1")
    object.__setattr__(server, "roots", (earlier,))

    assert end_server.end(limit_to_subtree(), server) == []
    assert is_there(fake_host.server)


def test_a_launch_that_hangs_without_its_host_is_ended(
    fake_hosts: FakeHosts, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Launcher, keeper and guardian would end by themselves, if they could."""
    say_ready = python(
        "import os, sys; os.write(1, b'ready\\n'); os.execv(sys.argv[1], sys.argv[1:])"
    )
    fake_host = fake_hosts.start(
        "codex", command=[*say_ready, *RUN, "--server", "docs", "--", *ENVIRONMENT_SERVER]
    )
    parts = wait_for_lease(state, lambda _: True)["processes"]
    pids = [parts[part]["pid"] for part in ("keeper", "launcher", "guardian", "server")]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    fake_host.kill_host()

    assert reap() == 0

    for pid in pids:
        wait_until_gone(pid)
    shown = capsys.readouterr().out
    assert f"its host, process {fake_host.pid}, is gone" in shown
    assert f"Removed the stale lease {state}/leases/" in shown
    assert list((state / "leases").iterdir()) == []


def test_a_lease_that_another_user_can_write_ends_nothing(
    fake_hosts: FakeHosts, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS).kill_host()
    path = write_lease(state, processes={"server": fake_host.server, "host": fake_host.pid})
    path.chmod(0o666)

    assert reap() == 0

    assert is_there(fake_host.server)
    assert str(fake_host.server) not in capsys.readouterr().out
    path.chmod(0o600)
    assert reap() == 0
    wait_until_gone(fake_host.server)


def test_a_stale_lease_is_removed(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_lease(state, boot="another")

    assert reap() == 0

    assert not path.exists()
    assert f"Removed the stale lease {path}" in capsys.readouterr().out

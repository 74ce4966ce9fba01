"""`reap` ends what is proven ownerless, and nothing else."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from fake_hosts import (
    SERVER,
    STAYS,
    STUBBORN,
    FakeHosts,
    configure,
    forget_seconds,
    limit_to_subtree,
    serve,
    take,
    write_lease,
)
from launches import ENVIRONMENT_SERVER, RUN, python, wait_for_lease, wait_until_gone

from mcp_launch import main, system
from mcp_launch.errors import LaunchError
from mcp_launch.machine import end_server, process_snapshot
from mcp_launch.machine.survey import open_survey
from mcp_launch.system import linux
from mcp_launch.values import ProcessIdentity

if TYPE_CHECKING:
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


def reap(*words: str) -> int:
    """Run the command on what this test started."""
    with mock.patch.object(system, "open_table", limit_to_subtree):
        return main(["reap", *words])


def is_there(pid: int) -> bool:
    return linux.look(pid) is not None


# Leaves a file when it is asked to end.
FINISHES = (
    "import os, signal, sys\n"
    "def finish(*_): open(sys.argv[2], 'w').close(); os._exit(0)\n"
    "signal.signal(15, finish); signal.alarm(120); os.write(1, b'ready\\n')\n"
    "while True: signal.pause()"
)

# Answers by a child in a session of its own.
BEARS = (
    "import os, signal\n"
    "def bear(*_):\n"
    "    if os.fork() == 0: os.setsid()\n"
    "signal.signal(15, bear); signal.alarm(120); os.write(1, b'ready\\n')\n"
    "while True: signal.pause()"
)


def test_servers_whose_hosts_were_killed_are_ended_with_all_below_them(
    fake_hosts: FakeHosts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_pipe = fake_hosts.start("codex", command=STUBBORN).kill_host()
    by_socket = fake_hosts.start("codex", "--socket", command=STUBBORN).kill_host()
    finishes = [*serve(FINISHES), str(tmp_path / "finished")]
    fake_hosts.start("codex", command=finishes).kill_host()
    bears = fake_hosts.start("codex", command=serve(BEARS)).kill_host()
    stubborn = (by_pipe.server, by_socket.server)
    below = [pid for server in stubborn for pid in linux.list_descendants(server)]
    assert len(below) == 2

    assert reap("--yes") == 0

    for pid in (*stubborn, *below, *linux.list_descendants(bears.launch.pid)):
        wait_until_gone(pid)
    assert (tmp_path / "finished").exists()
    shown = forget_seconds(" ".join(capsys.readouterr().out.split()))
    for pid in stubborn:
        assert f"mcp-docs (process {pid}), 0s old" in shown
        assert f"Ended mcp-docs (process {pid})" in shown
    assert shown.count("adopted it, and the other ends of its stdin and stdout are closed") == 4


def test_where_all_is_well_nothing_is_done(
    fake_hosts: FakeHosts, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("claude", "--socket", command=SERVER)

    assert reap() == 0

    assert is_there(fake_host.server)
    assert capsys.readouterr().out == (
        "Nothing to reap: no server is provably orphaned.\n"
        "Without mcp-launch, a server is recognised if its command is in a host's file.\n"
    )


# Turns a descriptor away from the host, and says itself that it is ready.
TURNS_AWAY = (
    "import os, sys\n"
    "told = os.dup(1)\n"
    "os.dup2(os.open(os.devnull, os.O_RDWR), int(sys.argv[1]))\n"
    "if sys.argv[1] != '0': os.write(told, b'ready\\n')\n"
    "os.execv(sys.argv[2], sys.argv[2:])"
)


def test_whatever_is_not_proven_to_be_an_orphan_is_spared(
    fake_hosts: FakeHosts,
    runner: LaunchRunner,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    child = runner.start(SERVER)
    child.read_line()
    child.close()
    assert child.process.stdout
    child.process.stdout.close()
    left = {
        f"descriptor {fd} leads elsewhere": [*python(TURNS_AWAY), fd, *SERVER] for fd in ("0", "1")
    }
    left["in no host's file"] = python(f"{STAYS[-1]} # of nobody")
    left["another program in every directory, as `python main.py` is"] = STAYS
    left["its lease can be written by others"] = python(f"{STAYS[-1]} # of a lease")
    spared = {
        why: fake_hosts.start("codex", command=command).kill_host().server
        for why, command in left.items()
    }
    configure(STAYS)
    # Containers have any program for their first process.
    unknown = fake_hosts.start("claude", command=SERVER, init="process_api").kill_host()
    spared |= {"its parent lives": child.pid, "below an unknown init": unknown.server}
    leased = spared["its lease can be written by others"]
    path = write_lease(state, processes={"server": leased, "host": unknown.pid})
    path.chmod(0o666)
    orphan = fake_hosts.start("codex", command=SERVER).kill_host()

    with monkeypatch.context() as context:
        context.setattr(process_snapshot, "SETTLED", 3600.0)
        assert reap("--yes") == 0
        assert is_there(orphan.server), "it has just started"
    assert "Nothing to reap" in capsys.readouterr().out
    assert reap("--yes") == 0

    wait_until_gone(orphan.server)
    assert [why for why, pid in spared.items() if not is_there(pid)] == []
    assert str(leased) not in capsys.readouterr().out
    path.chmod(0o600)
    assert reap("--yes") == 0
    wait_until_gone(leased)


def test_a_launch_that_has_just_started_is_spared(
    fake_hosts: FakeHosts, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS)
    write_lease(state, processes={"launcher": fake_host.server, "host": fake_host.pid})
    fake_host.kill_host()
    monkeypatch.setattr(process_snapshot, "SETTLED", 3600.0)

    assert reap("--yes") == 0

    assert is_there(fake_host.server)


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


def test_nothing_is_ended_before_the_user_agrees(
    fake_hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert reap() == 2

    def answer(text: str) -> str:
        typed = io.StringIO(text)
        monkeypatch.setattr(typed, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", typed)
        assert reap() == 0
        return capsys.readouterr().out

    for refusal in ("n\n", "\n"):
        shown = answer(refusal)
        assert "End 1 server and all child processes? [y/N]" in shown
        assert "Nothing was ended." in shown
        assert is_there(fake_host.server)
    assert "Nothing was ended." not in answer("y\n")
    wait_until_gone(fake_host.server)


def test_what_was_ended_is_printed_for_programs(
    fake_hosts: FakeHosts, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()

    assert reap("--dry-run", "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert is_there(fake_host.server)
    assert reap("--yes", "--json") == 0
    done = json.loads(capsys.readouterr().out)

    wait_until_gone(fake_host.server)
    assert (planned["is_dry_run"], done["is_dry_run"]) == (True, False)
    for document, status in ((planned, "would end"), (done, "ended")):
        [server] = document["servers"]
        assert (server["name"], server["pid"]) == ("mcp-docs", fake_host.server)
        assert (server["status"], server["error"]) == (status, None)
        assert fake_host.server in server["processes"]
        assert server["memory"]["bytes"] > 0
        assert "the other ends of its stdin and stdout are closed" in server["why"]


def test_a_process_that_could_not_be_ended_is_reported(
    fake_hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()
    monkeypatch.setattr(end_server, "KILLED_GRACE", 0.0)

    def refuse(*_: object) -> None:
        raise PermissionError

    with monkeypatch.context() as context:
        context.setattr(signal, "pidfd_send_signal", refuse)
        assert reap("--yes") == 1

    told = f"mcp-docs (process {fake_host.server}): could not end process {fake_host.server}"
    assert told in capsys.readouterr().err


def test_what_has_changed_since_it_was_found_is_not_ended(
    fake_hosts: FakeHosts, state: Path
) -> None:
    """It has an owner by now, another process has its pid, or it has ended by itself."""
    owned = fake_hosts.start("codex", command=STAYS)
    other = fake_hosts.start("codex", command=SERVER)
    write_lease(state, processes={"launcher": owned.server, "host": owned.pid})
    for one in (owned, other):
        one.kill_host()
    found = {server.pid: server for server in take(state).ownerless}

    write_lease(state, processes={"launcher": owned.server, "host": os.getpid()})
    with pytest.raises(LaunchError) as left:
        end_server.reap(open_survey(os.environ, limit_to_subtree()), found[owned.server])
    assert left.value.problem == (
        f"docs (process {owned.server}) is no longer provably orphaned, and was not ended"
    )
    roots = found[other.server].roots
    object.__setattr__(found[other.server], "roots", (ProcessIdentity(other.server, "ticks:1"),))
    assert end_server.end(limit_to_subtree(), found[other.server]) == []
    assert is_there(owned.server)
    assert is_there(other.server)

    object.__setattr__(found[other.server], "roots", roots)
    other.end()
    wait_until_gone(other.server)
    end_server.reap(open_survey(os.environ, limit_to_subtree()), found[other.server])


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

    assert reap("--yes") == 0

    for pid in pids:
        wait_until_gone(pid)
    assert f"its host, process {fake_host.pid}, is gone" in capsys.readouterr().out
    assert list((state / "leases").iterdir()) == []

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


@pytest.mark.parametrize("wire", [[], ["--socket"]], ids=["pipe", "socket"])
def test_a_server_whose_host_was_killed_is_ended_with_all_below_it(
    wire: list[str], fake_hosts: FakeHosts, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("codex", *wire, command=STUBBORN).kill_host()
    below = linux.list_descendants(fake_host.server)

    assert reap("--yes") == 0

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

    assert reap("--yes") == 0

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

    assert reap("--yes") == 0

    for pid in linux.list_descendants(fake_host.launch.pid):
        wait_until_gone(pid)


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


def test_a_child_of_a_living_parent_is_not_ended(runner: LaunchRunner) -> None:
    child = runner.start(SERVER)
    child.read_line()
    child.close()
    assert child.process.stdout
    child.process.stdout.close()

    assert reap("--yes") == 0

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

    assert reap("--yes") == 0

    assert is_there(fake_host.server)


def test_a_program_that_is_in_no_hosts_file_is_not_ended(fake_hosts: FakeHosts) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS).kill_host()

    assert reap("--yes") == 0

    assert is_there(fake_host.server)


def test_a_command_that_may_be_of_another_project_ends_nothing(fake_hosts: FakeHosts) -> None:
    """`python main.py` is another program in every directory."""
    fake_host = fake_hosts.start("codex", command=STAYS).kill_host()
    configure(STAYS)

    assert reap("--yes") == 0

    assert is_there(fake_host.server)


def test_an_orphan_that_an_unknown_program_may_have_started_is_not_ended(
    fake_hosts: FakeHosts,
) -> None:
    """Containers have any program for their first process."""
    fake_host = fake_hosts.start("claude", command=SERVER, init="process_api").kill_host()

    assert reap("--yes") == 0

    assert is_there(fake_host.server)


def test_a_server_that_has_just_started_is_not_ended(
    fake_hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()
    monkeypatch.setattr(process_snapshot, "SETTLED", 3600.0)

    assert reap("--yes") == 0

    assert is_there(fake_host.server)
    assert "Nothing to reap" in capsys.readouterr().out


def test_a_launch_that_has_just_started_is_not_ended(
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


def test_nothing_is_ended_unasked(fake_hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_host = fake_hosts.start("codex", command=SERVER).kill_host()
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    assert reap() == 2

    assert is_there(fake_host.server)


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

    assert reap() == 0

    shown = capsys.readouterr().out
    assert "End 1 server and all child processes? [y/N]" in shown
    assert ("Nothing was ended." in shown) is stays
    if stays:
        assert is_there(fake_host.server)
    else:
        wait_until_gone(fake_host.server)


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

    assert reap("--yes") == 0

    for pid in pids:
        wait_until_gone(pid)
    assert f"its host, process {fake_host.pid}, is gone" in capsys.readouterr().out
    assert list((state / "leases").iterdir()) == []


def test_a_lease_that_another_user_can_write_ends_nothing(
    fake_hosts: FakeHosts, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS).kill_host()
    path = write_lease(state, processes={"server": fake_host.server, "host": fake_host.pid})
    path.chmod(0o666)

    assert reap("--yes") == 0

    assert is_there(fake_host.server)
    assert str(fake_host.server) not in capsys.readouterr().out
    path.chmod(0o600)
    assert reap("--yes") == 0
    wait_until_gone(fake_host.server)

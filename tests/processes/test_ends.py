"""Who ends the server when those who should are killed or stopped, on both wires.

    launcher ── keeper ── guardian ── server ── …

Any two of the first three may be killed at the same moment, and any may be stopped.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from errno import ETIMEDOUT
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable
from launches import (
    ENVIRONMENT_SERVER,
    FORKING_SERVER,
    HERE,
    LIMIT,
    RUN,
    LaunchRunner,
    LivenessSocket,
    python,
    wait_until_gone,
)

from mcp_launch.system import guardian

if TYPE_CHECKING:
    from collections.abc import Iterator

    from launches import Launch

ROLES = ("server", "child", "own-session", "daemon")

# As `npx` and `uvx` do it: the real server is a child of the command in the entry.
WRAPPER = ["sh", "-c", '"$@"; :', "sh"]


@pytest.fixture
def liveness(tmp_path: Path) -> Iterator[LivenessSocket]:
    liveness = LivenessSocket(tmp_path)
    yield liveness
    liveness.close()


def parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return int(stat.rpartition(")")[2].split()[1])


def find_parts(launcher: int, server: int) -> dict[str, int]:
    """Return the three by name: the server may be behind a wrapper."""
    above = [server]
    while above[-1] != launcher:
        above.append(parent_of(above[-1]))
    return {"launcher": launcher, "keeper": above[-2], "guardian": above[-3]}


def wait_for_names(parts: dict[str, int]) -> None:
    """Return when keeper and guardian have taken their names: the server does not wait for it."""
    for part in ("keeper", "guardian"):
        deadline = time.monotonic() + LIMIT
        path = Path(f"/proc/{parts[part]}/cmdline")
        while path.read_bytes().rstrip(b"\0") != f"mcp-{part}".encode():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def start(
    runner: LaunchRunner,
    liveness: LivenessSocket,
    wire: list[str],
    *,
    wrapper: list[str],
    **options: object,
) -> tuple[Launch, dict[str, int]]:
    words = [*wire, "--", *wrapper, *FORKING_SERVER, liveness.path, "hostile"]
    launch = runner.launch(*words, process_group=0, **options)
    liveness.wait_for(*ROLES)
    return launch, find_parts(launch.pid, liveness.pids["server"])


PAIRS = [("launcher", "guardian"), ("launcher", "keeper"), ("keeper", "guardian")]


@pytest.mark.parametrize("wrapper", [[], WRAPPER], ids=["server", "behind a wrapper"])
@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_nothing_is_left_when_two_are_killed_at_once(
    pair: tuple[str, str],
    wrapper: list[str],
    wire: list[str],
    runner: LaunchRunner,
    liveness: LivenessSocket,
) -> None:
    launch, parts = start(runner, liveness, wire, wrapper=wrapper)

    for part in pair:
        os.kill(parts[part], signal.SIGKILL)

    for role in ROLES:
        liveness.read_until_end(role)
    launch.wait()
    for pid in parts.values():
        wait_until_gone(pid)


@pytest.mark.parametrize("part", ["keeper", "guardian"])
def test_nothing_is_left_when_one_is_killed(
    part: str, wire: list[str], runner: LaunchRunner, liveness: LivenessSocket
) -> None:
    launch, parts = start(runner, liveness, wire, wrapper=WRAPPER)

    os.kill(parts[part], signal.SIGKILL)
    if part == "keeper":  # without which the server goes on
        launch.close()

    for role in ROLES:
        liveness.read_until_end(role)
    code = launch.wait()
    assert part == "keeper" or code == 128 + signal.SIGKILL
    for pid in parts.values():
        wait_until_gone(pid)


def test_a_server_outlives_the_keeper(wire: list[str], runner: LaunchRunner) -> None:
    launch = runner.launch(*wire, "--", *ENVIRONMENT_SERVER)
    server = launch.ask("look")["pid"]

    os.kill(find_parts(launch.pid, server)["keeper"], signal.SIGKILL)

    assert launch.ask("look")["pid"] == server
    assert launch.finish()[0] == 0
    wait_until_gone(server)


@pytest.mark.parametrize("seen_in", ["comm", "cmdline"], ids=["by name", "by words"])
def test_nothing_is_left_when_all_that_pkill_finds_are_killed(
    seen_in: str, wire: list[str], runner: LaunchRunner, liveness: LivenessSocket, tmp_path: Path
) -> None:
    program = tmp_path / "mcp-launch"
    program.write_text(f"#!{sys.executable}\n" + SCRIPT, encoding="utf-8")
    program.chmod(0o755)
    command = [
        str(program),
        "run",
        *wire,
        "--",
        *WRAPPER,
        *FORKING_SERVER,
        liveness.path,
        "hostile",
    ]
    launch = runner.start(command)
    liveness.wait_for(*ROLES)
    parts = find_parts(launch.pid, liveness.pids["server"])
    wait_for_names(parts)

    # As `pkill -9 mcp-launch` and `pkill -9 -f mcp-launch` do, but only among our own.
    found = [
        pid
        for pid in parts.values()
        if b"mcp-launch" in Path(f"/proc/{pid}/{seen_in}").read_bytes()
    ]
    for pid in found:
        os.kill(pid, signal.SIGKILL)

    assert found == [launch.pid]
    for role in ROLES:
        liveness.read_until_end(role)
    launch.wait()
    for pid in parts.values():
        wait_until_gone(pid)


SCRIPT = """
import sys
import threading
import time
from mcp_launch import main
sys.exit(main())
"""


def test_each_has_a_name_of_its_own(wire: list[str], runner: LaunchRunner) -> None:
    launch = runner.launch(*wire, "--", *ENVIRONMENT_SERVER)
    parts = find_parts(launch.pid, launch.ask("look")["pid"])
    wait_for_names(parts)

    for part in ("keeper", "guardian"):
        assert Path(f"/proc/{parts[part]}/comm").read_text(encoding="utf-8") == f"mcp-{part}\n"


STOPPED = [("guardian",), ("keeper",), ("keeper", "guardian")]


@pytest.mark.parametrize("stopped", STOPPED, ids=" and ".join)
def test_nothing_is_left_when_the_host_is_done_with_a_launch_that_has_stopped(
    stopped: tuple[str, ...], wire: list[str], runner: LaunchRunner, liveness: LivenessSocket
) -> None:
    launch, parts = start(runner, liveness, wire, wrapper=WRAPPER)

    for part in stopped:
        os.kill(parts[part], signal.SIGSTOP)
    launch.close()

    for role in ROLES:
        liveness.read_until_end(role)
    launch.wait()
    for pid in parts.values():
        wait_until_gone(pid)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_nothing_is_left_when_the_guardian_is_stopped_and_the_launcher_ends(
    end: int, wire: list[str], runner: LaunchRunner, liveness: LivenessSocket
) -> None:
    launch, parts = start(runner, liveness, wire, wrapper=WRAPPER)

    os.kill(parts["guardian"], signal.SIGSTOP)
    os.kill(launch.pid, end)

    for role in ROLES:
        liveness.read_until_end(role)
    launch.wait()
    for pid in parts.values():
        wait_until_gone(pid)


@pytest.mark.parametrize("stopped", [("launcher",), ("launcher", "guardian")], ids=" and ".join)
def test_nothing_is_left_when_the_host_of_a_stopped_launch_dies(
    stopped: tuple[str, ...], wire: list[str], runner: LaunchRunner, liveness: LivenessSocket
) -> None:
    command = [*RUN, *wire, "--", *WRAPPER, *FORKING_SERVER, liveness.path, "hostile"]
    host = runner.start([sys.executable, str(HERE / "scripts" / "fake_host.py"), "--", *command])
    launcher = int(host.read_line())
    liveness.wait_for(*ROLES)
    parts = find_parts(launcher, liveness.pids["server"])

    for part in stopped:
        os.kill(parts[part], signal.SIGSTOP)
    host.process.kill()

    for role in ROLES:
        liveness.read_until_end(role)
    for pid in parts.values():
        wait_until_gone(pid)


class Debugger:
    """Holds a process as a debugger does: SIGCONT does nothing to it, SIGKILL still does."""

    _SEIZE, _INTERRUPT = 0x4206, 0x4207

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._holds = threading.Event()
        self._thread = threading.Thread(target=self._hold)  # the same thread for every request
        self._thread.start()
        assert self._holds.wait(LIMIT)

    def _hold(self) -> None:
        ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        for request in (self._SEIZE, self._INTERRUPT):
            assert ptrace(request, self._pid, None, None) == 0, os.strerror(ctypes.get_errno())
        os.waitpid(self._pid, 0)
        self._holds.set()
        os.waitpid(self._pid, 0)  # its end, which a debugger hears before its parent

    def close(self) -> None:
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("end", ["the host is done", "the launcher is killed"])
def test_nothing_is_left_when_a_debugger_holds_the_guardian(
    end: str, wire: list[str], runner: LaunchRunner, liveness: LivenessSocket
) -> None:
    launch, parts = start(runner, liveness, wire, wrapper=WRAPPER)
    debugger = Debugger(parts["guardian"])

    if end == "the host is done":
        launch.close()
    else:
        launch.process.kill()

    for role in ROLES:
        liveness.read_until_end(role)
    debugger.close()
    launch.wait()
    for pid in parts.values():
        wait_until_gone(pid)


def test_a_server_that_never_starts_is_given_up(
    runner: LaunchRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guardian, "START_LIMIT", 0.05)
    keeper = runner.start(python("import sys; sys.stdin.read()"))

    class Table(FakeProcessTable):
        def list_descendants(self, pid: int) -> list[int]:
            assert pid == os.getpid()
            return [keeper.pid] if os.path.exists(f"/proc/{keeper.pid}") else []

    read_control, control = os.pipe()
    report, silent = os.pipe()
    started = guardian.Guardian(keeper.pid, control, report, Table())
    try:
        started.give_up_start()
    finally:
        os.close(read_control)
        os.close(silent)

    assert started.failure == ("time", ETIMEDOUT)
    wait_until_gone(keeper.pid)


def test_the_exit_code_is_the_same_however_often_the_host_asks(
    wire: list[str], runner: LaunchRunner
) -> None:
    """Python removes its signal handlers while it exits: a late SIGTERM must not count then."""
    server = python('print(\'{"method":"up"}\', flush=True); import time; time.sleep(600)')
    launch = runner.launch(*wire, "--", *server)
    launch.read_line()
    deadline = time.monotonic() + LIMIT

    while launch.process.poll() is None:
        assert time.monotonic() < deadline
        os.kill(launch.pid, signal.SIGTERM)

    assert launch.process.returncode == 128 + signal.SIGTERM

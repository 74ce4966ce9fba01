"""Corners in which something was once kept alive, lost or said wrongly."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable, make_context
from launches import (
    FORKING_SERVER,
    HERE,
    RUN,
    LaunchRunner,
    LivenessSocket,
    python,
    request,
    wait_until_gone,
)

from mcp_launch import hosts, runtime
from mcp_launch.launch import context, ended
from mcp_launch.runtime.running import Running

if TYPE_CHECKING:
    from pathlib import Path

ANSWERS = (
    "import os, sys, threading, time\n"
    "def answer():\n"
    "    sys.stdin.readline()\n"
    '    os.write(1, b\'{"jsonrpc":"2.0","id":1,"result":{}}\\n\')\n'
    "answer()\n"
)


def test_a_server_that_keeps_logging_is_ended_all_the_same(
    wire: list[str], runner: LaunchRunner
) -> None:
    chatters = ANSWERS + "while True: os.write(2, b'tick\\n'); time.sleep(0.05)\n"
    launch = runner.launch(*wire, "--", *python(chatters), stderr=subprocess.DEVNULL)
    launch.send(request("initialize"))
    launch.answer()

    launch.close()

    assert launch.wait() == 128 + signal.SIGTERM


def test_a_server_that_keeps_talking_is_ended_when_its_host_is_dead(runner: LaunchRunner) -> None:
    # The test holds the reading end of stdout, so nothing breaks when the host is gone.
    talks = ANSWERS + 'while True: os.write(1, b\'{"jsonrpc":"2.0"}\\n\'); time.sleep(0.05)\n'
    starts = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)\n"
        'child.stdin.write(b\'{"id":1,"method":"initialize"}\\n\')\n'
        "child.stdin.flush()\n"
        "sys.stderr.write(f'{child.pid}\\n')\n"
        "sys.stdin.read()\n"
    )
    host = runner.start([*python(starts), *RUN, "--", *python(talks)])
    host.answer()
    assert host.process.stderr
    launcher = int(host.process.stderr.readline())

    host.process.kill()

    wait_until_gone(launcher)


def test_no_byte_is_lost_to_a_host_that_is_slow_and_does_not_read_stderr(
    runner: LaunchRunner,
) -> None:
    ends_full = ANSWERS + (
        "os.write(2, b'e' * 60000)\n"
        "threading.Thread(target=os.write, args=[2, b'e' * 60000], daemon=True).start()\n"
        "time.sleep(0.2)\n"
        "os.write(1, b'{\"x\":\"' + b'y' * 400000 + b'\"}\\n')\n"
        "os._exit(0)\n"
    )
    launch = runner.launch("--restart", "off", "--", *python(ends_full))
    launch.send(request("initialize"))
    launch.answer()
    with pytest.raises(subprocess.TimeoutExpired):
        launch.wait(1)  # it waits for us: a whole second is more than it gives stderr

    assert len(launch.read_line()) == 400009
    assert launch.wait() == 0


def test_a_host_that_closes_a_full_stderr_is_still_answered(runner: LaunchRunner) -> None:
    fills = ANSWERS + ("try: os.write(2, b'e' * 300000)\nexcept BrokenPipeError: pass\nanswer()\n")
    launch = runner.launch("--", *python(fills))
    launch.send(request("initialize"))
    launch.answer()

    assert launch.process.stderr
    launch.process.stderr.close()
    launch.send(request("second"))

    assert launch.answer()["id"] == 1


def test_a_terminal_that_is_held_holds_nothing_but_itself(runner: LaunchRunner) -> None:
    noisy = ANSWERS + "os.write(1, b'noise\\n' * 20000)\nanswer()\n"
    terminal, stderr = pty.openpty()
    try:
        launch = runner.launch("--", *python(noisy), stderr=stderr)
        launch.send(request("initialize"))
        launch.answer()
        launch.send(request("second"))

        assert launch.answer()["id"] == 1
    finally:
        os.close(terminal)
        os.close(stderr)


@pytest.mark.parametrize(
    "before",
    [
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM])",
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    ],
    ids=["blocked", "ignored"],
)
def test_signals_that_the_host_took_away_are_no_hindrance(
    before: str, wire: list[str], runner: LaunchRunner
) -> None:
    becomes = "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    code = f"import os, signal, sys; {before}; {becomes}"
    launch = runner.start(
        [*python(code), *RUN[1:], *wire, "--", "sh", "-c", "exit 7"], stdin=subprocess.DEVNULL
    )

    assert launch.wait() == 7


def test_a_stopped_launcher_keeps_nothing_alive(
    wire: list[str], runner: LaunchRunner, tmp_path: Path
) -> None:
    liveness = LivenessSocket(tmp_path)
    roles = ("server", "child", "own-session", "daemon")
    command = [*RUN, *wire, "--", *FORKING_SERVER, liveness.path, "hostile"]
    host = runner.start([sys.executable, str(HERE / "scripts" / "fake_host.py"), "--", *command])
    launcher = int(host.read_line())
    liveness.wait_for(*roles)
    try:
        os.kill(launcher, signal.SIGSTOP)

        host.process.kill()

        for role in roles:
            liveness.read_until_end(role)
    finally:
        os.kill(launcher, signal.SIGKILL)
        liveness.close()


def test_a_request_in_two_pieces_is_answered_though_the_server_died_between(
    runner: LaunchRunner,
) -> None:
    launch = runner.launch("--", *python("import os; os.read(0, 99); os._exit(3)"))
    launch.write(b'{"jsonrpc":"2.0","method":"notifications/go"}\n{"jsonrpc":"2.0","id":8,')
    assert launch.process.stderr
    launch.process.stderr.readline()  # it says so when the server has died
    launch.write(b'"method":"initialize"}\n')

    assert launch.answer()["id"] == 8


def test_our_answer_is_a_line_of_its_own(runner: LaunchRunner) -> None:
    unfinished = "import os; os.read(0, 99); os.write(1, b'{\"unfinished\":1}'); os._exit(3)"
    launch = runner.launch("--", *python(unfinished))
    launch.send(request("initialize"))

    assert launch.read_line() == b'{"unfinished":1}\n'
    assert "exit code 3" in launch.answer()["error"]["message"]


def test_a_name_that_is_not_utf8_can_be_printed(runner: LaunchRunner) -> None:
    launch = runner.launch("--server", os.fsdecode(b"s\xff"), "--", "echo", "noise")

    # Where a terminal is not UTF-8, such a byte may be a control character.
    assert b"s\\udcff printed a line to stdout" in launch.finish()[2]


def test_a_variable_that_no_program_can_get_is_reported(runner: LaunchRunner) -> None:
    (runner.project / "odd.env").write_text("'A=B'=c\n", encoding="utf-8")
    launch = runner.launch("--dotenv", "odd.env", "--", "cat")
    launch.send(request("initialize"))

    assert "one holds a NUL, or has an invalid name" in launch.answer()["error"]["message"]
    assert launch.finish()[0] == 126


def test_a_dotenv_file_may_be_a_pipe(runner: LaunchRunner) -> None:
    fifo = runner.project / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_text("A=1\n", encoding="utf-8"))
    writer.start()
    launch = runner.launch(
        "--dotenv", "fifo", "--", "sh", "-c", "exit $((A + 5))", stdin=subprocess.DEVNULL
    )

    assert launch.wait() == 6
    writer.join()


def test_a_dotenv_file_may_be_a_descriptor(runner: LaunchRunner) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"A=1\n")
    os.close(writing)
    words = ["--dotenv", f"/dev/fd/{reading}", "--", "sh", "-c", "exit $((A + 5))"]
    launch = runner.launch(*words, stdin=subprocess.DEVNULL, pass_fds=[reading])
    os.close(reading)

    assert launch.wait() == 6


def test_a_pipe_without_an_end_is_not_read_for_ever(runner: LaunchRunner) -> None:
    os.mkfifo(runner.project / "fifo")
    launch = runner.launch("--dotenv", "fifo", "--", "cat")
    launch.send(request("initialize"))

    fifo = f"the dotenv file {runner.project}/fifo"
    assert f"{fifo} has no end after 2 s" in launch.answer()["error"]["message"]
    assert launch.finish()[0] == 125


def test_a_pipe_that_floods_is_read_only_to_its_limit(runner: LaunchRunner) -> None:
    flood = runner.start(["cat", "/dev/zero"], stdin=subprocess.DEVNULL)
    assert flood.process.stdout
    descriptor = flood.process.stdout.fileno()
    words = ["--dotenv", f"/dev/fd/{descriptor}", "--", "cat"]
    launch = runner.launch(*words, pass_fds=[descriptor])
    launch.send(request("initialize"))

    assert f"/dev/fd/{descriptor} is larger than 1 MB" in launch.answer()["error"]["message"]


def test_a_dotenv_file_of_a_repository_cannot_be_the_hosts_messages(runner: LaunchRunner) -> None:
    (runner.project / "link.env").symlink_to("/dev/stdin")
    launch = runner.launch("--dotenv", "link.env", "--", "cat")
    launch.send(request("initialize"))

    assert "link.env is not a regular file" in launch.answer()["error"]["message"]


def test_the_nearest_dotenv_file_has_the_same_limit(runner: LaunchRunner) -> None:
    (runner.project / ".env").write_text("A=1\n" * 500_000, encoding="utf-8")
    launch = runner.launch("--env", "A=dotenv", "--", "cat")
    launch.send(request("initialize"))

    assert ".env is larger than 1 MB" in launch.answer()["error"]["message"]


def test_exhausted_limits_are_not_called_our_fault(runner: LaunchRunner) -> None:
    limited = 'ulimit -n 8; exec "$@"'
    launch = runner.start(["bash", "-c", limited, "bash", *RUN, "--", "cat"])
    launch.send(request("initialize"))

    assert "out of system resources: Too many open files" in launch.answer()["error"]["message"]


def test_a_lease_that_nobody_can_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000 + "]" * 100_000, encoding="utf-8")

    assert ended.read_living(FakeProcessTable(), str(tmp_path)) == {}


def test_a_host_that_ended_while_the_server_started_is_lost() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    table = FakeProcessTable()
    line = context.Lineage([], hosts.UNKNOWN, None)
    running = Running.__new__(Running)
    running.table, running.line, running.found = table, line, make_context()

    watch = runtime.watch_hosts(running, [os.getppid(), ended.pid])

    assert watch.is_lost
    for fd in watch.descriptors:
        os.close(fd)


def test_a_host_whose_pid_is_anothers_by_now_is_lost() -> None:
    table = FakeProcessTable()
    known = table.add(os.getppid(), "codex", start="ticks:1")
    table.add(os.getppid(), "another", start="ticks:2")
    running = Running.__new__(Running)
    running.table = table
    running.line = context.Lineage([], hosts.UNKNOWN, known)

    watch = runtime.watch_hosts(running, [os.getppid()])

    assert watch.is_lost
    for fd in watch.descriptors:
        os.close(fd)

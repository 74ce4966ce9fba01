"""Corners in which something was once kept alive, lost or said wrongly."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading

import pytest
from fakes import FakeProcessTable, make_context
from launches import (
    RUN,
    LaunchRunner,
    python,
    request,
    wait_until_gone,
)

from mcp_launch import hosts
from mcp_launch.launch import context
from mcp_launch.launch.running import Running

ANSWERS = (
    "import json, os, sys, threading, time\n"
    "def answer():\n"
    "    asked = json.loads(sys.stdin.readline())\n"
    "    answer = {'jsonrpc': '2.0', 'id': asked['id'], 'result': {}}\n"
    "    os.write(1, json.dumps(answer).encode() + b'\\n')\n"
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


def test_a_host_whose_stderr_takes_no_more_is_still_answered(runner: LaunchRunner) -> None:
    fills = ANSWERS + "try: os.write(2, b'e' * 300000)\nexcept BrokenPipeError: pass\nanswer()\n"
    launch = runner.launch("--", *python(fills))
    launch.send(request("initialize"))
    launch.answer()
    assert launch.process.stderr
    launch.process.stderr.close()
    launch.send(request("second"))
    assert launch.answer()["id"] == 1

    # A terminal that is held holds nothing but itself.
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


def test_a_dotenv_file_may_be_a_pipe_or_a_descriptor(runner: LaunchRunner) -> None:
    os.mkfifo(runner.project / "fifo")
    writer = threading.Thread(target=(runner.project / "fifo").write_bytes, args=[b"A=1\n"])
    writer.start()
    reading, writing = os.pipe()
    os.write(writing, b"A=1\n")
    os.close(writing)

    for path in ("fifo", f"/dev/fd/{reading}"):
        words = ["--dotenv", path, "--", "sh", "-c", "exit $((A + 5))"]
        launch = runner.launch(*words, stdin=subprocess.DEVNULL, pass_fds=[reading])
        assert launch.wait() == 6

    os.close(reading)
    writer.join()


def test_a_dotenv_file_that_cannot_be_used_stops_the_launch_in_time(runner: LaunchRunner) -> None:
    os.mkfifo(runner.project / "fifo")
    (runner.project / "link.env").symlink_to("/dev/stdin")
    (runner.project / "odd.env").write_text("'A=B'=c\n", encoding="utf-8")
    (runner.project / ".env").write_text("A=1\n" * 500_000, encoding="utf-8")
    flood = runner.start(["cat", "/dev/zero"], stdin=subprocess.DEVNULL)
    assert flood.process.stdout
    descriptor = flood.process.stdout.fileno()
    refused = {
        ("--dotenv", "fifo"): f"the dotenv file {runner.project}/fifo has no end after 2 s",
        ("--dotenv", f"/dev/fd/{descriptor}"): f"/dev/fd/{descriptor} is larger than 1 MB",
        ("--env", "A=dotenv"): ".env is larger than 1 MB",  # the nearest file
        # A repository's own cannot be the host's messages.
        ("--dotenv", "link.env"): "link.env is not a regular file",
        ("--dotenv", "odd.env"): "one holds a NUL, or has an invalid name",
    }
    launches = {
        words: runner.launch(*words, "--", "cat", pass_fds=[descriptor]) for words in refused
    }

    for words, launch in launches.items():
        launch.send(request("initialize"))
        assert refused[words] in launch.answer()["error"]["message"]
        assert launch.finish()[0] == (126 if "odd.env" in words else 125)


@pytest.mark.parametrize("has_ended", [True, False], ids=["it has ended", "its pid is another's"])
def test_a_host_that_is_gone_when_the_server_has_started_is_lost(*, has_ended: bool) -> None:
    over = subprocess.Popen([sys.executable, "-c", ""])
    over.wait()
    table = FakeProcessTable()
    known = table.add(os.getppid(), "codex", start="ticks:1")
    table.add(os.getppid(), "another", start="ticks:2")
    running = Running.__new__(Running)
    running.table, running.found = table, make_context()
    running.line = context.Lineage([], hosts.UNKNOWN, None if has_ended else known)

    running.hosts = [os.getppid(), *[over.pid] * has_ended]

    watch = running.watch_hosts()

    assert watch.is_lost
    for fd in watch.descriptors:
        os.close(fd)

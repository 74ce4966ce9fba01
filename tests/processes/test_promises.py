"""The promises of mcp-launch on real processes, on both wires.

Nothing left: a server with a child, a child in a session of its own and a double-forked
daemon without an environment, polite or hostile, and every way in which a session ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from launches import (
    ENVIRONMENT_SERVER,
    FORKING_SERVER,
    HERE,
    RUN,
    LaunchRunner,
    LivenessSocket,
    python,
    request,
    wait_until_gone,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from launches import Launch

ROLES = ("server", "child", "own-session", "daemon")


@pytest.fixture
def liveness(tmp_path: Path) -> Iterator[LivenessSocket]:
    liveness = LivenessSocket(tmp_path)
    yield liveness
    liveness.close()


def closes_the_input(launch: Launch) -> None:
    launch.close()


def sends_sigterm(launch: Launch) -> None:
    launch.process.send_signal(signal.SIGTERM)


def ends_like_claude_code(launch: Launch) -> None:
    launch.process.send_signal(signal.SIGINT)
    if not has_ended_within(launch, 0.1):
        launch.process.send_signal(signal.SIGTERM)
        if not has_ended_within(launch, 0.4):
            launch.process.kill()


def ends_like_the_specification(launch: Launch) -> None:
    launch.close()
    if not has_ended_within(launch, 2):
        launch.process.send_signal(signal.SIGTERM)
        if not has_ended_within(launch, 2):
            launch.process.kill()


def ends_like_codex(launch: Launch) -> None:
    launch.process.send_signal(signal.SIGTERM)
    launch.process.kill()
    group = launch.pid  # collected only below, so the number is still its own
    has_ended_within(launch, 2)
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass  # nobody was left in it


def kills_the_launcher(launch: Launch) -> None:
    launch.process.kill()


def has_ended_within(launch: Launch, seconds: float) -> bool:
    try:
        launch.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


ENDINGS = [
    closes_the_input,
    sends_sigterm,
    ends_like_claude_code,
    ends_like_the_specification,
    ends_like_codex,
    kills_the_launcher,
]


@pytest.mark.parametrize("manner", ["polite", "hostile"])
@pytest.mark.parametrize("end", ENDINGS, ids=lambda end: end.__name__)
def test_nothing_is_left_when_the_host(
    end: Callable[[Launch], None],
    manner: str,
    wire: list[str],
    runner: LaunchRunner,
    liveness: LivenessSocket,
) -> None:
    launch = runner.launch(*wire, "--", *FORKING_SERVER, liveness.path, manner, process_group=0)
    liveness.wait_for(*ROLES)

    end(launch)

    words = {role: liveness.read_until_end(role) for role in ROLES}
    assert words["server"] == (b"finished" if manner == "polite" else b"")
    launch.wait()


@pytest.mark.parametrize("manner", ["polite", "hostile"])
def test_nothing_is_left_when_the_host_is_killed(
    manner: str, wire: list[str], runner: LaunchRunner, liveness: LivenessSocket
) -> None:
    command = [*RUN, *wire, "--", *FORKING_SERVER, liveness.path, manner]
    host = runner.start([sys.executable, str(HERE / "scripts" / "fake_host.py"), "--", *command])
    launcher = int(host.read_line())
    liveness.wait_for(*ROLES)

    host.process.kill()

    words = {role: liveness.read_until_end(role) for role in ROLES}
    assert words["server"] == (b"finished" if manner == "polite" else b"")
    wait_until_gone(launcher)


def test_a_killed_host_is_noticed_though_somebody_else_holds_our_stdin_open(
    wire: list[str], runner: LaunchRunner, liveness: LivenessSocket
) -> None:
    """Nothing but the host's process tells, and the launcher itself notices."""
    reading, writing = os.pipe()
    starts = python("import subprocess, sys, time; subprocess.Popen(sys.argv[1:]).wait()")
    command = [*RUN, *wire, "--trace", "--", *FORKING_SERVER, liveness.path, "hostile"]
    host = runner.start([*starts, *command], stdin=reading)
    os.close(reading)
    try:
        liveness.wait_for(*ROLES)

        host.process.kill()

        host.wait_for_stderr(b"the host has ended")
        for role in ROLES:
            liveness.read_until_end(role)
    finally:
        os.close(writing)


@pytest.mark.parametrize("manner", ["polite", "hostile"])
def test_nothing_is_left_when_the_server_exits_by_itself(
    manner: str, wire: list[str], runner: LaunchRunner, liveness: LivenessSocket
) -> None:
    launch = runner.launch(*wire, "--", *FORKING_SERVER, liveness.path, manner)
    liveness.wait_for(*ROLES)

    if manner == "polite":
        launch.send(request("leaves"))
    else:
        os.kill(liveness.pids["server"], signal.SIGKILL)

    for role in ROLES:
        liveness.read_until_end(role)
    assert launch.wait() == (7 if manner == "polite" else 128 + signal.SIGKILL)


WITHOUT_PROC = """
import sys
from mcp_launch.system import kernel
from mcp_launch import main
from mcp_launch.system import portable
from mcp_launch import launch
launch.open_table = lambda: portable
kernel.become_subreaper = lambda: False
kernel.die_with_parent = lambda number: False
sys.exit(main(["run", *sys.argv[1:]]))
"""


@pytest.mark.parametrize(
    ("end", "manner", "words"),
    [
        (sends_sigterm, "polite", []),
        (sends_sigterm, "hostile", []),
        (closes_the_input, "hostile", []),
        (kills_the_launcher, "hostile", []),
        (kills_the_launcher, "hostile", ["--direct"]),
    ],
)
def test_nothing_is_left_where_there_is_no_proc_and_nobody_adopts(
    end: Callable[[Launch], None],
    manner: str,
    words: list[str],
    runner: LaunchRunner,
    liveness: LivenessSocket,
) -> None:
    """As on macOS, but for the daemon, which nothing tells there."""
    launch = runner.start(
        [*python(WITHOUT_PROC), *words, "--", *FORKING_SERVER, liveness.path, manner],
        process_group=0,
    )
    liveness.wait_for(*ROLES)

    end(launch)

    for role in ("server", "child", "own-session"):
        liveness.read_until_end(role)
    launch.wait()


def test_the_hosts_own_group_is_never_signalled(
    wire: list[str], runner: LaunchRunner, liveness: LivenessSocket
) -> None:
    """Claude Code starts servers in its own group: a bystander there must hear nothing."""
    bystander = runner.start(
        python(
            "import signal, sys\n"
            "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):\n"
            "    signal.signal(number, lambda number, frame: print(number, flush=True))\n"
            "print('ready', flush=True)\n"
            "sys.stdin.read()\n"
        ),
        process_group=0,
    )
    assert bystander.read_line() == b"ready\n"
    launch = runner.launch(
        *wire, "--", *FORKING_SERVER, liveness.path, "hostile", process_group=bystander.pid
    )
    liveness.wait_for(*ROLES)

    launch.process.send_signal(signal.SIGTERM)

    for role in ROLES:
        liveness.read_until_end(role)
    launch.wait()
    assert bystander.finish()[:2] == (0, b"")


def test_the_exit_code_is_the_servers(wire: list[str], runner: LaunchRunner) -> None:
    for code, expected in {
        "raise SystemExit(0)": 0,
        "raise SystemExit(7)": 7,
        "raise SystemExit(255)": 255,
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": 128 + signal.SIGKILL,
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)": 128 + signal.SIGSEGV,
    }.items():
        launch = runner.launch(*wire, "--", *python(code), stdin=subprocess.DEVNULL)
        assert launch.finish()[0] == expected, code


def test_a_signal_is_passed_on_as_it_came(wire: list[str], runner: LaunchRunner) -> None:
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, lambda number, frame: sys.exit(42))\n"
        'print(\'{"jsonrpc":"2.0","method":"ready"}\', flush=True)\n'
        "signal.pause()\n"
    )
    launch = runner.launch(*wire, "--", *python(code))
    launch.read_line()

    launch.process.send_signal(signal.SIGINT)

    assert launch.wait() == 42


def test_a_server_that_was_asked_to_end_is_not_asked_again(
    wire: list[str], runner: LaunchRunner
) -> None:
    code = (
        "import os, signal\n"
        "for number in (signal.SIGINT, signal.SIGTERM):\n"
        "    signal.signal(number, lambda number, frame: os.write(2, b'%d,' % number))\n"
        'print(\'{"jsonrpc":"2.0","method":"ready"}\', flush=True)\n'
        "while True: signal.pause()\n"
    )
    launch = runner.launch(*wire, "--", *python(code))
    launch.read_line()

    # As Claude Code does it: once more, a little later.
    launch.process.send_signal(signal.SIGINT)
    assert launch.process.stderr
    assert os.read(launch.process.stderr.fileno(), 10) == b"2,"
    launch.process.send_signal(signal.SIGTERM)

    # The launcher leaves in time, whether or not it has heard of the server's end by then.
    assert launch.wait() in {128 + signal.SIGKILL, 128 + signal.SIGINT}
    assert launch.process.stderr.read() == b"15,"


def test_the_server_gets_the_hosts_descriptors_and_none_of_ours(
    wire: list[str], runner: LaunchRunner
) -> None:
    """The launchers stay out of the project's directory, and nothing of ours is on stdout."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb"):
        words = [*wire, "--trace", "--cwd", "/", "--", *ENVIRONMENT_SERVER]
        launch = runner.launch(*words, pass_fds=[reading])
        sight = launch.ask("look")

        # The last is the listing itself.
        listing = next(fd for fd in range(3, 9) if fd != reading)
        assert sorted(sight["fds"]) == sorted([0, 1, 2, reading, listing])
        assert sight["cwd"] == "/"
        with open(f"/proc/{sight['pid']}/stat", encoding="utf-8") as stat:
            parent = int(stat.read().rpartition(")")[2].split()[1])
        assert os.readlink(f"/proc/{parent}/cwd") == "/"
        code, out, err = launch.finish()
    assert (code, out) == (0, b"")
    assert b"[mcp-launch] the server is " in err


def test_the_server_has_the_hosts_locale(wire: list[str], runner: LaunchRunner) -> None:
    # Python sets a better one for itself where it can, and so would a server in Python.
    text = '{"jsonrpc":"2.0","method":"locale","params":["%s"]}\\n'
    code = f"printf '{text}' \"${{LC_CTYPE-none}}\""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "MCP_LAUNCH_HOME")}
    for given in (None, "", "C", "POSIX", "C.UTF-8"):
        environ = kept if given is None else {**kept, "LC_CTYPE": given}

        launch = runner.launch(*wire, "--", "sh", "-c", code, env=environ)

        assert launch.answer()["params"] == ["none" if given is None else given]


def test_the_server_has_the_default_signals(wire: list[str], runner: LaunchRunner) -> None:
    code = (
        "import json, sys\n"
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "mask = {name: int(status[name], 16) for name in ('SigIgn', 'SigBlk')}\n"
        "print(json.dumps({'jsonrpc': '2.0', 'method': 'masks', 'params': mask}), flush=True)\n"
        "sys.stdin.read()\n"
    )
    bare = runner.start([sys.executable, "-S", *python(code)[1:]])
    launch = runner.launch(*wire, "--", sys.executable, "-S", *python(code)[1:])

    # Python itself ignores SIGPIPE and SIGXFSZ: what counts is that nothing differs.
    assert launch.answer() == bare.answer()


TAKES_ITS_TIME = """
import os, signal, sys, time
def finish(*_):
    time.sleep(0.3)
    open(sys.argv[1], "w").close()
    os._exit(9)
signal.signal(signal.SIGTERM, finish)
os.write(1, b'{"jsonrpc":"2.0","method":"notifications/ready"}\\n')
while True: signal.pause()
"""


def test_a_server_that_is_asked_to_end_has_time_to_finish(
    runner: LaunchRunner, tmp_path: Path, wire: list[str]
) -> None:
    """SIGKILL follows SIGTERM after two seconds, not at once."""
    finished = tmp_path / "finished"
    launch = runner.launch(*wire, "--", *python(TAKES_ITS_TIME), str(finished))
    launch.answer()

    launch.close()

    assert launch.wait() == 9
    assert finished.exists()

"""Systems that lack something: no pidfd in Python, no `/proc` or another's, no descriptors.

The launch works by other means, or says why not, to the host.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable
from launches import (
    ENVIRONMENT_SERVER,
    FORKING_SERVER,
    LIMIT,
    RUN,
    LaunchRunner,
    LivenessSocket,
    python,
    request,
    wait_until_gone,
)

import mcp_launch
from mcp_launch.system import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

ROLES = ("server", "child", "own-session", "daemon")
PACKAGES = str(Path(mcp_launch.__file__).parent.parent)


@pytest.fixture
def liveness(tmp_path: Path) -> Iterator[LivenessSocket]:
    liveness = LivenessSocket(tmp_path)
    yield liveness
    liveness.close()


# Python without pidfd_open: python-build-standalone before July 2026, PyPy.

WITHOUT_PIDFD = "import os, signal\ndel os.pidfd_open, signal.pidfd_send_signal\n"

# Neither does the kernel have it, or a filter forbids it.
WITHOUT_ANY_WATCH = WITHOUT_PIDFD + (
    "import sys\n"
    "if sys.argv[1:2] != ['-c']:\n"
    "    from mcp_launch.system import kernel\n"
    "    kernel.open_watch = lambda pid: None\n"
)


@pytest.fixture(params=[WITHOUT_PIDFD, WITHOUT_ANY_WATCH], ids=["in Python", "at all"])
def without_pidfd(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Take pidfds away from every Python that is started from here on."""
    directory = tmp_path / "site"
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(request.param, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{directory}:{PACKAGES}")


@pytest.mark.usefixtures("without_pidfd")
@pytest.mark.parametrize("is_stopped", [False, True], ids=["launcher runs", "launcher stopped"])
def test_the_hosts_death_is_noticed_without_pidfd(
    wire: list[str], runner: LaunchRunner, liveness: LivenessSocket, *, is_stopped: bool
) -> None:
    launch = runner.launch(*wire, "--", *ENVIRONMENT_SERVER)
    assert launch.ask("look")["pid"], "a server is served"
    assert launch.finish()[0] == 0

    # The test holds the writing end too, so the input never ends.
    reading, writing = os.pipe()
    code = (
        "import subprocess, sys, time; child = subprocess.Popen(sys.argv[1:]); "
        "print(child.pid, file=sys.stderr, flush=True); time.sleep(3600)"
    )
    command = [*RUN, *wire, "--", *FORKING_SERVER, liveness.path, "hostile"]
    host = runner.start([*python(code), *command], stdin=reading)
    os.close(reading)
    try:
        assert host.process.stderr
        launcher = int(host.process.stderr.readline())
        liveness.wait_for(*ROLES)
        if is_stopped:
            os.kill(launcher, signal.SIGSTOP)

        # Not collected before the end: a zombie is dead as well.
        host.process.kill()

        for role in ROLES:
            liveness.read_until_end(role)
        wait_until_gone(launcher)
    finally:
        os.close(writing)


def test_a_pidfd_is_opened_without_pythons_help(
    monkeypatch: pytest.MonkeyPatch, runner: LaunchRunner
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    process = runner.start(python("import sys; sys.stdin.read()")).process

    fd = kernel.open_watch(process.pid)

    assert fd is not None
    assert not os.get_inheritable(fd)
    os.close(fd)
    process.kill()
    process.wait(LIMIT)
    with pytest.raises(ProcessLookupError):
        kernel.open_watch(process.pid)


def test_a_host_that_is_looked_at_has_ended_when_its_pid_is_anothers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel, "open_watch", lambda _pid: None)
    table = FakeProcessTable()
    table.add(77, "codex", start="ticks:1")
    watch = kernel.HostWatch(table, [0, 77])

    assert watch.needs_polling
    assert (watch.is_lost, watch.look()) == (False, False)
    table.add(77, "another", start="ticks:2")
    assert watch.look()


# Without /proc, or with another's.

# Each a command prefix, and how far below it the launcher stands.
COVERS = {
    "no /proc": (
        ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc; exec "$@"', "sh"],
        1,
    ),
    "another's /proc": (["unshare", "--pid", "--fork", "--kill-child"], 2),
}

# The probe looks into /proc.
ECHO = python(
    "import json, sys\n"
    "for line in sys.stdin:\n"
    "    answer = {'jsonrpc': '2.0', 'id': json.loads(line)['id'], 'result': {'is': 'there'}}\n"
    "    print(json.dumps(answer), flush=True)\n"
)


def can_unshare() -> bool:
    tried = [[*words, "true"] for words, _ in COVERS.values()]
    return all(
        not subprocess.run(one, check=False, capture_output=True).returncode for one in tried
    )


needs_unshare = pytest.mark.skipif(not can_unshare(), reason="namespaces take root")


@pytest.fixture(params=list(COVERS))
def cover(request: pytest.FixtureRequest) -> tuple[list[str], int]:
    return COVERS[request.param]


@needs_unshare
def test_a_server_is_served_where_no_process_can_be_looked_at_unless_that_is_demanded(
    cover: tuple[list[str], int], wire: list[str], runner: LaunchRunner
) -> None:
    command = [*cover[0], *RUN, "--trace", *wire, "--", *ECHO]
    for stdin in ([], ["--socket"]):  # a host's launch is no contradiction, either
        launch = runner.launch_below_host("codex", *stdin, command=command)
        assert launch.ask("look") == {"is": "there"}
        _, _, err = launch.finish()
        assert b"cannot read other processes" in err
        assert b"stdin: unknown" in err

    launch = runner.start([*cover[0], *RUN, "--strict", *wire, "--", *ECHO])
    launch.send(request("initialize"))
    assert "--strict: cannot verify" in launch.answer()["error"]["message"]
    assert launch.finish()[0] == 125


@needs_unshare
@pytest.mark.parametrize("end", ["host is done", "launcher", "guardian", "launcher and guardian"])
def test_the_servers_group_is_ended_where_no_process_can_be_looked_at(
    end: str, wire: list[str], runner: LaunchRunner, liveness: LivenessSocket
) -> None:
    # A shell above the launch that outlives it: were the launcher the first process of its
    # namespace, the kernel would end everything with it.
    words, depth = COVERS["another's /proc"]
    reading, writing = os.pipe()
    stays = ["bash", "-c", f'"$@"; exec cat <&{reading}', "bash"]
    command = [*words, *stays, *RUN, *wire, "--", *FORKING_SERVER, liveness.path, "hostile"]
    launch = runner.start(command, pass_fds=[reading])
    os.close(reading)
    try:
        liveness.wait_for(*ROLES)
        launcher = find_below(launch.pid, depth)
        parts = {"launcher": launcher, "guardian": find_below(launcher, 2)}

        for part, pid in parts.items():
            if part in end:
                os.kill(pid, signal.SIGKILL)
        if end == "host is done":
            launch.close()

        for role in ("server",) if "guardian" in end else ("server", "child"):
            liveness.read_until_end(role)
        for pid in parts.values():
            wait_until_gone(pid)
        assert launch.process.poll() is None
    finally:
        # The pids are of the namespace, which ends now, and mean others here.
        liveness.pids.clear()
        os.close(writing)
    launch.wait()


def find_below(pid: int, depth: int) -> int:
    for _ in range(depth):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        pid = int(children[0])
    return pid


# No descriptors left.

# Without site: what an editable install imports takes descriptors of its own.
LAUNCH = (
    f"import sys; sys.path.insert(0, {PACKAGES!r})\nfrom mcp_launch import main\nsys.exit(main())\n"
)


# Around each number below which something else fails.
@pytest.mark.parametrize("limit", [4, 6, 8, 10, 11, 12, 14, 17, 18])
def test_a_launch_without_descriptors_works_or_says_why(
    limit: int, wire: list[str], runner: LaunchRunner
) -> None:
    limited = f'ulimit -n {limit}; exec "$@"'
    launcher = [sys.executable, "-S", "-c", LAUNCH, "run"]
    read_id = """read line; id=${line#*'"id": '}"""
    write = 'echo "{\\"jsonrpc\\":\\"2.0\\",\\"id\\":${id%%,*},\\"result\\":{}}"'
    server = ["sh", "-c", f"{read_id}; {write}; read line; read line"]
    launch = runner.start(["sh", "-c", limited, "sh", *launcher, *wire, "--", *server])

    launch.send(request("initialize"))

    answer = launch.answer()
    code, _, err = launch.finish()
    assert b"Traceback" not in err
    if "error" in answer:
        assert "Too many open files" in answer["error"]["message"]
        assert b"[mcp-launch] out of system resources: Too many open files" in err
        assert code == 125
    else:
        assert answer["result"] == {}
    assert ("error" in answer) == (limit < (12 if wire else 18))

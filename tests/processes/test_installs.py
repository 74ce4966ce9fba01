"""A runner that still installs its package when the host gives up: it may finish, and no more."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from launches import (
    HERE,
    LIMIT,
    LaunchRunner,
    LivenessSocket,
    read_refusal,
    request,
    wait_for_lease,
    wait_until_gone,
)
from npm_caches import Machine, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from launches import Launch

COMMAND = ["--", "npx", "-y", "@tiny/server@1.0.0"]
HASH = "c2a8ff29ad74aefb"  # npx makes it of the package

# The launcher, whose keeper reports that it would have killed a guardian without an installation.
WATCHED = (
    "import sys, pathlib; from mcp_launch.system import keeper_process\n"
    "keeper_process.GUARDIAN_LIMIT = 0.1\n"
    "def may_wait(self, ask=keeper_process.Keeper._may_wait):\n"
    "    pathlib.Path(sys.argv[1]).touch()\n"
    "    return ask(self)\n"
    "keeper_process.Keeper._may_wait = may_wait\n"
    "from mcp_launch import main; sys.exit(main(sys.argv[2:]))"
)

# The launcher, with a limit for installations that a test can wait for.
HURRIED = (
    "import sys; from mcp_launch.system import install_watch; install_watch.INSTALL_LIMIT = 0.1\n"
    "from mcp_launch import main; sys.exit(main())"
)


class SlowNpx:
    """A launch whose npx installs when the test lets it."""

    def __init__(self, base: Path, liveness: LivenessSocket, runner: LaunchRunner) -> None:
        machine = Machine(base / "machine")
        self.npm = machine.npm
        script = (HERE / "scripts" / "slow_npx.py").read_text(encoding="utf-8")
        write(machine.npm / "bin" / "npx-cli.js", f"#!{sys.executable}\n{script}", 0o755)
        self.state = base / "state"
        self.home = base / "home"
        self.installed = self.home / ".npm" / "_npx" / HASH
        self.liveness = liveness
        self.runner = runner
        self.environ = {
            **{name: text for name, text in os.environ.items() if not name.startswith("npm_")},
            "PATH": f"{machine.usr}/bin:{os.environ['PATH']}",
            "LIVENESS": liveness.path,
            "INSTALLED": str(self.installed),
        }
        self.lease: dict[str, Any] = {}
        self.launch: Launch

    def start(self, *options: str, launcher: list[str] | None = None) -> None:
        """Start the launch, and wait until the runner is at work and the lease is written."""
        command = [*(launcher or [sys.executable, "-m", "mcp_launch"]), "run", *options, *COMMAND]
        self.launch = self.runner.start(command, env=self.environ)
        self.launch.send(request("initialize"))
        self.liveness.wait_for("runner")
        self.lease = wait_for_lease(self.state, lambda one: bool(one.get("processes")))

    def order(self, word: bytes) -> None:
        """Let the runner go on."""
        self.liveness.connections["runner"].sendall(word)

    def leave(self) -> None:
        """Kill the launcher, and wait until the guardian goes on without it."""
        self.launch.process.kill()
        self.launch.wait()
        self.wait_until_left()

    def forget(self) -> None:
        """Forget the processes of a launch that is over."""
        for connection in self.liveness.connections.values():
            connection.close()
        self.liveness.connections.clear()
        self.liveness.pids.clear()

    def wait_until_left(self) -> None:
        """Wait until the guardian goes on without the launcher."""
        wait_for_lease(self.state, lambda one: one.get("state") == "installing")

    def wait_until_over(self, *roles: str) -> None:
        """Wait until these have come and gone, and nothing is left."""
        self.liveness.wait_for(*roles)
        for role in roles:
            self.liveness.read_until_end(role)
        for part in ("launcher", "keeper", "guardian"):
            wait_until_gone(self.lease["processes"][part]["pid"])
        assert not list((self.state / "leases").glob("*.json"))

    def read_log(self) -> str:
        """Return the log of the launch."""
        path = self.state / "logs" / f"{self.lease['launch']}.log"
        return path.read_text(encoding="utf-8")


@pytest.fixture
def npx(tmp_path: Path, runner: LaunchRunner) -> Iterator[SlowNpx]:
    liveness = LivenessSocket(tmp_path)
    yield SlowNpx(tmp_path, liveness, runner)
    liveness.close()


def close_input(launch: Launch) -> None:
    launch.close()


def kill(launch: Launch) -> None:
    launch.process.kill()


def terminate(launch: Launch) -> None:
    launch.process.terminate()


def end_like_claude_code(launch: Launch) -> None:
    launch.process.send_signal(signal.SIGINT)
    launch.process.send_signal(signal.SIGTERM)
    launch.process.kill()


@pytest.mark.parametrize("end", [close_input, kill, terminate, end_like_claude_code])
def test_an_installation_goes_on_when_the_host(npx: SlowNpx, end: Callable[[Launch], None]) -> None:
    npx.start()

    end(npx.launch)
    code = npx.launch.wait()
    npx.wait_until_left()
    npx.order(b"chatter")
    npx.wait_until_over("runner", "server")

    assert code in {143, -9}
    assert (npx.installed / "node_modules/.package-lock.json").exists()
    log = npx.read_log()
    assert "npx is still installing @tiny/server@1.0.0, and goes on without the host" in log
    assert "npx has installed @tiny/server@1.0.0: the next start is ready" in log


def test_an_installation_goes_on_when_its_host_is_killed_though_the_user_keeps_the_runner(
    npx: SlowNpx,
) -> None:
    command = [sys.executable, "-m", "mcp_launch", "run", "--runner", "keep", *COMMAND]
    host = npx.runner.launch_below_host("codex", command=command, env=npx.environ)
    npx.liveness.wait_for("runner")
    npx.lease = wait_for_lease(npx.state, lambda one: bool(one.get("processes")))

    host.process.kill()
    npx.wait_until_left()
    npx.order(b"install")

    npx.wait_until_over("runner", "server")


def test_an_installation_that_goes_on_is_told_and_granted_its_time_and_the_next_start_is_ready(
    npx: SlowNpx, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    npx.start(launcher=[sys.executable, "-c", WATCHED, str(asked)])
    npx.launch.close()
    npx.launch.wait_for_stderr(b"npx is still installing @tiny/server@1.0.0")
    npx.launch.wait()
    npx.wait_until_left()

    assert "installing @tiny/server@1.0.0" in run_command("ps").stdout
    assert "Nothing to reap" in run_command("reap", "--yes").stdout
    deadline = time.monotonic() + LIMIT
    while not asked.exists():  # the keeper would have killed another guardian by now
        assert time.monotonic() < deadline
        time.sleep(0.02)
    npx.order(b"install")
    npx.wait_until_over("runner", "server")

    npx.forget()
    npx.start()
    assert npx.launch.answer()["result"] == {}
    npx.launch.process.kill()
    npx.wait_until_over("runner", "server")


def test_an_installation_that_fails_leaves_its_reason_in_the_log(npx: SlowNpx) -> None:
    npx.start()
    npx.leave()

    npx.order(b"fail")
    npx.wait_until_over("runner")

    assert "had installed @tiny/server@1.0.0: npm error 404 Not Found" in npx.read_log()


def test_an_installation_that_takes_too_long_is_ended(npx: SlowNpx) -> None:
    npx.start(launcher=[sys.executable, "-c", HURRIED])

    npx.launch.process.kill()

    npx.wait_until_over("runner")
    assert "before it had installed @tiny/server@1.0.0" in npx.read_log()


@pytest.mark.parametrize(
    ("part", "number"),
    [("keeper", signal.SIGTERM), ("guardian", signal.SIGTERM), ("guardian", signal.SIGKILL)],
    ids=["to the keeper", "to the guardian", "that kills the guardian"],
)
def test_a_signal_ends_an_installation(npx: SlowNpx, part: str, number: signal.Signals) -> None:
    npx.start()
    npx.leave()

    os.kill(npx.lease["processes"][part]["pid"], number)

    npx.wait_until_over("runner")


@pytest.mark.parametrize(
    ("order", "end"),
    [
        (b"install", close_input),
        (b"install", end_like_claude_code),
        (b"answer", kill),
        (b"answer", terminate),
    ],
    ids=["installed, closed", "installed, killed slowly", "answers, killed", "answers, terminated"],
)
def test_a_server_that_answers_is_ended_as_any_other_though_its_package_seems_to_be_missing(
    npx: SlowNpx, order: bytes, end: Callable[[Launch], None]
) -> None:
    npx.start()
    npx.order(order)
    npx.launch.answer()

    end(npx.launch)

    npx.wait_until_over("runner", *["server"] * (order == b"install"))
    assert "still installing" not in npx.read_log()


def test_on_the_direct_wire_nothing_goes_on_without_the_host(npx: SlowNpx) -> None:
    npx.start("--direct")

    npx.launch.process.kill()

    npx.wait_until_over("runner")


@pytest.mark.parametrize("end", [b"install", b"fail"])
def test_an_npm_that_would_not_wait_for_another_is_made_to_wait(
    npx: SlowNpx, tmp_path: Path, end: bytes
) -> None:
    (npx.npm / "node_modules/libnpmexec/lib/with-lock.js").unlink()
    npx.start()
    npx.leave()
    first, npx.liveness = npx.liveness, open_second_socket(tmp_path)
    npx.environ["LIVENESS"] = npx.liveness.path
    try:
        second = npx.runner.launch(*COMMAND, env=npx.environ)
        second.send(request("initialize"))
        launch = npx.lease["launch"]
        npx.lease = wait_for_lease(
            npx.state, lambda one: one["launch"] != launch and bool(one.get("processes"))
        )

        first.connections["runner"].sendall(end)
        first.read_until_end("runner")
        npx.liveness.wait_for("runner")
        if end == b"fail":
            npx.order(b"install")

        assert second.answer()["result"] == {}
        second.close()
        npx.wait_until_over("runner", "server")
    finally:
        npx.liveness.close()


def open_second_socket(directory: Path) -> LivenessSocket:
    (directory / "second").mkdir()
    return LivenessSocket(directory / "second")


# The launcher, which asks at once how long its host waits.
IMPATIENT = (
    "import sys; from mcp_launch.runtime import patience; patience._LOOK_AFTER = 0.0\n"
    "from mcp_launch import main; sys.exit(main())"
)


def start_below_claude_code(npx: SlowNpx, **environ: str) -> Launch:
    launcher = [sys.executable, "-c", IMPATIENT, "run", "--server", "docs", *COMMAND]
    host = npx.runner.launch_below_host("claude", command=launcher, env=npx.environ | environ)
    npx.liveness.wait_for("runner")
    npx.lease = wait_for_lease(npx.state, lambda one: bool(one.get("processes")))
    return host


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
def test_a_host_reads_in_time_that_the_package_is_being_installed(
    npx: SlowNpx, method: str
) -> None:
    host = start_below_claude_code(npx, MCP_TIMEOUT="1200")

    host.send(request(method))
    answer = host.answer()
    if method == "server/discover":
        assert answer["error"]["code"] == -32601
        host.send(request("initialize", 2))
        answer = host.answer()

    assert re.match(
        r"\[mcp-launch\] @tiny/server@1\.0\.0 is being installed \(npx, \d+ s so far\); "
        "it will be ready at the next start — fix: wait a minute",
        read_refusal(answer),
    )
    npx.wait_until_left()
    npx.order(b"install")
    npx.wait_until_over("runner", "server")


def test_a_host_with_more_patience_is_not_answered(npx: SlowNpx) -> None:
    host = start_below_claude_code(npx, MCP_TIMEOUT="60000")
    host.send(request("initialize"))
    wait_for_text(npx, "the host waits 60 s for the server")

    npx.order(b"install")

    assert host.answer()["result"] == {}
    host.close()
    npx.wait_until_over("runner", "server")


def wait_for_text(npx: SlowNpx, text: str) -> None:
    """Wait until a line of the log contains this."""
    deadline = time.monotonic() + LIMIT
    while text not in npx.read_log():
        assert time.monotonic() < deadline, npx.read_log()
        time.sleep(0.02)

"""`mcp-launch restart`: a fresh server below the same connection; the host does not notice."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_line import Done, run_command
from launches import (
    LIMIT,
    RUN,
    SCRIPTED_SERVER,
    Launch,
    LaunchRunner,
    call,
    read_refusal,
    request,
    wait_for_lease,
    wait_until_gone,
)

from mcp_launch.machine import restart_server
from mcp_launch.state import leases
from mcp_launch.system import open_table

if TYPE_CHECKING:
    from collections.abc import Callable

RESTART = [sys.executable, "-m", "mcp_launch", "restart"]


@pytest.fixture
def launch(runner: LaunchRunner) -> Launch:
    """Return a launch whose server is called `docs`."""
    return runner.launch("--server", "docs", "--", *SCRIPTED_SERVER)


def restart(*words: str) -> Done:
    return run_command("restart", *words)


def find_state() -> Path:
    return Path(os.environ["MCP_LAUNCH_HOME"])


def read_lease(is_right: Callable[[dict[str, Any]], bool] = bool) -> dict[str, Any]:
    return wait_for_lease(find_state(), is_right)


def wait_until(is_right: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_right():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def read_log() -> bytes:
    return b"".join(path.read_bytes() for path in (find_state() / "logs").glob("*.log"))


def greet_by_discovery(launch: Launch) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    launch.send(request("server/discover", 0, _meta=meta))
    assert "result" in launch.answer()


@pytest.mark.parametrize("greet", [Launch.initialize, greet_by_discovery])
def test_the_calls_before_and_after_a_restart_reach_different_servers_on_one_connection(
    greet: Callable[[Launch], object], launch: Launch
) -> None:
    greet(launch)
    before = launch.call("look")

    done = restart("docs")

    after = launch.call("look", 2)
    wait_until_gone(before["pid"])
    assert done.returncode == 0, done
    assert f"restarted, pid {before['pid']} -> {after['pid']}, " in done.stdout
    assert before["pid"] != after["pid"]
    assert after["calls"] == 1
    lease = read_lease(lambda one: one["calls"] == 2)
    assert (lease["restarts"], lease["restart_requests"], lease["state"]) == (1, 1, "running")
    assert launch.finish()[0] == 0


def test_the_new_server_gets_the_settings_of_the_host_however_often_it_is_replaced(
    launch: Launch,
) -> None:
    launch.initialize(roots={})
    launch.ask("logging/setLevel", level="warning")
    launch.ask("resources/subscribe", uri="file:///a")
    pids = [launch.call("look")["pid"]]

    for _ in range(5):  # more than the deaths after which a server is given up
        done = restart("docs")
        assert done.returncode == 0
        assert f"restarted, pid {pids[-1]} -> " in done.stdout
        pids.append(launch.call("look")["pid"])

    assert len(set(pids)) == 6
    heard = launch.call("look")["heard"]
    assert [one["method"] for one in heard if "method" in one][:4] == [
        "initialize",
        "notifications/initialized",
        "logging/setLevel",
        "resources/subscribe",
    ]
    assert heard[0]["params"]["capabilities"] == {"roots": {}}


def test_a_call_in_flight_is_answered_by_its_server_and_two_restarts_at_once_are_one(
    launch: Launch, runner: LaunchRunner, tmp_path: Path
) -> None:
    launch.initialize()
    before = launch.call("look")["pid"]
    done = tmp_path / "done"
    launch.send(call("wait", 7, path=str(done)))
    assert launch.answer()["method"] == "notifications/message"
    commands = [runner.start([*RESTART, "docs"]) for _ in range(2)]
    os.kill(read_lease()["processes"]["launcher"]["pid"], signal.SIGUSR1)
    launch.send(call("look", 8))  # it waits, for the old server or for the new one
    wait_until(lambda: b"is replaced" in read_log())
    done.touch()

    answers = {answer["id"]: answer["result"] for answer in (launch.answer(), launch.answer())}

    assert answers[7]["waited"] == str(done)
    assert [command.wait() for command in commands] == [0, 0]
    after = launch.call("look", 9)
    assert after["pid"] != before
    assert after["calls"] == 1 + (answers[8]["pid"] == after["pid"])


def test_a_server_that_does_not_come_back_is_tried_again_by_the_next_restart(
    runner: LaunchRunner, tmp_path: Path
) -> None:
    once = tmp_path / "once"
    launch = runner.launch("--server", "docs", "--", *SCRIPTED_SERVER, "--once", str(once))
    launch.initialize()

    failed = restart("docs", "--json")

    [told] = json.loads(failed.stdout)["servers"]
    assert failed.returncode == 1
    assert told["outcome"] == "failed"
    assert "it has been started before" in told["problem"]
    assert told["after"] is None
    launch.send(call("look", 3))
    assert "it has been started before" in read_refusal(launch.answer())
    again = restart("docs")
    assert again.returncode == 1
    assert "mcp-launch logs docs" in again.stdout

    once.unlink()
    done = restart("docs")

    assert done.returncode == 0, done
    assert launch.call("look", 4)["calls"] == 1
    assert launch.finish()[0] == 0


def test_a_launcher_that_does_not_expect_the_signal_never_gets_it(runner: LaunchRunner) -> None:
    """It ignores the signal, because its host does."""
    code = "import os, signal, sys; signal.signal(signal.SIGUSR1, signal.SIG_IGN); "
    code += "os.execv(sys.argv[1], sys.argv[1:])"
    words = [*RUN, "--server", "docs", "--", *SCRIPTED_SERVER]
    launch = runner.start([sys.executable, "-c", code, *words])
    launch.initialize()
    pid = launch.call("look")["pid"]
    assert read_lease(lambda one: "server" in one["processes"])["restarts_on"] is None

    done = restart("docs")

    assert done.returncode == 1
    assert "its host ignores SIGUSR1" in done.stdout
    assert launch.call("look")["pid"] == pid


@pytest.fixture
def absent(runner: LaunchRunner) -> Launch:
    """Return a launch that has no server, because nobody has called it yet."""
    words = ["--server", "docs", "--start", "called", "--", *SCRIPTED_SERVER]
    first = runner.launch(*words)
    first.initialize()
    first.ask("tools/list")
    handshakes = find_state() / "handshakes"
    wait_until(lambda: handshakes.exists() and bool(list(handshakes.iterdir())))
    first.finish()
    launch = runner.launch(*words)
    launch.initialize()
    read_lease(lambda one: one.get("state") == "not started")
    return launch


def test_a_server_that_does_not_run_needs_no_restart(absent: Launch) -> None:
    done = restart("docs")

    assert done.returncode == 0
    assert "not running: the next call starts a fresh one" in done.stdout

    launch = read_lease()["launch"]
    absent.process.send_signal(signal.SIGTERM)
    absent.wait()
    shown = run_command("logs", "-v", "--json", "--session", launch).stdout.splitlines()
    texts = [json.loads(line)["text"] for line in shown]
    assert "signal 15: no server runs" in texts
    assert not any("passed on" in text for text in texts)
    assert texts[-1].startswith("ended: SIGTERM was received; no server was started; 0 calls in ")


def test_only_the_servers_that_were_asked_for_are_restarted(runner: LaunchRunner) -> None:
    environ = {**os.environ, "AGENT_SESSION_ID": "session-of-goose"}
    docs, files = ([*RUN, "--server", name, "--", *SCRIPTED_SERVER] for name in ("docs", "files"))
    launches = {
        "docs": runner.launch_below_host("goose", command=docs, env=environ),
        "files": runner.start(files),
    }
    for launch in launches.values():
        launch.initialize()
    pids = {name: one.call("look")["pid"] for name, one in launches.items()}

    unknown = restart("dosc")
    assert unknown.returncode == 2
    assert "no server called dosc runs" in unknown.stderr
    assert "did you mean docs?" in unknown.stderr
    for words in ([], ["--all", "docs"], ["docs", "--host", "codex"], ["docs", "--session", "no"]):
        assert restart(*words).returncode == 2
    done = restart("docs", "--host", "goose", "--session", "session-of-g", "--json")
    [told] = json.loads(done.stdout)["servers"]
    assert (told["host"], told["session"]) == ("goose", "session-of-goose")
    assert told["before"] == pids["docs"]
    assert launches["docs"].call("look", 2)["pid"] == told["after"] != pids["docs"]
    assert launches["files"].call("look", 2)["pid"] == pids["files"]

    everything = json.loads(restart("--all", "--json").stdout)
    assert sorted(one["server"] for one in everything["servers"]) == ["docs", "files"]
    assert launches["files"].call("look", 3)["pid"] != pids["files"]


def test_the_log_tells_the_whole_life_of_a_server(launch: Launch) -> None:
    launch.initialize()
    launch.call("look")
    restart("docs")
    launch.send(call("die"))
    launch.answer()
    launch.call("look")
    launch.finish()

    done = run_command("logs", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [line["kind"] for line in lines if line["kind"] != "stderr"]
    assert kinds == ["start", "restart", "restart", "failure", "restart", "end"]
    assert lines[0]["text"].startswith("started: ")
    why = "ended: the host has closed the connection; the server ended with exit code 0; 3 calls in"
    assert lines[-1]["text"].startswith(why)


def test_a_killed_launcher_has_an_end_in_its_log_and_is_not_waited_for(launch: Launch) -> None:
    launch.initialize()
    launch.call("look")
    read_lease(lambda one: "server" in one["processes"])
    table = open_table()
    launcher: Any = leases.describe_processes(table, launcher=launch.process.pid)["launcher"]
    launch.process.kill()
    # It stays a zombie: its host has not noticed yet.
    os.waitid(os.P_PID, launch.process.pid, os.WEXITED | os.WNOWAIT)
    asked = restart_server.AskedLauncher(
        "/no/lease.json", "it", {"server": 7}, {"server": 0}, time.time(), launcher
    )

    done = restart_server.wait(table, asked)

    assert done["server"].problem == "its launch has ended (mcp-launch logs)"
    wait_until(lambda: b" x ended: mcp-launch itself was killed; the server " in read_log())

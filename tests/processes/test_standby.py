"""A launch without a server waits for a call in a smaller process, and nobody notices."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from launches import (
    LIMIT,
    SCRIPTED_SERVER,
    Launch,
    LaunchRunner,
    call,
    read_refusal,
    request,
    wait_for_lease,
    wait_until_gone,
)
from sessions import A, B, of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no standby elsewhere")

CALLED = ["--start", "called", "--"]

# The signals that a host ends us with, and the exit code that they lead to.
ENDINGS = {"SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT, "SIGHUP": signal.SIGHUP}


WORDS = [*CALLED, *SCRIPTED_SERVER]

# A launch that does not wait a minute for standby once its server rests.
CODE = """
import sys; from mcp_launch import main; from mcp_launch.runtime import standby
standby.DELAY_AFTER_SERVER = 0.3
sys.exit(main(sys.argv[1:]))
"""
HASTY = [sys.executable, "-c", CODE, "run"]
RESTING = ["--rest", "1s", "--"]


@pytest.fixture(autouse=True)
def no_lease_is_left() -> Iterator[None]:
    yield
    assert not list(Path(os.environ["MCP_LAUNCH_HOME"], "leases").glob("[!.]*.json"))


def remember(launch: Launch) -> None:
    greet(launch)
    handshakes = Path(os.environ["MCP_LAUNCH_HOME"], "handshakes")
    wait_until(lambda: handshakes.exists() and bool(list(handshakes.iterdir())))
    launch.finish()


def greet(launch: Launch) -> list[Any]:
    launch.initialize()
    return list(launch.ask("tools/list")["tools"])


def wait_until(is_right: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_right():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_on_standby(pid: int) -> bool:
    command = Path(f"/proc/{pid}/cmdline").read_bytes()
    return b"standby_process" in command and _list_children(pid) == ""


def _list_children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")


def begin(runner: LaunchRunner, **options: Any) -> Launch:
    """Start a launch that is answered from memory, and greet it."""
    remember(runner.launch(*WORDS, **options))
    launch = runner.launch(*WORDS, **options)
    greet(launch)
    return launch


def stand_by(runner: LaunchRunner, **options: Any) -> Launch:
    """Start a launch, greet it, and wait until it is on standby."""
    launch = begin(runner, **options)
    wait_until(lambda: is_on_standby(launch.pid))
    return launch


def rest(runner: LaunchRunner, **options: Any) -> Launch:
    """Start a launch, call its server, and wait until that rests and the launch is on standby."""
    launch = runner.start([*HASTY, *RESTING, *SCRIPTED_SERVER], **options)
    greet(launch)
    launch.call("look")
    wait_until(lambda: is_on_standby(launch.pid))
    return launch


# Both kinds of launch on standby.
WAITING = pytest.mark.parametrize("wait", [stand_by, rest], ids=["not started", "resting"])


def test_the_first_call_after_standby_is_answered(runner: LaunchRunner) -> None:
    launch = stand_by(runner)

    first, second = launch.call("look", 7), launch.call("look", 8)

    assert first["pid"] == second["pid"]
    heard = [message["method"] for message in second["heard"]]
    assert heard == ["initialize", "notifications/initialized", "tools/list", *["tools/call"] * 2]
    assert launch.finish()[0] == 0


def test_a_rested_server_is_started_again_after_standby(runner: LaunchRunner) -> None:
    launch = runner.start([*HASTY, *RESTING, *SCRIPTED_SERVER])
    greet(launch)
    seen = []
    for number in (7, 8, 9):
        seen.append(launch.call("look", number))
        wait_until(lambda: is_on_standby(launch.pid))

    assert len({one["pid"] for one in seen}) == 3
    for one in seen[1:]:
        heard = [message["method"] for message in one["heard"]]
        assert heard == ["initialize", "notifications/initialized", "tools/list", "tools/call"]
    assert launch.finish()[0] == 0


@WAITING
def test_a_launch_on_standby_needs_less_memory_than_python(
    wait: Callable[..., Launch], runner: LaunchRunner
) -> None:
    launch = wait(runner)
    python = runner.start([sys.executable, "-c", "import os; print(flush=True); os.read(0, 1)"])
    python.read_line()

    assert read_anonymous(launch.pid) <= read_anonymous(python.pid)
    launch.finish()


def read_anonymous(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    return int(rollup.partition("\nAnonymous:")[2].split()[0])


@WAITING
def test_lists_are_answered_after_standby_as_before_it(
    wait: Callable[..., Launch], runner: LaunchRunner
) -> None:
    launch = wait(runner)
    for file in Path(os.environ["MCP_LAUNCH_HOME"], "handshakes").iterdir():
        file.unlink()

    assert launch.ask("tools/list")["tools"] == [{"name": "look"}]
    wait_until(lambda: is_on_standby(launch.pid))  # nothing was started for that
    assert launch.ask("ping") == {}
    launch.finish()


@WAITING
def test_a_launch_on_standby_ends_with_its_input(
    wait: Callable[..., Launch], runner: LaunchRunner
) -> None:
    launch = wait(runner)

    assert launch.finish()[:2] == (0, b"")


@pytest.mark.parametrize("number", ENDINGS.values(), ids=list(ENDINGS))
@pytest.mark.parametrize(
    "wait", [begin, stand_by, rest], ids=["before standby", "on standby", "resting"]
)
def test_a_signal_ends_a_launch_without_a_server(
    number: signal.Signals, wait: Callable[..., Launch], runner: LaunchRunner
) -> None:
    launch = wait(runner)

    launch.process.send_signal(number)

    assert launch.wait() == 128 + number


@pytest.mark.parametrize("state", ["not started", "resting"])
def test_a_launch_on_standby_ends_with_its_host(
    state: str, runner: LaunchRunner, tmp_path: Path
) -> None:
    """Its input stays open: somebody else holds the other end."""
    remember(runner.launch(*WORDS))
    reading, writing = os.pipe()
    answers = tmp_path / "answers"
    launched = [*HASTY, *(RESTING if state == "resting" else CALLED), *SCRIPTED_SERVER]
    host = runner.start(
        [sys.executable, "-c", HOST, str(answers), *launched], stdin=reading, stdout=None
    )
    os.close(reading)
    lines = [
        request("initialize", 0, capabilities={}),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("tools/list"),
    ]
    os.write(writing, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    wait_until(lambda: answers.exists() and answers.read_bytes().count(b"\n") == 2)
    lease = wait_for_lease(tmp_path / "state", lambda lease: lease["state"] == state)
    launcher = lease["processes"]["launcher"]["pid"]
    wait_until(lambda: is_on_standby(launcher))

    host.process.kill()
    host.wait()

    wait_until_gone(launcher)
    os.close(writing)


HOST = """
import subprocess, sys
answers, *command = sys.argv[1:]
with open(answers, "wb") as file:
    subprocess.run(command, stdout=file, check=False)
"""


def test_a_server_started_after_standby_gets_what_any_server_gets(runner: LaunchRunner) -> None:
    """In the C locale, which Python changes for itself."""
    environ = {**os.environ, "LC_ALL": "", "LC_CTYPE": "", "LANG": "C", "MCP_LAUNCH_ID": "outer"}
    usual = begin(runner, env=environ)
    after = [stand_by(runner, env=environ), rest(runner, env=environ)]

    seen = [read_setting(launch) for launch in (usual, *after)]

    assert seen[0] == seen[1] == seen[2]
    assert "MCP_LAUNCH_RESUME" not in seen[1]["env"]
    for launch in (usual, *after):
        launch.finish()


def read_setting(launch: Launch) -> dict[str, Any]:
    seen = launch.call("look")
    status = Path(f"/proc/{seen['pid']}/status").read_text(encoding="utf-8")
    own = {"MCP_LAUNCH_ID", "MCP_LAUNCH_CONTEXT"}
    return {
        "env": {name: value for name, value in seen["env"].items() if name not in own},
        "cwd": seen["cwd"],
        # Not SigQ, which counts the signals that wait for any process of the user.
        "signals": [
            line for line in status.splitlines() if line.startswith(("SigB", "SigI", "SigC"))
        ],
        "descriptors": sorted(os.listdir(f"/proc/{seen['pid']}/fd")),
    }


@WAITING
def test_a_launch_keeps_its_id_and_its_lease_on_standby(
    wait: Callable[..., Launch], runner: LaunchRunner, tmp_path: Path
) -> None:
    launch = wait(runner)
    before = wait_for_lease(tmp_path / "state", lambda _: True)
    launch.ask("ping")
    wait_until(lambda: is_on_standby(launch.pid))
    assert wait_for_lease(tmp_path / "state", lambda _: True) == before

    seen = launch.call("look")

    calls = before["calls"] + 1
    after = wait_for_lease(tmp_path / "state", lambda lease: lease["calls"] == calls)
    assert before["launch"] == after["launch"] == seen["env"]["MCP_LAUNCH_ID"]
    assert before["processes"]["launcher"] == after["processes"]["launcher"]
    assert after["starts"] == before["starts"] + 1
    assert after["restarts"] == 0
    launch.finish()


def test_the_lease_of_a_rested_server_says_so_on_standby(
    runner: LaunchRunner, tmp_path: Path
) -> None:
    launch = rest(runner)

    lease = wait_for_lease(tmp_path / "state", lambda _: True)

    assert (lease["state"], lease["calls"], lease["starts"]) == ("resting", 1, 1)
    assert lease["saved"] > 1 << 20
    assert lease["since"] > lease["started"]
    launch.finish()


def test_the_next_server_gets_the_level_and_the_stream_of_the_host(runner: LaunchRunner) -> None:
    launch = runner.start([*HASTY, *RESTING, *SCRIPTED_SERVER])
    greet(launch)
    launch.ask("logging/setLevel", level="debug")
    launch.send(request("subscriptions/listen", 9, notifications={"toolsListChanged": True}))
    assert launch.answer()["method"] == "notifications/subscriptions/acknowledged"
    launch.call("look", 7)
    wait_until(lambda: is_on_standby(launch.pid))

    heard = launch.call("look", 8)["heard"]  # and no second confirmation before it

    told = {message["method"]: message for message in heard}
    assert told["logging/setLevel"]["params"] == {"level": "debug"}
    assert told["subscriptions/listen"]["id"] == 9
    launch.finish()


def test_another_thread_is_refused_after_standby_as_before_it(
    codex: Callable[..., Launch], tmp_path: Path
) -> None:
    host = codex(*RESTING[:2], threads=(A, B), run=HASTY)
    greet(host)
    assert host.call("look", 7, meta=of(A))["env"]["MCP_LAUNCH_SESSION_ID"] == A
    wait_until(lambda: is_on_standby(host.child))

    host.send(call("look", 8, meta=of(B)))
    refusal = read_refusal(host.answer())

    assert f"belongs to thread {B}, but this server serves thread {A}" in refusal
    wait_until(lambda: is_on_standby(host.child))
    assert host.call("look", 9, meta=of(A))["env"]["MCP_LAUNCH_SESSION_ID"] == A
    wait_for_lease(tmp_path / "state", lambda lease: lease["refusals"] == 1)
    host.finish()


def test_a_launch_that_was_updated_on_standby_says_so(runner: LaunchRunner) -> None:
    launch = rest(runner)
    descriptors = Path(f"/proc/{launch.pid}/fd")
    [kept] = [one for one in descriptors.iterdir() if str(one.readlink()).startswith("/memfd:")]
    content = json.loads(kept.read_bytes())
    kept.write_text(json.dumps(content | {"version": 0}), encoding="utf-8")

    launch.send(call("look", 7))
    answer = launch.answer()

    assert answer["id"] == 7
    assert "mcp-launch was updated" in read_refusal(answer)
    assert "reconnect the server" in read_refusal(answer)
    assert launch.finish()[0] == 125


def test_a_host_that_was_asked_for_its_roots_is_not_asked_again(runner: LaunchRunner) -> None:
    host = runner.launch_below_host("claude", command=command_of(runner))
    host.send(request("initialize", 0, capabilities={"roots": {}}))
    host.answer()
    host.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    host.send(request("tools/list"))
    messages = [host.answer()]
    if "method" not in messages[0]:
        messages.append(host.answer())
    asked = next(message for message in messages if message.get("method") == "roots/list")
    uri = f"file://{runner.project}"
    host.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": [{"uri": uri}]}})
    wait_until(lambda: is_on_standby(host.child))

    host.send(call("look", 7))

    assert host.answer()["id"] == 7
    host.finish()


def command_of(runner: LaunchRunner) -> list[str]:
    """Return a launch that was answered below Claude Code before, by a client with roots."""
    words = [sys.executable, "-m", "mcp_launch", "run", *CALLED, *SCRIPTED_SERVER]
    host = runner.launch_below_host("claude", command=words)
    host.send(request("initialize", 0, capabilities={"roots": {}}))
    host.answer()
    host.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    host.send(request("tools/list"))
    host.answer()
    handshakes = Path(os.environ["MCP_LAUNCH_HOME"], "handshakes")
    wait_until(lambda: handshakes.exists() and bool(list(handshakes.iterdir())))
    host.finish()
    return words


def test_a_thread_that_calls_after_standby_gets_a_server_of_its_own(
    codex: Callable[..., Launch],
) -> None:
    thread = "019a0000-0000-7000-8000-00000000000b"
    remember(codex(*CALLED[:2], threads=(thread,)))
    host = codex(*CALLED[:2], threads=(thread,))
    greet(host)
    wait_until(lambda: is_on_standby(host.child))

    seen = host.call("look", 7, meta=of(thread))

    assert seen["env"]["MCP_LAUNCH_SESSION_ID"] == thread
    host.finish()


@pytest.mark.parametrize("value", ["0,0", "0,0,0", "1" * 20 + ",0,0", "x,y,z"])
def test_a_variable_of_somebody_else_does_not_look_like_standby(
    runner: LaunchRunner, value: str
) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER, env={**os.environ, "MCP_LAUNCH_RESUME": value})

    assert greet(launch) == [{"name": "look"}]
    launch.finish()

"""A launch whose server is shared waits in a smaller process, and neither side notices."""

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
    Launch,
    call,
    read_refusal,
    request,
    wait_for_lease,
    wait_until_gone,
)
from sessions import kill
from shared_servers import MODERN, SESSION_SERVER, SHARE, Sharing, greet, read_pid

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no standby elsewhere")

# A launch that does not wait a minute.
CODE = """
import sys; from mcp_launch import main, runtime; from mcp_launch.runtime import standby
runtime.SHARED_DELAY = runtime.UNCALLED_DELAY = standby.TRY_AGAIN = 0.3
sys.exit(main(sys.argv[1:]))
"""
HASTY = [sys.executable, "-c", CODE, "run", *SHARE]

# More than a pipe holds, and less than a pool keeps.
MUCH_STDERR = 100_000


def connect(sharing: Sharing, *words: str, server: list[str] = SESSION_SERVER) -> Launch:
    return sharing.runner.start([*HASTY, *words, "--", *server])


def join(sharing: Sharing, *words: str) -> Launch:
    launch = connect(sharing, *words)
    greet(launch)
    return launch


def is_on_standby(launch: Launch) -> bool:
    return b"standby_process" in Path(f"/proc/{launch.pid}/cmdline").read_bytes()


def wait_until(is_right: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_right():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def stand_by(*launches: Launch) -> None:
    for launch in launches:
        wait_until(lambda launch=launch: is_on_standby(launch))  # type: ignore[misc]


def test_the_next_call_is_answered_by_the_same_server_with_its_state(sharing: Sharing) -> None:
    launch, other = join(sharing), sharing.join()
    before = [launch.call("count", number) for number in (1, 2)]
    told = launch.call("echo")
    stand_by(launch)

    after = launch.call("count", 3)

    assert [one["count"] for one in (*before, after)] == [1, 2, 3]
    again = launch.call("echo")
    assert (again["pid"], again["context"]) == (told["pid"], told["context"])
    assert read_pid(other) == told["pid"]
    stand_by(launch)  # a second time
    assert launch.call("count", 4)["count"] == 4
    assert launch.finish()[0] == 0


def test_sessions_that_come_and_go_do_not_wake_others(sharing: Sharing) -> None:
    launch = join(sharing)
    stand_by(launch)
    before = read_start_of_program(launch)

    sharing.join().finish()
    other = sharing.join()
    wait_until(lambda: len(sharing.wait_for_pool()["sessions"]) == 2)

    assert read_start_of_program(launch) == before
    assert is_on_standby(launch)
    assert read_pid(launch) == read_pid(other)
    wait_for_lease(
        sharing.state,
        lambda lease: (
            lease["processes"]["launcher"]["pid"] == launch.pid and lease["shared"]["sessions"] == 2
        ),
    )


def read_start_of_program(launch: Launch) -> str:
    """Return the place of the program's stack, which is another one after each exec."""
    return Path(f"/proc/{launch.pid}/stat").read_text(encoding="utf-8").split()[27]


def test_a_lease_names_server_and_pool_on_standby_as_before_it(sharing: Sharing) -> None:
    launch = join(sharing)
    pid = read_pid(launch)
    before = wait_for_lease(sharing.state, lambda lease: lease["calls"] == 1)
    stand_by(launch)
    assert launch.ask("ping") == {}
    stand_by(launch)

    after = wait_for_lease(sharing.state, lambda _: True)

    assert after == before
    assert after["state"] == "running"
    assert after["processes"]["server"]["pid"] == pid
    assert after["shared"]["pool"]["pid"] == sharing.find_pool()


def test_a_change_of_a_list_reaches_the_host_on_standby(sharing: Sharing) -> None:
    launch, other = join(sharing), sharing.join()
    stand_by(launch)

    other.send(call("send", 1, method="notifications/tools/list_changed"))

    assert launch.answer()["method"] == "notifications/tools/list_changed"
    stand_by(launch)
    assert read_pid(launch) == sharing.wait_for_pool()["processes"]["server"]["pid"]


def test_a_stream_goes_on_after_standby(sharing: Sharing) -> None:
    launch, other = connect(sharing), sharing.connect()
    for one in (launch, other):
        one.send(request("server/discover", 1, _meta=MODERN))
        assert "result" in one.answer()
    wanted = {"toolsListChanged": True}
    launch.send(request("subscriptions/listen", 9, _meta=MODERN, notifications=wanted))
    assert launch.answer()["method"] == "notifications/subscriptions/acknowledged"
    stand_by(launch)

    other.send(call("announce", 2, meta=MODERN))

    heard = launch.answer()
    assert heard["method"] == "notifications/tools/list_changed"
    assert 9 in heard["params"]["_meta"].values()


@pytest.mark.parametrize("victim", ["server", "pool"])
def test_the_death_of_a_server_is_noticed_on_standby(sharing: Sharing, victim: str) -> None:
    launch, other = join(sharing), join(sharing)
    pid = read_pid(launch)
    stand_by(launch, other)

    kill(sharing.wait_for_pool()["processes"][victim]["pid"])
    wait_until_gone(pid)

    first = read_pid(launch)
    assert first != pid
    assert read_pid(other) == first
    for one in (launch, other):
        assert one.finish()[0] == 0
    sharing.wait_until_nothing_is_left()


def test_a_session_that_wants_no_other_server_ends_on_standby(sharing: Sharing) -> None:
    launch = join(sharing, "--restart", "off")
    stand_by(launch)

    kill(sharing.wait_for_pool()["processes"]["server"]["pid"])

    assert launch.wait() == 128 + signal.SIGKILL


def test_a_user_can_restart_a_server_whose_session_is_on_standby(sharing: Sharing) -> None:
    launch, other = join(sharing), join(sharing)
    pid = read_pid(launch)
    stand_by(launch, other)

    os.kill(launch.pid, signal.SIGUSR1)

    wait_until_gone(pid)
    assert read_pid(launch) == read_pid(other) != pid


@pytest.mark.parametrize("end", ["input", "SIGTERM", "SIGKILL"])
def test_the_pool_ends_with_its_last_session_on_standby(sharing: Sharing, end: str) -> None:
    launch, other, awake = join(sharing), join(sharing), sharing.join()
    pid = read_pid(launch)
    stand_by(launch, other)
    other.finish()
    assert read_pid(launch) == pid
    stand_by(launch)

    codes = [leave(one, end) for one in (awake, launch)]

    assert codes[0] == codes[1]
    sharing.wait_until_nothing_is_left()


def leave(launch: Launch, end: str) -> int:
    """End a launch; return its exit code."""
    if end == "input":
        return launch.finish()[0]
    launch.process.send_signal(signal.Signals[end])
    return launch.wait()


def test_a_session_on_standby_ends_with_its_host(sharing: Sharing) -> None:
    command = [*HASTY, "--", *SESSION_SERVER]
    host = sharing.runner.launch_below_host("opencode", command=command)
    greet(host)
    lease = wait_for_lease(sharing.state, lambda lease: lease["processes"]["server"] is not None)
    launcher = Path(f"/proc/{lease['processes']['launcher']['pid']}/cmdline")
    wait_until(lambda: b"standby_process" in launcher.read_bytes())

    host.process.kill()
    host.wait()

    sharing.wait_until_nothing_is_left()


# One that the system refuses to replace by a smaller one, as if it had no memory left.
REFUSED_CODE = """
import errno, os
def refuse(*_): raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
os.execve = refuse
"""


def test_a_session_goes_on_that_cannot_go_on_standby(sharing: Sharing) -> None:
    refused = [sys.executable, "-c", REFUSED_CODE + CODE, "run", *SHARE, "--", *SESSION_SERVER]
    other = join(sharing)  # first: the one that is refused could not start a pool, either
    launch = sharing.runner.start(refused)
    greet(launch)
    pid = read_pid(launch)

    wait_until(lambda: "not on standby: Cannot allocate" in read_logs(sharing))

    stand_by(other)
    assert read_pid(launch) == read_pid(other) == pid
    other.send(call("send", 7, method="notifications/tools/list_changed"))
    assert launch.answer()["method"] == "notifications/tools/list_changed"
    assert launch.finish()[0] == 0


def read_logs(sharing: Sharing) -> str:
    return "".join(path.read_text("utf-8") for path in (sharing.state / "logs").iterdir())


def test_a_session_that_was_updated_on_standby_says_so_and_leaves_the_others(
    sharing: Sharing,
) -> None:
    launch, other = join(sharing), sharing.join()
    pid = read_pid(other)
    stand_by(launch)
    descriptors = Path(f"/proc/{launch.pid}/fd")
    [kept] = [one for one in descriptors.iterdir() if str(one.readlink()).startswith("/memfd:")]
    kept.write_text(json.dumps(json.loads(kept.read_bytes()) | {"version": 0}), encoding="utf-8")

    launch.send(call("echo", 7))

    assert "mcp-launch was updated" in read_refusal(launch.answer())
    assert launch.finish()[0] == 125
    assert read_pid(other) == pid
    wait_until(lambda: len(sharing.wait_for_pool()["sessions"]) == 1)
    other.finish()
    sharing.wait_until_nothing_is_left()


def test_an_open_call_keeps_a_session_awake(sharing: Sharing) -> None:
    launch, other = join(sharing), join(sharing)
    launch.send(call("hold", 1, key="a"))
    stand_by(other)
    other.send(call("release", 2, key="a"))

    assert launch.answer()["result"]["held"] == "a"
    assert other.answer()["id"] == 2


# It writes as much to stderr as each call says.
LOUD = """
import json, sys
for line in sys.stdin:
    said = json.loads(line)
    if said["method"] == "tools/call":
        sys.stderr.write("x" * said["params"]["arguments"]["size"] + "\\n")
        sys.stderr.flush()
    if "id" in said:
        capabilities = {"protocolVersion": "2025-11-25", "capabilities": {},
            "serverInfo": {"name": "loud", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": capabilities}), flush=True)
"""


@pytest.mark.parametrize("size", [10, MUCH_STDERR])
def test_a_servers_stderr_waits_for_a_session_on_standby(sharing: Sharing, size: int) -> None:
    server = [sys.executable, "-c", LOUD]
    launch, other = connect(sharing, server=server), connect(sharing, server=server)
    for one in (launch, other):
        greet(one)
    stand_by(launch)
    before = read_start_of_program(launch)

    other.call("any", 1, size=size)

    if size == MUCH_STDERR:
        wait_until(lambda: read_start_of_program(launch) != before)
    assert launch.ask("ping") is not None
    errors: Any = launch.finish()[2]
    assert errors.count(b"x") >= size

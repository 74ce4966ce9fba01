"""Servers that run only while they are called: real launches, real servers."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from fake_hosts import limit_to_subtree
from launches import (
    LIMIT,
    RUN,
    Launch,
    LaunchRunner,
    call,
    read_refusal,
    request,
    wait_for_lease,
    wait_until_gone,
)

from mcp_launch.broker.succession import BOOT_TIME
from mcp_launch.system import linux

if TYPE_CHECKING:
    from shared_servers import Sharing

SCRIPT = Path(__file__).parents[1] / "support" / "scripts" / "counting_server.py"


class CountedServer:
    """The directory of a counting server, and launches of it."""

    def __init__(self, runner: LaunchRunner, place: Path, state: Path) -> None:
        self._runner = runner
        self.place = place
        self.state = state
        self.words: list[str] = []  # more arguments
        self.shim: list[str] = []  # a program that starts it
        place.mkdir()
        self.offer("a")

    @property
    def command(self) -> list[str]:
        return [*self.shim, sys.executable, "-S", "-E", str(SCRIPT), str(self.place), *self.words]

    def offer(self, *tools: str) -> None:
        (self.place / "tools").write_text(" ".join(tools), encoding="utf-8")

    def put(self, name: str, text: str = "") -> None:
        (self.place / name).write_text(text, encoding="utf-8")

    def take(self, name: str) -> None:
        (self.place / name).unlink()

    def list_starts(self) -> list[int]:
        file = self.place / "starts"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [int(line.split()[0]) for line in lines]

    def open(self, *words: str, **options: Any) -> Launch:
        """Start a launch, and do what every host does first."""
        launch = self.connect(*words, **options)
        self.greet(launch)
        return launch

    def connect(self, *words: str, **options: Any) -> Launch:
        """Start a launch; nothing is said yet."""
        return self._runner.launch("--server", "it", *words, "--", *self.command, **options)

    @staticmethod
    def greet(launch: Launch) -> str:
        """Do what every host does first; return everything that the server says of itself."""
        greeting = launch.initialize()["result"]
        listed = launch.ask("tools/list")
        assert listed["tools"]
        return json.dumps([greeting, listed])

    def open_session(self, *words: str, **variables: str) -> str:
        """Run a whole session below Claude Code; return what its server says of itself."""
        launch = self._runner.launch_below_host(
            "claude",
            command=[*RUN, "--server", "it", *words, "--", *self.command],
            env={**os.environ, "SHARED": "shared-by-all", **variables},
        )
        told = self.greet(launch)
        launch.finish()
        return told

    @property
    def is_remembered(self) -> bool:
        directory = self.state / "handshakes"
        return directory.exists() and any(directory.iterdir())

    def remember(self) -> None:
        """Have a launch remember the handshake, and forget that it ran."""
        assert self.open("--start", "now").finish()[0] == 0
        assert list((self.state / "handshakes").iterdir())
        self.take("starts")

    def wait_for_state(self, state: str) -> dict[str, Any]:
        return wait_for_lease(self.state, lambda lease: lease["state"] == state)


@pytest.fixture
def server(runner: LaunchRunner, tmp_path: Path) -> CountedServer:
    """Return a server that was never started."""
    return CountedServer(runner, tmp_path / "server", tmp_path / "state")


@pytest.fixture
def remembered(server: CountedServer) -> CountedServer:
    """Return a server whose handshake is remembered."""
    server.remember()
    return server


def test_the_first_launch_starts_the_server_although_it_is_not_called(
    server: CountedServer,
) -> None:
    server.open("--start", "called")

    assert len(server.list_starts()) == 1


def test_a_remembered_server_is_started_by_the_first_call(remembered: CountedServer) -> None:
    launch = remembered.open("--start", "called")
    launch.ask("ping")
    assert remembered.list_starts() == []
    assert linux.list_descendants(launch.pid) == []  # no guardian, either
    lease = remembered.wait_for_state("not started")
    assert set(lease["processes"]) == {"launcher", "host"}

    first, second = launch.call("pid")["pid"], launch.call("pid")["pid"]

    assert remembered.list_starts() == [first] == [second]
    lease = remembered.wait_for_state("running")
    assert lease["processes"]["server"]["pid"] == first
    assert lease["starts"] == 1
    assert launch.finish()[0] == 0


@pytest.mark.parametrize("number", [0, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_host_that_hangs_up_or_signals_ends_a_launch_without_a_server(
    remembered: CountedServer, number: int
) -> None:
    launch = remembered.open("--start", "called")

    if number:
        os.kill(launch.pid, number)
    else:
        launch.close()

    assert launch.wait() == (128 + number if number else 0)
    assert list((remembered.state / "leases").iterdir()) == []


def test_a_launch_without_a_server_ends_with_its_host(
    remembered: CountedServer, runner: LaunchRunner
) -> None:
    command = [*RUN, "--server", "it", "--start", "called", "--", *remembered.command]
    host = runner.launch_below_host("codex", command=command)
    host.initialize()
    host.ask("tools/list")
    assert remembered.list_starts() == []

    host.process.kill()

    wait_until_gone(host.child)


def test_a_killed_launch_without_a_server_is_cleaned_up_after_by_the_next_command(
    remembered: CountedServer,
) -> None:
    launch = remembered.open("--start", "called")
    remembered.wait_for_state("not started")

    launch.process.kill()
    launch.wait()

    shown = run_command("ps", "--json", table=limit_to_subtree()).stdout
    assert json.loads(shown)["hosts"] == []
    assert list((remembered.state / "leases").iterdir()) == []
    assert " end      mcp-launch itself was killed" in run_command("logs").stdout


def test_two_processes_serve_two_calls_with_a_rest_between_them(server: CountedServer) -> None:
    launch = server.open("--rest", "1s")
    first = launch.call("pid")["pid"]
    lease = server.wait_for_state("resting")
    wait_until_gone(first)
    assert linux.list_descendants(launch.pid) == []
    assert lease["saved"] > 1 << 20

    launch.ask("ping")
    assert launch.ask("tools/list")["tools"]
    assert server.list_starts()[-1] == first  # neither of them wakes it
    second = launch.call("pid")["pid"]

    # On a busy machine it rests before the first call, too.
    assert server.list_starts()[-2:] == [first, second]
    assert launch.finish()[0] == 0


@pytest.mark.parametrize(
    ("tool", "sign"),
    [("child", "child process, sleep"), ("listen", "listens on tcp port"), ("notify", "unasked")],
)
def test_a_server_that_shows_state_does_not_rest_unless_told_to(
    server: CountedServer, tool: str, sign: str
) -> None:
    launch = server.open("--rest", "3s", "--trace")
    pid = launch.call(tool)["pid"]
    # What it sends earlier may belong to its start.
    wait_for_lease(server.state, lambda lease: time.time() > lease["since"] + 2 * BOOT_TIME)
    server.put("notice")
    if tool == "notify":
        assert launch.answer()["method"] == "notifications/message"

    launch.wait_for_stderr(sign.encode())

    assert server.list_starts()[-1] == pid
    launch.close()
    launch.wait()
    server.take("notice")
    launch = server.open("--rest", "1s", "--rest-anyway")
    launch.call(tool)
    server.put("notice")
    server.wait_for_state("resting")


def test_a_slow_server_has_its_host_answered_from_memory(remembered: CountedServer) -> None:
    remembered.put("closed")
    launch = remembered.open()  # it returns although the server does not answer
    launch.send(call("pid", 5))
    remembered.take("closed")

    assert launch.answer()["id"] == 5
    assert len(remembered.list_starts()) == 1


def test_start_now_waits_for_the_server_itself(remembered: CountedServer) -> None:
    remembered.put("closed")
    launch = remembered._runner.launch("--start", "now", "--", *remembered.command)  # noqa: SLF001
    launch.send(request("initialize", 0, capabilities={}))
    wait_for_lease(remembered.state, lambda lease: lease["state"] == "running")
    remembered.take("closed")

    assert launch.answer()["id"] == 0


def test_new_tools_are_announced_when_the_server_starts(remembered: CountedServer) -> None:
    remembered.offer("a", "b")
    launch = remembered.open("--start", "called")

    launch.send(call("pid", 3))

    assert launch.answer()["method"] == "notifications/tools/list_changed"
    assert launch.answer()["id"] == 3
    assert [one["name"] for one in launch.ask("tools/list")["tools"]] == ["a", "b"]
    assert launch.finish()[0] == 0
    again = remembered.open("--start", "called")
    assert [one["name"] for one in again.ask("tools/list")["tools"]] == ["a", "b"]
    assert len(remembered.list_starts()) == 1


def test_a_start_that_fails_is_a_tools_error_and_the_next_call_tries_again(
    remembered: CountedServer,
) -> None:
    launch = remembered.open("--start", "called")
    remembered.put("broken")

    launch.send(call("pid", 3))
    refusal = read_refusal(launch.answer())

    assert "no configuration found in settings.ini" in refusal
    assert not remembered.wait_for_state("failed")["saved"]
    remembered.take("broken")
    deadline = time.monotonic() + LIMIT
    while "pid" not in (result := launch.call("pid", 4)):
        assert time.monotonic() < deadline, result
    assert len(remembered.list_starts()) == 2
    # The failure was forgotten with what was remembered: the next host gets a real start.
    assert remembered.open("--start", "called").finish()[0] == 0


def test_a_program_that_is_gone_is_reported_to_the_call(
    remembered: CountedServer, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.symlink_to(sys.executable)
    words = ("--start", "called", "--", str(program), str(SCRIPT), str(remembered.place))
    first = remembered._runner.launch(*words)  # noqa: SLF001
    first.initialize()
    first.ask("tools/list")
    first.finish()
    launch = remembered._runner.launch(*words)  # noqa: SLF001
    launch.initialize()
    program.unlink()

    launch.send(call("pid", 3))

    assert str(program) in read_refusal(launch.answer())


@pytest.mark.skipif(sys.platform != "linux", reason="limits can be changed from outside there only")
def test_a_start_without_room_for_it_is_reported_to_the_calls_and_tried_again(
    remembered: CountedServer,
) -> None:
    launch = remembered.open("--start", "called")
    limits = resource.prlimit(launch.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(launch.pid, resource.RLIMIT_NOFILE, (3, limits[1]))

    launch.send(call("pid", 3), call("pid", 4))

    for number in (3, 4):
        answer = launch.answer()
        assert answer["id"] == number
        assert "Too many open files" in read_refusal(answer)
    resource.prlimit(launch.pid, resource.RLIMIT_NOFILE, limits)
    deadline = time.monotonic() + LIMIT
    while "pid" not in (result := launch.call("pid", 5)):
        assert time.monotonic() < deadline, result
    assert launch.finish()[0] == 0


def test_the_direct_wire_starts_the_server_at_once_and_says_so(
    remembered: CountedServer,
) -> None:
    launch = remembered.open("--direct", "--start", "called", "--rest", "1s", "--trace")

    launch.wait_for_stderr(b"--start and --rest have no effect with --direct")

    assert len(remembered.list_starts()) == 1


# What is never remembered

SESSION, SOCKET = "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_MESSAGING_SOCKET"
ONE, TWO = "0198c5d2-77aa-7001-8000-00000000a001", "0198c5d2-99bb-7001-8000-00000000b002"


@pytest.mark.parametrize(
    ("place", "text", "variable", "words"),
    [
        ("instructions", "You serve $CLAUDE_CODE_SESSION_ID.", SESSION, []),
        ("description", "Write to /scratch/$MCP_LAUNCH_SESSION_ID/a", SESSION, []),
        ("description", "file:///s/$QUOTED_CLAUDE_CODE_SESSION_ID", SESSION, []),
        ("instructions", "You serve $NAMED.", SESSION, ["--env", "NAMED=session"]),
        ("description", "pane $TERM_SESSION_ID", "TERM_SESSION_ID", []),
        ("description", "before, in /work/$OLDPWD", "OLDPWD", []),
        ("instructions", "socket $QUOTED_" + SOCKET, SOCKET, []),
        ("instructions", "launch $MCP_LAUNCH_ID", SESSION, []),
        ("description", "launch $NAMED", SESSION, ["--env", "NAMED=launch"]),
        ("instructions", "host=$NAMED;", SESSION, ["--env", "NAMED=host_pid"]),
    ],
    ids=[
        "the host's variable",
        "our variable in a path",
        "the host's variable in an address",
        "a variable of the user's",
        "a terminal",
        "where its shell was before",
        "a path with percent signs",
        "our id of the launch",
        "the same as the user calls it",
        "the host's pid",
    ],
)
def test_no_session_is_told_what_belongs_to_another(
    server: CountedServer, place: str, text: str, variable: str, words: list[str]
) -> None:
    server.put(place, text)
    begins = "/run/s s/" if variable == SOCKET else ""

    first, second = (
        server.open_session("--start", "called", *words, **{variable: f"{begins}{one}"})
        for one in (ONE, TWO)
    )

    assert first != second
    assert len(server.list_starts()) == 2


@pytest.mark.parametrize("session", ["7", "seven"])
def test_an_id_that_the_user_asked_for_may_be_any_word(server: CountedServer, session: str) -> None:
    server.put("instructions", "You serve $ID.")

    server.open_session("--env", "ID=session", CLAUDE_CODE_SESSION_ID=session)

    assert not server.is_remembered


@pytest.mark.parametrize("place", ["instructions", "description"])
def test_a_session_is_recognised_in_a_text_of_numbered_characters(
    server: CountedServer, place: str
) -> None:
    server.put("escaped")
    server.put(place, "You serve $CLAUDE_CODE_SESSION_ID.")

    server.open_session(CLAUDE_CODE_SESSION_ID=ONE)

    assert not server.is_remembered


def test_a_slow_server_does_not_have_its_host_told_of_another_session(
    server: CountedServer,
) -> None:
    server.put("instructions", "You serve $CLAUDE_CODE_SESSION_ID.")
    server.open_session(CLAUDE_CODE_SESSION_ID=ONE)
    server.put("slow")

    assert ONE not in server.open_session(CLAUDE_CODE_SESSION_ID=TWO)


def test_the_project_of_another_session_is_not_remembered(
    server: CountedServer, tmp_path: Path
) -> None:
    """Both servers work in the same directory, so only this tells the sessions apart."""
    server.put("description", "Reads $CLAUDE_PROJECT_DIR")
    words = ("--start", "called", "--cwd", str(tmp_path))

    told = [server.open_session(*words, CLAUDE_PROJECT_DIR=f"/{one}/shop") for one in ("a", "b")]

    assert "/a/shop" in told[0]
    assert "/b/shop" in told[1]


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("Works in $PWD", {}),
        ("Reads $MCP_LAUNCH_PROJECT_ROOT/src", {}),
        ("Draws for $TERM, $TERM_PROGRAM $TERM_PROGRAM_VERSION, true", {"TERM": "xterm-256color"}),
        ("Has 1 or 12 panes at /dev", {"TMUX_PANE": "%1", "KITTY_WINDOW_ID": "12"}),
        ("Started by claude for $SHARED", {}),
        (
            "At most 141203 bytes, default Default",
            {"SSH_AGENT_PID": "4120", "ITERM_PROFILE": "Default"},
        ),
    ],
    ids=["directory", "project", "kind of terminal", "short values", "host", "words and numbers"],
)
def test_what_all_sessions_share_is_remembered(
    server: CountedServer, text: str, variables: dict[str, str]
) -> None:
    server.put("instructions", text)
    shared = {"TERM_PROGRAM": "vscode", "TERM_PROGRAM_VERSION": "1.139.1", "VSCODE_X": "true"}
    shared |= variables

    told = [
        server.open_session("--start", "called", CLAUDE_CODE_SESSION_ID=one, **shared)
        for one in (ONE, TWO)
    ]

    assert told[0] == told[1]
    assert len(server.list_starts()) == 1


@pytest.mark.parametrize(
    ("text", "variables", "words"),
    [
        ("at $DATABASE_URL", {"DATABASE_URL": "postgres://u:8fX-2kLm@db/shop"}, []),
        ("the password is 8fX-2kLm", {"DATABASE_URL": "postgres://u:8fX-2kLm@db/shop"}, []),
        ("the password is p@ss-2kLm", {"DATABASE_URL": "postgres://u:p%40ss-2kLm@db/shop"}, []),
        ("the key is $SETTING", {"SETTING": "sk-ant-0123456789abcdefghij"}, []),
        ("the key is 8fX-2kLm-9", {}, ["--api-key", "8fX-2kLm-9"]),
        ("the key is 8fX-2kLm-9", {}, ["--api-key=8fX-2kLm-9"]),
        ("the key is sk-ant-0123456789abcdefghij", {}, ["sk-ant-0123456789abcdefghij"]),
        ("the password is 8fX-2kLm-9", {}, ["-u", "user:8fX-2kLm-9"]),
        ("at postgres://u:8fX-2kLm@db", {}, ["postgres://u:8fX-2kLm@db"]),
        ("the key is $SERVICE_KEY", {"SERVICE_KEY": "8fX-2kLm-9"}, []),
        ("the key is $SERVICE_KEY", {"SERVICE_KEY": 'schl"üs\\sel'}, []),
        ("the key is $SERVICE_KEY", {"SERVICE_KEY": "/base64/that+begins+like+a+path"}, []),
        ("at postgres://u:8fX-2kLm@db, read from a file", {}, []),
        ("at postgres://u:S3cretPassw0rd@db, read from a file", {}, []),
    ],
    ids=[
        "an address with a password",
        "the password of an address",
        "a password that the address quotes",
        "a key by its form",
        "an option's value",
        "an option with its value",
        "an argument",
        "a user and password",
        "an address as an argument",
        "a variable that is named like a key",
        "a key of any characters",
        "a key that looks like a path",
        "one that nobody gave to it",
        "one with the word for it",
    ],
)
def test_a_secret_is_not_remembered(
    server: CountedServer, text: str, variables: dict[str, str], words: list[str]
) -> None:
    server.put("description", text)
    server.words = words

    server.open_session(**variables)

    assert not server.is_remembered


@pytest.mark.parametrize(
    ("text", "variables", "words"),
    [
        ("Queries postgres", {"DATABASE_URL": "postgres://postgres:postgres@db/shop"}, []),
        ("Draws as user:group", {}, ["-u", "user:group"]),
        ("Reads /usr/bin/env", {"KEY_FILE": "/usr/bin/env"}, []),
        ("postgres://user:password@host, redis://:<secret>@host, sk-xxxxxxxxxxxxxxxxxxxx", {}, []),
    ],
    ids=["a plain word", "a group", "the path of a key", "examples"],
)
def test_what_is_no_secret_is_remembered(
    server: CountedServer, text: str, variables: dict[str, str], words: list[str]
) -> None:
    server.put("description", text)
    server.words = words

    server.open_session(**variables)

    assert server.is_remembered


def test_what_was_remembered_is_forgotten_once_the_server_tells_a_secret(
    server: CountedServer,
) -> None:
    server.open_session()
    assert server.is_remembered
    server.put("instructions", "You serve $CLAUDE_CODE_SESSION_ID.")

    server.open_session("--start", "now", CLAUDE_CODE_SESSION_ID=ONE)

    assert not server.is_remembered


# Lists that change while the server runs


CHANGED = "notifications/tools/list_changed"


def read_until(launch: Launch, request_id: int) -> list[dict[str, Any]]:
    """Return all messages up to an answer."""
    messages = [launch.answer()]
    while messages[-1].get("id") != request_id:
        messages.append(launch.answer())
    return messages


def list_tools(launch: Launch) -> list[str]:
    return [one["name"] for one in launch.ask("tools/list")["tools"]]


def grow(launch: Launch, *, is_announced: bool = True) -> None:
    """Have the server get one more tool."""
    launch.send(call("grow", 7))
    assert (read_until(launch, 7)[0].get("method") == CHANGED) is is_announced


@pytest.mark.parametrize(
    ("start", "is_announced"), [("now", True), ("called", False)], ids=["announced", "silent"]
)
def test_a_tool_that_a_server_got_while_it_ran_is_not_remembered(
    server: CountedServer,
    is_announced: bool,
    start: str,
) -> None:
    server.remember()
    if not is_announced:
        server.put("silent")
    launch = server.open("--start", start)
    grow(launch, is_announced=is_announced)
    assert list_tools(launch) == ["a", "grown"]
    assert launch.finish()[0] == 0

    again = server.open("--start", "called")

    assert list_tools(again) == ["a"]
    assert len(server.list_starts()) == 1


def test_a_server_that_announces_its_lists_at_its_start_is_remembered(
    server: CountedServer,
) -> None:
    server.put("announces")
    launch = server.connect("--start", "now")
    launch.initialize()
    assert launch.answer()["method"] == CHANGED
    assert list_tools(launch) == ["a"]
    launch.finish()
    server.offer("a", "b")
    second = server.open("--start", "called")
    second.send(call("pid", 3))
    assert [one["method"] for one in read_until(second, 3)[:-1]] in ([CHANGED], [CHANGED] * 2)
    assert second.finish()[0] == 0

    third = server.open("--start", "called")

    assert list_tools(third) == ["a", "b"]
    assert len(server.list_starts()) == 2


def test_a_tool_that_another_session_gave_to_a_shared_server_is_not_remembered(
    server: CountedServer, sharing: Sharing
) -> None:
    words = ("--share", "project", "--start", "now")
    first, second = server.open(*words), server.open(*words)
    grow(first)
    assert second.answer()["method"] == CHANGED
    assert list_tools(second) == ["a", "grown"]
    # What was remembered before is gone, but the server is still the one that has grown.
    [file] = (server.state / "handshakes").iterdir()
    file.unlink()
    third = server.open(*words)
    assert list_tools(third) == ["a", "grown"]
    for launch in (first, second, third):
        launch.finish()
    sharing.wait_until_nothing_is_left()

    assert list_tools(server.open("--start", "called", "--share", "project")) == ["a"]


@pytest.mark.parametrize("variable", ["TERM_SESSION_ID", "MCP_LAUNCH_ID"])
def test_what_belongs_to_the_session_that_started_a_shared_server_is_not_remembered(
    server: CountedServer, sharing: Sharing, variable: str
) -> None:
    server.put("instructions", f"Started in ${variable}")
    launches = [
        server.open("--share", "project", env={**os.environ, "TERM_SESSION_ID": one})
        for one in (ONE, TWO)
    ]
    for launch in launches:
        launch.finish()
    sharing.wait_until_nothing_is_left()

    assert len(server.list_starts()) == 1
    assert not server.is_remembered


# A server below a program that only starts it


def test_a_server_below_a_program_that_starts_it_may_rest(server: CountedServer) -> None:
    server.shim = ["/usr/bin/timeout", "--foreground", "600"]
    launch = server.open("--rest", "1s")
    first = launch.call("pid")["pid"]

    wait_until_gone(first)

    assert launch.call("pid")["pid"] != first


def test_a_child_of_such_a_server_keeps_it_awake(server: CountedServer) -> None:
    server.shim = ["/usr/bin/timeout", "--foreground", "600"]
    launch = server.open("--rest", "1s", "--trace")
    pid = launch.call("child")["pid"]

    launch.wait_for_stderr(b"child process, sleep")

    assert server.list_starts()[-1] == pid

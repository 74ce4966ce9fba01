"""`ps`: the tree, `--json`, and the screen that `--watch` redraws."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from typing import TYPE_CHECKING

import pyte
import pytest
from fake_hosts import (
    SERVER,
    STAYS,
    FakeHosts,
    configure,
    find_hosts,
    limit_to_subtree,
    write_lease,
    write_session,
)
from launches import HERE, LIMIT, RUN, SCRIPTED_SERVER, LaunchRunner
from shown_servers import read_row, show_mine, show_running

from mcp_launch.machine import recognize_server, running, units
from mcp_launch.machine.running import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_below_the_host_and_the_session_is_the_server(
    fake_hosts: FakeHosts, own_home: Path
) -> None:
    fake_host = fake_hosts.start("claude", "--socket", command=SERVER)
    write_session(own_home, fake_host.pid, "s-1")

    host, session, server, *details = show_running("-v")

    assert re.fullmatch(rf"Claude Code  pid {fake_host.pid}  up 0s  1 server  [\d.]+ MB", host)
    assert session == f"  session s-1  {os.getcwd()}"
    # Its calls are unknown.
    assert read_row(server)[:3] == ["mcp-docs", str(fake_host.server), "0s"]
    assert read_row(server)[4:] == ["-", "-", "running"]
    assert details[0] == "      not started by mcp-launch"
    assert details[-1] == recognize_server.EXPLANATION

    # The title of the session is shown without its secrets.
    transcript = own_home / ".claude" / "projects" / "p" / "s-1.jsonl"
    transcript.parent.mkdir(parents=True)
    prompt = f"Use --api-key s3cret-key\x1b[2J\nto {'log in ' * 50}"
    record = {"type": "user", "message": {"content": prompt}}
    transcript.write_text(json.dumps(record) + "\n", encoding="utf-8")

    session = show_mine().splitlines()[2]
    assert "  Use --api-key ***" in session
    assert session.endswith(" log…")
    (data,) = json.loads(show_mine("--json"))["hosts"]
    assert len(data["sessions"][0]["title"]) == 200


def test_what_a_lease_knows_is_shown(fake_hosts: FakeHosts, state: Path) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS)
    write_lease(
        state,
        processes={"launcher": fake_host.server, "server": fake_host.server, "host": fake_host.pid},
        context={"host": {"value": "codex"}, "project_root": {"value": "/work/app"}},
        binding={"state": "confirmed", "thread": "t-1", "evidence": "the call's _meta.threadId"},
        calls=12,
        last_call=time.time() - 5 * 3600,
        restarts=1,
        refusals=2,
        noise=3,
        place_note="the home directory",
        outer="/somewhere/leases/launch-0.json",
    )

    _, thread, server, *details = show_running("-v")

    assert thread == "  thread t-1  /work/app"
    assert read_row(server)[:3] == ["docs", str(fake_host.server), "0s"]
    assert read_row(server)[4:6] == ["12", "5h"]
    assert server.endswith("  running, 1 restart, 2 refusals, noise, in the home directory")
    assert details[:4] == [
        "      launch launch-1, confirmed (the call's _meta.threadId)",
        "      3 lines of its stdout were not messages",
        "      it runs in the home directory, not in a project",
        "      inside launch launch-0",
    ]


def test_a_server_of_an_earlier_session_is_marked(
    fake_hosts: FakeHosts, state: Path, own_home: Path
) -> None:
    fake_host = fake_hosts.start("claude", command=STAYS)
    record = f"{own_home}/.claude/sessions/{fake_host.pid}.json"
    write_session(own_home, fake_host.pid, "new")
    for calls, told in ((0, "started for old"), (3, "last called for old")):
        parts = {"launcher": fake_host.server, "server": fake_host.server, "host": fake_host.pid}
        binding = {"state": "tentative", "session": "old", "evidence": record}
        write_lease(state, processes=parts, binding=binding, calls=calls)

        _, session, server = show_running()

        assert session.split() == ["session", "new"]
        assert server.endswith(f"  running, {told}")
        (described,) = json.loads(show_mine("--json"))["hosts"][0]["sessions"]
        assert described["session"] == "new"
        assert described["servers"][0]["earlier_session"] == "old"


def test_servers_without_a_host_have_a_branch_of_their_own(
    fake_hosts: FakeHosts, tmp_path: Path
) -> None:
    script = tmp_path / "mcp-\x1b[2J[bold]"
    script.write_text(STAYS[-1], encoding="utf-8")
    command = [sys.executable, str(script)]
    configure(command, script.name)
    fake_hosts.start("claude", command=command).kill_host()

    title, server, _, proof, *_ = show_running("-v")

    assert title == "No host (mcp-launch reap ends them)"
    assert server.startswith("    mcp-\\x1b[2J[bold]  "), "it cannot disturb a terminal"
    assert server.endswith("  orphan")
    assert proof.endswith("the other ends of its stdin and stdout are closed")


def test_programs_and_prompts_get_what_runs_without_secrets(
    fake_hosts: FakeHosts, state: Path
) -> None:
    fake_host = fake_hosts.start("claude", command=[*SERVER, "--api-key", "s3cret-key"])
    left = fake_hosts.start("codex", command=SERVER).kill_host()

    text = show_mine("--json")

    data = json.loads(text)
    assert data["version"] == 1
    (host,) = data["hosts"]
    assert (host["host"], host["pid"]) == ("claude", fake_host.pid)
    (server,) = host["sessions"][0]["servers"]
    assert (server["server"], server["pid"]) == ("mcp-docs", fake_host.server)
    assert server["launch"] is None
    assert server["stdin"]["state"] == "held"
    assert server["command"][-2:] == ["--api-key", "***"]
    assert [one["pid"] for one in data["ownerless"]] == [left.server]
    assert "s3cret-key" not in text
    assert not state.exists()

    assert re.fullmatch(r"1 session, 1 server, [\d.]+ MB, 1 orphan\n", show_mine("--short"))


def test_a_process_below_two_servers_counts_once(runner: LaunchRunner, state: Path) -> None:
    """A host that is itself a server: the launch below it hangs from the launch above it."""
    inner = [*RUN, "--server", "inner", "--", *SCRIPTED_SERVER]
    link = runner.project.parent / "gemini"
    link.symlink_to(os.path.realpath(sys.executable))
    host = [str(link), "-S", "-E", str(HERE / "scripts" / "fake_host.py"), "--quiet", "--", *inner]
    launch = runner.launch_below_host("codex", command=[*RUN, "--server", "outer", "--", *host])
    launch.initialize()

    seen = running.take(limit_to_subtree(), str(state), [])

    servers = [server for one in seen.hosts for server in one.servers]
    pids = {pid for server in servers for pid in server.processes}
    assert len(servers) == 2
    assert sum(len(server.processes) for server in servers) > len(pids)
    [outer] = find_hosts(seen, "codex")
    both = outer._replace(sessions=[Session("", "", servers)])
    whole = units.add_up(units.measure(pid) for pid in pids)
    assert both.memory.amount == pytest.approx(whole.amount, rel=0.2)


WATCH = f"""
import os, sys
sys.path.insert(0, {str(HERE)!r})
from mcp_launch.machine import process_snapshot as population
from mcp_launch import main, system
from fake_hosts import limit_to_subtree
population.SETTLED = 0.0
system.open_table = lambda: limit_to_subtree(int(sys.argv[1]))
sys.exit(main(["ps", "--watch"]))
"""

# Owns the terminal as a shell does, and tells how it is left.
SHELL = """
import fcntl, signal, subprocess, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, lambda *_: None)
before = termios.tcgetattr(0)
process = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]])
print("started", process.pid, flush=True)
code = process.wait()
is_same = termios.tcgetattr(0) == before
print("as it was" if is_same else "changed", code, flush=True)
signal.pause()
"""


class Terminal:
    """A terminal in which `ps --watch` runs."""

    def __init__(self) -> None:
        self.ours, theirs = os.openpty()
        self.written = b""
        self._changed = threading.Condition(threading.RLock())
        self._screen = pyte.Screen(100, 30)
        self._stream = pyte.ByteStream(self._screen)
        self._tell_size()
        self.process = subprocess.Popen(
            [sys.executable, "-c", SHELL, WATCH, str(os.getpid())],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
            start_new_session=True,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_until(self, is_so: Callable[[list[str]], bool]) -> None:
        """Wait until the screen shows something."""
        deadline = time.monotonic() + LIMIT
        with self._changed:
            while not is_so(self._screen.display):
                assert self._changed.wait(deadline - time.monotonic()), self._screen.display

    @property
    def lines(self) -> list[str]:
        with self._changed:
            return list(self._screen.display)

    def resize(self, columns: int, lines: int) -> None:
        """Give the window another size, and nothing on it."""
        with self._changed:
            self._screen.resize(lines, columns)
            self._screen.reset()
            self._tell_size()

    def press(self, key: str) -> None:
        """Press a key."""
        os.write(self.ours, key.encode())

    def close(self) -> None:
        """End what is left."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        os.close(self.ours)

    def _tell_size(self) -> None:
        size = struct.pack("HHHH", self._screen.lines, self._screen.columns, 0, 0)
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, size)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.ours, 1 << 16)
            except OSError:
                return  # nobody has the terminal any more
            with self._changed:
                self.written += data
                self._stream.feed(data)
                self._changed.notify_all()


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    configure(SERVER)  # hosts' files are read at the start
    terminal = Terminal()
    yield terminal
    terminal.close()


def has(text: str) -> Callable[[list[str]], bool]:
    return lambda lines: any(text in line for line in lines)


def test_the_screen_follows_what_runs_until_a_key_is_pressed(
    fake_hosts: FakeHosts, terminal: Terminal
) -> None:
    terminal.wait_until(has("No MCP servers are running"))
    terminal.press("\x1a\x1c")  # ^Z and ^\\ would leave the screen behind: they do nothing
    fake_host = fake_hosts.start("claude", command=SERVER)
    terminal.wait_until(has(f" {fake_host.server} "))
    fake_host.kill_host()
    terminal.wait_until(has("No host"))

    terminal.press("q")

    terminal.wait_until(has("as it was 0"))
    assert terminal.written.count(b"\x1b[?1049h") == terminal.written.count(b"\x1b[?1049l") == 1
    assert terminal.written.rindex(b"\x1b[?25h") > terminal.written.rindex(b"\x1b[?25l")


@pytest.mark.parametrize(
    "key", ["\x03", "\x04", None], ids=["interrupt", "end of input", "SIGTERM"]
)
def test_who_ends_it_otherwise_gets_the_terminal_back(key: str | None, terminal: Terminal) -> None:
    terminal.wait_until(has("No MCP servers are running"))

    if key:
        terminal.press(key)
    else:
        started = terminal.written.split()
        os.kill(int(started[started.index(b"started") + 1]), signal.SIGTERM)

    terminal.wait_until(has("as it was 0"))


def test_a_screen_fits_its_window_and_says_how_much_is_left(
    fake_hosts: FakeHosts, terminal: Terminal, state: Path
) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS)
    parts = {"launcher": fake_host.server, "server": fake_host.server, "host": fake_host.pid}
    for number in range(40):
        write_lease(state, f"launch-{number}", server=f"server-{number:02}", processes=parts)

    # A title, an empty line, the columns' names, a host, a session and 40 servers; 30 lines.
    terminal.wait_until(lambda lines: lines[-1].startswith("… 16 more lines"))
    assert has("CALLS")(terminal.lines)
    terminal.resize(100, 50)
    terminal.wait_until(has("server-39"))
    terminal.resize(40, 20)  # what does not fit is left out
    terminal.wait_until(lambda lines: has("server-01")(lines) and not has("CALLS")(lines))
    terminal.press("q")
    terminal.wait_until(has("as it was 0"))

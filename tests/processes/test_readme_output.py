"""The outputs in the README: made by real commands, on real files and real processes.

What differs from run to run is replaced by `settle`, or is made the same for every run: the age
and the memory of a process are those of its role.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from fake_hosts import ProcessSubtree, link, write_session
from generated_docs import check, make_up_pid, mark
from launches import HERE, RUN, Launch, call, request, wait_for_lease

from mcp_launch import main, system
from mcp_launch.machine import installation, recent_calls, units
from mcp_launch.machine.units import Memory
from mcp_launch.system import linux

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from launches import LaunchRunner

THIS = "tests/processes/test_readme_output.py"
COLUMNS = 80
STATE = ".local/state/mcp-launch"

# The first twelve digits of a thread's id are the time when it was started.
LOGIN = "01a1e289-63d1-7000-8f21-6b1f0c52a9d4"
PRICES = "01a1e2a4-90b7-7000-a3c8-41d7be05f362"
ARTICLE = "5e0f1c9a-7d24-4b1e-9c35-8a64d2f0b713"

# In seconds and bytes, for each role in a session.
AGES = {"codex": 7260.0, "claude": 2460.0, "server": 1500.0}
SIZES = {"git": 38_000_000, "browser": 212_000_000, "files": 61_000_000}
SMALL = 3_000_000  # of a launcher, a keeper and a guardian each

CODEX = """\
[mcp_servers.git]
command = "mcp-server-git"
env_vars = [{ name = "CODEX_THREAD_ID", source = "thread" }]

[mcp_servers.browser]
command = "mcp-browser"
args = ["--headless"]

[mcp_servers.tracker]
url = "https://tracker.example/mcp"
"""

CLAUDE = """\
{
  "mcpServers": {
    "git": {
      "command": "mcp-server-git",
      "args": ["--repository", "."]
    },
    "files": {
      "command": "mcp-server-flies"
    }
  }
}
"""


class Terminal(io.StringIO):
    """What a command prints, which believes that a person reads it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the home of a user who has installed mcp-launch and some servers."""
    # Its path has always the same length, because lines are broken where they are full.
    with tempfile.TemporaryDirectory(prefix="home-", dir="/tmp") as directory:
        make_home(Path(directory), monkeypatch)
        yield Path(directory)


def make_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = home / ".local" / "bin"
    programs.mkdir(parents=True)
    (programs / "mcp-launch").symlink_to(Path(sys.executable).with_name("mcp-launch"))
    server = f"#!/bin/sh\nexec {sys.executable} {HERE}/scripts/scripted_server.py\n"
    for name in ("mcp-server-git", "mcp-server-files", "mcp-browser"):
        (programs / name).write_text(server, encoding="utf-8")
        (programs / name).chmod(0o755)
    for project in ("shop", "blog"):
        (home / project / ".git").mkdir(parents=True)
    monkeypatch.chdir(home / "shop")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    # A test's home is in /tmp, where nothing lasts.
    monkeypatch.setattr(installation, "_CACHES", ())
    monkeypatch.setenv("MCP_LAUNCH_HOME", str(home / STATE))


def type_in(monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """Return what a command shows on a terminal without colours."""
    screen = Terminal()
    for name, value in (("COLUMNS", str(COLUMNS)), ("LINES", "50"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", screen)
    assert main(list(words)) in {0, 1}  # 1: something is wrong, as it should be
    return re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())


def settle(text: str, home: Path, pids: Iterable[int] = ()) -> str:
    """Return an output without what differs from run to run.

    * The home directory is `~`.
    * Process ids count from 4120, 41200 or 412000, so that columns keep their width.
    * A call was made 12 seconds ago (on a busy machine, minutes), and a server that does not run
      had 212 MB.
    * The processes of the demo end within 2.1 seconds.
    """
    text = text.replace(str(home), "~")
    known = {str(pid) for pid in pids}
    numbers = dict.fromkeys(re.findall(r"\b(?<!\.)\d+\b(?!\.\d)", text))
    for number, pid in enumerate(one for one in numbers if one in known):
        text = re.sub(rf"\b(?<!\.){pid}\b(?!\.\d)", make_up_pid(number, len(pid)), text)
    text = re.sub(r"(?<=  )\d\ds\b", "12s", text)
    text = re.sub(r"(?<= ) \ds\b", "12s", text)
    text = re.sub(r" \dm(?=  running$)", "12s", text, flags=re.MULTILINE)
    text = re.sub(r"\b\d+s ago\b", "12s ago", text)
    text = re.sub(r"\bsaves \d+(\.\d)? MB", "saves 212 MB", text)
    text = re.sub(r"\bafter \d+\.\d s", "after 2.1 s", text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


class Checker:
    """Compares what commands show with the README, or writes it there."""

    def __init__(self, config: pytest.Config, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        self._config = config
        self._monkeypatch = monkeypatch
        self._home = home

    def check_command(self, *words: str, pids: Iterable[int] = ()) -> None:
        """Check the output of a command."""
        shown = type_in(self._monkeypatch, *words)
        self.check(" ".join(words), settle(shown, self._home, pids))

    def check(self, words: str, shown: str) -> None:
        """Check an output, or a part of it."""
        command = f"mcp-launch {words}"
        begin = mark(THIS, f"output of `{command}`")
        check(self._config, begin, f"```console\n$ {command}\n{shown}```\n")


@pytest.fixture
def checker(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, home: Path) -> Checker:
    return Checker(pytestconfig, monkeypatch, home)


# What runs


class Host:
    """A stand-in host, and its servers."""

    def __init__(self, runner: LaunchRunner, program: str) -> None:
        script = str(HERE / "scripts" / "staged_host.py")
        self.process: Launch = runner.start([link(runner, program), "-S", "-E", script])

    def do(self, what: str, **facts: Any) -> Any:
        self.process.write(json.dumps({"do": what, **facts}).encode() + b"\n")
        return json.loads(self.process.read_line())

    def start(self, name: str, project: Path, *words: str, **environ: str) -> None:
        """Start a server through mcp-launch, and greet it."""
        self.do("start", name=name, command=[*RUN, *words], cwd=str(project), env=environ)
        client = {"name": "stand-in", "version": "1"}
        hello = request("initialize", 0, capabilities={}, clientInfo=client)
        self.do("send", name=name, message=hello)
        self.do("send", name=name, message={"method": "notifications/initialized"})
        self.do("send", name=name, message=request("tools/list"))

    def call(self, name: str, times: int, **meta: str) -> None:
        for _ in range(times):
            self.do("send", name=name, message=call("look", meta=meta))


class Stage(ProcessSubtree):
    """The processes of this test, with the ages and sizes of their roles."""

    def __init__(self) -> None:
        super().__init__(os.getpid(), linux)
        self.roles: dict[int, str] = {}

    def assign(self, hosts: dict[str, Host], home: Path) -> None:
        """Find out which process has which role."""
        self.roles = {host.process.pid: name for name, host in hosts.items()}
        for path in (home / STATE / "leases").glob("[!.]*.json"):
            lease = json.loads(path.read_text(encoding="utf-8"))
            if "server" in lease["processes"]:
                self.roles[lease["processes"]["server"]["pid"]] = lease["server"]

    def started_seconds_ago(self, pid: int) -> float:
        return AGES.get(self.roles.get(pid, ""), AGES["server"])

    def measure(self, pid: int) -> Memory:
        return Memory(SIZES.get(self.roles.get(pid, ""), SMALL))


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Return the process table that every command reads."""
    stage = Stage()
    monkeypatch.setattr(system, "open_table", lambda: stage)
    monkeypatch.setattr(units, "measure", stage.measure)
    # With calls of the last minute there is one more column, for which 80 cells may be too few.
    monkeypatch.setattr(recent_calls, "MINUTE", 0.0)
    return stage


def run_codex(runner: LaunchRunner, home: Path) -> Host:
    """Return a Codex with two threads; the browser of the second was not called yet."""
    codex = Host(runner, "codex")
    locks = home / ".codex" / "thread-writer-locks"
    locks.mkdir(parents=True)
    titles = {LOGIN: "Fix the login test", PRICES: "Round prices per currency"}
    index = [json.dumps({"id": one, "thread_name": title}) for one, title in titles.items()]
    (home / ".codex" / "session_index.jsonl").write_text("\n".join(index), encoding="utf-8")
    for thread, calls in ((LOGIN, 7), (PRICES, 2)):
        codex.do("open", path=str(locks / f"{thread}.lock"))
        git, browser = f"git {thread}", f"browser {thread}"
        codex.start(git, home / "shop", "--server", "git", "--", "mcp-server-git")
        words = ["--server", "browser", "--start", "called", "--", "mcp-browser"]
        codex.start(browser, home / "shop", *words)
        codex.call(git, calls, threadId=thread, sessionId=thread)
        if thread == LOGIN:
            codex.call(browser, 3, threadId=thread, sessionId=thread)
            wait_for_calls(home, "browser", thread, 3)
        wait_for_calls(home, "git", thread, calls)
    return codex


def wait_for_calls(home: Path, server: str, thread: str, calls: int) -> None:
    """Wait until the lease of a server has all its calls; by then its answers are remembered."""

    def is_right(lease: dict[str, Any]) -> bool:
        told = lease.get("binding", {})
        is_its = thread in {told.get("thread"), told.get("session")} and lease["server"] == server
        return is_its and lease.get("calls") == calls

    wait_for_lease(home / STATE, is_right)


def run_claude(runner: LaunchRunner, home: Path) -> Host:
    """Return a Claude Code with one session."""
    claude = Host(runner, "claude")
    write_session(home, claude.process.pid, ARTICLE)
    transcript = home / ".claude" / "projects" / "blog" / f"{ARTICLE}.jsonl"
    transcript.parent.mkdir(parents=True)
    title = {"type": "ai-title", "aiTitle": "Write about leases"}
    transcript.write_text(json.dumps(title), encoding="utf-8")
    project = home / "blog"
    told = {"CLAUDE_CODE_SESSION_ID": ARTICLE, "CLAUDE_PROJECT_DIR": str(project)}
    for name, calls in (("git", 4), ("files", 11)):
        words = ["--server", name, "--", f"mcp-server-{name}"]
        claude.start(name, project, *words, **told)
        claude.call(name, calls)
        wait_for_calls(home, name, ARTICLE, calls)
    return claude


def test_ps_shows_two_hosts_and_three_sessions(
    runner: LaunchRunner, home: Path, stage: Stage, checker: Checker
) -> None:
    hosts = {"codex": run_codex(runner, home), "claude": run_claude(runner, home)}
    stage.assign(hosts, home)

    checker.check_command("ps", pids=stage.list_pids())


# What is configured


@pytest.fixture
def configured(home: Path) -> None:
    """Configure servers in two hosts, one of them with a misspelt command."""
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(CODEX, encoding="utf-8")
    (home / ".claude.json").write_text(CLAUDE, encoding="utf-8")


@pytest.mark.usefixtures("stage", "configured")
def test_doctor_names_what_is_wrong(checker: Checker) -> None:
    checker.check_command("doctor")


def test_the_demo_leaves_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, checker: Checker
) -> None:
    monkeypatch.setenv("TMPDIR", str(home))
    before = set(home.iterdir())
    lines = settle(type_in(monkeypatch, "demo"), home).splitlines()

    assert max(map(len, lines)) <= COLUMNS
    # Without us the server and its three children are left; with us nothing is.
    assert sum(line.count("alive") for line in lines) == 4
    assert "Left after 2.1 s: nothing." in lines
    assert any(line.startswith("  mcp-launch wrap --dry-run ") for line in lines)
    assert set(home.iterdir()) == before
    places = [process.info["cwd"] or "" for process in psutil.process_iter(["cwd"])]
    project = str(home / "shop")
    assert [one for one in places if one.startswith(str(home)) and one != project] == []

    first = next(at for at, line in enumerate(lines) if line.startswith("process "))
    last = next(at for at, line in enumerate(lines) if line.startswith("Left after "))
    table = "".join(f"{line}\n" for line in lines[first : last + 1])
    checker.check("demo", f"…\n{table}")

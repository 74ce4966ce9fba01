"""What the doctor finds among the processes that run."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from fake_hosts import (
    SERVER,
    STAYS,
    FakeHosts,
    configure,
    forget_seconds,
    limit_to_subtree,
    link,
    write_lease,
    write_session,
)
from launches import wait_until_gone

from mcp_launch import main
from mcp_launch.machine import process_snapshot
from mcp_launch.system import linux

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from doctor_runs import Doctor
    from fake_hosts import FakeHost
    from launches import LaunchRunner

THREAD = "01980000-0000-7000-8000-00000000000"

# Starts a command with a pipe that it was given, tells its pid, and holds what else it was given.
PASSES_ON = """
import os, signal, subprocess, sys
stdin, *command = sys.argv[1:]
if command:
    child = subprocess.Popen(command, stdin=int(stdin), stdout=subprocess.PIPE)
    child.stdout.readline()
os.write(1, b"%d\\n" % (child.pid if command else 0))
signal.alarm(120)
while True:
    signal.pause()
"""


@pytest.fixture(autouse=True)
def real(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the doctor see the processes of this test, and take everything for old enough."""
    doctor.machine.table = limit_to_subtree()
    monkeypatch.setattr(process_snapshot, "SETTLED", 0.0)


@pytest.fixture
def state(doctor: Doctor) -> Path:
    return doctor.machine.home / ".local/state/mcp-launch"


def find(doctor: Doctor, *words: str) -> list[dict[str, Any]]:
    return doctor.find("--select", "ML4", *words)


def list_codes(doctor: Doctor, *words: str) -> list[str]:
    return [one["code"] for one in find(doctor, *words)]


def start_next(fake_host: FakeHost) -> int:
    """Have a host start the same command once more."""
    fake_host.launch.write(b"next\n")
    told = {fake_host.launch.read_line(), fake_host.launch.read_line()}
    (pid,) = (int(line) for line in told - {b"ready\n"})
    return pid


def lock(directory: Path, count: int) -> list[str]:
    """Return the words by which a stand-in holds the locks of some threads."""
    (directory / "thread-writer-locks").mkdir()
    words = []
    for number in range(count):
        words += ["--open", str(directory / "thread-writer-locks" / f"{THREAD}{number}.lock")]
    return words


# ML401


def test_a_server_whose_host_is_gone_is_found_and_ended(
    fake_hosts: FakeHosts, doctor: Doctor
) -> None:
    fake_host = fake_hosts.start("claude", "--socket", command=SERVER)
    assert find(doctor) == []
    fake_host.kill_host()

    [finding] = find(doctor)

    name = f"mcp-docs (process {fake_host.server})"
    assert (finding["code"], finding["subject"]["pid"]) == ("ML401", fake_host.server)
    assert forget_seconds(finding["message"]).startswith(f"{name} has run for 0s and uses")
    assert "PSS, but nothing needs it: process" in finding["message"]
    assert finding["fix"] == "end it: mcp-launch reap"
    assert finding["repair"] == f"end {name}"
    assert f"done: end {name}" in doctor.run("--fix", "--yes", "--select", "ML401").stdout
    wait_until_gone(fake_host.server)
    assert find(doctor) == []


@pytest.mark.parametrize("code", ["ML401", "ML402", "ML403"])
def test_what_began_a_moment_ago_is_no_finding(
    code: str, fake_hosts: FakeHosts, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host starts servers twice for a moment, and a server without one is probably ending."""
    fake_hosts.start("claude", command=SERVER).kill_host()
    start_next(fake_hosts.start("claude", "--twice", command=SERVER))
    monkeypatch.setattr(process_snapshot, "SETTLED", 3600.0)

    assert code not in list_codes(doctor)


def test_a_repair_leaves_alone_what_has_an_owner_by_then(
    fake_hosts: FakeHosts, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_host = fake_hosts.start("codex", command=STAYS)
    parts = {"launcher": fake_host.server, "host": fake_host.pid}
    write_lease(state, processes=parts)
    fake_host.kill_host()

    class Slow(io.StringIO):
        """Somebody who answers when a host has come back."""

        def isatty(self) -> bool:
            return True

        def readline(self, _: int = -1, /) -> str:  # type: ignore[override]  # typeshed's own
            write_lease(state, processes=parts | {"host": os.getpid()})
            return "y\n"

    monkeypatch.setattr(sys, "stdin", Slow())
    main(["doctor", "--fix", "--select", "ML401"])

    assert linux.look(fake_host.server)


# ML402


def test_a_second_server_of_one_name_under_claude_is_found(
    fake_hosts: FakeHosts, doctor: Doctor
) -> None:
    fake_host = fake_hosts.start("claude", "--twice", command=SERVER)
    assert find(doctor) == []
    second = start_next(fake_host)

    [finding] = find(doctor)

    assert finding["code"] == "ML402"
    assert forget_seconds(finding["message"]) == (
        f"Claude Code (process {fake_host.pid}) needs 1 of mcp-docs and runs 2: "
        f"process {fake_host.server} (0s), process {second} (0s)"
    )
    entry = {"command": SERVER[0], "args": SERVER[1:]}
    doctor.machine.write("~/.claude.json", json.dumps({"mcpServers": {"a": entry, "b": entry}}))
    assert find(doctor) == []  # the second may be that of a second entry


@pytest.mark.parametrize(
    ("threads", "codes"), [(0, []), (1, ["ML402"]), (2, [])], ids=["not told", "one", "two"]
)
def test_codex_has_a_server_for_each_thread(
    threads: int, codes: list[str], fake_hosts: FakeHosts, doctor: Doctor, tmp_path: Path
) -> None:
    words = lock(tmp_path, threads)
    start_next(fake_hosts.start("codex", *words, "--twice", command=SERVER))

    assert list_codes(doctor) == codes


@pytest.mark.parametrize(("other", "codes"), [("t-1", ["ML402"]), ("t-2", [])])
def test_two_launches_for_one_thread_are_found(
    other: str, codes: list[str], fake_hosts: FakeHosts, doctor: Doctor, state: Path
) -> None:
    fake_host = fake_hosts.start("codex", "--twice", command=STAYS)
    servers = {"t-1": fake_host.server, other + " ": start_next(fake_host)}
    for thread, pid in servers.items():
        binding = {"state": "confirmed", "thread": thread.strip()}
        parts = {"launcher": pid, "host": fake_host.pid}
        write_lease(state, f"launch-{pid}", processes=parts, binding=binding)

    assert list_codes(doctor) == codes


# Pipes: ML403 and ML404.


class Passing:
    """Starts hosts that are given a pipe, and ends their servers."""

    def __init__(self, runner: LaunchRunner) -> None:
        self._runner = runner
        self._servers: list[int] = []

    def start(self, program: str, stdin: int, *held: int, command: list[str]) -> tuple[int, int]:
        """Return the pids of a host and its server."""
        words = [link(self._runner, program), "-S", "-c", PASSES_ON, str(stdin), *command]
        host = self._runner.start(words, pass_fds=(stdin, *held))
        server = int(host.read_line())
        self._servers += [server] if server else []
        return host.pid, server

    def end_all(self) -> None:
        for pid in self._servers:
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def passing(runner: LaunchRunner) -> Iterator[Passing]:
    configure(SERVER)
    passing = Passing(runner)
    yield passing
    passing.end_all()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_two_hosts_that_write_to_one_server_are_found(
    passing: Passing, doctor: Doctor, pipe: tuple[int, int]
) -> None:
    reading, writing = pipe
    codex, server = passing.start("codex", reading, writing, command=SERVER)
    assert find(doctor) == []  # its own host may
    claude, _ = passing.start("claude", writing, command=[])

    [finding] = find(doctor)

    assert (finding["code"], finding["subject"]["host"]) == ("ML403", "codex")
    assert f"Codex (process {codex})" in finding["message"]
    assert f"Claude Code (process {claude})" in finding["message"]
    assert f"can write to the stdin of mcp-docs (process {server})" in finding["message"]


def test_servers_of_two_hosts_that_read_one_pipe_are_found(
    passing: Passing, doctor: Doctor, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_snapshot, "SETTLED", 100.0)  # who writes is not asked here
    reading, writing = pipe
    passing.start("codex", reading, writing, command=SERVER)
    passing.start("claude", reading, writing, command=SERVER)

    [finding] = find(doctor)

    assert finding["code"] == "ML403"
    assert finding["message"].endswith("read from the same pipe")


def test_a_server_to_which_another_host_talks_is_found(
    passing: Passing, doctor: Doctor, pipe: tuple[int, int]
) -> None:
    reading, writing = pipe
    codex, server = passing.start("codex", reading, command=SERVER)
    claude, _ = passing.start("claude", writing, command=[])

    [finding] = find(doctor)

    assert finding["code"] == "ML404"
    assert finding["message"] == (
        f"Claude Code (process {claude}) talks to mcp-docs (process {server}), "
        f"which Codex (process {codex}) started"
    )


# Variables: ML404.


def test_sessions_of_several_other_hosts_are_found(fake_hosts: FakeHosts, doctor: Doctor) -> None:
    environ = {**os.environ, "QWEN_CODE_SESSION_ID": "s-1", "COPILOT_AGENT_SESSION_ID": "s-2"}
    fake_host = fake_hosts.start("goose", command=SERVER, env=environ)

    found = find(doctor)

    assert {one["code"] for one in found} == {"ML404"}
    assert found[0]["fix"].startswith("mcp-launch wrap mcp-docs")
    told = " and ".join(finding["message"] for finding in found)
    runs = f"mcp-docs (process {fake_host.server}) runs for Goose (process {fake_host.pid}), but "
    assert told.startswith(runs)
    assert "QWEN_CODE_SESSION_ID=s-1, a session of Qwen Code" in told
    assert "COPILOT_AGENT_SESSION_ID=s-2, a session of Copilot CLI" in told


# ML408


@pytest.mark.parametrize("host", ["codex", "qwen"])
def test_a_server_that_runs_in_a_home_is_noted(
    host: str, fake_hosts: FakeHosts, doctor: Doctor, state: Path
) -> None:
    fake_host = fake_hosts.start(host, command=STAYS)
    write_lease(
        state,
        processes={"launcher": fake_host.server, "server": fake_host.server, "host": fake_host.pid},
        context={"host": {"value": host}},
        place_note="the home directory",
    )

    [finding] = find(doctor)

    assert (finding["code"], finding["level"]) == ("ML408", "note")
    assert finding["subject"]["pid"] == fake_host.server
    assert "runs in the home directory, not in a project" in finding["message"]


def test_a_server_that_an_editors_agent_starts_where_it_runs_is_reported(
    fake_hosts: FakeHosts, doctor: Doctor
) -> None:
    fake_host = fake_hosts.start("gemini", "--acp", command=SERVER)

    [finding] = find(doctor)

    assert (finding["code"], finding["level"]) == ("ML408", "note")
    assert finding["subject"]["pid"] == fake_host.server
    assert (
        "runs where Gemini CLI was started, regardless of where its sessions work"
        in finding["message"]
    )
    assert finding["fix"].endswith(": then it gets its session's directory")


@pytest.mark.parametrize(("is_host_directory", "codes"), [(True, ["ML408"]), (False, [])])
def test_a_wrapped_server_of_an_agent_is_reported_while_its_directory_is_not_known(
    is_host_directory: bool,
    codes: list[str],
    fake_hosts: FakeHosts,
    doctor: Doctor,
    state: Path,
) -> None:
    fake_host = fake_hosts.start("gemini", "--acp", command=STAYS)
    write_lease(
        state,
        processes={"launcher": fake_host.server, "server": fake_host.server, "host": fake_host.pid},
        context={"host": {"value": "gemini"}},
        is_host_directory=is_host_directory,
        place_note="the home directory" if is_host_directory else "",  # which is no second finding
    )

    found = find(doctor)

    assert [one["code"] for one in found] == codes
    command = "mcp-launch wrap --host gemini .* -- --cwd DIR, or start Gemini CLI in the project"
    assert all(re.search(command, one["fix"]) for one in found)


@pytest.mark.parametrize(("told", "codes"), [("0", []), ("7", ["ML404"])])
def test_a_thread_that_codex_does_not_have_is_found(
    told: str, codes: list[str], fake_hosts: FakeHosts, doctor: Doctor, tmp_path: Path
) -> None:
    command = ["env", f"CODEX_THREAD_ID={THREAD}{told}", *SERVER]
    fake_hosts.start("codex", *lock(tmp_path, 1), command=command)

    assert list_codes(doctor) == codes


@pytest.mark.parametrize(
    ("at_start", "outer", "codes"),
    [
        ("s-2", None, []),
        ("s-1", None, []),
        ("s-1", "s-1", ["ML404"]),
    ],
    ids=["the same", "changed since", "the outer host's"],
)
def test_the_session_of_claude_is_compared(
    at_start: str, outer: str | None, codes: list[str], fake_hosts: FakeHosts, doctor: Doctor
) -> None:
    environ = {**os.environ} | ({"CLAUDE_CODE_SESSION_ID": outer} if outer else {})
    command = ["env", f"CLAUDE_CODE_SESSION_ID={at_start}", *SERVER]
    fake_host = fake_hosts.start("claude", command=command, env=environ)
    write_session(doctor.machine.home, fake_host.pid, "s-2")

    assert list_codes(doctor) == codes


def test_a_launch_may_inherit_what_it_takes_out(
    fake_hosts: FakeHosts, doctor: Doctor, state: Path
) -> None:
    """Our servers are not given another host's variables, though our launcher has them."""
    fake_host = fake_hosts.start("codex", command=["env", "CLAUDE_CODE_SESSION_ID=s-1", *STAYS])
    write_lease(state, processes={"launcher": fake_host.server, "host": fake_host.pid})

    assert find(doctor) == []


def test_only_the_hosts_that_were_asked_for_are_looked_at(
    fake_hosts: FakeHosts, doctor: Doctor
) -> None:
    fake_hosts.start("codex", command=SERVER, env={**os.environ, "CLAUDE_CODE_SESSION_ID": "s-1"})
    fake_hosts.start("codex", command=SERVER).kill_host()
    entry = {"command": SERVER[0], "args": SERVER[1:]}
    doctor.machine.write("~/.cursor/mcp.json", json.dumps({"mcpServers": {"of-cursor": entry}}))

    assert list_codes(doctor, "--host", "claude") == []
    assert list_codes(doctor, "--host", "codex") == ["ML404"]

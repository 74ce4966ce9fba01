"""What the doctor finds about servers that nobody calls."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from command_line import run_command
from fake_hosts import FakeHosts, limit_to_subtree, write_lease
from git_repository import track
from launches import python
from mcp_launch.doctor.checks import idle_servers, processes

from mcp_launch.machine import units

if TYPE_CHECKING:
    from pathlib import Path

    from fake_machine import FakeMachine
    from mcp_launch.doctor.finding import Finding

# Started twice: the first one stands in for a launcher, the second is a server of 40 MB.
LAUNCH = python(
    "import os, signal, sys\n"
    "signal.alarm(120)\n"
    "mark = f'started-{os.getppid()}'\n"
    "memory = b'x' * 40_000_000 if os.path.exists(mark) else b''\n"
    "open(mark, 'w').close()\n"
    "os.write(1, b'ready\\n')\n"
    "while True: signal.pause()"
)

START = "start them with their first call"
REST = "end them when they are idle, until the next call"
LOSS = "not for a server that keeps something in memory between calls: it would be lost"


class Started(NamedTuple):
    """The processes of a launch."""

    host: int
    launcher: int
    server: int


@pytest.fixture
def real(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    """Return a machine with the processes of this test; 30 MB are much, and no age is young."""
    machine.table = limit_to_subtree()
    monkeypatch.setattr(idle_servers, "TOO_MUCH", 30_000_000)
    monkeypatch.setattr(idle_servers, "IDLE_AFTER", 0.0)
    configure(machine, "docs")
    return machine


def configure(
    machine: FakeMachine,
    *names: str,
    path: str = "~/.claude.json",
    launcher: str = "/opt/mcp-launch",
    options: tuple[str, ...] = (),
) -> Path:
    """Write wrapped entries into a file of Claude Code."""
    entries = {
        name: {
            "command": launcher,
            "args": ["run", "--server", name, *options, "--", "npx", f"{name}-server"],
        }
        for name in names
    }
    return machine.write(path, json.dumps({"mcpServers": entries}))


def start(fake_hosts: FakeHosts, host: str = "claude") -> Started:
    """Start a launcher and a server below a host."""
    fake_host = fake_hosts.start(host, "--twice", command=LAUNCH)
    fake_host.launch.write(b"next\n")
    told = {fake_host.launch.read_line(), fake_host.launch.read_line()}
    (server,) = (int(line) for line in told - {b"ready\n"})
    return Started(fake_host.pid, fake_host.server, server)


def note(machine: FakeMachine, started: Started, /, name: str = "docs", **facts: Any) -> None:
    """Write the lease of a launch."""
    defaults = {
        "processes": started._asdict(),
        "context": {"host": {"value": "claude"}},
        "server": name,
        "calls": 0,
        "wire": "guarded",
        "state": "running",
    }
    state: Path = machine.home / ".local/state/mcp-launch"
    write_lease(state, f"launch-{started.server}", **{**defaults, **facts})


def check(machine: FakeMachine, *only: str) -> list[Finding]:
    return [one for one in processes.check(machine.survey(*only)) if one.code == "ML409"]


def test_servers_that_were_never_called_are_named_with_what_saves_their_memory(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    note(real, start(fake_hosts))

    (finding,) = check(real)

    assert finding.level == "note"
    assert finding.message.startswith("1 server not called in the last 10 minutes takes ")
    assert re.search(r"takes (\d+ MB): docs \1$", finding.message)
    assert finding.fix == f"{START}: mcp-launch wrap docs -- --start called"


def test_servers_that_were_called_may_rest_if_they_keep_nothing_in_memory(
    fake_hosts: FakeHosts, real: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_servers, "IDLE_AFTER", 600.0)
    started = start(fake_hosts)
    monkeypatch.setattr(real.table, "started_seconds_ago", lambda _: 3600.0, raising=False)
    note(real, started, calls=3, last_call=time.time() - 610)

    (finding,) = check(real)

    assert finding.fix == f"{REST}: mcp-launch wrap docs -- --rest 10m ({LOSS})"


def test_a_server_that_was_called_or_started_a_moment_ago_is_not_idle(
    fake_hosts: FakeHosts, real: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_servers, "IDLE_AFTER", 600.0)
    started = start(fake_hosts)
    note(real, started)

    assert check(real) == []
    monkeypatch.setattr(real.table, "started_seconds_ago", lambda _: 3600.0, raising=False)
    note(real, started, calls=1, last_call=time.time() - 590)
    assert check(real) == []


def test_both_kinds_are_added_up_and_get_a_command_each(
    fake_hosts: FakeHosts, real: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_servers, "TOO_MUCH", 90_000_000)
    configure(real, "docs", "two words", "git")
    for name, calls in (("docs", 0), ("docs", 0), ("git", 2), ("two words", 0)):
        note(real, start(fake_hosts), name, calls=calls)

    (finding,) = check(real)

    assert finding.message.startswith("4 servers not called in the last 10 minutes take ")
    assert re.search(r"\bdocs \d+ MB \(2 servers\)", finding.message)
    assert finding.fix in {
        f"{START}: mcp-launch wrap {names} -- --start called; "
        f"{REST}: mcp-launch wrap git -- --rest 10m ({LOSS})"
        for names in ("docs 'two words'", "'two words' docs")
    }


def test_servers_that_take_little_are_not_mentioned(
    fake_hosts: FakeHosts, real: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_servers, "TOO_MUCH", 500_000_000)
    note(real, start(fake_hosts))

    assert check(real) == []


@pytest.mark.parametrize("absent", ["not started", "resting"])
def test_a_server_that_does_not_run_takes_nothing(
    absent: str, fake_hosts: FakeHosts, real: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_servers, "TOO_MUCH", 0)
    started = start(fake_hosts)
    parts = {"launcher": started.launcher, "host": started.host}
    note(real, started, processes=parts, state=absent)

    assert check(real) == []


def test_calls_that_do_not_pass_through_us_are_unknown(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    note(real, start(fake_hosts), wire="direct")

    assert check(real) == []


def test_the_launcher_stays_and_is_not_counted(fake_hosts: FakeHosts, real: FakeMachine) -> None:
    started = start(fake_hosts)
    # With the roles exchanged, the 40 MB are the launcher's.
    swapped = started._replace(launcher=started.server, server=started.launcher)
    note(real, swapped)

    assert check(real) == []


def test_memory_that_is_swapped_out_counts(
    fake_hosts: FakeHosts, real: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test machines have no swap space."""
    monkeypatch.setattr(idle_servers, "TOO_MUCH", 700_000_000)
    monkeypatch.setattr(units, "measure_swapped", lambda _: 700_000_000)
    note(real, start(fake_hosts))

    (finding,) = check(real)

    assert "takes 7" in finding.message


def test_an_entry_that_others_share_is_changed_only_on_purpose(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    (real.home / ".claude.json").unlink()
    configure(real, "docs", path=".mcp.json")
    (real.project / ".git").rmdir()
    track(real.project, ".mcp.json")
    note(real, start(fake_hosts))

    (finding,) = check(real)

    assert finding.fix == (
        f"{START}: mcp-launch wrap --shared docs -- --start called "
        "(Git tracks the file, so this changes it for everyone who uses it)"
    )


def test_a_server_whose_entry_is_elsewhere_can_have_a_profile(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    note(real, start(fake_hosts), "other")

    (finding,) = check(real)

    assert finding.fix == (
        f'{START}: write start = "called" under [servers.other] in '
        f"{real.home}/.config/mcp-launch/config.toml"
    )


def test_only_the_hosts_that_were_asked_about_count(
    fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    note(real, start(fake_hosts))

    assert check(real, "codex") == []
    assert check(real, "claude") != []


@pytest.mark.parametrize(
    ("calls", "options", "is_found"),
    [
        (0, ("--start", "called"), False),
        (0, ("--rest", "10m"), False),
        (0, ("--start", "now", "--rest", "off"), True),
        (3, ("--start", "called"), True),
        (3, ("--rest", "1h"), False),
    ],
)
def test_a_server_that_has_the_remedy_is_not_mentioned(
    calls: int,
    options: tuple[str, ...],
    is_found: bool,
    fake_hosts: FakeHosts,
    real: FakeMachine,
) -> None:
    """It was started before that, or something keeps it awake."""
    configure(real, "docs", options=options)
    note(real, start(fake_hosts), calls=calls)

    assert bool(check(real)) == is_found


@pytest.mark.parametrize("table", ["[servers.other]", "[defaults]"])
def test_a_remedy_in_the_users_profiles_counts_for_entries_elsewhere(
    table: str, fake_hosts: FakeHosts, real: FakeMachine
) -> None:
    note(real, start(fake_hosts), "other")
    assert check(real) != []

    config = real.write("~/.config/mcp-launch/config.toml", f'{table}\nstart = "called"\n')
    config.chmod(0o600)

    assert check(real) == []


@pytest.mark.parametrize("calls", [0, 3], ids=["never called", "called"])
def test_the_command_does_what_it_says(
    calls: int, fake_hosts: FakeHosts, real: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = real.write("~/.local/bin/mcp-launch", "#!/bin/sh\n")
    launcher.chmod(0o700)
    monkeypatch.setenv("PATH", f"{launcher.parent}:{os.environ['PATH']}")
    configure(real, "docs", launcher=str(launcher))
    note(real, start(fake_hosts), calls=calls)
    (finding,) = check(real)
    command = finding.fix.partition(": ")[2].partition(" (")[0]
    program, wrap, *words = shlex.split(command)

    done = run_command(wrap, "--yes", *words, cwd=real.project)

    assert (program, done.returncode) == ("mcp-launch", 0), done.stderr
    added = ["--rest", "10m"] if calls else ["--start", "called"]
    text = (real.home / ".claude.json").read_text(encoding="utf-8")
    args = json.loads(text)["mcpServers"]["docs"]["args"]
    assert args == ["run", "--server", "docs", *added, "--", "npx", "docs-server"]
    assert check(real) == []

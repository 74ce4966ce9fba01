"""Fixtures for all tests: a home of their own, and both wires for promises that hold on both."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from doctor_runs import doctor  # noqa: F401  # a fixture
from fake_hosts import FakeHosts
from fake_machine import FakeMachine
from generated_docs import OPTION
from hypothesis import settings
from launches import LaunchRunner
from sessions import claude, codex  # noqa: F401  # fixtures
from shared_servers import sharing  # noqa: F401  # ditto

from mcp_launch.machine import process_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of our own."""
    parser.addoption(
        "--demand-hosts", action="store_true", help="fail where a real host cannot be run"
    )
    parser.addoption(
        "--without-launcher", action="store_true", help="run the real hosts without us: see -rx"
    )
    parser.addoption(OPTION, action="store_true", help="write the generated documentation")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with mypy, which takes longest, so that nothing waits for it at the end."""
    items.sort(key=lambda item: "mypy" not in item.name)


# Machines are busy, and these tests are not about speed.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# Prefixes of the variables that hosts and launches pass to the processes they start.
_OF_HOSTS = (
    "MCP_LAUNCH_",
    "CODEX_",
    "CLAUDE",
    "AGENT_SESSION",
    "COPILOT_",
    "QWEN_",
    "KILO_",
    "OTEL_",
)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the developer's home, state and host variables impossible to touch."""
    # A shell that runs us in the background ignores SIGINT, and nohup ignores SIGHUP: our children
    # would inherit that.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for name in list(os.environ):
        if name.startswith(_OF_HOSTS):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MCP_LAUNCH_HOME", str(tmp_path / "state"))
    return home


# The signals that we handle, ignore or block. SIGALRM is pytest-timeout's while a test runs.
_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGCHLD,
    signal.SIGALRM,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)


@pytest.fixture(autouse=True)
def signals(own_home: Path) -> Iterator[None]:
    """Fail if the test changes how signals are handled, and undo the change.

    All later tests of the same process would run with it, and so would their children, which
    inherit what is ignored and blocked. A wake-up descriptor is a number that means another file
    as soon as its own is closed.
    """
    assert own_home
    before = _take_signals()
    yield
    after = _take_signals()
    if after["SIGALRM"] is signal.SIG_DFL:
        before["SIGALRM"] = signal.SIG_DFL  # pytest-timeout lets go of a test that has failed
    changed = {name: value for name, value in after.items() if value != before[name]}
    for number in _SIGNALS:
        if number.name in changed:
            signal.signal(number, before[number.name])
    signal.pthread_sigmask(signal.SIG_SETMASK, before["blocked"])
    assert not changed, f"the test leaves signals changed: {changed}, before: {before}"


def _take_signals() -> dict[str, Any]:
    """Return how signals are handled, and remove the wake-up descriptor: else it is not read."""
    handlers = {number.name: signal.getsignal(number) for number in _SIGNALS}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return {**handlers, "blocked": blocked, "wake-up descriptor": signal.set_wakeup_fd(-1)}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project directory that is also where the test runs."""
    directory = tmp_path / "project"
    (directory / ".git").mkdir(parents=True)
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def machine(own_home: Path, project: Path) -> FakeMachine:
    """Return a machine for the doctor to examine, with nothing configured."""
    return FakeMachine(own_home, project)


@pytest.fixture
def runner(project: Path) -> Iterator[LaunchRunner]:
    """Return a runner in the project; everything it starts ends with the test."""
    runner = LaunchRunner(project)
    yield runner
    runner.end_all()


@pytest.fixture
def fake_hosts(runner: LaunchRunner, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHosts]:
    """Return a starter of hosts that can be killed; all of them end with the test.

    Every process counts as old enough to be judged.
    """
    monkeypatch.setattr(process_snapshot, "SETTLED", 0.0)
    fake_hosts = FakeHosts(runner)
    yield fake_hosts
    fake_hosts.end_all()


@pytest.fixture(params=["guarded", "direct"])
def wire(request: pytest.FixtureRequest) -> list[str]:
    """Return the options of one of the two wires."""
    return ["--direct"] if request.param == "direct" else []

"""Fixtures for tests with real hosts: the programs, their isolation, and a workspace.

With `--without-launcher` the hosts start their servers without us. A test whose promise is broken
then is an expected failure, and `-rx` prints what went wrong: so each test shows that it can fail.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hosts.isolation import adopt_and_end_orphans, leave_only_loopback
from hosts.programs import Programs, find_obstacle
from hosts.server_processes import ServerProcesses
from hosts.workspace import LAUNCHER, PromiseBroken, Workspace
from launches import LivenessSocket

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

# In seconds: the first test that needs a program waits until it is installed.
TIMEOUT = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests with real hosts."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.hosts)
            item.add_marker(pytest.mark.timeout(TIMEOUT))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Expect that promises are broken without the launcher."""
    try:
        return (yield)
    except PromiseBroken as fault:
        if pyfuncitem.config.getoption("--without-launcher"):
            pytest.xfail(str(fault))
        raise


@pytest.fixture(scope="session")
def installed(request: pytest.FixtureRequest) -> Iterator[Programs]:
    """Return the paths of the real programs, which are installed when they are asked for."""
    leave_out = pytest.fail if request.config.getoption("--demand-hosts") else pytest.skip
    if obstacle := find_obstacle():
        leave_out(f"real hosts cannot be run: {obstacle}")
    programs = Programs(leave_out)
    yield programs
    programs.close()


@pytest.fixture
def launcher(request: pytest.FixtureRequest) -> list[str]:
    """Return the launcher's words before a server's command, or none."""
    return [] if request.config.getoption("--without-launcher") else LAUNCHER


@pytest.fixture
def launched(launcher: list[str]) -> None:
    """Skip tests of what there is only with the launcher."""
    if not launcher:
        pytest.skip("it is about the launcher")


@pytest.fixture
def workspace(installed: Programs, launcher: list[str]) -> Iterator[Workspace]:
    """Return a workspace with the launcher before every server."""
    yield from set_up(installed, launcher)


@pytest.fixture
def workspace_without_launcher(installed: Programs) -> Iterator[Workspace]:
    """Return a workspace without the launcher."""
    yield from set_up(installed, [])


def set_up(installed: Programs, launcher: list[str]) -> Iterator[Workspace]:
    # A short path, because hosts put sockets below it.
    with (
        tempfile.TemporaryDirectory(prefix="work-") as place,
        leave_only_loopback(),
        adopt_and_end_orphans(),
    ):
        workspace = Workspace(Path(place), installed, launcher)
        try:
            yield workspace
            left = workspace.end_all()
        finally:
            workspace.close()
        assert not (launcher and left), left


@pytest.fixture
def processes(workspace: Workspace) -> Iterator[ServerProcesses]:
    """Return the processes of all servers that are started with its path."""
    processes = ServerProcesses(workspace.place)
    yield processes
    processes.close()


@pytest.fixture
def liveness(workspace: Workspace) -> Iterator[LivenessSocket]:
    """Return a socket that proves the end of a server and its descendants."""
    liveness = LivenessSocket(workspace.place)
    yield liveness
    liveness.close()

"""Fixtures for tests with real hosts: the programs, their isolation, and a workspace."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hosts.isolation import adopt_and_end_orphans, leave_only_loopback
from hosts.programs import Programs, read_pins
from hosts.server_processes import ServerProcesses
from hosts.situations import Situations
from hosts.workspace import LAUNCHER, Workspace
from launches import LivenessSocket

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def installed() -> Iterator[Programs]:
    """Return the paths of the real programs, which are installed when they are asked for."""
    programs = Programs()
    yield programs
    programs.close()


@pytest.fixture(params=["launched", "control"])
def launcher(request: pytest.FixtureRequest) -> list[str]:
    """Return the launcher's words before a server's command, or none."""
    return LAUNCHER if request.param == "launched" else []


@pytest.fixture
def situation(request: pytest.FixtureRequest, launcher: list[str]) -> Situations:
    """Return what makes a part of a test a row of the table."""
    return Situations(request.node, is_control=not launcher)


@pytest.fixture
def workspace(
    request: pytest.FixtureRequest, installed: Programs, launcher: list[str]
) -> Iterator[Workspace]:
    """Return a workspace, once with the launcher before every server and once without."""
    yield from set_up(request, installed, launcher)


@pytest.fixture
def workspace_without_launcher(
    request: pytest.FixtureRequest, installed: Programs
) -> Iterator[Workspace]:
    """Return a workspace without the launcher."""
    yield from set_up(request, installed, [])


def set_up(
    request: pytest.FixtureRequest, installed: Programs, launcher: list[str]
) -> Iterator[Workspace]:
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
        pins = read_pins()
        used = [pins[name].full_title for name in pins if name in workspace.used]
        request.node.user_properties.append(("used", used))
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

"""What every test gets: a home of its own, and both wires where a promise holds on both."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the developer's home, state and host variables impossible to touch."""
    for name in list(os.environ):
        if name.startswith(("MCP_LAUNCH_", "CODEX_", "CLAUDE", "AGENT_SESSION")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MCP_LAUNCH_HOME", str(tmp_path / "state"))
    return home


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project directory that is also where the test runs."""
    directory = tmp_path / "project"
    (directory / ".git").mkdir(parents=True)
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def stage(project: Path) -> Iterator[Stage]:
    """Return a place to launch from; everything started on it ends with the test."""
    stage = Stage(project)
    yield stage
    stage.clear()


@pytest.fixture(params=["guarded", "direct"])
def wire(request: pytest.FixtureRequest) -> list[str]:
    """Return the options of one of the two wires."""
    return ["--direct"] if request.param == "direct" else []

"""A machine for the doctor to examine: a home, a project, and files that a test writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakes import FakeProcessTable

from mcp_launch.config_files.site import Site
from mcp_launch.machine.survey import Survey

if TYPE_CHECKING:
    from pathlib import Path


class FakeMachine:
    """A user's home and project; no host runs or is installed unless a test says so."""

    def __init__(self, home: Path, project: Path) -> None:
        self.home = home
        self.project = project
        self.table: Any = FakeProcessTable()
        self.environ = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        self.programs: dict[str, Any] = {}
        self.platform = "linux"

    def write(self, path: str, text: str) -> Path:
        """Write a file: `~/…` in the home, anything else in the project."""
        base = self.home if path.startswith("~/") else self.project
        file = base / path.removeprefix("~/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def survey(self, *only: str) -> Survey:
        """Return a survey of the machine as it is now."""
        site = Site(str(self.home), str(self.project), self.environ, self.platform)
        survey = Survey(site, self.table, str(self.home / ".local/state/mcp-launch"), list(only))
        survey.programs = self.programs
        return survey

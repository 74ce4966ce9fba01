"""Where to look for the files of hosts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Site(NamedTuple):
    """Where to look: the user's home and the current project."""

    home: str
    project: str
    environ: Mapping[str, str]
    platform: str = "linux"

    def find_home(self, variable: str, default: str) -> str:
        """Return the directory that a variable names, or the default below the home."""
        return self.environ.get(variable) or os.path.join(self.home, default)

    @property
    def applications(self) -> str:
        """Return the directory in which desktop programs keep their settings."""
        if self.platform == "darwin":
            return os.path.join(self.home, "Library/Application Support")
        if self.platform == "win32":
            return self.environ.get("APPDATA") or os.path.join(self.home, "AppData/Roaming")
        return self.find_home("XDG_CONFIG_HOME", ".config")

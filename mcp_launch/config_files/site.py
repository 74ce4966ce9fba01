"""Where files of hosts are looked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Site(NamedTuple):
    """Where to look: a user's home and the project that is worked on."""

    home: str
    project: str
    environ: Mapping[str, str]
    platform: str = "linux"

    def find_home(self, variable: str, default: str) -> str:
        """Return a directory that a variable may move."""
        return self.environ.get(variable) or os.path.join(self.home, default)

    @property
    def applications(self) -> str:
        """Return where desktop programs keep their settings."""
        if self.platform == "darwin":
            return os.path.join(self.home, "Library/Application Support")
        if self.platform == "win32":
            return self.environ.get("APPDATA") or os.path.join(self.home, "AppData/Roaming")
        return self.find_home("XDG_CONFIG_HOME", ".config")

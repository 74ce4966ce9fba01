"""Install fake hosts in a home, the way their installers do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mcp_launch.config_files.site import Site

if TYPE_CHECKING:
    from pathlib import Path


def make_site(home: Path) -> Site:
    """Return a machine on which only the programs in ~/bin are installed."""
    (home / "bin").mkdir()
    return Site(str(home), "/", {"PATH": f"{home}/bin", "HOME": str(home)})


def install(file: Path, script: str = "exit 0") -> Path:
    """Write an executable shell script."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def install_package(home: Path, name: str, package: dict[str, str]) -> Path:
    """Install as npm does: a link to a script in a package."""
    place = home / "node_modules" / package["name"]
    script = install(place / "bin" / f"{name}.js", "touch started; echo 9.9.9")
    (place / "package.json").write_text(json.dumps(package), encoding="utf-8")
    link = home / "bin" / name
    link.symlink_to(script)
    return link

"""A made-up npm with its cache, and a made-up uv with its tools, for tests without processes."""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

from mcp_launch.launch import runners
from mcp_launch.launch.runners.proof import Kept, Request, Resolved

if TYPE_CHECKING:
    from pathlib import Path


# The directories that npm 11 made for these two (measured).
TINY = {"@tiny/envdump": "7143b0c5481ddb5d", "@tiny/envdump@1.0.0": "329e6f691689a9cc"}

BINARY = b"\x7fELF and so on"
NOW = time.time()
HOUR = 3600.0


def write(path: Path, content: bytes | str | dict[str, Any], mode: int = 0o644) -> Path:
    """Write a file, and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content) if isinstance(content, dict) else content
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return path


class Machine:
    """A home, a project, a node with npm, and a uv."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.project = base / "work" / "project"
        self.usr = base / "usr"
        self.npm = self.usr / "lib" / "node_modules" / "npm"
        self.stamps = base / "stamps"
        self.asked: list[str] = []
        self.home.mkdir(parents=True)
        self.project.mkdir(parents=True)
        self.node = write(self.usr / "bin" / "node", BINARY, 0o755)
        write(self.npm / "package.json", {"name": "npm", "version": "11.19.1"})
        (self.npm / "node_modules/@npmcli/run-script/lib/node-gyp-bin").mkdir(parents=True)
        write(self.npm / "node_modules/libnpmexec/lib/with-lock.js", "")
        for name in ("npx", "npm"):
            script = write(self.npm / "bin" / f"{name}-cli.js", "#!/usr/bin/env node\n", 0o755)
            (self.usr / "bin" / name).symlink_to(script)
        for name in ("uv", "uvx"):
            write(self.usr / "bin" / name, BINARY, 0o755)
        self.environ = {"HOME": str(self.home), "PATH": f"{self.usr}/bin:/nowhere"}

    def install(
        self, spec: str = "@tiny/envdump@1.0.0", *, age: float = HOUR, **facts: object
    ) -> Path:
        """Install the tiny package as npx would; return the directory in its cache."""
        installed = self.home / ".npm" / "_npx" / TINY[spec]
        shutil.rmtree(installed, ignore_errors=True)
        packages = installed / "node_modules"
        manifest = {
            "name": "@tiny/envdump",
            "version": "1.0.0",
            "bin": {"tiny-envdump": "./x.js"},
        } | facts
        package = packages / "@tiny" / "envdump"
        write(package / "package.json", manifest)
        write(package / "x.js", "#!/usr/bin/env node\n", 0o755)
        (packages / ".bin").mkdir()
        (packages / ".bin" / "tiny-envdump").symlink_to("../@tiny/envdump/x.js")
        for path in (package, packages / ".bin"):
            set_age(path, age)
        set_age(write(packages / ".package-lock.json", {"packages": {}}), age)
        set_age(packages, age)
        set_age(installed, age)
        return installed

    def install_tool(self, name: str = "tiny-server", version: str = "1.2.0") -> Path:
        """Install a tool as `uv tool install` would; return its directory."""
        tool = self.home / ".local/share/uv/tools" / name
        package = tool / "lib/python3.12/site-packages" / name.replace("-", "_")
        info = package.with_name(f"{package.name}-{version}.dist-info")
        write(info / "METADATA", "")
        set_age(info, HOUR)
        write(tool / "bin" / name, "#!/usr/bin/env python\n", 0o755)
        python = self.home / ".local/share/uv/python/cpython-3.12.9-linux-x86_64-gnu/bin"
        python.mkdir(parents=True, exist_ok=True)
        write(tool / "pyvenv.cfg", f"home = {python}\nimplementation = CPython\n")
        receipt = (
            f'[tool]\nrequirements = [{{ name = "{name}" }}]\n'
            f'entrypoints = [\n    {{ name = "{name}", from = "{name}" }},\n]\n'
        )
        set_age(write(tool / "uv-receipt.toml", receipt), HOUR)
        return tool

    def resolve(self, *argv: str) -> Resolved | Kept | None:
        """Return what becomes of a command."""
        request = Request(
            argv=list(argv),
            program=str(self.usr / "bin" / os.path.basename(argv[0])),
            environ=self.environ,
            cwd=str(self.project),
            stamps=str(self.stamps),
            now=NOW,
        )
        return runners.resolve(request, self.asked)

    def find(self, *argv: str) -> Resolved:
        """Return the program that the runner would start."""
        found = self.resolve(*argv)
        assert isinstance(found, Resolved), getattr(found, "why", found)
        return found

    def keep(self, *argv: str) -> Kept:
        """Return why the runner is started."""
        kept = self.resolve(*argv)
        assert isinstance(kept, Kept), kept
        return kept


def set_age(path: Path, age: float) -> None:
    """Set the time of the last change, in seconds before now."""
    os.utime(path, (NOW - age, NOW - age))

"""The launch path may only import what a launch needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mcp_launch

PACKAGE = Path(mcp_launch.__file__).parent

# Each of these costs a good part of a Python start, or is not needed to start a server.
# Names, not milliseconds: a clock would make this test fail on a busy machine.
TOO_HEAVY = ["argparse", "asyncio", "collections", "ctypes", "dataclasses", "enum", "functools"]
TOO_HEAVY += ["json", "logging", "pathlib", "re", "selectors", "shutil", "signal", "socket"]
TOO_HEAVY += ["subprocess", "tempfile", "threading", "traceback", "typing", "uuid"]
TOO_HEAVY += ["hashlib", "tomllib", "dotenv", "packaging", "psutil", "rich", "tomlkit", "typer"]

LAUNCH_AND_LIST_WHAT_IT_IMPORTED = """
import sys
before = set(sys.modules)
from mcp_launch.__main__ import main
code = main(["run", *sys.argv[1:], "--", "true"])
print(*set(sys.modules) - before, file=sys.stderr)
sys.exit(code)
"""


WORDS = {"guarded": [], "direct": ["--direct"], "profiled": ["--server", "it"]}


@pytest.fixture(scope="module", params=list(WORDS))
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names of all modules that one whole launch brought in."""
    project = tmp_path_factory.mktemp("project")
    file = project / "home" / ".config" / "mcp-launch" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        "[defaults]\npass_env = 'safe'\n"
        "[servers.it]\nenv_vars = ['A', { name = 'B', source = 'host' }]\n",
        encoding="utf-8",
    )
    file.chmod(0o600)
    words = WORDS[request.param]
    launch(project, words)  # the first launch reads the file itself
    return launch(project, words)


def launch(project: Path, words: list[str]) -> set[str]:
    # A fresh interpreter: in this one, pytest has imported half the library. -S and -I: an
    # editable install or a coverage hook imports more than a launch does.
    done = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
            + LAUNCH_AND_LIST_WHAT_IT_IMPORTED,
            *words,
        ],
        check=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=project,
        encoding="utf-8",
        env={
            "HOME": str(project / "home"),
            "MCP_LAUNCH_HOME": str(project),
            "PATH": "/usr/bin:/bin",
        },
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("module", TOO_HEAVY)
def test_launching_does_not_import(module: str, imported: set[str]) -> None:
    assert module not in imported


def test_launching_imports_the_launch_path(imported: set[str]) -> None:
    """The list above proves something only if a launch took place."""
    assert {"mcp_launch.launch", "mcp_launch.system.guardian"} <= imported

"""How long a host waits for a server: stated only if it is certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable, make_sighting

from mcp_launch import hosts

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.hosts import Sighting

CODEX, CLAUDE = hosts.load("codex"), hosts.load("claude")

ENTRY = '[mcp_servers.docs]\ncommand = "x"\n'


def see(
    home: Path, name: str, *argv: str, ours: dict[str, str] | None = None, **theirs: str
) -> Sighting:
    """Return a host that works in `home/project`; ours is our environment, theirs the host's."""
    table = FakeProcessTable()
    table.add(10, name)
    table.argv[10] = [name, *argv]
    table.variables[10] = {"HOME": str(home), **theirs}
    environ = {"HOME": str(home), **(ours or {})}
    return make_sighting(table, 10, environ=environ, cwd=str(home / "project"))


@pytest.mark.parametrize(
    ("theirs", "ours", "seconds"),
    [
        ({}, {}, 30.0),
        ({"MCP_TIMEOUT": "90000"}, {"MCP_TIMEOUT": "90000"}, 90.0),
        ({"MCP_TIMEOUT": "90000"}, {}, None),
        ({}, {"MCP_TIMEOUT": "90000"}, None),
        ({"MCP_TIMEOUT": "long"}, {"MCP_TIMEOUT": "long"}, None),
    ],
    ids=["the default", "set", "set by us only", "set by a project", "not a number"],
)
def test_claude_code_waits_as_long_as_its_environment_says(
    tmp_path: Path, theirs: dict[str, str], ours: dict[str, str], seconds: float | None
) -> None:
    sighting = see(tmp_path, "claude", ours=ours, **theirs)

    assert CLAUDE.find_patience(sighting, "docs") == seconds


def configure(home: Path, text: str, directory: str = ".codex") -> None:
    (home / directory).mkdir(parents=True)
    (home / directory / "config.toml").write_text(text, encoding="utf-8")


WAITS = {
    "the default": (ENTRY, 30.0),
    "in seconds": (f"{ENTRY}startup_timeout_sec = 2.5", 2.5),
    "in milliseconds": (f"{ENTRY}startup_timeout_ms = 90000", 90.0),
    "in both": (f"{ENTRY}startup_timeout_sec = 60\nstartup_timeout_ms = 1", 60.0),
    "a profile": (f'profile = "work"\n{ENTRY}', None),
    "not a number": (f'{ENTRY}startup_timeout_sec = "a"', None),
    "another entry": ("[mcp_servers.other]", None),
    "not a table": ("mcp_servers = 1", None),
    "broken": ("[", None),
}


@pytest.mark.parametrize(("text", "seconds"), WAITS.values(), ids=list(WAITS))
def test_codex_waits_as_long_as_the_entry_says(
    tmp_path: Path, text: str, seconds: float | None
) -> None:
    configure(tmp_path, text)

    assert CODEX.find_patience(see(tmp_path, "codex", "exec", "hello"), "docs") == seconds
    (tmp_path / ".codex").rename(tmp_path / "moved")
    moved = see(tmp_path, "codex", CODEX_HOME=str(tmp_path / "moved"))
    assert CODEX.find_patience(moved, "docs") == seconds


@pytest.mark.parametrize(
    "argv",
    [
        ["app-server"],
        ["-c", "x=1"],
        ["-cx=1"],
        ["--config=x=1"],
        ["-p", "work"],
        ["--profile", "w"],
    ],
    ids=" ".join,
)
def test_a_codex_with_settings_from_elsewhere_waits_for_an_unknown_time(
    tmp_path: Path, argv: list[str]
) -> None:
    configure(tmp_path, ENTRY)

    assert CODEX.find_patience(see(tmp_path, "codex", *argv), "docs") is None


def test_a_host_about_which_something_is_unknown_waits_for_an_unknown_time(tmp_path: Path) -> None:
    configure(tmp_path, ENTRY)
    codex, claude = see(tmp_path, "codex"), see(tmp_path, "claude")
    assert CODEX.find_patience(codex, "docs") == CLAUDE.find_patience(claude, "docs") == 30.0

    codex.is_starter = False  # it did not start us
    claude.process = None  # its environment cannot be read
    assert CODEX.find_patience(codex, "docs") is CLAUDE.find_patience(claude, "docs") is None
    configure(tmp_path, "", "project/.codex")
    assert CODEX.find_patience(see(tmp_path, "codex"), "docs") is None
    assert hosts.load("cursor").find_patience(see(tmp_path, "cursor"), "docs") is None

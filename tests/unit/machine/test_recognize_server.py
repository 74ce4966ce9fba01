"""Which processes are servers, by their command lines and by a made-up process table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from fake_hosts import (
    take,
    write_lease,
)
from fakes import FakeProcessTable

from mcp_launch.machine import recognize_server, running
from mcp_launch.machine.process_snapshot import Population
from mcp_launch.machine.recognize_server import Configured

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


GITHUB = "ghcr.io/x/github-mcp-server"


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["/usr/bin/mcp-server-git", "--repository", "."], "mcp-server-git"),
        (["node", "/x/node_modules/.bin/mcp-foo", "--a"], "mcp-foo"),
        (["node", "/x/node_modules/@playwright/mcp/cli.js"], "@playwright/mcp"),
        (["python", "-m", "mcp_server_time"], "mcp_server_time"),
        (
            ["npx", "-y", "@modelcontextprotocol/server-github"],
            "@modelcontextprotocol/server-github",
        ),
        (["npm exec @upstash/context7-mcp --api-key x", "", ""], "@upstash/context7-mcp"),
        (["clumsies", "mcp", "serve"], "mcp"),
        (["node", "/usr/bin/npx", "-y", "docs-server"], "docs"),
        (["npm exec docs-server", "", "", ""], "docs"),
        (["/usr/bin/python3", "/home/me/.local/bin/plain"], "plain"),
        (["bash", "-lc", "start it"], "shelled"),
        (["sh", "/opt/mcp-wrapper.sh"], "mcp-wrapper.sh"),
        (["bash", "-c", "grep -r mcp ."], None),
        (["zsh", "-lc", "npx mcp-server"], None),
        (["rg", "--mcp", "src"], None),
        (["node", "/home/me/mcp-project/node_modules/typescript/bin/tsserver"], None),
        (["/home/me/mcp-project/.venv/bin/pylsp"], None),
        (["curl", "https://mcp.example.com/mcp"], None),
        (["aider", "--message", "look at the mcp server"], None),
        (["vim", "MODE=mcp"], None),
        (["docker", "run", "-i", "-e", "TOKEN", "ghcr.io/x/github-mcp-server"], GITHUB),
        (["python", "backup.py", "--to", "/mnt/nas", "mcp-project"], None),
        (["npx", "vitest", "mcp-server.test.ts"], None),
        (["rsync", "-a", "mcp/", "/mnt"], None),
        (["make", "-C", "mcp-server", "bench"], None),
        (["postgres", "-D", "data/mcp"], None),
        (["tmux", "new", "-s", "mcp"], None),
        (["python3", "plain", "--other"], None),
        # A directory on the way to something else.
        (["python", "work/mcp/report.py"], None),
        (["mcp/bin/backup", "--all"], None),
        (["bash", "mcp/run.sh"], None),
        (["node", "../mcp/build.js"], None),
        (["node", "node_modules/mcp-tools/lint.js"], None),
        (["docker", "run", "-i", "registry.mcp.dev/x/postgres"], None),
        # The value of an option, the argument of a program, the code that an interpreter runs.
        (["node", "--require", "mcp-hook", "build.js"], None),
        (["uv", "run", "--with", "mcp", "client.py"], None),
        (["python", "-W", "mcp", "x.py"], None),
        (["python", "-c", "import time", "mcp-notes"], None),
        (["python", "-Ic", "import time", "mcp-notes"], None),
        (["node", "-e", "x()", "mcp-notes"], None),
        (["grep", "mcp", "notes.txt"], None),
        (["rg", "mcp"], None),
        (["tail", "-f", "plain"], None),
        # A word that is another's.
        (["mcp23017-daemon"], None),
        (["/opt/mcpelauncher-client"], None),
        (["python", "-Im", "mcp_server_time"], "mcp_server_time"),
        (["uv", "run", "python", "-m", "mcp_server_time"], "mcp_server_time"),
        (["uvx", "--from", "mcp-tools", "tool"], "mcp-tools"),
        (["npx", "--package=@x/mcp", "tool"], "@x/mcp"),
        (["deno", "run", "-A", "npm:@x/mcp"], "@x/mcp"),
        (["fastmcp", "run", "server.py"], "fastmcp"),
        (["goose", "mcp-server"], "mcp-server"),
        ([], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_server_is_recognised_by_its_command(argv: list[str], name: str | None) -> None:
    configured = [
        Configured("docs", ("npx", "-y", "docs-server")),
        Configured("plain", ("plain",)),
        Configured("shelled", ("/bin/bash", "-lc", "start it")),
    ]

    assert recognize_server.recognize(argv, configured) == name


@pytest.mark.parametrize(
    ("words", "is_one"),
    [
        (["/opt/audit-server", "--all"], True),
        (["audit-server"], True),
        (["npx", "-y", "docs-server"], True),
        (["uvx", "docs-server"], True),
        (["npm", "exec", "docs-server"], True),
        (["node", "/opt/docs/server.js"], True),
        (["docker", "run", "-i", "docs"], True),
        (["node", "server.js"], False),
        (["python", "-m", "server"], False),
        (["python", "-c", "serve()"], False),
        (["uv", "run", "server.py"], False),
        (["npm", "run", "serve"], False),
        (["./tools/server"], False),
        (["bash", "-lc", "start it"], False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_command_proves_a_server_only_if_it_is_the_same_everywhere(
    words: list[str], is_one: bool
) -> None:
    configured = [Configured("docs", tuple(words))]

    assert recognize_server.recognize(words, configured) == "docs"
    assert (recognize_server.recognize(words, configured, is_proof=True) == "docs") is is_one


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["codex", "mcp-server"], "codex mcp-server"),
        (["claude", "mcp", "serve"], "claude mcp"),
        (["claude", "--mcp-config", "mcp.json"], None),
        (["codex", "exec", "mcp"], None),
    ],
)
def test_a_host_is_a_server_only_where_it_serves(argv: list[str], name: str | None) -> None:
    assert recognize_server.recognize(argv, [], is_host=True) == name


def test_the_lease_of_a_dead_launch_is_not_shown(state: Path) -> None:
    write_lease(
        state, processes={"launcher": 4_000_001, "guardian": 4_000_002, "server": 4_000_003}
    )

    assert take(state) == running.Census([], [])


@pytest.mark.parametrize(
    ("first", "session", "is_adopted"),
    [
        ("systemd", 1, True),
        ("init", 50, True),
        ("bash", 1, False),
        ("bash", 50, False),
        ("bash", 0, False),
        ("bash", 30, True),
        ("claude", 30, False),
    ],
    ids=[
        "an init",
        "an init, a session of its own",
        "a container's shell: perhaps its child",
        "perhaps its child, in a session of its own",
        "the session is not told",
        "born in a session that was another's",
        "a host",
    ],
)
def test_a_child_of_the_first_process_was_adopted(
    first: str, session: int, is_adopted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = FakeProcessTable()
    table.add(1, first, 0)
    table.add(50, "node", 1)
    monkeypatch.setattr(os, "getsid", {1: 1, 50: session}.__getitem__)

    assert Population(table).is_adopted(50) is is_adopted

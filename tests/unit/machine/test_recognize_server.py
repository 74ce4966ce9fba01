"""Which processes are servers, by their command lines and by a made-up process table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable

from mcp_launch.machine import recognize_server
from mcp_launch.machine.process_snapshot import Population
from mcp_launch.machine.recognize_server import Configured

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["npx", "-y", "docs-server"], "docs"),
        (["node", "/usr/bin/npx", "-y", "docs-server"], "docs"),
        (["npm exec docs-server", "", "", ""], "docs"),
        (["/usr/bin/python3", "/home/me/.local/bin/plain"], "plain"),
        (["bash", "-lc", "start it"], "shelled"),
        (["python3", "plain", "--other"], None),
        (["tail", "-f", "plain"], None),
        (["/usr/bin/mcp-server-git"], None),
        ([], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_server_is_recognised_by_a_hosts_file(argv: list[str], name: str | None) -> None:
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
        (["python", "-m", "mcp_server_docs"], True),
        (["uv", "--directory", "/opt/docs", "run", "server.py"], True),
        (["node", "server.js"], False),
        (["python", "-c", "serve()"], False),
        (["uv", "run", "server.py"], False),
        (["npm", "run", "serve"], False),
        (["./tools/server"], False),
        (["./tools/server", "exec"], False),
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

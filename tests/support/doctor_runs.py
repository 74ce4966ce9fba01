"""Run `doctor` as a user would, on a machine that has only what a test puts there."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command

from mcp_launch import system
from mcp_launch.protocol.memory import Remembered
from mcp_launch.state.handshakes import Handshakes

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Done
    from fake_machine import FakeMachine

# What the tests themselves need; any other variable of the developer could be a finding.
_KEPT = {"HOME", "PATH", "TMPDIR", "PYTEST_CURRENT_TEST", "COVERAGE_RUN"}


class Doctor:
    """Runs the command in the machine's project, and reads what it found."""

    def __init__(self, machine: FakeMachine) -> None:
        self.machine = machine
        self.said: list[str] = []  # the lines on stderr, of the last run

    def run(self, *words: str) -> Done:
        """Run the command; that the tests' own mcp-launch will not last is left out."""
        return run_command("doctor", "--ignore", "ML010", *words, cwd=self.machine.project)

    def find(self, *words: str) -> list[dict[str, Any]]:
        """Return the findings."""
        done = self.run("--json", *words)
        assert done.returncode in {0, 1}, done
        self.said = done.stderr.splitlines()
        found = json.loads(done.stdout)["findings"]
        assert isinstance(found, list)
        return found

    def list_codes(self, *words: str) -> list[str]:
        """Return the codes of the findings, but that entries are not wrapped."""
        return [one["code"] for one in self.find("--ignore", "ML117", *words)]

    def find_only(self, *words: str) -> dict[str, Any]:
        """Return the only finding, but that entries are not wrapped."""
        [finding] = self.find("--ignore", "ML117", *words)
        return finding


@pytest.fixture
def doctor(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Return the doctor of a machine with no processes but those in its table."""
    for name in os.environ.keys() - _KEPT:
        monkeypatch.delenv(name)
    (machine.home / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{machine.home}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(system, "open_table", lambda: machine.table)
    return Doctor(machine)


def install(machine: FakeMachine, path: str, text: str = "#!/bin/sh\n", mode: int = 0o755) -> Path:
    """Write a program."""
    file = machine.write(path, text)
    file.chmod(mode)
    return file


def spell_codex(**servers: dict[str, Any]) -> str:
    """Return Codex's file with these servers."""
    lines: list[str] = []
    for name, entry in servers.items():
        lines += [
            f"[mcp_servers.{name}]",
            *(f"{key} = {_spell(one)}" for key, one in entry.items()),
        ]
    return "\n".join([*lines, ""])


def _spell(value: object) -> str:
    if isinstance(value, dict):
        pairs = ", ".join(f"{name} = {_spell(one)}" for name, one in value.items())
        return f"{{ {pairs} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_spell, value))}]"
    return json.dumps(value)


def spell(key: str = "mcpServers", /, **servers: object) -> str:
    """Return the file of a host that writes JSON, with these servers."""
    return json.dumps({key: servers})


def make_tool(name: str, *arguments: str, **schema: Any) -> dict[str, Any]:
    """Return a tool as a server lists it."""
    listed = {"type": "object", "properties": {one: {} for one in arguments}}
    return {"name": name, "inputSchema": listed | schema}


def remember(
    machine: FakeMachine, server: str, *tools: str | dict[str, Any], key: str = "", cursor: str = ""
) -> None:
    """Write what a launch keeps of a server; `cursor`: another page follows, which is unknown."""
    listed = [make_tool(one) if isinstance(one, str) else one for one in tools]
    page: dict[str, Any] = {"tools": listed} | ({"nextCursor": cursor} if cursor else {})
    answers = {
        ("initialize", b""): b'{"result":{}}',
        ("tools/list", b""): json.dumps({"result": page}).encode(),
    }
    now = time.time()
    store = Handshakes(machine.environ, f"{server}-{key}", server)
    store.write(Remembered("client", now, answers), now)

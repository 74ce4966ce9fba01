"""`list`: which of the configured servers run now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from fake_hosts import SERVER, FakeHosts, limit_to_subtree
from launches import RUN, SCRIPTED_SERVER, LaunchRunner, wait_for_lease

from mcp_launch import system

if TYPE_CHECKING:
    from pathlib import Path


def write_entries(path: Path, **commands: list[str]) -> None:
    """Write a file of Claude Code's."""
    entries = {name: {"command": words[0], "args": words[1:]} for name, words in commands.items()}
    path.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")


@pytest.fixture(autouse=True)
def only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the processes of the machine: some of them may be servers."""
    monkeypatch.setattr(system, "open_table", limit_to_subtree)


def list_here() -> list[dict[str, Any]]:
    servers: list[dict[str, Any]] = json.loads(run_command("list", "--json").stdout)["servers"]
    return servers


def test_a_server_that_runs_is_shown_with_its_processes(
    runner: LaunchRunner, state: Path, own_home: Path
) -> None:
    command = [*RUN, "--server", "docs", "--", *SCRIPTED_SERVER]
    write_entries(own_home / ".claude.json", docs=command, other=["other"])
    (own_home / ".codex").mkdir()
    (own_home / ".codex" / "config.toml").write_text(
        '[mcp_servers.docs]\ncommand = "docs"\n', encoding="utf-8"
    )
    for _ in range(2):
        runner.launch_below_host("claude", command=command).initialize()
    lease = wait_for_lease(state, lambda _: True)

    of_codex, docs, other = list_here()

    # The same name in another host's file is another server.
    assert (of_codex["running"], other["running"]) == ([], [])
    assert len(docs["running"]) == 2
    assert lease["processes"]["server"]["pid"] in [one["pid"] for one in docs["running"]]
    shown = run_command("list", "docs").stdout.splitlines()
    row = next(line for line in shown if " 2  " in line)
    assert row.split()[0] == "docs"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_of_two_entries_with_one_name_the_one_with_its_command_runs(
    fake_hosts: FakeHosts, own_home: Path, project: Path
) -> None:
    write_entries(own_home / ".claude.json", docs=["another", "command"])
    write_entries(project / ".mcp.json", docs=SERVER)
    fake_host = fake_hosts.start("claude", command=SERVER)

    of_user, of_project, *_ = list_here()

    assert of_user["running"] == []
    assert [one["pid"] for one in of_project["running"]] == [fake_host.server]

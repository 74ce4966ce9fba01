"""Commands that no host can start, and how to write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from command_line import run_command
from wrap_requests import PROGRAM, write

if TYPE_CHECKING:
    from pathlib import Path

# The file of a host, an entry in it, what is found, and how to write it.
FORGOTTEN = "mcp-launch does not start 'it': the word `run` is missing"
WHOLE = "the command is a whole command line, which {title} takes for one name"
CORRECTIONS = {
    "no run in TOML": (
        ".codex/config.toml",
        '[mcp_servers.it]\ncommand = "mcp-launch"\nargs = ["--start", "called", "sh", "-u"]\n',
        ("ML121", FORGOTTEN),
        'args = ["run", "--start", "called", "sh", "-u"]',
    ),
    "no run in JSON": (
        ".claude.json",
        '{"mcpServers": {"it": {"command": "mcp-launch", "args": ["sh"]}}}',
        ("ML121", FORGOTTEN),
        '"args": ["run", "sh"]',
    ),
    "no run in one list, through another program": (
        ".config/opencode/opencode.json",
        '{"mcp": {"it": {"type": "local", "command": ["uvx", "mcp-launch", "--strict", "sh"]}}}',
        ("ML121", FORGOTTEN),
        '"command": ["uvx", "mcp-launch", "run", "--strict", "sh"]',
    ),
    "a whole line in TOML": (
        ".codex/config.toml",
        '[mcp_servers.it]\ncommand = "sh -u @scope/x"\n',
        ("ML201", WHOLE.format(title="Codex")),
        'command = "sh", args = ["-u", "@scope/x"]',
    ),
    "a whole line in JSON": (
        ".claude.json",
        '{"mcpServers": {"it": {"command": "sh -u", "args": ["more"]}}}',
        ("ML201", WHOLE.format(title="Claude Code")),
        '"command": "sh", "args": ["-u", "more"]',
    ),
    "a whole line in YAML": (
        ".config/goose/config.yaml",
        "extensions:\n  it:\n    enabled: true\n    type: stdio\n    cmd: sh -u\n    args: []\n",
        ("ML201", WHOLE.format(title="Goose")),
        'cmd: "sh", args: ["-u"]',
    ),
    "a whole line behind mcp-launch": (
        ".claude.json",
        json.dumps(
            {
                "mcpServers": {
                    "it": {"command": PROGRAM, "args": ["run", "--", "sh -u --api-key k3y"]}
                }
            }
        ),
        ("ML201", WHOLE.format(title="Claude Code")),
        '"args": ["run", "--", "sh", "-u", "--api-key", "***"]',
    ),
}


@pytest.fixture
def programs(tmp_path: Path) -> None:
    """Put what the entries start on the PATH."""
    for name in ("mcp-launch", "uvx"):
        (tmp_path / "path" / name).symlink_to(PROGRAM)


@pytest.mark.usefixtures("project", "programs")
@pytest.mark.parametrize(
    ("file", "text", "finding", "correction"), CORRECTIONS.values(), ids=list(CORRECTIONS)
)
def test_doctor_says_how_to_write_a_command_that_no_host_can_start(
    file: str, text: str, finding: tuple[str, str], correction: str, own_home: Path
) -> None:
    write(own_home / file, text)
    told = json.loads(run_command("doctor", "--json").stdout)

    of_it = [one for one in told["findings"] if one["subject"].get("server") == "it"]
    found = [one for one in of_it if one["level"] == "error"]
    assert [(one["code"], one["message"]) for one in found] == [finding]
    assert found[0]["fix"] == f"write {correction}"


def test_a_name_with_spaces_that_exists_is_a_program(own_home: Path, project: Path) -> None:
    assert project.is_dir()
    program = own_home / "bin dir" / "sh"
    write(program, "#!/bin/sh\n").chmod(0o755)
    write(own_home / ".claude.json", json.dumps({"mcpServers": {"it": {"command": str(program)}}}))

    told = json.loads(run_command("doctor", "--json").stdout)

    assert "ML201" not in [one["code"] for one in told["findings"]]

"""Claude Code keeps the prompts of all projects in the file that has its servers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from command_line import run_command

if TYPE_CHECKING:
    from pathlib import Path

PROMPTS = [
    {"display": f'{number}: why does "it" fail? // é\n' * 4, "pastedContents": {}}
    for number in range(700)
]
PROJECTS = {
    f"/home/me/{number}": {"history": PROMPTS, "mcpServers": {"db": {"command": "uvx", "args": []}}}
    for number in range(100)
}
FILE = {"mcpServers": {"docs": {"command": "npx", "args": ["-y", "d"]}}, "projects": PROJECTS}


def test_a_file_of_ten_megabytes_is_wrapped_and_unwrapped_to_the_byte(
    own_home: Path, project: Path
) -> None:
    assert project.is_dir()
    text = json.dumps(FILE, indent=2, ensure_ascii=False)
    file = own_home / ".claude.json"
    file.write_text(text, encoding="utf-8")
    assert file.stat().st_size > 10_000_000

    assert run_command("wrap", "--yes").returncode == 0
    listed = json.loads(run_command("list", "--json").stdout)["servers"]
    assert run_command("unwrap", "--all", "--yes").returncode == 0

    assert [one["is_wrapped"] for one in listed] == [True] * 101
    assert file.read_text(encoding="utf-8") == text

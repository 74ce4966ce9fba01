"""Lists are written as their file writes lists, and can still be taken out byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from host_files import GOOSE, LAUNCHER, SERVERS

from mcp_launch.config_files.host_config import File, HostConfig
from mcp_launch.config_files.planned_changes import Wish, look
from mcp_launch.config_files.wrap import Shape

if TYPE_CHECKING:
    from mcp_launch.documents.document import Kind

HOST = HostConfig("any", "any", lambda _: [], (Shape(), GOOSE))
OWN = '"run", "--server", "a"'
TIGHT = OWN.replace(" ", "")


def change(kind: Kind, text: str, launcher: str = LAUNCHER) -> str:
    return look(HOST, File("file", "user", kind, SERVERS), text, Wish(launcher)).after


# The format, a file, and what its arguments look like when it is wrapped.
STYLES: dict[str, tuple[Kind, str, str]] = {
    "TOML without a list": (
        "toml",
        '[mcp_servers.a]\ncommand = "x"\n',
        f'\nargs = [{OWN}, "x"]\n',
    ),
    "TOML without spaces around =": (
        "toml",
        '[mcp_servers.a]\ncommand="x"\n',
        f'\nargs=[{OWN}, "x"]\n',
    ),
    "TOML with a tight list of another server": (
        "toml",
        '[mcp_servers.b]\ncommand = ["1","2"]\n[mcp_servers.a]\ncommand = "x"\n',
        f'\nargs = [{TIGHT},"x"]\n',
    ),
    "a tight list": (
        "toml",
        '[mcp_servers.a]\ncommand = "x"\nargs = ["y","z"]\n',
        f'\nargs = [{TIGHT},"x","y","z"]\n',
    ),
    "a word on each line": (
        "json",
        '{"mcpServers": {"a": {"command": "x", "args": [\n  "y",\n  "z"\n]}}}',
        '[\n  "run",\n  "--server",\n  "a",\n  "x",\n  "y",\n  "z"\n]',
    ),
    "one word on a line of its own": (
        "json",
        '{"mcpServers": {"a": {"command": "x", "args": [\n\t"y"\n]}}}',
        '[\n\t"run",\n\t"--server",\n\t"a",\n\t"x",\n\t"y"\n]',
    ),
    "comments between the words": (
        "json",
        '{"mcpServers": {"a": {"command": "x", "args": ["y", /* why */ "z"]}}}',
        f'[{OWN}, "x", "y", /* why */ "z"]',
    ),
    "JSON without a list": (
        "json",
        '{"mcpServers": {"a": {"command": "x"}}}',
        f'{{"command": "{LAUNCHER}", "args": [{OWN}, "x"]}}',
    ),
    "JSON without any spaces": (
        "json",
        '{"mcpServers":{"a":{"command":"x"}}}',
        f'{{"command":"{LAUNCHER}","args":[{TIGHT},"x"]}}',
    ),
    "an empty list": (
        "json",
        '{"mcpServers": {"a": {"command": "x", "args": []}}}',
        f'"args": [ {OWN}, "x" ]',
    ),
    "YAML": ("yaml", "extensions:\n  a:\n    cmd: x\n", f"\n    args: [{OWN}, x]\n"),
}


@pytest.mark.parametrize(("kind", "text", "expected"), STYLES.values(), ids=list(STYLES))
def test_a_list_is_written_as_the_file_writes_lists(kind: Kind, text: str, expected: str) -> None:
    wrapped = change(kind, text)

    assert expected in wrapped
    assert change(kind, wrapped) == wrapped
    assert change(kind, wrapped, launcher="") == text

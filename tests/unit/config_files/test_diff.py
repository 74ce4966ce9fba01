"""What is shown of a change: all of it, and no secret."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from mcp_launch.commands import wrap
from mcp_launch.commands.screen import Screen
from mcp_launch.config_files import diff, planned_changes
from mcp_launch.config_files.host_config import ANY_HOST, File
from mcp_launch.config_files.planned_changes import Wish
from mcp_launch.documents.document import Document, Kind
from mcp_launch.hosts.configured import HOSTS

if TYPE_CHECKING:
    from pathlib import Path

LAUNCHER = "/opt/bin/mcp-launch"
SERVERS = (("mcpServers",), ("mcp_servers",), ("extensions",), ("context_servers",), ("mcp",))


def describe(text: str, kind: Kind = "json", host: str = "") -> list[str]:
    file = File("/some/file", "user", kind, SERVERS)
    change = planned_changes.look(HOSTS.get(host, ANY_HOST), file, text, Wish(LAUNCHER))
    assert change.is_any
    return list(diff.describe(change))


# Each has "hunter2", "abc" or 42 as a value of the server's environment.
PRIVATE: dict[str, tuple[Kind, str, str]] = {
    "JSON in a line": (
        "json",
        "",
        '{"mcpServers": {"it": {"command": "x", "args": ["y"], "env": {"PW": "hunter2"}}}}',
    ),
    "JSON, the entry in a line": (
        "json",
        "",
        '{"mcpServers": {\n"it": {"env": {"A": "abc", "N": 42}, "command": "x", "args": []}\n}}',
    ),
    "a TOML table in braces": (
        "toml",
        "codex",
        'mcp_servers.it = { command = "x", env = { PLAIN = "hunter2", N = 42 } }\n',
    ),
    "a TOML text of many lines": (
        "toml",
        "codex",
        'mcp_servers.it = { command = "x", env = { K = """a\nhunter2\n""" } }\n',
    ),
    "opencode": (
        "json",
        "opencode",
        '{"mcp": {"it": {"type": "local", "command": ["x"], "environment": {"A": "hunter2"}}}}',
    ),
    "Zed of old": (
        "json",
        "zed",
        '{"context_servers": {"it": {"command": {"path": "x", "args": [], "env": {"A": "abc"}}}}}',
    ),
    "Goose": (
        "yaml",
        "goose",
        "extensions: {it: {type: stdio, cmd: x, args: [y], envs: {A: hunter2}}}\n",
    ),
    "an argument of few letters": (
        "json",
        "",
        '{"mcpServers": {"it": {"command": "x", "args": ["--token", "abc"]}}}',
    ),
    "a comment behind a line": (
        "toml",
        "codex",
        'mcp_servers.it = { command = "x" } # token: hunter2\n',
    ),
    "a comment that gives a key": (
        "json",
        "zed",
        '{"context_servers": {\n"it": {"command": "x", "args": []} // my key=abc\n}}',
    ),
    "an argument behind -p": (
        "json",
        "",
        '{"mcpServers": {"it": {"command": "x", "args": ["-p", "hunter2"]}}}',
    ),
    "headers of another entry": (
        "json",
        "",
        '{"mcpServers": {"it": {"command": "x"}, "web": {"url": "u", "headers": {"X": "abc"}}}}',
    ),
}


@pytest.mark.parametrize("is_long", [False, True], ids=["in lines", "in one long line"])
@pytest.mark.parametrize(("kind", "host", "text"), PRIVATE.values(), ids=list(PRIVATE))
def test_no_value_of_the_environment_is_shown(
    kind: Kind, host: str, text: str, is_long: bool
) -> None:
    if is_long:
        text = text.replace('"x"', json.dumps("x" * 300)).replace("cmd: x", f"cmd: {'x' * 300}")

    said = "\n".join(describe(text, kind, host))

    for secret in ("hunter2", "abc", "42"):
        assert secret not in said.replace("/some/file", "")
    assert LAUNCHER in said
    if is_long:
        assert "x" * 300 in said  # a command is shown whole


def test_a_long_line_is_shown_whole_entry_by_entry() -> None:
    words = ["-y", "@modelcontextprotocol/server-filesystem", *["/some/directory"] * 20]
    entry = {"command": "npx", "args": words, "env": {"A": "b"}}
    other = {"command": "other", "disabled": True}
    servers = {"one": entry, "off": other, "rest": {"url": "https://" + "x" * 300}}

    lines = describe(json.dumps({"mcpServers": servers}))

    assert lines == [
        "--- /some/file",
        "+++ /some/file",
        " mcpServers.one ",
        '-"command": "npx"',
        f'-"args": {json.dumps(words)}',
        f'+"command": "{LAUNCHER}"',
        f'+"args": {json.dumps(["run", "--server", "one", "--", "npx", *words])}',
    ]


def test_short_lines_are_shown_as_they_are_with_tabs_as_spaces() -> None:
    text = '{\r\n\t"mcpServers": {\r\n\t\t"it": {\r\n\t\t\t"command": "x"\r\n\t\t}\r\n\t}\r\n}'

    lines = describe(text)

    assert '-            "command": "x"' in lines
    assert f'+            "command": "{LAUNCHER}",' in lines
    assert not any("\\t" in line or "\\r" in line for line in lines)


def test_what_only_looks_like_a_line_end_is_shown_as_an_escape() -> None:
    [old, *_] = [
        line
        for line in describe('{"mcpServers": {"it": {"command": "a\u2028+b\x85c"}}}')
        if line.startswith('-{"')
    ]

    assert '"a\\u2028+b\\x85c"' in old


def test_a_removed_line_that_begins_with_dashes_is_shown() -> None:
    lines = describe('{"mcpServers": {"it": {"command":\n"-- x"\n}}}')

    assert any(line.startswith('-"-- x"') for line in lines)
    lines = describe(
        "extensions:\n  it:\n    type: stdio\n    cmd: x\n    args:\n    - y\n", "yaml", "goose"
    )
    assert "-    cmd: x" in lines


def test_nothing_of_a_command_is_cut_in_a_narrow_window(
    own_home: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert project.is_dir()
    monkeypatch.setenv("COLUMNS", "80")
    words = ["-y", "@modelcontextprotocol/server-sequential-thinking-and-more@2026.11.17"]
    path = own_home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    entry = {"command": "npx", "args": words}
    path.write_text(json.dumps({"mcpServers": {"a-server-of-a-long-name": entry}}), "utf-8")

    request = wrap.WrapRequest([], [], [], is_dry=True)
    wrap.run(request, os.environ, is_wrapping=True)

    table = capsys.readouterr().out.partition("---")[0]
    assert "…" not in table
    assert words[1] in "".join("".join(table.splitlines()).split())


def test_a_difference_of_an_unwrapped_file_is_shown_the_same_way() -> None:
    file = File("/some/file", "user", "json", SERVERS)
    text = '{"mcpServers": {"it": {"command": "x", "env": {"PW": "hunter2"}}}}'
    wrapped = planned_changes.look(ANY_HOST, file, text, Wish(LAUNCHER)).after
    change = planned_changes.look(ANY_HOST, file, wrapped, Wish(""))

    said = "\n".join(diff.describe(change))

    assert change.after == text
    assert "hunter2" not in said
    assert '"env": {"PW": "***"}' in said
    assert Document("json", wrapped, "it").get(("mcpServers", "it", "env", "PW")) == "hunter2"
    diff.show(Screen(), [change], is_wrapping=False)

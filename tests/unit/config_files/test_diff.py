"""What is shown of a change: all of it, and no secret."""

from __future__ import annotations

import json

import pytest

from mcp_launch.config_files import diff, planned_changes
from mcp_launch.config_files.host_config import ANY_HOST, File
from mcp_launch.config_files.planned_changes import Change, Wish
from mcp_launch.documents.document import Document, Kind
from mcp_launch.hosts.configured import HOSTS

LAUNCHER = "/opt/bin/mcp-launch"
SERVERS = (("mcpServers",), ("mcp_servers",), ("extensions",), ("context_servers",), ("mcp",))


def describe(text: str, kind: Kind = "json", host: str = "") -> list[str]:
    file = File("/some/file", "user", kind, SERVERS)
    change = planned_changes.look(HOSTS.get(host, ANY_HOST), file, text, Wish(LAUNCHER))
    assert change.is_any
    return show(change)


def show(change: Change) -> list[str]:
    lines = []
    for one in diff.compare(change):
        lines += [one.entry.name, *(f"-{line}" for line in one.removed)]
        lines += [f"+{line}" for line in one.added]
    return lines


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


@pytest.mark.parametrize(("kind", "host", "text"), PRIVATE.values(), ids=list(PRIVATE))
def test_no_value_of_the_environment_is_shown(kind: Kind, host: str, text: str) -> None:
    text = text.replace('"x"', json.dumps("x" * 300)).replace("cmd: x", f"cmd: {'x' * 300}")

    said = "\n".join(describe(text, kind, host))

    for secret in ("hunter2", "abc", "42"):
        assert secret not in said.replace("/some/file", "")
    assert LAUNCHER in said
    assert "x" * 300 in said  # a command is shown whole


def test_a_change_in_one_line_is_shown_whole_entry_by_entry() -> None:
    words = ["-y", "@modelcontextprotocol/server-filesystem", *["/some/directory"] * 20]
    entry = {"command": "npx", "args": words, "env": {"A": "b"}}
    other = {"command": "other", "disabled": True}
    servers = {"one": entry, "off": other, "rest": {"url": "https://" + "x" * 300}}

    lines = describe(json.dumps({"mcpServers": servers}))

    assert lines == [
        "one",
        '-"command": "npx"',
        f'-"args": {json.dumps(words)}',
        f'+"command": "{LAUNCHER}"',
        f'+"args": {json.dumps(["run", "--server", "one", "npx", *words])}',
    ]


SOURCES = '["A", {name = "T", source = "thread"}]'
WRITTEN: dict[str, tuple[Kind, str, str, list[str]]] = {
    "TOML in lines, with comments": (
        "toml",
        "codex",
        "[mcp_servers.it]\ncommand = 'x' # why\nargs = [\n  'y', # first\n  \"z\",\n]\n",
        [
            "-command = 'x'",
            "-args = ['y', \"z\"]",
            f'+command = "{LAUNCHER}"',
            '+args = ["run", "--server", "it", \'x\', \'y\', "z"]',
        ],
    ),
    "sources that Codex refuses": (
        "toml",
        "codex",
        f'[mcp_servers.it]\ncommand = "x"\nenv_vars = {SOURCES}\n',
        [
            '-command = "x"',
            f"-env_vars = {SOURCES}",
            f'+command = "{LAUNCHER}"',
            '+args = ["run", "--server", "it", "--env", "T=thread", "x"]',
            f'+env_vars = [ # mcp-launch unwrap: {json.dumps(SOURCES)} "A"]',
        ],
    ),
    "one list": (
        "json",
        "opencode",
        '{"mcp": {"it": {"type": "local", "command": ["x", "y"]}}}',
        [
            '-"command": ["x", "y"]',
            f'+"command": ["{LAUNCHER}", "run", "--server", "it", "x", "y"]',
        ],
    ),
    "YAML, a word on each line": (
        "yaml",
        "goose",
        "extensions:\n  it:\n    type: stdio\n    cmd: x\n    args:\n    - -y\n    - 'z'\n",
        [
            "-cmd: x",
            "-args: [-y, 'z']",
            f'+cmd: "{LAUNCHER}"',
            '+args: ["run", "--server", "it", x, -y, \'z\']',
        ],
    ),
}


@pytest.mark.parametrize(("kind", "host", "text", "lines"), WRITTEN.values(), ids=list(WRITTEN))
def test_words_are_shown_as_the_file_spells_them(
    kind: Kind, host: str, text: str, lines: list[str]
) -> None:
    assert describe(text, kind, host) == ["it", *lines]


def test_what_only_looks_like_a_line_end_is_shown_as_an_escape() -> None:
    lines = describe('{"mcpServers": {"it": {"command": "a\u2028+b\x85c"}}}')

    assert lines[1] == '-"command": "a\\u2028+b\\x85c"'


def test_a_difference_of_an_unwrapped_file_is_shown_the_same_way() -> None:
    file = File("/some/file", "user", "json", SERVERS)
    text = '{"mcpServers": {"it": {"command": "x", "args": ["hunter2"], "env": {"PW": "hunter2"}}}}'
    wrapped = planned_changes.look(ANY_HOST, file, text, Wish(LAUNCHER)).after
    change = planned_changes.look(ANY_HOST, file, wrapped, Wish(""))

    assert change.after == text
    assert show(change) == [
        "it",
        f'-"command": "{LAUNCHER}"',
        '-"args": ["run", "--server", "it", "x", "***"]',
        '+"command": "x"',
        '+"args": ["***"]',
    ]
    assert Document("json", wrapped, "it").get(("mcpServers", "it", "env", "PW")) == "hunter2"
    [words] = diff.list_words(change)
    assert words.before == [LAUNCHER, "run", "--server", "it", "x", "***"]
    assert words.after == ["x", "***"]

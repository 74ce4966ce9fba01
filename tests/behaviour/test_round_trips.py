"""Files of every host, as people write them: wrapped, wrapped again, and unwrapped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from wrap_requests import find_script, write

from mcp_launch.config_files.host_config import OFF, ONE_TEXT, REMOTE
from mcp_launch.hosts.configured import HOSTS

if TYPE_CHECKING:
    from pathlib import Path

# What is in a file of a host: the last part of the file's path, the names of the entries that are
# wrapped, why others are not, and the text.
FILES: dict[str, tuple[str, str, set[str], dict[str, str], str]] = {
    "Amp, with comments and a remote server": (
        "amp",
        ".config/amp/settings.json",
        {"a", "b"},
        {"web": REMOTE},
        """{
  // theme
  "amp.theme": "dark",
  "mcpServers": {"not": {"command": "mine"}},
  "amp.mcpServers": {
    "a": {"command": "npx", "args": ["-y", "x"]}, // first
    "b": { "command" : "y" , "env": {"K": "v"} },
    "web": {"url": "https://example.org/mcp"},
  },
}
""",
    ),
    "Antigravity, with a disabled and a remote server": (
        "antigravity",
        ".gemini/config/mcp_config.json",
        {"a"},
        {"off": OFF, "web": REMOTE},
        (
            '{"mcpServers":{"a":{"command":"npx","args":["-y","x"]},'
            '"off":{"command":"x","disabled":true},"web":{"serverUrl":"https://example.org"}}}'
        ),
    ),
    "Continue, a line each": (
        "continue",
        ".continue/config.yaml",
        {"docs", "git"},
        {"web": REMOTE},
        """\
# mine
name: Local
models:
  - name: gpt
    provider: openai
mcpServers:
  - name: docs # the docs
    command: npx
    args:
      - -y
      - "@example/docs"
    env:
      KEY: ${{ secrets.KEY }}

  # last
  - command: uvx
    name: git
  - name: web
    type: streamable-http
    url: https://example.org/mcp
rules: []
""",
    ),
    "Continue, not indented, carriage returns": (
        "continue",
        ".continue/config.yaml",
        {"a", "b"},
        {},
        (
            "mcpServers:\r\n- name: a\r\n  command: x\r\n  args:\r\n  - one\r\n- name: b\r\n"
            "  command: 'y'\r\n  cwd: ./\r\n"
        ),
    ),
    "Continue, in braces": (
        "continue",
        ".continue/config.yaml",
        {"a", "b"},
        {},
        (
            '{"name": "lab", "mcpServers": [{"name": "a", "command": "x", "args": ["y"]},\n'
            '  {"command": "z", "name": "b"}]}\n'
        ),
    ),
    "Continue, an entry without a name": (
        "continue",
        ".continue/config.yaml",
        {"number 1", "b"},
        {},
        "mcpServers:\n  - command: x\n  - name: b\n    command: y\n    args: []\n",
    ),
    "Continue, several files": (
        "continue",
        ".continue/mcpServers/git.yaml",
        {"git"},
        {},
        (
            "name: Git\nversion: 0.0.1\nschema: v1\nmcpServers:\n- name: git\n  command: uvx\n"
            "  args: [mcp-server-git]\n"
        ),
    ),
    "Crush": (
        "crush",
        ".config/crush/crush.json",
        {"a"},
        {"off": OFF, "web": REMOTE},
        """{
\t"$schema": "https://charm.land/crush.json",
\t"lsp": {"go": {"command": "gopls"}},
\t"mcp": {
\t\t"a": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "timeout": 120},
\t\t"off": {"type": "stdio", "command": "x", "disabled": true},
\t\t"web": {"type": "http", "url": "https://example.org", "headers": {"A": "$(echo b)"}}
\t}
}
""",
    ),
    "Factory Droid": (
        "droid",
        ".factory/mcp.json",
        {"a"},
        {"off": OFF, "web": REMOTE},
        """{
  "mcpServers": {
    "a": {
      "type": "stdio",
      "command": "npx",
      "args": [
        "-y",
        "x"
      ],
      "disabled": false,
      "disabledTools": []
    },
    "off": {"command": "x", "disabled": true},
    "web": {"type": "http", "url": "https://example.org"}
  }
}
""",
    ),
    "Grok Build": (
        "grok",
        ".grok/config.toml",
        {"a", "b c"},
        {"off": OFF, "web": REMOTE},
        """\
# mine
model = "grok-code"

[mcp_servers.a] # first
command = 'npx'
args = ["-y", "x"]

[mcp_servers."b c"]
command = "y"
env = { K = "v" }

[mcp_servers.off]
command = "x"
enabled = false

[mcp_servers.web]
url = "https://example.org"
""",
    ),
    "JetBrains Junie": (
        "junie",
        ".junie/mcp/mcp.json",
        {"a"},
        {},
        (
            '{\r\n    "mcpServers": {\r\n        "a": {\r\n            "command": "npx",\r\n'
            '            "args": ["-y", "x"]\r\n        }\r\n    }\r\n}\r\n'
        ),
    ),
    "Kilo Code": (
        "kilo",
        ".config/kilo/kilo.jsonc",
        {"a"},
        {"off": OFF, "web": REMOTE},
        """{
  "$schema": "https://app.kilo.ai/config.json",
  "mcp": {
    "a": {"type": "local", "command": ["npx", "-y", "x"], "environment": {"K": "v"}}, // one
    "off": {"type": "local", "command": ["x"], "enabled": false},
    "web": {"type": "remote", "url": "https://example.org"},
  },
}
""",
    ),
    "Kimi Code": (
        "kimi",
        ".kimi-code/mcp.json",
        {"a", "b"},
        {"off": OFF, "web": REMOTE},
        (
            '{ "mcpServers": {\n  "a": { "command": "npx", "args": [ "-y", "x" ] },\n'
            '  "b": { "command": "y", "args": [] },\n'
            '  "off": { "command": "x", "enabled": false },\n'
            '  "web": { "url": "https://example.org", "bearerTokenEnvVar": "T" }\n} }\n'
        ),
    ),
    "Kiro": (
        "kiro",
        ".kiro/settings/mcp.json",
        {"a"},
        {"off": OFF},
        (
            '{"mcpServers": {"a": {"command": "uvx", "args": ["x@1"], "autoApprove": ["read"]},\n'
            ' "off": {"command": "x", "disabled": true}}}'
        ),
    ),
    "Kiro, an agent": (
        "kiro",
        ".kiro/agents/reviewer.json",
        {"a"},
        {},
        (
            '{\n  "name": "reviewer",\n  "tools": ["*"],\n  "mcpServers": {\n'
            '    "a": {"command": "x"}\n  }\n}\n'
        ),
    ),
    "LM Studio": (
        "lmstudio",
        ".lmstudio/mcp.json",
        {"a"},
        {"web": REMOTE},
        (
            '{\n  "mcpServers": {\n    "a": {\n      "command": "x"\n    },\n'
            '    "web": {\n      "url": "https://example.org"\n    }\n  }\n}'
        ),
    ),
    "OpenHands": (
        "openhands",
        ".openhands/mcp.json",
        {"a"},
        {"web": REMOTE},
        (
            '{"mcpServers": {"a": {"command": "x", "args": ["1"], "transport": "stdio"}, '
            '"web": {"url": "https://example.org", "transport": "sse"}}}\n'
        ),
    ),
    "Qwen Code": (
        "qwen",
        ".qwen/settings.json",
        {"a"},
        {"web": REMOTE, "sse": REMOTE},
        """{
  "security": {"auth": {"selectedType": "openai"}}, // how
  "mcpServers": {
    "a": {"command": "npx", "args": ["-y", "x"], "cwd": "./", "trust": true},
    "web": {"httpUrl": "https://example.org"},
    "sse": {"url": "https://example.org/sse"}
  },
  "ui": {}
}
""",
    ),
    "Mistral Vibe": (
        "vibe",
        ".vibe/config.toml",
        {"a", "b", "list"},
        {"text": ONE_TEXT, "web": REMOTE},
        """\
active_model = "devstral" # mine

[[providers]]
name = "mistral"

[[mcp_servers]]
name = "a" # first
transport = "stdio"
command = "npx"
args = ["-y", "x"]

[mcp_servers.env]
KEY = "v"

[[mcp_servers]]
transport = "stdio"
command = 'y'
name = "b"

[[mcp_servers]]
name = "list"
transport = "stdio"
command = ["uvx", "--from"]
args = ["x", "y"]

[[mcp_servers]]
name = "text"
transport = "stdio"
command = "uvx mcp-server-git"

[[mcp_servers]]
name = "web"
transport = "streamable-http"
url = "https://example.org"

[tools.bash]
permission = "ask"
""",
    ),
    "Mistral Vibe, in one line, carriage returns": (
        "vibe",
        ".vibe/config.toml",
        {"a", "b"},
        {},
        (
            'mcp_servers = [{ name = "a", transport = "stdio", command = "x" },\r\n'
            '  { command = "y", args = [], name = "b", transport = "stdio" }]\r\n'
        ),
    ),
    "Warp": (
        "warp",
        ".warp/.mcp.json",
        {"a", "b", "c"},
        {"web": REMOTE},
        (
            '{"mcpServers": {"a": {"command": "x", "working_directory": "/work"}},\n'
            ' "mcp_servers": {"b": {"command": "y", "args": ["z"]}},\n'
            ' "servers": {"c": {"command": "z"}, "web": {"url": "https://example.org"}}}\n'
        ),
    ),
    "Cline CLI, both ways to write a server": (
        "cline",
        ".cline/data/settings/cline_mcp_settings.json",
        {"a", "b"},
        {"off": OFF, "web": REMOTE},
        """{
  "mcpServers": {
    "a": {
      "transport": {
        "type": "stdio",
        "command": "npx",
        "args": ["-y", "x"]
      }
    },
    "b": {"transport": {"type": "stdio", "command": "y"}, "disabled": false},
    "off": {"command": "x", "disabled": true},
    "web": {"transport": {"type": "sse", "url": "https://example.org"}}
  }
}
""",
    ),
    "Copilot CLI": (
        "copilot",
        ".copilot/mcp-config.json",
        {"a"},
        {"web": REMOTE},
        (
            '{\n\t"mcpServers": {\n\t\t"a": {"type": "local", "command": "x", "tools": ["*"]},\n'
            '\t\t"web": {"type": "http", "url": "https://example.org"}\n\t}\n}\n'
        ),
    ),
    "Goose, with an extension of its own": (
        "goose",
        ".config/goose/config.yaml",
        {"it"},
        {"own": "it is part of Goose"},
        "extensions:\n  it:\n    type: stdio\n    cmd: x\n  own:\n    type: builtin\n",
    ),
}


ONE = '{"mcpServers": {"it": {"command": "x"}}}'
# Files with nothing but one server, `it`.
PLAIN = {
    "opencode, in its own directory": (
        "opencode",
        ".opencode/opencode.json",
        '{"mcp": {"it": {"type": "local", "command": ["x"], "enabled": true}}}',
    ),
    "VS Code Server": (
        "vscode",
        ".vscode-server/data/User/mcp.json",
        '{\n\t"servers": {\n\t\t"it": {"type": "stdio", "command": "x"}, // c\n\t},\n}',
    ),
    "code-server": (
        "vscode",
        ".local/share/code-server/User/mcp.json",
        '{"servers": {"it": {"command": "x", "args": ["y"]}}, "inputs": []}',
    ),
    "Codex": ("codex", ".codex/config.toml", '[mcp_servers.it]\ncommand = "x"\n'),
    "Claude Code, a project in the user's file": (
        "claude",
        ".claude.json",
        '{"projects": {"/p": {"mcpServers": {"it": {"command": "x"}}}}}',
    ),
    "Claude Desktop": ("claude-desktop", ".config/Claude/claude_desktop_config.json", ONE),
    "Cursor": ("cursor", ".cursor/mcp.json", ONE),
    "VS Code": (
        "vscode",
        ".config/Code/User/mcp.json",
        '{"servers": {"it": {"command": "x"}}, } // c\n',
    ),
    "Gemini CLI": ("gemini", ".gemini/settings.json", ONE),
    "Zed of old": (
        "zed",
        ".config/zed/settings.json",
        '{"context_servers": {"it": {"command": {"path": "x", "args": ["y"]}}}}',
    ),
    "Windsurf": ("windsurf", ".codeium/windsurf/mcp_config.json", ONE),
}
FILES |= {title: (host, name, {"it"}, {}, text) for title, (host, name, text) in PLAIN.items()}


def read_words(command: str, *words: str) -> dict[str, dict[str, Any]]:
    """Run a command, and return what it says of each entry."""
    done = run_command(command, "--yes", "--json", *words)
    assert done.returncode == 0, done.stderr
    files = json.loads(done.stdout)["files"]
    return {entry["server"]: entry for file in files for entry in file["entries"]}


def test_every_host_has_a_file() -> None:
    assert {name for name, *_ in FILES.values()} == {*HOSTS}


@pytest.mark.parametrize("title", list(FILES))
@pytest.mark.usefixtures("project")
def test_a_file_is_the_same_to_the_byte_after_it_was_wrapped_and_unwrapped(
    title: str, own_home: Path
) -> None:
    host, name, wrapped, skipped, text = FILES[title]
    path = own_home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")

    first = read_words("wrap")

    assert {one for one, entry in first.items() if not entry["reason"]} == wrapped
    assert {one: entry["reason"] for one, entry in first.items() if entry["reason"]} == skipped
    for one in wrapped:
        own = [] if one.startswith("number") else ["--server", one]
        assert first[one]["after"] == [find_script(), "run", *own, *first[one]["before"]]
    after = path.read_bytes()
    assert read_words("wrap").keys() == first.keys()
    assert path.read_bytes() == after
    assert {
        one for one, entry in read_words("unwrap", "--host", host).items() if not entry["reason"]
    } == wrapped
    assert path.read_bytes().decode() == text
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "title", [title for title, (_, _, names, *_) in FILES.items() if len(names) > 1]
)
@pytest.mark.usefixtures("project")
def test_one_server_of_a_file_is_wrapped_without_the_others(title: str, own_home: Path) -> None:
    _, name, wrapped, _, text = FILES[title]
    path = own_home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")

    for one in wrapped:
        assert [*read_words("wrap", one)] == [one]
        assert path.read_bytes().decode() != text
        assert [*read_words("unwrap", one)] == [one]
        assert path.read_bytes().decode() == text


@pytest.mark.usefixtures("project")
def test_a_list_is_a_list_only_where_a_host_has_one(own_home: Path) -> None:
    write(own_home / ".kimi-code" / "mcp.json", '{"mcpServers": [{"name": "a", "command": "x"}]}')

    assert read_words("wrap") == {}

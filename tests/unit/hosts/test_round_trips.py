"""Files of every further host, as people write them: wrapped, wrapped again, and unwrapped."""

from __future__ import annotations

import pytest
from host_files import LAUNCHER

from mcp_launch.config_files.host_config import OFF, ONE_TEXT, REMOTE
from mcp_launch.config_files.planned_changes import Wish, look
from mcp_launch.config_files.site import Site
from mcp_launch.hosts.configured import HOSTS

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
    "opencode, in its own directory": (
        "opencode",
        ".opencode/opencode.json",
        {"a"},
        {},
        '{"mcp": {"a": {"type": "local", "command": ["x"], "enabled": true}}}',
    ),
    "VS Code Server": (
        "vscode",
        ".vscode-server/data/User/mcp.json",
        {"a"},
        {},
        '{\n\t"servers": {\n\t\t"a": {"type": "stdio", "command": "x"}, // c\n\t},\n}',
    ),
    "code-server": (
        "vscode",
        ".local/share/code-server/User/mcp.json",
        {"a"},
        {},
        '{"servers": {"a": {"command": "x", "args": ["y"]}}, "inputs": []}',
    ),
}


@pytest.mark.parametrize("title", list(FILES))
def test_a_file_is_the_same_to_the_byte_after_it_was_wrapped_and_unwrapped(
    title: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name, path, wrapped, skipped, text = FILES[title]
    host, home = HOSTS[name], tmp_path_factory.mktemp("home")
    (home / path).parent.mkdir(parents=True)
    (home / path).write_text(text, encoding="utf-8", newline="")
    files = host.list_files(Site(str(home), str(home / "project"), {}))
    [file] = [one for one in files if one.path == str(home / path)]

    change = look(host, file, text, Wish(LAUNCHER))

    assert {one.name for one in change.entries if not one.why_not} == wrapped
    assert {one.name: one.why_not for one in change.entries if one.why_not} == skipped
    again = look(host, file, change.after, Wish(LAUNCHER))
    assert again.after == change.after
    for before, after in zip(change.entries, again.entries, strict=True):
        expected = [LAUNCHER, "run", "--server", before.name, *before.words]
        if before.name.startswith("number"):
            del expected[2:4]
        assert after.words == (before.words if before.why_not else expected)
    assert look(host, file, change.after, Wish("")).after == text


@pytest.mark.parametrize("title", list(FILES))
def test_one_server_of_a_file_is_wrapped_without_the_others(title: str) -> None:
    name, _, wrapped, _, text = FILES[title]
    host = HOSTS[name]
    [file, *_] = host.list_files(Site("/nowhere", "/nowhere", {}))
    for one in wrapped:
        change = look(host, file, text, Wish(LAUNCHER, (one,)))

        assert [entry.name for entry in change.entries] == [one]
        assert change.is_any
        assert look(host, file, change.after, Wish("", (one,))).after == text


def test_a_list_is_a_list_only_where_a_host_has_one() -> None:
    host = HOSTS["kimi"]
    [file, *_] = host.list_files(Site("/nowhere", "/nowhere", {}))

    change = look(host, file, '{"mcpServers": [{"name": "a", "command": "x"}]}', Wish(LAUNCHER))

    assert not change.entries


def test_a_script_is_read_for_names_and_never_changed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    text = (
        '# mine\nmcp add docs --command npx -- -y x\nif a; then\n\tmcp add "web" --url $(u)\nfi\n'
    )
    host, home = HOSTS["crush"], tmp_path_factory.mktemp("home")
    files = host.list_files(Site(str(home), "/nowhere", {}))
    [file] = [one for one in files if one.path == str(home / ".config/crush/crushrc")]

    for wish in (Wish(LAUNCHER), Wish("")):
        change = look(host, file, text, wish)

        assert {one.name for one in change.entries} == {"docs", "web"}
        assert all("shell script" in one.why_not for one in change.entries)
        assert not change.is_any

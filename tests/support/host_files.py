"""Host files as people write them, in every format that hosts read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import ANY
from mcp_launch.config_files.wrap import Shape

if TYPE_CHECKING:
    from mcp_launch.documents.document import Kind

LAUNCHER = "/opt/bin/mcp-launch"
ONE_LIST = Shape(is_one_list=True)
GOOSE = Shape(("cmd",), ("args",))

TOML = {
    "plain": '[mcp_servers.a]\ncommand = "npx"\nargs = ["-y", "x"]\n',
    "no args": '[mcp_servers.a]\ncommand = "x"\n',
    "no args, indented": "# top\n[mcp_servers.a]\n\tcommand = 'x' # why\n\tenv = {A = 'b'}\n",
    "empty args": '[mcp_servers.a]\ncommand = "x"\nargs = []\n',
    "empty args with space": '[mcp_servers.a]\ncommand = "x"\nargs = [ # none\n]\n',
    "args first": '[mcp_servers.a]\nargs = [ "y" ]\ncommand = "x"',
    "many lines": "[mcp_servers.a]\ncommand = 'x'\nargs = [\n  # it\n  '-y', # yes\n  'z',\n]\n",
    "dotted": 'mcp_servers.a.command = "x"\nmcp_servers."b c".command = "y"\n',
    "dotted, named like the key": 'mcp_servers.command.command = "x"\n',
    "inline": 'mcp_servers = { a = { command = "x" }, b = { args = ["1"], command = \'y\' } }\n',
    "inline entry": '[mcp_servers]\na = { command = "x", env = { B = "c" } } # it\n',
    "carriage returns": '[mcp_servers.a]\r\ncommand = "x"\r\n[mcp_servers.b]\r\ncommand = "y"\r\n',
    "a byte order mark": '\ufeff[mcp_servers.a]\ncommand = "x"\n',
    "escapes": '[mcp_servers.a]\ncommand = "\\u0078"\nargs = ["\\t"]\n',
    "long strings": '[mcp_servers.a]\ncommand = """\nx"""\n',
    "unknown keys": '[mcp_servers.a]\nname = "n"\ncommand = "x"\nlater = 1979-05-27\n',
    "looks like ours": '[mcp_servers.a]\ncommand = "uv"\nargs = ["run", "--", "server"]\n',
    "refused sources": (
        '[mcp_servers.a]\ncommand = "x"\nenv_vars = [\n  "HOME", # mine\n'
        '  { name = "CODEX_THREAD_ID", source = "thread" },\n]\n'
    ),
    "only refused sources, inline": (
        'mcp_servers.a = { command = "x", env_vars = [{name="T",source="thread"}], cwd = "/" }\n'
    ),
    "1.1: an entry in lines": (
        'mcp_servers.a = {\n  # mine\n  command = "x", # why\n  env = {\n    A = "b",\n  },\n}\n'
    ),
    "1.1: a command without a comma": '[mcp_servers]\na = {\n\tcommand = "x" # why }\n\t}\n',
    "1.1: a comma behind the command": 'mcp_servers = { a = { command = "x", }, }\n',
    "1.1: args in lines": (
        "mcp_servers.a = {\r\n  args = [\r\n    '-y', # yes\r\n  ],\r\n  command = 'x',\r\n}\r\n"
    ),
    "1.1: variables in lines": (
        '[mcp_servers.a]\ncommand = "x"\nenv = {\n  A = "b", # c\n  }\n\n[mcp_servers.b]\n'
        'command = "y"\nat = 07:32\n'
    ),
    "1.1: escapes": '[mcp_servers."\\x61"]\ncommand = "\\x78"\nargs = ["\\e[0m"]\n',
    "1.1: refused sources": (
        'mcp_servers.a = {\n  command = "x",\n  env_vars = [\n    {\n      name = "T", # mine\n'
        '      source = "thread",\n    },\n  ],\n}\n'
    ),
    "sources of Codex": (
        '[mcp_servers.a]\ncommand = "x"\nenv_vars = ["B", { name = "A", source = "local" }]\n'
    ),
}

JSON = {
    "plain": '{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"]}}}',
    "no args": '{\n  "mcpServers": {\n    "a": {\n      "command": "x"\n    }\n  }\n}\n',
    "no args, one line": '{"mcpServers": {"a": {"type": "stdio", "command": "x", "env": {}}}}',
    "empty args": '{"mcpServers": {"a": {"command": "x", "args": [ ]}}}',
    "comments": (
        '{ // top\n "mcpServers": {\n "a": { /* c */ "command": "x",'
        ' "args": [\n // y\n "z", ], },\n },\n}'
    ),
    "tabs and carriage returns": (
        '{\r\n\t"mcpServers": {\r\n\t\t"a": {\r\n\t\t\t"command": "x"\r\n\t\t}\r\n\t}\r\n}'
    ),
    "escapes": '{"mcpServers": {"\\u0061": {"command": "\\u0078", "args": ["\\/"]}}}',
    "variables": '{"mcpServers": {"a": {"command": "${HOME}/x", "args": ["${A:-b}"]}}}',
    "a byte order mark": '\ufeff{"mcpServers": {"a": {"command": "x"}}}',
    "several": '{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y", "args": ["1"]}}}',
    "another scope": '{"projects": {"/p": {"mcpServers": {"a": {"command": "x"}}}}}',
}

YAML = {
    "a line each": "extensions:\n  a:\n    cmd: npx\n    args:\n    - -y\n    - x # it\n    b: c\n",
    "indented": "extensions:\n  a:\n    cmd: npx\n    args:\n      - '-y'\n      - x\n\n# end\n",
    "flow": "extensions:\n  a: {cmd: npx, args: [-y, x]}\n",
    "flow, no args": "extensions: {a: {cmd: 'x', type: stdio}}\n",
    "no args": "extensions:\n  a:\n    type: stdio\n    cmd: x # why\n    enabled: true\n",
    "empty args": "extensions:\n  a:\n    args: []\n    cmd: x\n",
    "one argument": 'extensions:\n  a:\n    cmd: "x"\n    args:\n    - one',
    "carriage returns": "extensions:\r\n  a:\r\n    cmd: x\r\n    type: stdio\r\n",
}

LISTS = {
    "plain": '{"mcp": {"a": {"type": "local", "command": ["npx", "-y"]}}}',
    "a word": '{"mcp": {"a": {"command": [ "x" ] /* c */}}}',
    "lines": '{"mcp": {"a": {"command": [\n  // it\n  "x",\n  "y",\n]}}}',
}

TEXTS: dict[str, tuple[Kind, str, Shape]] = {
    **{f"TOML: {name}": ("toml", text, Shape()) for name, text in TOML.items()},
    **{f"JSON: {name}": ("json", text, Shape()) for name, text in JSON.items()},
    **{f"YAML: {name}": ("yaml", text, GOOSE) for name, text in YAML.items()},
    **{f"one list: {name}": ("json", text, ONE_LIST) for name, text in LISTS.items()},
}

SERVERS = (
    ("mcp_servers",),
    ("mcpServers",),
    ("projects", ANY, "mcpServers"),
    ("extensions",),
    ("mcp",),
)

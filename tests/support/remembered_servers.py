"""Servers that are remembered, for playbooks whose backend is absent."""

from __future__ import annotations

import json
from typing import Any

from broker_playbooks import Playbook, Store

from mcp_launch.protocol.memory import Remembered, name_client

CLIENT = '{"protocolVersion":"1","capabilities":{},"clientInfo":{"name":"h"}}'
OFFERED = '{"capabilities":{"tools":{"listChanged":true},"logging":{}}}'
TOOLS = '{"tools":[{"name":"x"}]}'

PREFIX = "io.modelcontextprotocol/"
META = json.dumps(
    {f"{PREFIX}protocolVersion": "2026-07-28", f"{PREFIX}clientCapabilities": {}},
    separators=(",", ":"),
)

# The host is answered from memory, and has read the list of tools.
GREETED = f"""
    >> host: 0 initialize {CLIENT}
    << host: 0 = {OFFERED}
    >> host: notifications/initialized
    >> host: 1 tools/list
    << host: 1 = {TOOLS}
"""

# The first call starts a server, which is asked for its tools before it gets the call.
WOKEN = f"""
    >> host: 2 tools/call {{"name":"x"}}
    << start server
    >> started server
    << timer greeting server: 120
    << server: "mcp-launch/L/1" initialize {CLIENT}
    >> server: "mcp-launch/L/1" = {OFFERED}
    << timer remember host: 1
    << server: notifications/initialized
    << server: "mcp-launch/L/2" tools/list
    << timer compare server: 2
"""

# It has the same tools.
CALLED = f"""
    {WOKEN}
    >> server: "mcp-launch/L/2" = {TOOLS}
    << timer remember host: 1
    << server: 2 tools/call {{"name":"x"}}
"""


def remember(age: float = 0.0, *, is_due: bool = False) -> Store:
    """Return a store that knows the handshakes of a server in both eras."""
    greeting: Any = {"method": "initialize", "params": json.loads(CLIENT)}
    discovery: Any = {"method": "server/discover", "params": {"_meta": json.loads(META)}}
    tools = f'{{"result":{TOOLS}}}'.encode()
    living = b'{"result":{"tools":[{"name":"x"}],"ttlMs":5000,"cacheScope":"private"}}'
    first = Remembered(
        name_client(greeting),
        age,
        {("initialize", b""): f'{{"result":{OFFERED}}}'.encode(), ("tools/list", b""): tools},
    )
    second = Remembered(
        name_client(discovery),
        age,
        {
            ("server/discover", b""): f'{{"result":{OFFERED}}}'.encode(),
            ("tools/list", b""): living,
        },
    )
    first.is_due = second.is_due = is_due
    return Store(first, second)


def open_absent(script: str = GREETED, **settings: Any) -> Playbook:
    """Return a playbook whose server was not started; the host was answered from memory."""
    values: dict[str, Any] = {"handshakes": remember(), "is_started": False, **settings}
    playbook = Playbook(**values)
    playbook.play(script)
    return playbook

"""A stand-in for a host: starts its servers all at once, as hosts do, and greets them.

    python session.py '[{"command": ["npx", …], "call": {"name": "echo", "arguments": {}}}, …]'

Says `ready`. Then calls every server once for each line on its stdin and says `called`, until
its stdin ends.
"""

from __future__ import annotations

import json
import sys

from client import Client


def main() -> None:
    """Play the host."""
    servers = json.loads(sys.argv[1])
    clients = [Client(server["command"]) for server in servers]
    for client in clients:
        client.begin()
    for client in clients:
        if "result" not in client.finish():
            raise SystemExit("no list of tools")
    say("ready")
    for _ in sys.stdin:
        for client, server in zip(clients, servers, strict=True):
            client.send("tools/call", server["call"])
        for client in clients:
            client.wait()
        say("called")
    for client in clients:
        client.hang_up()
    for client in clients:
        client.join()


def say(word: str) -> None:
    """Tell the benchmark how far this is."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

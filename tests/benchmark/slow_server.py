"""A server that takes its time to start: the seconds are its first argument."""

import json
import sys
import time

TOOLS = [{"name": "tell", "inputSchema": {"type": "object"}}]
GREETING = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "slow", "version": "1"},
}

time.sleep(float(sys.argv[1]))
ANSWERS = {
    "initialize": GREETING,
    "tools/list": {"tools": TOOLS},
    "tools/call": {"content": [{"type": "text", "text": "told"}]},
}

for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": ANSWERS[request["method"]]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

"""The smallest server: answers in the layout that it is given, without a JSON library."""

import os
import sys

SPACED = b'{"jsonrpc": "2.0", "id": %b, "result": %b}\n'
LAYOUTS = {
    "Codex": b'{"jsonrpc":"2.0","id":%b,"result":%b}\n',
    "TypeScript SDK": b'{"result":%b,"jsonrpc":"2.0","id":%b}\n',
    "spaces": SPACED,
}
RESULT = (
    b'{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"echo","version":"1"},"tools":[{"name":"read","inputSchema":{}}],'
    b'"content":[{"type":"text","text":"pong"}]}'
)

is_last = sys.argv[1] == "TypeScript SDK"
layout = LAYOUTS[sys.argv[1]]
result = RESULT.replace(b":", b": ").replace(b",", b", ") if layout is SPACED else RESULT
parts: list[bytes] = []
while data := os.read(0, 1 << 20):
    parts.append(data)
    if b"\n" not in data:
        continue
    *lines, rest = b"".join(parts).split(b"\n")
    parts = [rest]
    for line in lines:
        # The last id in a call of the TypeScript SDK, the first in the others.
        _, found, after = line.rpartition(b'"id":') if is_last else line.partition(b'"id":')
        if found and b'"method"' in line:
            raw_id = after.lstrip().split(b",", 1)[0].split(b"}", 1)[0]
            pair = (result, raw_id) if is_last else (raw_id, result)
            os.write(1, layout % pair)

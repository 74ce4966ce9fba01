"""The smallest server that several sessions can share: it answers with the id it was asked with."""

import os

RESULT = (
    b'"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"echo","version":"1"},"tools":[{"name":"read","inputSchema":{}}],'
    b'"content":[{"type":"text","text":"pong"}]}}\n'
)

rest = b""
while data := os.read(0, 65536):
    *lines, rest = (rest + data).split(b"\n")
    for line in lines:
        _, found, after = line.partition(b'"id":')
        if found:  # else it is a notification
            raw_id = after.partition(b",")[0].strip()
            os.write(1, b'{"jsonrpc":"2.0","id":' + raw_id + b"," + RESULT)

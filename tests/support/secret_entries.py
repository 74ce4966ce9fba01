"""Entries that contain a secret, in every possible place."""

from __future__ import annotations

SECRET = "hunter2-hunter2"
SECRETS = {
    "a variable": {"command": "nope", "env": {"API_KEY": SECRET}},
    "an argument": {"command": "nope", "args": ["--token", SECRET]},
    "an assignment": {"command": "nope", "args": [f"--api-key={SECRET}"]},
    "a password in an address": {"command": "nope", "args": [f"postgres://me:{SECRET}@db/x"]},
    "a command line": {"command": f"nope --password='{SECRET}'"},
    "a header": {"url": "https://example.org", "headers": {"Authorization": SECRET}},
    "a header in the arguments": {"command": "sh", "args": ["-H", f"X-API-Key:{SECRET}"]},
    "an address": {"command": "nope", "args": [f"https://x/?profile=p&api_key={SECRET}"]},
    "a script": {"command": "sh", "args": ["-c", f"echo --key {SECRET} >&2; exit 1"]},
    "a directory": {"command": "nope", "cwd": f"/no/{SECRET}", "env": {"MY_TOKEN": SECRET}},
}

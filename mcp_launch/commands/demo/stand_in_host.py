"""A stand-in for Codex or Claude Code: starts one wrapped server and shows what it saw.

Run by a Python that is linked under the host's name, with only the standard library. It
identifies the session exactly as the real host does: Codex holds its thread's lock open and
names the thread with each call; Claude Code writes its pid file and sets two variables.

It reads commands from stdin, one per line: `call`, `stray` (a call of another thread on the
same connection), `clear` (another session from now on). Each answer is a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

MESSAGES = (
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "stand-in", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)


def main(kind: str, project: str, *command: str) -> None:
    """Start the server, call it once, then obey the commands on stdin until it closes."""
    home = Path(os.environ["HOME"])
    environ = dict(os.environ)
    thread = _make_uuid7() if kind == "codex" else None
    lock = _hold_thread_lock(home, thread) if thread else None
    if thread is None:
        environ |= _write_session(home, project)
    server = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=project if kind == "codex" else None,
        env=environ,
    )
    assert server.stdin  # noqa: S101  # for the type checker: we asked for a pipe
    assert server.stdout  # noqa: S101
    for message in MESSAGES:
        server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()
    server.stdout.readline()
    _call(server, thread)
    for command_line in sys.stdin:
        if command_line == "clear\n":
            _write_session(home, project)
        else:
            _call(server, _make_uuid7() if command_line == "stray\n" else thread)
    server.terminate()
    server.wait()
    if lock is not None:
        os.close(lock)


def _call(server: subprocess.Popen[bytes], thread: str | None) -> None:
    """Call the server, and print what it saw or the error that it returned."""
    assert server.stdin  # noqa: S101  # for the type checker: we asked for a pipe
    assert server.stdout  # noqa: S101
    params: dict[str, object] = {"name": "look_around", "arguments": {}}
    if thread:
        params["_meta"] = {"threadId": thread, "sessionId": thread}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    server.stdin.write(json.dumps(call).encode() + b"\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    result = answer["result"]
    text = result["content"][0]["text"]
    seen = json.dumps({"error": text}) if result.get("isError") else text
    print(seen, flush=True)  # noqa: T201  # for the demo


def _hold_thread_lock(home: Path, thread: str) -> int:
    locks = home / ".codex" / "thread-writer-locks"
    locks.mkdir(parents=True)
    return os.open(locks / f"{thread}.lock", os.O_CREAT | os.O_RDWR)


def _make_uuid7() -> str:
    milliseconds = time.time_ns() // 1_000_000
    bits = uuid.uuid4().int & ((1 << 80) - 1)
    return str(uuid.UUID(int=(milliseconds << 80) | bits, version=4)).replace("-4", "-7", 1)


def _write_session(home: Path, project: str) -> dict[str, str]:
    session = str(uuid.uuid4())
    sessions = home / ".claude" / "sessions"
    sessions.mkdir(parents=True, exist_ok=True)
    stat = Path("/proc/self/stat")
    if stat.exists():
        start = stat.read_text(encoding="utf-8").rpartition(")")[2].split()[19]
        record = {"pid": os.getpid(), "sessionId": session, "cwd": project, "procStart": start}
        file = sessions / f"{os.getpid()}.json"
        file.write_text(json.dumps(record), encoding="utf-8")
    return {"CLAUDE_CODE_SESSION_ID": session, "CLAUDE_PROJECT_DIR": project}


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A stand-in for `npx -y PACKAGE` that installs when the test lets it, then runs its server.

It takes one order from the test, through the liveness socket:

    install   finish the installation as npm does, and start the server
    chatter   the same, with more words than a pipe holds
    answer    answer the host without any installation
    fail      exit as npm does when there is no such package

The server ignores the end of its input.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TextIO

LIVENESS = os.environ["LIVENESS"]
INSTALLED = Path(os.environ["INSTALLED"])  # the directory in npx's cache
NAME = "@tiny/server"


def connect(role: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(LIVENESS)
    connection.sendall(f"{role} {os.getpid()}".encode())
    return connection


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def say(stream: TextIO, line: str) -> None:
    stream.write(f"{line}\n")
    stream.flush()


def answer() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            say(sys.stdout, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}))


def serve() -> None:
    if os.fork():
        os.wait()
        return
    connection = connect("server")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answer()
    connection.recv(1)  # nobody sends anything
    os._exit(0)


def install(*, is_chatty: bool) -> None:
    # Before it is done: it must not matter that nobody reads it.
    say(sys.stderr, "npm warn deprecated tiny")
    if is_chatty:
        say(sys.stderr, "x" * (1 << 17))
    write(INSTALLED / "node_modules" / NAME / "package.json", {"name": NAME})
    write(INSTALLED / "node_modules/.package-lock.json", {})
    (INSTALLED / "concurrency.lock").rmdir()


def main() -> int:
    signal.alarm(120)  # in case nothing else ends it
    connection = connect("runner")
    (INSTALLED / "node_modules" / NAME).mkdir(parents=True, exist_ok=True)
    if not (INSTALLED / "node_modules/.package-lock.json").exists():
        (INSTALLED / "concurrency.lock").mkdir()
        order = connection.recv(100)
        if order == b"fail":
            (INSTALLED / "concurrency.lock").rmdir()
            say(sys.stderr, "npm error 404 Not Found")
            return 1
        if order == b"answer":
            answer()
            connection.recv(1)
        install(is_chatty=order == b"chatter")
    serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())

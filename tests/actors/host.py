"""A stand-in host: starts what it is told to, and stays until it is ended.

    host.py [--open FILE]... [--socket] [--cwd DIR] -- COMMAND...

Run by a Python that is linked under a host's name. Its own stdin and stdout are joined to
the command's: what the test writes arrives there, and the answers come back. The first
line on its stdout is the command's pid.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading


def main(words: list[str]) -> None:
    kept = []
    cwd = None
    use_socket = False
    while (word := words.pop(0)) != "--":
        if word == "--open":
            kept.append(os.open(words.pop(0), os.O_CREAT | os.O_RDWR))
        elif word == "--cwd":
            cwd = words.pop(0)
        elif word == "--socket":
            use_socket = True
    if use_socket:
        ours, theirs = socket.socketpair()
        ours_out, theirs_out = socket.socketpair()
        child = subprocess.Popen(words, stdin=theirs.fileno(), stdout=theirs_out.fileno(), cwd=cwd)
        theirs.close()
        theirs_out.close()
        to_child, from_child = ours.detach(), ours_out.detach()
    else:
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=cwd)
        assert child.stdin
        assert child.stdout
        to_child, from_child = child.stdin.fileno(), child.stdout.fileno()
    os.write(1, f"{child.pid}\n".encode())
    carry(to_child, from_child)


def carry(to_child: int, from_child: int) -> None:
    threading.Thread(target=copy, args=[0, to_child], daemon=True).start()
    copy(from_child, 1)
    os._exit(0)


def copy(source: int, sink: int) -> None:
    while data := os.read(source, 1 << 16):
        while data:
            data = data[os.write(sink, data) :]
    if source == 0:
        os.close(sink)


if __name__ == "__main__":
    main(sys.argv[1:])

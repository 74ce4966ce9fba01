"""A fake host: starts the given command, and stays until it is ended.

    fake_host.py [--open FILE]... [--socket] [--cwd DIR] [--quiet] [--twice] -- COMMAND...

Run with a Python that is linked under a host's name. Its own stdin and stdout are connected
to the command's: the command gets what the test writes, and the test its answers. The first
line on its stdout is the command's pid, unless it is quiet. Twice: after the line "next"
it starts the same command again, prints its pid, and connects to that one.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

CHILDREN: list[subprocess.Popen[bytes]] = []


def main(words: list[str]) -> None:
    kept = []
    cwd = None
    use_socket = is_quiet = is_twice = False
    while (word := words.pop(0)) != "--":
        if word == "--open":
            kept.append(os.open(words.pop(0), os.O_CREAT | os.O_RDWR))
        elif word == "--cwd":
            cwd = words.pop(0)
        elif word == "--socket":
            use_socket = True
        elif word == "--quiet":
            is_quiet = True
        elif word == "--twice":
            is_twice = True
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
    if not is_quiet:
        os.write(1, f"{child.pid}\n".encode())
    carry(to_child, from_child, words if is_twice else [])


def start_next(words: list[str]) -> int:
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin
    assert child.stdout
    threading.Thread(target=copy, args=[child.stdout.fileno(), 1], daemon=True).start()
    CHILDREN.append(child)
    os.write(1, f"{child.pid}\n".encode())
    return child.stdin.fileno()


def carry(to_child: int, from_child: int, words: list[str]) -> None:
    threading.Thread(target=copy, args=[0, to_child, words], daemon=True).start()
    copy(from_child, 1)
    os._exit(0)


def copy(source: int, sink: int, words: list[str] | None = None) -> None:
    while data := os.read(source, 1 << 16):
        if words and data == b"next\n":
            sink = start_next(words)
            continue
        while data:
            data = data[os.write(sink, data) :]
    if source == 0:
        os.close(sink)


if __name__ == "__main__":
    main(sys.argv[1:])

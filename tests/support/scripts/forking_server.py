"""A server with the kinds of descendants that tend to be left behind.

    forking_server.py LIVENESS polite|hostile

A child, a child in a session of its own, and a daemon that forked twice and emptied its
environment. Each connects to the liveness socket and stays connected until it ends. Hostile: all
of them ignore the end of input and every signal that can be ignored. Polite: the server
sends "finished" to the liveness socket when its input ends or on a signal, then exits 0.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys

IGNORED = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE]
LEAVES = "leaves"


def connect(role: str, liveness: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(liveness)
    connection.sendall(f"{role} {os.getpid()}".encode())
    return connection


def stay(role: str, liveness: str, manner: str) -> None:
    signal.alarm(120)  # in case nothing else ends it
    if manner == "hostile":
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
    connection = connect(role, liveness)
    while True:
        signal.pause()
        connection.fileno()


def start(role: str, liveness: str, manner: str, *, forks: int, own_session: bool) -> None:
    """Fork `forks` times and become a fresh program with nothing in its environment."""
    if os.fork():
        return
    if own_session:
        os.setsid()
    if forks > 1 and os.fork():
        os._exit(0)
    here = os.path.abspath(__file__)
    os.execve(sys.executable, [sys.executable, "-S", here, liveness, manner, role], {})


def serve(liveness: str, manner: str) -> None:
    start("child", liveness, manner, forks=1, own_session=False)
    start("own-session", liveness, manner, forks=1, own_session=True)
    start("daemon", liveness, manner, forks=2, own_session=True)
    if manner == "hostile":
        stay("server", liveness, manner)
    ends, tells = os.pipe()
    connection = connect("server", liveness)

    def finish(_number: int, _frame: object) -> None:
        os.write(tells, b"!")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, finish)
    while True:
        readable = select.select([0, ends], [], [])[0]
        if ends in readable or (0 in readable and not answer(os.read(0, 1 << 16))):
            connection.sendall(b"finished")
            os._exit(0)


def answer(data: bytes) -> bool:
    if LEAVES.encode() in data:
        os._exit(7)
    return bool(data)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        stay(sys.argv[3], sys.argv[1], sys.argv[2])
    serve(sys.argv[1], sys.argv[2])

"""Unix sockets: who is at the other end, writing without waiting, and passing descriptors.

Through `_socket`, because importing `socket` would take milliseconds.
"""

from __future__ import annotations

import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class OtherUser(OSError):
    """Another user is at the other end of a socket, or an unknown one."""


def read_peer(fd: int) -> int | None:
    """Return the pid of the process that made the other end of our socket; None if unknown.

    The credentials are those at the time of `connect` or `socketpair`. The process may have
    ended since, or have passed its end to another.
    """
    family = getattr(_socket, "AF_UNIX", None)
    if family is None:
        return None
    try:
        peer = _socket.socket(fileno=os.dup(fd))
    except OSError:
        return None
    try:
        if hasattr(_socket, "SO_PEERCRED"):
            raw = peer.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        else:
            # macOS: SOL_LOCAL and LOCAL_PEERPID, for which Python has no names.
            raw = peer.getsockopt(0, 2, 4)
    except OSError:
        return None
    finally:
        peer.close()
    pid = int.from_bytes(raw[:4], sys.byteorder)
    return pid or None  # 0: outside our pid namespace


def open_socket(fd: int) -> tuple[Callable[[Any, bytes | bytearray], int], Any]:
    """Return a send function that never blocks, and its socket, which takes over `fd`.

    MSG_DONTWAIT applies to one call. O_NONBLOCK belongs to the open file and not to the
    descriptor: set here, it would make the host's own copies non-blocking as well.
    """
    flags = _socket.MSG_DONTWAIT
    return (lambda stream, data: stream.send(data, flags)), _socket.socket(fileno=fd)


def connect(address: str) -> Any:  # noqa: ANN401  # a socket
    """Return a socket that is connected to this address.

    Raises:
        OSError: Nobody listens there.

    """
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        link.connect(address)
    except OSError:
        link.close()
        raise
    return link


def listen(address: str, backlog: int) -> Any:  # noqa: ANN401  # a socket
    """Return a socket that listens on this address.

    Raises:
        OSError: There is something at this address, or nothing can be put there.

    """
    listening = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        listening.bind(address)
        listening.listen(backlog)
    except OSError:
        listening.close()
        raise
    return listening


def accept(listening: int) -> int:
    """Return the descriptor of the next connection.

    Raises:
        OSError: There is none, or no descriptor is left.

    """
    socket: Any = _socket.socket(fileno=listening)
    try:
        fd: int = socket._accept()[0]  # noqa: SLF001  # as `socket` itself does it
    finally:
        socket.detach()
    return fd


def check_support() -> None:
    """Refuse a system that does not say who is at the other end of a socket.

    Raises:
        OtherUser: It does not.

    """
    if not hasattr(_socket, "SO_PEERCRED"):
        raise OtherUser("this system does not say who is at the other end of a socket")


def check_peer(link: Any) -> None:  # noqa: ANN401  # a socket
    """Refuse another user at the other end of a socket.

    Raises:
        OtherUser: It is another user, or unknown.

    """
    check_support()
    raw = link.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    if int.from_bytes(raw[4:8], sys.byteorder) != os.geteuid():
        raise OtherUser("another user is at the other end of the socket")


def send_descriptors(link: Any, data: bytes, descriptors: tuple[int, ...]) -> None:  # noqa: ANN401
    """Send a short message with descriptors over a socket.

    Raises:
        OSError: Nobody is at the other end.

    """
    packed = b"".join(fd.to_bytes(4, sys.byteorder) for fd in descriptors)
    link.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)])


def receive_descriptors(fd: int, count: int) -> tuple[bytes, list[int]]:
    """Return what `send_descriptors` has sent, if it was the same user.

    Raises:
        OSError: It was another user, or nothing can be read.

    """
    link = _socket.socket(fileno=fd)
    try:
        check_peer(link)
        return _receive(link, count)
    finally:
        link.detach()


def _receive(link: Any, count: int) -> tuple[bytes, list[int]]:  # noqa: ANN401  # a socket
    size = _socket.CMSG_SPACE(4 * count)
    data, controls, _, _ = link.recvmsg(1 << 16, size, _socket.MSG_CMSG_CLOEXEC)
    packed = b"".join(part for level, _, part in controls if level == _socket.SOL_SOCKET)
    found = [int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4)]
    return data, found

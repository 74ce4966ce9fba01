"""Stands in for a launcher that has nothing to do: whatever happens, it becomes the launcher again.

`runtime.standby` executes it in the launcher's place, so it is the same process with the same
descriptors, but it needs half the memory. For that it is imported without our packages, into a
Python without `site`; `posix` and `_signal` are what `os` and `signal` are made of.

It reads nothing from the host. What the host says next waits in the pipe for the launcher.
"""

import posix
import select
import sys
from _signal import (  # type: ignore[import-not-found]
    SIG_BLOCK,
    SIG_IGN,
    SIG_UNBLOCK,
    SIGHUP,
    SIGINT,
    SIGTERM,
    SIGUSR1,
    getsignal,
    pthread_sigmask,
    set_wakeup_fd,
    signal,
)

# Names the descriptor of the launcher's state, the signal that has arrived, or 0, and whether
# one of the host's processes has ended: 1 or 0.
RESUME = b"MCP_LAUNCH_RESUME"

# The launcher cannot be executed any more; the host sees that its server is gone.
_FAILED = 125

_ENDING = (SIGTERM, SIGINT, SIGHUP)

# As in `kernel`: `mcp-launch restart`. By default it kills, so it is blocked until the launcher
# listens.
_RESTART = SIGUSR1


def main(kept: str, hosts: str, others: str, *command: str) -> None:
    """Wait for the host, for the end of a process, or for a signal; then execute the launcher.

    `hosts` are descriptors that become readable when one of the host's processes ends. `others`
    connect the launcher to a server that it shares, and stay open.
    """
    wake = _listen()
    descriptors = [int(fd) for fd in hosts.split(",") if fd]
    poll = select.poll()
    for fd in (0, wake, *descriptors, *(int(fd) for fd in others.split(",") if fd)):
        poll.register(fd, select.POLLIN)
    while not (ready := poll.poll()):
        pass
    pthread_sigmask(SIG_BLOCK, (_RESTART,))
    is_lost = any(fd in descriptors for fd, _ in ready)
    for fd in descriptors:
        posix.set_inheritable(fd, False)  # noqa: FBT003  # named by the function
    # Not `posix.environ`: in the C locale, Python adds a variable to it.
    environ = _read_environ()
    environ[RESUME] = b"%b,%d,%d" % (kept.encode(), _read_signal(wake), is_lost)
    try:
        posix.execve(command[0], command, environ)
    except OSError:
        posix._exit(_FAILED)  # noqa: SLF001  # its public name


def _listen() -> int:
    reading, writing = posix.pipe()
    for fd in (reading, writing):
        posix.set_blocking(fd, False)
    set_wakeup_fd(writing)
    for number in (_RESTART, *_ENDING):
        # As in `kernel.listen`: one that was ignored from the start stays ignored.
        if number == SIGTERM or getsignal(number) is not SIG_IGN:
            signal(number, _do_nothing)
    pthread_sigmask(SIG_UNBLOCK, (_RESTART, *_ENDING))  # the launcher has blocked them, for now
    return reading


def _read_signal(wake: int) -> int:
    try:
        numbers = posix.read(wake, 64)
    except BlockingIOError:
        return 0
    # One that ends the launch makes a restart pointless.
    return next((number for number in numbers if number in _ENDING), numbers[0])


def _read_environ() -> dict[bytes, bytes]:
    fd = posix.open("/proc/self/environ", posix.O_RDONLY | posix.O_CLOEXEC)
    content = b""
    while part := posix.read(fd, 1 << 16):
        content += part
    posix.close(fd)
    entries = (entry.partition(b"=") for entry in content.split(b"\0") if entry)
    return {name: value for name, _, value in entries}


def _do_nothing(number: int, frame: object) -> None:
    """Do nothing: the signal is read from the pipe."""


if __name__ == "standby_process":
    main(*sys.argv[1:])

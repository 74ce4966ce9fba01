"""Join the pool of a shared server, or start it: a launcher's side of `--share`.

    host ── launcher ══╗
    host ── launcher ══╬══ pool ── keeper ── guardian ── server
    host ── launcher ══╝

A launcher makes the same three pipes as for a server of its own, and passes the far ends to the
pool over a Unix socket. The socket then does what the two pipes to a guardian do: orders go one
way, reports the other, and its end means that the pool is gone. So the rest of the launcher does
not know the difference. Everything below the pool is as below a launcher, and ends with it.

Which launch starts the pool is decided by a lock. The one that holds it connects or, if nobody
listens, listens itself and gives that socket to a new pool: those that come next are in its queue
before it has begun. A pool ends under the same lock, and only if nobody is in its queue.

If a pool cannot be joined, the launch starts a server of its own: sharing saves memory, and is
never worth a session without its server.
"""

from __future__ import annotations

import os
import sys
import time

from mcp_launch.errors import name_reason
from mcp_launch.system import kernel, sockets
from mcp_launch.system.guardian import Guardian, Starter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp_launch.system import ProcessTable
    from mcp_launch.system.guardian_process import NoteKilled, Tidy
    from mcp_launch.system.spawn import Pipes, ServerPlan

    # A server as a pool gets it: the stem of the pool's files, and the job for a new pool.
    Job = tuple[str, bytes]

SOCKET, LOCK = ".sock", ".lock"

# An order that only a pool understands: replace the server for all who use it, as soon as each of
# them has asked for it. The pool reports to the others that they should.
RESTART_ALL = 253

# How long to wait for a launch that holds the lock: it is at work for a few milliseconds.
LOCK_LIMIT = 5.0
_LOCK_INTERVAL = 0.002

# How many launches may connect before the pool accepts the first.
_BACKLOG = 4096

# The longest path that fits into the address of a socket, everywhere.
_PATH_LIMIT = 100

# How often a pool that is gone before it has begun is joined again.
TRIES = 3

# How long a pool may take to answer, before we do without it: it may have been stopped. On a busy
# machine it takes a second or two to start, and hosts wait at least ten.
_JOIN_LIMIT = 8.0

# How long a pool may take to let us go.
_LEAVING = 1.0

# How long a pool waits until all launches of a server have asked for another one. Each takes ten
# seconds at most for its open requests, and two more for the rest of a line.
RESTART_LIMIT = 13.0


class NotShared(OSError):
    """A pool cannot be joined."""


class PoolGuardian(Guardian):
    """The launcher's handle on a pool, in place of a guardian of its own."""

    __slots__ = ("_key", "misses")

    RESTART = RESTART_ALL

    def __init__(self, link: int, stem: str, table: ProcessTable) -> None:
        super().__init__(0, os.dup(link), link, table)
        self._key = os.path.basename(stem)
        self.start_limit = _JOIN_LIMIT
        self.misses = 0  # how many of our tries this one has cost

    def give_up_start(self) -> None:
        """Leave a pool that does not answer, or that does not start its server."""
        if self.shared is None:
            self.misses = TRIES
            self.can_try_again = True
        super().give_up_start()

    def send(self, instruction: int) -> None:
        """Have the pool let us go; a signal is for us alone, not for the server of others."""
        if self.is_released:
            return
        try:
            os.write(self.control, bytes([instruction]))
        except OSError:
            return  # the pool is gone; its last report is still in the socket
        self._expect_end(_LEAVING + RESTART_LIMIT * (instruction == RESTART_ALL))

    def read_report(self) -> bool:
        """Read what the pool reports; return False once it is gone, or has let us go."""
        try:
            data = os.read(self.report, 1 << 16)
        except ConnectionResetError:
            data = b""
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        is_asked = False
        for line in lines:
            word, _, rest = line.partition(b" ")
            if word == b"unread":
                self.unread += rest + b"\n"
            elif word == b"pool":
                pid, sessions, used = map(int, rest.split())
                self.shared, self.is_used = (pid, self._key, sessions), bool(used)
            elif word == b"started":
                self.server = int(rest)
            elif word == b"exited":
                self.exit_code = int(rest)
            elif word == b"restart":
                is_asked = True
            else:
                self.failure = (word.decode(), int(rest))
        if is_asked and self.on_restart is not None:
            self.on_restart()
        if not data:
            # It was gone before it had begun, so another may be joined.
            self.can_try_again = self.server is None and self.failure is None
            self.misses = int(self.can_try_again)
        return bool(data)

    def finish(self) -> None:
        """Release the pool, which is gone."""
        self.end_by_force()

    def end_by_force(self) -> None:
        """Let go of a pool that does not let us go: it reads the end of our socket."""
        self.leave()
        if self.exit_code is None and self.failure is None:
            self.exit_code = 128 + kernel.SIGKILL


class SharedStarter(Starter):
    """Starts servers by joining their pools."""

    __slots__ = ("_describe", "_hello", "_last", "_misses", "_note")

    def __init__(  # noqa: PLR0913  # what a starter has, and what a pool needs
        self,
        table: ProcessTable,
        hosts: list[int],
        lease: str,
        tidy: Tidy,
        note_killed: NoteKilled | None,
        *,
        hello: bytes,
        describe: Callable[[ServerPlan], Job],
        note: Callable[[str], None],
    ) -> None:
        super().__init__(table, hosts, lease, tidy, note_killed)
        self._hello = hello  # who we are
        self._describe = describe
        self._note = note  # logs a decision
        self._last: PoolGuardian | None = None  # the pool that was joined last
        self._misses = 0  # pools in a row that were of no use

    def begin(self, plan: ServerPlan, pipes: Pipes | None, *, is_first: bool = True) -> Guardian:
        """Join the pool of this server; start one of our own if that is not possible."""
        if pipes is not None and plan.install is None:
            try:
                self._check_last()
                self._last = self._join(plan, pipes)
            except OSError as error:
                self._note(f"not shared, a server of its own is started: {name_reason(error)}")
            else:
                return self._last
        elif plan.install is not None:
            self._note("not shared: its package has to be installed first")
        return super().begin(plan, pipes, is_first=is_first)

    def _check_last(self) -> None:
        """Refuse to join pools that have been of no use.

        Raises:
            NotShared: Too many were.

        """
        lost = self._last.misses if self._last is not None else 0
        self._misses = self._misses + lost if lost else 0
        if self._misses >= TRIES:
            raise NotShared("the pool does not answer")

    def _join(self, plan: ServerPlan, pipes: Pipes) -> PoolGuardian:
        sockets.check_support()
        stem, job = self._describe(plan)
        link = join(stem, lambda listening: start_pool(listening, job))
        try:
            sockets.check_peer(link)
            sockets.send_descriptors(link, self._hello, pipes.servers)
        except OSError:
            link.close()
            raise
        self._note(f"the server is shared: pool {os.path.basename(stem)}")
        return PoolGuardian(link.detach(), stem, self.table)


def join(stem: str, start: Callable[[int], None]) -> Any:  # noqa: ANN401  # a socket
    """Return a socket that is connected to a pool, which `start` starts if there is none.

    Raises:
        OSError: That is not possible.

    """
    lock = take_lock(stem + LOCK, LOCK_LIMIT)
    if lock is None:
        raise NotShared(f"another launch holds {stem}{LOCK} for too long")
    try:
        with _Address(stem + SOCKET) as address:
            try:
                return sockets.connect(address)
            except (FileNotFoundError, ConnectionRefusedError):
                pass  # there is no pool, or one that was killed
            _remove(stem + SOCKET)
            listening = sockets.listen(address, _BACKLOG)
            try:
                start(listening.fileno())
            except OSError:
                _remove(stem + SOCKET)
                raise
            finally:
                listening.close()
            return sockets.connect(address)
    finally:
        os.close(lock)


class _Address:
    """The address of a socket; a long path goes by way of its directory's descriptor."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._directory = -1

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= _PATH_LIMIT:
            return self._path
        directory, name = os.path.split(self._path)
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._directory}/{name}"

    def __exit__(self, *_: object) -> None:
        if self._directory >= 0:
            os.close(self._directory)


def take_lock(path: str, seconds: float) -> int | None:
    """Return the descriptor of a lock; None if another process has it for so long.

    The file is removed with its pool, so what was locked may be no longer what the path names.

    Raises:
        OSError: The file cannot be made.

    """
    import fcntl

    deadline = time.monotonic() + seconds
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same_file(lock, path):
                return lock
        except BlockingIOError:
            pass  # try again
        os.close(lock)
        if time.monotonic() >= deadline:
            return None
        time.sleep(_LOCK_INTERVAL)


def _is_same_file(fd: int, path: str) -> bool:
    try:
        named = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    opened = os.fstat(fd)
    return (opened.st_ino, opened.st_dev) == (named.st_ino, named.st_dev)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # it was never there


def start_pool(listening: int, job: bytes) -> None:
    """Start a pool that accepts connections on this socket; give it its job.

    Its parent is not the launcher: it must not end with it, and the launcher need not reap it.

    Raises:
        OSError: No process can be started.

    """
    reading, writing = os.pipe()
    # A launch that had a server of its own adopts orphans, and would end the pool with them.
    kernel.stop_adopting()
    try:
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                if os.fork() == 0:
                    _become_pool(listening, reading)
            finally:
                os._exit(0)  # never back into the launcher's code
        os.waitpid(pid, 0)
    finally:
        os.close(reading)
        try:
            # Most jobs fit into the pipe; the rest of a longer one is read when the pool runs.
            while job:
                job = job[os.write(writing, job) :]
        except BrokenPipeError:
            pass  # it could not be executed, and the connection that follows says so
        os.close(writing)


def _become_pool(listening: int, reading: int) -> None:
    kernel.restore_for_exec()
    kernel.release_inherited((listening, reading))
    for fd in (listening, reading):
        os.set_inheritable(fd, True)  # noqa: FBT003  # named by the function
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = f"import sys; sys.path.insert(0, {package!r}); "
    code += "from mcp_launch.runtime import pool; raise SystemExit(pool.main())"
    options = ["-I"] + ["-B"] * sys.dont_write_bytecode
    argv = [sys.executable, *options, "-c", code, "mcp-launch-pool", str(listening), str(reading)]
    # The job has what the server gets; PYTHONEXECUTABLE would have our Python lose its library.
    left_out = ("MCP_LAUNCH_", "PYTHONEXECUTABLE")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    os.execve(sys.executable, argv, environ)

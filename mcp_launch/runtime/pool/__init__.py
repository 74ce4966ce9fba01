"""The process of a pool: keeps a server for all launches that share it, and ends with the last.

It does for several launches what the supervisor does for one host: all the input and output that
`broker.pool` decides about. No launch can harm another. One that does not read what it is sent, or
that sends more than the server can take, waits: each turn of the loop reads a limited amount from
each. What the server has already been asked is kept for a launch that does not read, however long
it is: the answers to at most 128 requests, and twice as many pings.
"""

from __future__ import annotations

import os
import sys
import time

from mcp_launch import state
from mcp_launch.broker import commands
from mcp_launch.broker.commands import Settings
from mcp_launch.broker.pool import Pool
from mcp_launch.broker.routing import Binding, Served
from mcp_launch.errors import LaunchError, OutOfResources
from mcp_launch.hosts import Callers
from mcp_launch.launch.context import make_launch_id
from mcp_launch.launch.plan import Plan
from mcp_launch.protocol import json_text
from mcp_launch.runtime.loop import Loop
from mcp_launch.runtime.pool.clients import HELLO_LIMIT, Clients
from mcp_launch.state import leases, pools
from mcp_launch.system import kernel, linux, open_table, pool_client, read_namespace
from mcp_launch.system.guardian import END_ORDERS, Starter
from mcp_launch.system.guardian_process import INPUT_ENDED
from mcp_launch.values import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp_launch.broker.commands import Command

# How long the server may take to exit after the end of its input.
_INPUT_ENDED_GRACE = 2.0

# How long a launch may take to read the last reports: it does so at once, unless it was stopped.
_READING_LIMIT = 10.0

# When to look for the lock again, which a launch holds that is about to connect.
_LOCK_INTERVAL = 0.01


def main() -> int:
    """Serve until the last launch has left; return the exit code."""
    kernel.unblock_signals()
    linux.set_process_name("mcp-pool")
    state.keep_no_trace()
    listening, reading = (int(word) for word in sys.argv[2:4])
    os.set_inheritable(listening, False)  # noqa: FBT003  # no server may keep it open
    with open(reading, "rb") as file:
        job: Any = json_text.parse(file.read())
    wake, _ = kernel.listen(kernel.ENDING)
    try:
        PoolProcess(job, listening, wake).run()
    except Exception as error:  # noqa: BLE001  # the one boundary: nobody reads our stderr
        from mcp_launch.state import crash

        os.environ["MCP_LAUNCH_HOME"] = os.path.dirname(job["directory"])
        crash.describe(error)
        return 1
    return 0


class PoolProcess(Clients):
    """Carries out what the pool decides, and ends with its last launch."""

    def __init__(self, job: dict[str, Any], listening: int, wake: int) -> None:
        self._job = job
        self._stem = f"{job['directory']}/{job['key']}"
        self._socket = _identify(self._stem + pool_client.SOCKET)
        self._table = open_table()
        self._loop = Loop(watches_files=False)
        self._clients = {}
        self._reports = {}
        self._servers = {}
        self._is_over = False
        self._id = make_launch_id()
        self._starter = Starter(self._table, [], self._stem + pools.RECORD, _tidy)
        self.pool = Pool(self._make_settings(), self._plan(), self._describe_roots())
        self._listening = listening
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._held = set()
        self._used = set()
        self._wake = wake
        self._record: dict[str, object] = {
            **leases.open_record(self._id, job["argv"]),
            "pool": self._id,
            "server": job["server"],
            "mark": job["mark"],
            "cwd": job["cwd"],
            "boot": self._table.boot_id(),
        }
        os.set_blocking(listening, False)
        self._loop.watch(listening, self._accept)
        self._loop.watch(wake, self._handle_signals)

    def run(self) -> None:
        """Serve until everything has ended."""
        self._write_record()
        self._accept()
        # The launch that has started us connects next, unless it was killed.
        self._loop.set_timer("end", HELLO_LIMIT, self._end_if_unused)
        self._loop.run()

    def _make_settings(self) -> Settings:
        return Settings(
            server=self._job["server"],
            launch=self._id,
            carries="one session at a time",
            callers=Callers(),
            plan_for=_refuse_to_plan,
            is_inside=lambda _place, _roots: True,
            describe=lambda _served, _place: {},
            explain_end=lambda _code, when, _words: when,
            explain_early_end=lambda _code, _words: LaunchError("it has ended", fix="ask again"),
            restart="off",
            no_meta=True,
        )

    def _plan(self) -> Served:
        job = self._job
        environ = {**job["environ"], "MCP_LAUNCH_ID": self._id}
        plan = Plan(job["argv"], Found(job["cwd"], "the launches"), environ)
        plan.program = job["program"]
        if job["cwd"]:
            plan.environ["PWD"] = job["cwd"]
        nobody = Binding("unbound", None, None, "")
        return Served(None, nobody, plan)  # type: ignore[arg-type]  # it is planned already

    def _describe_roots(self) -> dict[str, Any]:
        cwd = self._job["cwd"]
        uri = "file://" + "".join(map(_quote, os.fsencode(cwd)))
        return {"roots": [{"uri": uri, "name": os.path.basename(cwd) or cwd}] if cwd else []}

    def _notify(self, event: Callable[[], None]) -> None:
        self.pool.now = time.monotonic()
        event()
        self._run_commands()

    def _run_commands(self) -> None:
        for name, backend in self.pool.backends.items():
            if not backend.is_unused and name not in self._used:
                self._report_use(name)
        out = self.pool.out
        while out:
            command = out.pop(0)
            if command.__class__ is commands.SendToHost:
                self._send_to_client(command.connection, command.data)
            elif command.__class__ is commands.SendToServer:
                self._servers[command.backend].writer.put(command.data)
            elif (action := _ACTIONS.get(command.__class__)) is not None:
                action(self, command)

    def _do_start(self, command: commands.StartServer) -> None:
        try:
            started, pipes = self._starter.begin_piped(command.plan)
        except OutOfResources as error:
            failure = error
            name = command.backend
            self._loop.set_timer(f"failed {name}", 0.0, lambda: self._fail_to_start(name, failure))
            return
        self._attach(command.backend, started, pipes, command.plan)

    def _do_end(self, command: commands.EndServer) -> None:
        if command.backend in self._servers:
            self._servers[command.backend].guardian.send(END_ORDERS[command.reason])

    def _do_close_input(self, command: commands.CloseInput) -> None:
        if command.backend in self._servers:
            self._servers[command.backend].writer.close_when_empty()

    def _do_pause(self, command: commands.PauseHost) -> None:
        self._set_paused(command.connection, is_paused=True)

    def _do_resume(self, command: commands.ResumeHost) -> None:
        self._set_paused(command.connection, is_paused=False)

    def _do_set_timer(self, command: commands.SetTimer) -> None:
        name = command.name

        def run_out() -> None:
            if name.partition(" ")[2] in self.pool.backends:
                self._notify(lambda: self.pool.timer(name))

        self._loop.set_timer(f"pool {name}", command.seconds, run_out)

    def _do_return(self, command: commands.ReturnUnread) -> None:
        if report := self._reports.get(command.connection):
            report.put(b"unread " + command.line)

    def _do_remark(self, command: commands.Remark) -> None:
        if client := self._clients.get(command.connection):
            client.errors.put(f"[mcp-launch] {command.text}\n".encode())

    def _do_end_connection(self, command: commands.EndConnection) -> None:
        client = self._clients.get(command.connection)
        if client is None:
            return
        self._report(client.name, f"exited {command.exit_code}")
        self._close_source(client)
        client.is_ending = True
        # Not now: what is going on may still use it. And its launch has to read all of it first,
        # for answers at the pace of its host.
        seconds = _READING_LIMIT if self._has_unread(client) else 0.0
        self._loop.set_timer(f"drop {client.name}", seconds, lambda: self._drop_if_read(client))

    def _handle_signals(self) -> None:
        for number in os.read(self._wake, 64):
            for server in self._servers.values():
                server.guardian.send(number)
        if not self._servers:
            self._loop.stop()

    def _end_if_unused(self) -> None:
        """End the server if nobody uses it, and nobody is about to."""
        if self._clients or self._is_over:
            return
        lock = None
        try:
            if self._has_its_place:
                lock = pool_client.take_lock(self._stem + pool_client.LOCK, 0.0)
            else:
                self._is_over = True  # nobody finds us any more
        except OSError:
            self._is_over = True  # nobody can take the lock any more
        if lock is None and not self._is_over:
            self._loop.set_timer("end", _LOCK_INTERVAL, self._end_if_unused)
            return
        self._accept()
        if self._clients:
            self._is_over = False
        else:
            self._is_over = True
            self._loop.unwatch(self._listening)
            os.close(self._listening)
            if self._has_its_place:
                pools.remove_files(self._stem)
        if lock is not None:
            os.close(lock)
        if self._is_over:
            self._end_servers()

    @property
    def _has_its_place(self) -> bool:
        """Whether our files are still there: another pool takes the place of removed ones."""
        return _identify(self._stem + pool_client.SOCKET) == self._socket is not None

    def _end_servers(self) -> None:
        self._loop.cancel_timer("record")
        for server in self._servers.values():
            server.writer.close_when_empty()
        self._loop.set_timer("grace", _INPUT_ENDED_GRACE, self._end_grace)
        if not self._servers:
            self._loop.stop()

    def _end_grace(self) -> None:
        for server in self._servers.values():
            server.guardian.send(INPUT_ENDED)

    def _write_record(self) -> None:
        if self._is_over or not self._has_its_place:
            return
        server = next(iter(self._servers.values()), None)
        guardian = server.guardian if server is not None else None
        self._record["namespace"] = read_namespace()
        self._record["processes"] = leases.describe_processes(
            self._table,
            pool=os.getpid(),
            keeper=guardian.keeper if guardian else None,
            guardian=guardian.pid if guardian else None,
            server=guardian.server if guardian else None,
        )
        self._record["sessions"] = [one.launch for one in self._clients.values() if one.launch]
        leases.Lease(self._stem + pools.RECORD, self._record).write()


def _identify(path: str) -> tuple[int, int, int] | None:
    """Return what tells a file from others at the same path; None if there is none."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns  # inodes are used again


def _refuse_to_plan(_context: object, _place: object) -> Any:  # noqa: ANN401  # it never returns
    raise LaunchError("a pool plans no other server", fix="ask again")


def _tidy(_table: object, _directory: str) -> None:
    """Leave the tidying to the guardians of launches."""


def _quote(byte: int) -> str:
    """Return a byte of a path as it is written in a URI."""
    is_plain = chr(byte).isalnum() if byte < 0x80 else False  # noqa: PLR2004  # ASCII
    return chr(byte) if is_plain or byte in b"/-._~" else f"%{byte:02X}"


_ACTIONS: dict[type[Command], Callable[[PoolProcess, Any], None]] = {
    commands.StartServer: PoolProcess._do_start,  # noqa: SLF001  # one of its own
    commands.EndServer: PoolProcess._do_end,  # noqa: SLF001
    commands.CloseInput: PoolProcess._do_close_input,  # noqa: SLF001
    commands.PauseHost: PoolProcess._do_pause,  # noqa: SLF001
    commands.ResumeHost: PoolProcess._do_resume,  # noqa: SLF001
    commands.SetTimer: PoolProcess._do_set_timer,  # noqa: SLF001
    commands.CancelTimer: lambda self, one: self._loop.cancel_timer(f"pool {one.name}"),
    commands.ReturnUnread: PoolProcess._do_return,  # noqa: SLF001
    commands.Remark: PoolProcess._do_remark,  # noqa: SLF001
    commands.EndConnection: PoolProcess._do_end_connection,  # noqa: SLF001
}

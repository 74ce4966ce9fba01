"""The process of a pool: keeps a server for all launches that share it, and ends with the last.

It is the same core and the same edge as a launcher's, with many clients. No launch can harm another.
One that does not read what it is sent, or that sends more than the server can take, waits: each turn
of the loop reads a limited amount from each. What the server has already been asked is kept for a
launch that does not read, however long it is: the answers to at most 128 requests, and twice as
many pings.
"""

from __future__ import annotations

import os
import sys
from errno import EMFILE, ENFILE

from mcp_launch import state
from mcp_launch.broker.commands import Settings
from mcp_launch.broker.core import Core
from mcp_launch.broker.routing import Binding, Served
from mcp_launch.errors import LaunchError
from mcp_launch.hosts import Callers
from mcp_launch.launch.context import make_launch_id
from mcp_launch.launch.plan import Plan
from mcp_launch.protocol import json_text
from mcp_launch.runtime.edge import ClientWire, Edge
from mcp_launch.runtime.loop import Loop, has_input, read
from mcp_launch.runtime.writer import Writer
from mcp_launch.state import leases, pools
from mcp_launch.system import kernel, linux, open_table, pool_client, read_namespace, sockets
from mcp_launch.system.guardian import END_ORDERS, Starter
from mcp_launch.system.guardian_process import INPUT_ENDED
from mcp_launch.values import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mcp_launch.broker.server import Server
    from mcp_launch.protocol.memory import Remembered
    from mcp_launch.runtime.server_process import PipedServer
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.system.spawn import Pipes

# How many requests of one launch the server has at once; others wait, so that the requests of one
# that sends thousands do not stand before those of another.
_IN_FLIGHT = 128

# How long a new connection may take to say who it is.
_HELLO_LIMIT = 5.0

# How long the server may take to exit after the end of its input.
_INPUT_ENDED_GRACE = 2.0

# How long a launch may take to read the last reports: it does so at once, unless it was stopped.
_READING_LIMIT = 10.0

# When to look for the lock again, which a launch holds that is about to connect.
_LOCK_INTERVAL = 0.01

# How long to collect changes before the record is written.
_RECORD_DELAY = 0.1

# How long to wait if there is not even a descriptor to turn a launch away with.
_DESCRIPTORS_INTERVAL = 1.0

# How many bytes of the server's stderr may wait for a launch; more are dropped.
_ERRORS_LIMIT = 1 << 18

# The ends of the pipes that a launch sends us: stdin, stdout and stderr of its server.
_PIPES = 3

# The orders of a launch that wants another server: it says the second one to any guardian.
_RESTART, _REPLACE = bytes([pool_client.RESTART_ALL]), bytes([END_ORDERS["replaced"]])


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
        Pool(job, listening, wake).run()
    except Exception as error:  # noqa: BLE001  # the one boundary: nobody reads our stderr
        from mcp_launch.state import crash

        os.environ["MCP_LAUNCH_HOME"] = os.path.dirname(job["directory"])
        crash.describe(error)
        return 1
    return 0


class Session:
    """One launch: its socket, and what of it is not a message."""

    __slots__ = ("errors", "is_restarting", "launch", "link", "name", "report", "server")

    def __init__(self, name: str, link: int) -> None:
        self.name = name
        self.link = link  # orders come in
        self.launch = ""  # empty until it has said who it is
        self.server = ""  # that was reported to it
        self.errors: Writer | None = None  # the server's stderr goes out
        self.report: Writer | None = None
        self.is_restarting = False  # it has nothing open, and waits for another server


class Pool:
    """Accepts launches, serves them, and ends with the last."""

    def __init__(self, job: dict[str, Any], listening: int, wake: int) -> None:
        self._stem = f"{job['directory']}/{job['key']}"
        self._socket = _identify(self._stem + pool_client.SOCKET)
        self._table = open_table()
        launch = make_launch_id()
        self._core = Core(_make_settings(job, launch))
        self._core.open_server(_plan(job, launch))
        self._edge = Edge(self._core, Loop(watches_files=False), self)
        self._starter = Starter(self._table, [], self._stem + pools.RECORD, _tidy)
        self._sessions: dict[str, Session] = {}
        self._count = 0  # of all that have connected
        self._is_over = False  # nobody can join any more
        self._used: set[str] = set()  # servers that were called, as the launches know
        self._listening = listening
        # A descriptor that can be given up, see `_turn_away`.
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._record: dict[str, object] = {
            **leases.open_record(launch, job["argv"]),
            "pool": launch,
            "server": job["server"],
            "mark": job["mark"],
            "cwd": job["cwd"],
            "boot": self._table.boot_id(),
        }
        os.set_blocking(listening, False)
        self._edge.loop.watch(listening, self._accept)
        self._edge.loop.watch(wake, lambda: self._handle_signals(wake))

    def run(self) -> None:
        """Serve until everything has ended."""
        self._write_record()
        self._accept()
        # The launch that has started us connects next, unless it was killed.
        self._edge.loop.set_timer("end", _HELLO_LIMIT, self._end_if_unused)
        self._edge.loop.run()

    # Launches come

    def _accept(self) -> None:
        try:
            while True:
                self._take_link(sockets.accept(self._listening))
        except OSError as error:
            if error.errno in {EMFILE, ENFILE}:
                self._turn_away()
            # Else those were all.

    def _turn_away(self) -> None:
        """Close a connection for which no descriptor is left: its launch starts its own server."""
        loop = self._edge.loop
        if self._spare >= 0:
            os.close(self._spare)
        try:
            os.close(sockets.accept(self._listening))
        except OSError:
            # The next turn would find it again, and the next: let others have the processor.
            loop.unwatch(self._listening)
            loop.set_timer("accept", _DESCRIPTORS_INTERVAL, self._accept_again)
        try:
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._spare = -1

    def _accept_again(self) -> None:
        if not self._is_over:
            self._edge.loop.watch(self._listening, self._accept)

    def _take_link(self, fd: int) -> None:
        self._count += 1
        session = Session(f"session-{self._count}", fd)
        self._sessions[session.name] = session
        loop = self._edge.loop
        loop.watch(fd, lambda: self._take_hello(session))
        loop.set_timer(f"hello {session.name}", _HELLO_LIMIT, lambda: self._drop(session))

    def _take_hello(self, session: Session) -> None:
        descriptors: list[int] = []
        try:
            data, descriptors = sockets.receive_descriptors(session.link, _PIPES)
            hello: Any = json_text.parse(data)
            launch = str(hello["launch"])
            descriptors.append(os.dup(session.link))
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            launch = ""  # another user, or nobody, or no descriptor is left
        if not launch or len(descriptors) != _PIPES + 1:
            for fd in descriptors:
                os.close(fd)
            self._drop(session)
            return
        session.launch = launch
        self._edge.loop.cancel_timer(f"hello {session.name}")
        self._connect(session, *descriptors)

    def _connect(self, session: Session, source: int, out: int, errors: int, report: int) -> None:
        loop, name, core = self._edge.loop, session.name, self._core
        session.errors = Writer(loop, errors, on_moved=_do_nothing, on_broken=_do_nothing)
        session.report = Writer(
            loop, report, on_moved=lambda: self._drop_if_read(session), on_broken=_do_nothing
        )
        writer = Writer(
            loop,
            out,
            on_moved=lambda: self._note_moved(session),
            on_broken=lambda: self._edge.lose_reader(name),
        )
        loop.watch(session.link, lambda: self._take_orders(session))
        loop.cancel_timer("end")  # a timer makes every turn of the loop slower
        wire = ClientWire(
            name,
            source,
            writer,
            leave=lambda code: self._leave(session, code),
            take_back=lambda line: self._send_report(session, b"unread " + line),
            ends=lambda: self._end_messages(session),
        )
        self._edge.add_client(wire, session.launch)
        lobby = core.kinds[""]
        if not any(one.state != "absent" for one in core.servers.values()):
            server = lobby.servers[0] if lobby.servers else core.open_server(self._find_plan())
            self._edge.notify(lambda: core.happen(server, "needed"))
        self._report_server(session)
        if loop.has_timer(f"restart {session.server}"):
            self._send_report(session, b"restart 0\n")
        self._report_sessions()

    def _find_plan(self) -> Served:
        served = self._core.first_served
        assert served is not None  # noqa: S101  # the first server has it
        return served

    # What launches are told, beside messages

    def _find_server(self, session: Session) -> Server | None:
        """Return the server that a launch uses; before it says what it is, any that runs."""
        client = self._core.clients.get(session.name)
        if client is None:
            return None
        running = (one for one in self._core.servers.values() if one.state != "ending")
        return next(iter(client.kind.servers), None) or next(running, None)

    def _report_server(self, session: Session) -> None:
        """Report the server of a launch, if it runs."""
        server = self._find_server(session)
        session.server = server.name if server is not None else ""
        piped = self._edge.servers.get(session.server)
        if piped is not None and piped.process.guardian.server:
            self._send_report(session, b"started %d\n" % piped.process.guardian.server)

    def _report_sessions(self) -> None:
        for session in self._sessions.values():
            server = self._find_server(session)
            if server is not None:
                clients = [one for one in self._sessions.values() if one.server == server.name]
                used = int(server.process.is_used)
                self._send_report(session, b"pool %d %d %d\n" % (os.getpid(), len(clients), used))
        self._edge.loop.set_timer("record", _RECORD_DELAY, self._write_record)

    @staticmethod
    def _send_report(session: Session, line: bytes) -> None:
        if session.report is not None:
            session.report.put(line)

    def expect_records(self, *, is_urgent: bool) -> None:
        """Leave it to the launches to record their calls."""
        del is_urgent
        self._core.finished.clear()

    def write_lease(self, *, is_urgent: bool) -> None:
        """Report what has changed: whose server is whose, and whether one was called."""
        del is_urgent
        self._note_use()
        for session in self._sessions.values():
            server = self._find_server(session)
            if session.launch and server is not None and server.name != session.server:
                self._report_server(session)  # it has said what it is, and got another server
                self._report_sessions()

    def _note_use(self) -> None:
        used = {name for name, one in self._core.servers.items() if one.process.is_used}
        if not used <= self._used:
            self._used |= used
            self._report_sessions()

    # Orders

    def _take_orders(self, session: Session) -> None:
        if not has_input(session.link):
            return  # it was read before
        orders = read(session.link)
        is_used = session.name in self._core.clients
        if pool_client.RESTART_ALL in orders and is_used:
            self._restart(session)
            orders = orders.replace(_RESTART, b"") or _REPLACE
        if session.is_restarting and orders == _REPLACE:
            pass  # it goes when its server does
        elif is_used:
            self._edge.notify(lambda: self._core.client_left(session.name))
            if orders:
                self._send_report(session, b"exited 0\n")
            self._drop(session)
        elif not orders:
            self._drop(session)

    def _end_messages(self, session: Session) -> bool:
        """Return whether the end of a launch's messages is its own: orders were given before."""
        self._take_orders(session)
        return not session.is_restarting

    def _restart(self, session: Session) -> None:
        """Have all launches of a server ask for another one; each finishes its requests first."""
        name, loop = session.server, self._edge.loop
        session.is_restarting = True
        if not loop.has_timer(f"restart {name}"):
            limit = pool_client.RESTART_LIMIT
            loop.set_timer(f"restart {name}", limit, lambda: self._replace(name))
            for one in self._sessions.values():
                if one.server == name and not one.is_restarting:
                    self._send_report(one, b"restart 0\n")
        self._replace_if_asked()

    def _replace_if_asked(self) -> None:
        """End the servers for which all launches want another one."""
        for name in [*self._core.servers]:
            users = [one for one in self._sessions.values() if one.server == name]
            is_asked = self._edge.loop.has_timer(f"restart {name}")
            if is_asked and all(one.is_restarting for one in users):
                self._replace(name)

    def _replace(self, name: str) -> None:
        self._edge.loop.cancel_timer(f"restart {name}")
        server = self._core.servers.get(name)
        if server is not None:
            self._edge.notify(lambda: self._core.happen(server, "unfit"))

    # Launches go

    def _leave(self, session: Session, code: int) -> None:
        """End the connection to a launch, once it has read everything."""
        self._send_report(session, b"exited %d\n" % code)
        wire = self._edge.clients.get(session.name)
        if wire is not None:
            self._edge.close_source(wire)
        # Not now: what is going on may still use it. And its launch has to read all of it first,
        # for answers at the pace of its host.
        seconds = _READING_LIMIT if self._has_unread(session) else 0.0
        self._edge.loop.set_timer(f"drop {session.name}", seconds, lambda: self._drop(session))

    def _has_unread(self, session: Session) -> bool:
        """Return whether a launch has not read all answers and reports yet."""
        wire = self._edge.clients.get(session.name)
        pending = wire.out.pending if wire is not None else b""
        return bool(pending or (session.report is not None and session.report.pending))

    def _note_moved(self, session: Session) -> None:
        self._edge.note_moved()
        self._drop_if_read(session)

    def _drop_if_read(self, session: Session) -> None:
        is_leaving = session.name not in self._core.clients
        if is_leaving and not self._has_unread(session):
            self._drop(session)

    def _drop(self, session: Session) -> None:
        """Close everything to a launch."""
        if self._sessions.pop(session.name, None) is None:
            return
        loop = self._edge.loop
        loop.cancel_timer(f"hello {session.name}")
        loop.cancel_timer(f"drop {session.name}")
        self._edge.drop_client(session.name)
        for writer in (session.report, session.errors):
            if writer is not None:
                writer.close()
        loop.unwatch(session.link)
        os.close(session.link)
        self._replace_if_asked()
        if session.launch:
            self._report_sessions()
        self._end_if_unused()

    # What the edge asks of its owner

    def begin(self, plan: Plan, *, is_first: bool) -> tuple[Guardian, Pipes]:
        """Start a server."""
        return self._starter.begin_piped(plan, is_first=is_first)

    def note_started(self, name: str, guardian: Guardian) -> None:
        """Report that a server runs."""
        del guardian
        for session in self._sessions.values():
            server = self._find_server(session)
            if server is not None and server.name == name:
                self._report_server(session)
        self._write_record()

    def note_failed(self, name: str, guardian: Guardian | None) -> None:
        """Report which step of a start has failed."""
        step, number = (guardian.failure if guardian else None) or ("guardian", 0)
        for session in self._sessions.values():
            server = self._find_server(session)
            if server is not None and server.name == name:
                self._send_report(session, f"{step} {number}\n".encode())

    def note_ending(self, name: str, reason: str) -> None:
        """Note that a server is about to be ended."""

    def note_gone(self, server: PipedServer) -> None:
        """End with the last server, if nobody can join any more."""
        if self._is_over and [*self._edge.servers.values()] == [server]:
            self._edge.loop.stop()

    def read_errors(self, server: PipedServer, data: bytes) -> None:
        """Pass on what a server has written to its stderr, to all its launches."""
        for session in self._sessions.values():
            errors = session.errors
            is_user = session.server == server.process.name
            if is_user and errors is not None and len(errors.pending) < _ERRORS_LIMIT:
                errors.put(data)

    def take_noise(self, name: str, line: bytes) -> None:
        """Pass on a line that is no message: each launch has its own way with it.

        But the beginning of one is what a dying server has left of an answer to somebody.
        """
        if line.lstrip().startswith((b"{", b"[")):
            return
        for wire in self._edge.clients.values():
            if self._sessions[wire.name].server == name:
                wire.out.put(line)

    def tell(self, client: str, text: str) -> None:
        """Print a message on the stderr of a launch."""
        session = self._sessions.get(client)
        if session is not None and session.errors is not None:
            session.errors.put(f"[mcp-launch] {text}\n".encode())

    def keep(self, memory: Remembered) -> None:
        """Leave it to the launches to remember what the server answers."""

    def forget(self, client: str) -> None:
        """Leave it to the launches to forget it."""

    def fail(self, error: LaunchError) -> None:
        """Leave it to the launches to say why there is no server."""

    # The end

    def _handle_signals(self, wake: int) -> None:
        for number in os.read(wake, 64):
            for server in self._edge.servers.values():
                server.process.guardian.send(number)
        if not self._edge.servers:
            self._edge.loop.stop()

    def _end_if_unused(self) -> None:
        """End the server if nobody uses it, and nobody is about to."""
        if self._sessions or self._is_over:
            return
        lock = None
        try:
            if self._has_its_place:
                lock = pool_client.take_lock(self._stem + pool_client.LOCK, 0.0)
            else:
                self._is_over = True  # nobody finds us any more
        except OSError:
            self._is_over = True  # nobody can take the lock any more
        loop = self._edge.loop
        if lock is None and not self._is_over:
            loop.set_timer("end", _LOCK_INTERVAL, self._end_if_unused)
            return
        self._accept()
        self._is_over = not self._sessions
        if self._is_over:
            loop.unwatch(self._listening)
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
        loop = self._edge.loop
        loop.cancel_timer("record")
        for server in self._edge.servers.values():
            server.writer.close_when_empty()
        loop.set_timer("grace", _INPUT_ENDED_GRACE, self._end_grace)
        if not self._edge.servers:
            loop.stop()

    def _end_grace(self) -> None:
        for server in self._edge.servers.values():
            server.process.guardian.send(INPUT_ENDED)

    def _write_record(self) -> None:
        if self._is_over or not self._has_its_place:
            return
        server = next(iter(self._edge.servers.values()), None)
        guardian = server.process.guardian if server is not None else None
        self._record["namespace"] = read_namespace()
        self._record["processes"] = leases.describe_processes(
            self._table,
            pool=os.getpid(),
            keeper=guardian.keeper if guardian else None,
            guardian=guardian.pid if guardian else None,
            server=guardian.server if guardian else None,
        )
        self._record["sessions"] = [one.launch for one in self._sessions.values() if one.launch]
        leases.Lease(self._stem + pools.RECORD, self._record).write()


def _make_settings(job: dict[str, Any], launch: str) -> Settings:
    cwd = job["cwd"]
    uri = "file://" + "".join(map(_quote, os.fsencode(cwd)))
    return Settings(
        server=job["server"],
        launch=launch,
        callers=Callers(),
        plan_for=lambda context, _: (context, _plan(job, launch).plan),
        is_inside=lambda _place, _roots: True,
        explain_end=lambda _code, when, _words: when,
        explain_early_end=lambda _code, _words: LaunchError("it has ended", fix="ask again"),
        returns_unread=True,
        in_flight=_IN_FLIGHT,
        # All launches work in one directory.
        roots={"roots": [{"uri": uri, "name": os.path.basename(cwd) or cwd}] if cwd else []},
        no_meta=True,
    )


def _plan(job: dict[str, Any], launch: str) -> Served:
    environ = {**job["environ"], "MCP_LAUNCH_ID": launch}
    plan = Plan(job["argv"], Found(job["cwd"], "the launches"), environ)
    plan.program = job["program"]
    if job["cwd"]:
        plan.environ["PWD"] = job["cwd"]
    nobody = Binding("unbound", None, None, "")
    return Served(None, nobody, plan)  # type: ignore[arg-type]  # it is planned already


def _identify(path: str) -> tuple[int, int, int] | None:
    """Return what tells a file from others at the same path; None if there is none."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns  # inodes are used again


def _do_nothing() -> None:
    """Ignore that a launch has read something, or reads no more: its socket tells."""


def _tidy(_table: object, _directory: str) -> None:
    """Leave the tidying to the guardians of launches."""


def _quote(byte: int) -> str:
    """Return a byte of a path as it is written in a URI."""
    is_plain = chr(byte).isalnum() if byte < 0x80 else False  # noqa: PLR2004  # ASCII
    return chr(byte) if is_plain or byte in b"/-._~" else f"%{byte:02X}"

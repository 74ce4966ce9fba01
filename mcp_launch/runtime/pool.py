"""The process of a pool: keeps a server for all launches that share it, and ends with the last.

It is the same core and the same edge as a launcher's, with many clients. No launch can harm
another. One that does not read what it is sent, or that sends more than the server can take, waits:
each turn of the loop reads a limited amount from each. What the server has already been asked is
kept for a launch that does not read, however long it is: the answers to at most 128 requests, and
twice as many pings.
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
from mcp_launch.runtime.lease import describe_guarded
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
    from mcp_launch.system.guardian import Guardian

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
    """The connection to one launch: its messages, and what else is said."""

    __slots__ = ("errors", "is_restarting", "launch", "link", "report", "server", "told", "wire")

    def __init__(
        self, launch: str, link: int, wire: ClientWire, errors: Writer, report: Writer
    ) -> None:
        self.launch = launch
        self.link = link  # orders come in
        self.wire = wire
        self.errors = errors  # the server's stderr goes out
        self.report = report
        self.server = ""  # the one that it uses, as it knows
        self.told: dict[bytes, bytes] = {}  # the last report of each kind about this server
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
        starter = Starter(self._table, [], self._stem + pools.RECORD, lambda *_: None)
        self._loop = Loop(watches_files=False)
        self._edge = Edge(self._core, self._loop)
        self._edge.handlers |= {
            "begin": lambda name, plan: starter.begin_piped(plan, is_first=name == "server"),
            "started": self._note_started,
            "start failed": self._report_failure,
            "gone": self._note_gone,
            "errors": self._pass_errors,
            "noise": self._pass_noise,
            "tell": self._tell,
            "lease": lambda *_: self._report_changes(),
            "records": lambda *_: self._core.finished.clear(),  # that is left to the launches
            "closed": self._note_closed,
            "return": lambda name, line: self._sessions[name].report.put(b"unread " + line),
            "leave": self._leave,
            "moved": lambda name, _: self._drop_if_read(name),
        }
        self._sessions: dict[str, Session] = {}
        self._links: set[int] = set()  # to those that have not said who they are
        self._count = 0  # of all sessions
        self._is_over = False  # nobody can join any more
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
        self._loop.watch(listening, self._accept)
        self._loop.watch(wake, lambda: self._handle_signals(wake))

    def run(self) -> None:
        """Serve until everything has ended."""
        self._write_record()
        self._accept()
        # The launch that has started us connects next, unless it was killed.
        self._loop.set_timer("end", _HELLO_LIMIT, self._end_if_unused)
        self._loop.run()

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
        loop = self._loop
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
            self._loop.watch(self._listening, self._accept)

    def _take_link(self, link: int) -> None:
        self._links.add(link)
        self._loop.watch(link, lambda: self._take_hello(link))
        self._loop.set_timer(f"hello {link}", _HELLO_LIMIT, lambda: self._drop_link(link))

    def _drop_link(self, link: int) -> None:
        self._links.remove(link)
        self._loop.cancel_timer(f"hello {link}")
        self._loop.close(link)
        self._end_if_unused()

    def _take_hello(self, link: int) -> None:
        descriptors: list[int] = []
        try:
            data, descriptors = sockets.receive_descriptors(link, _PIPES)
            hello: Any = json_text.parse(data)
            launch = str(hello["launch"])
            descriptors.append(os.dup(link))
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            launch = ""  # another user, or nobody, or no descriptor is left
        if not launch or len(descriptors) != _PIPES + 1:
            for fd in descriptors:
                os.close(fd)
            self._drop_link(link)
            return
        self._links.remove(link)
        self._loop.cancel_timer(f"hello {link}")
        self._loop.cancel_timer("end")  # a timer makes every turn of the loop slower
        self._join(launch, link, descriptors)

    def _join(self, launch: str, link: int, descriptors: list[int]) -> None:
        loop, core = self._loop, self._core
        source, out, errors, report = descriptors
        self._count += 1
        name = f"session-{self._count}"
        wire = ClientWire(name, source, Writer(loop, out))
        reports = Writer(loop, report, on_moved=lambda: self._drop_if_read(name))
        session = Session(launch, link, wire, Writer(loop, errors), reports)
        self._sessions[name] = session
        loop.watch(link, lambda: self._take_orders(session))
        self._edge.add_client(wire, launch)
        lobby = core.kinds[""]
        if all(one.state == "absent" for one in core.servers.values()):
            served = core.first_served
            assert served is not None  # noqa: S101  # the first server has it
            server = lobby.servers[0] if lobby.servers else core.open_server(served)
            self._edge.notify(lambda: core.happen(server, "needed"))
        self._report_changes()

    # What launches are told, beside messages

    def _find_server(self, name: str) -> Server | None:
        """Return the server that a session uses; before it says what it is, any that runs."""
        client = self._core.clients.get(name)
        if client is None:
            return None
        running = (one for one in self._core.servers.values() if one.state != "ending")
        return next(iter(client.kind.servers), None) or next(running, None)

    def _report_changes(self) -> None:
        """Report to each session what has changed for it."""
        found = {name: self._find_server(name) for name in self._sessions}
        for name, server in found.items():
            session = self._sessions[name]
            if server is not None and session.server != server.name:
                session.server = server.name
                session.told.clear()
        users = [session.server for session in self._sessions.values()]
        counts = {name: users.count(name) for name in {*users}}
        for name, server in found.items():
            if server is not None:
                self._report_server(self._sessions[name], server, counts[server.name])

    def _report_server(self, session: Session, server: Server, count: int) -> None:
        piped = self._edge.servers.get(server.name)
        reports = [b"pool %d %d %d\n" % (os.getpid(), count, server.process.is_used)]
        if piped is not None and piped.process.guardian.server:
            reports.append(b"started %d\n" % piped.process.guardian.server)
        if self._loop.has_timer(f"restart {server.name}") and not session.is_restarting:
            reports.append(b"restart 0\n")
        for line in reports:
            kind = line.split()[0]
            if session.told.get(kind) != line:
                session.told[kind] = line
                session.report.put(line)
                self._loop.set_timer("record", _RECORD_DELAY, self._write_record)

    def _note_started(self, *_: object) -> None:
        self._report_changes()
        self._write_record()

    def _report_failure(self, name: str, guardian: Guardian | None) -> None:
        """Report which step of a start has failed."""
        step, number = (guardian.failure if guardian else None) or ("guardian", 0)
        for one, session in self._sessions.items():
            server = self._find_server(one)
            if server is not None and server.name == name:
                session.report.put(f"{step} {number}\n".encode())

    def _pass_errors(self, server: str, data: bytes) -> None:
        for session in self._sessions.values():
            if session.server == server and len(session.errors.pending) < _ERRORS_LIMIT:
                session.errors.put(data)

    def _pass_noise(self, server: str, line: bytes) -> None:
        """Pass on a line that is no message: each launch has its own way with it.

        But the beginning of one is what a dying server has left of an answer to somebody.
        """
        if line.lstrip().startswith((b"{", b"[")):
            return
        for session in self._sessions.values():
            if session.server == server:
                session.wire.out.put(line)

    def _tell(self, name: str, text: str) -> None:
        if session := self._sessions.get(name):
            session.errors.put(f"[mcp-launch] {text}\n".encode())

    # Orders

    def _take_orders(self, session: Session) -> None:
        if not has_input(session.link):
            return  # it was read before
        orders, name = read(session.link), session.wire.name
        is_used = name in self._core.clients
        if pool_client.RESTART_ALL in orders and is_used:
            self._restart(session)
            orders = orders.replace(_RESTART, b"") or _REPLACE
        if session.is_restarting and orders == _REPLACE:
            pass  # it goes when its server does
        elif is_used:
            self._edge.notify(lambda: self._core.client_left(name))
            if orders:
                session.report.put(b"exited 0\n")
            self._drop(session)
        elif not orders:
            self._drop(session)

    def _note_closed(self, name: str, _: object) -> None:
        """Note the end of a launch's messages, unless orders were given before."""
        session = self._sessions[name]
        self._take_orders(session)
        if not session.is_restarting and name in self._core.clients:
            self._core.client_closed(name)

    def _restart(self, session: Session) -> None:
        """Have all launches of a server ask for another one; each finishes its requests first."""
        name = session.server
        session.is_restarting = True
        if not self._loop.has_timer(f"restart {name}"):
            limit = pool_client.RESTART_LIMIT
            self._loop.set_timer(f"restart {name}", limit, lambda: self._replace(name))
            self._report_changes()
        self._replace_if_asked()

    def _replace_if_asked(self) -> None:
        """End the servers for which all launches want another one."""
        for name in [*self._core.servers]:
            users = (one for one in self._sessions.values() if one.server == name)
            is_asked = self._loop.has_timer(f"restart {name}")
            if is_asked and all(one.is_restarting for one in users):
                self._replace(name)

    def _replace(self, name: str) -> None:
        self._loop.cancel_timer(f"restart {name}")
        server = self._core.servers.get(name)
        if server is not None:
            self._edge.notify(lambda: self._core.happen(server, "unfit"))

    # Launches go

    def _leave(self, name: str, code: int) -> None:
        """End the connection to a launch, once it has read everything."""
        session = self._sessions.get(name)
        if session is None:
            return
        session.report.put(b"exited %d\n" % code)
        session.wire.source = self._loop.close(session.wire.source)
        # Not now: what is going on may still use it. And its launch has to read all of it first,
        # for answers at the pace of its host.
        seconds = _READING_LIMIT if _has_unread(session) else 0.0
        self._loop.set_timer(f"drop {name}", seconds, lambda: self._drop(session))

    def _drop_if_read(self, name: str) -> None:
        session = self._sessions.get(name)
        if session is not None and name not in self._core.clients and not _has_unread(session):
            self._drop(session)

    def _drop(self, session: Session) -> None:
        name = session.wire.name
        if self._sessions.pop(name, None) is None:
            return
        self._loop.cancel_timer(f"drop {name}")
        self._edge.drop_client(name)
        session.report.close()
        session.errors.close()
        self._loop.close(session.link)
        self._replace_if_asked()
        self._report_changes()
        self._loop.set_timer("record", _RECORD_DELAY, self._write_record)
        self._end_if_unused()

    # The end

    def _note_gone(self, *_: object) -> None:
        if self._is_over and not self._edge.servers:
            self._loop.stop()

    def _handle_signals(self, wake: int) -> None:
        for number in os.read(wake, 64):
            self._send(number)
        if not self._edge.servers:
            self._loop.stop()

    def _send(self, order: int) -> None:
        for server in self._edge.servers.values():
            server.process.guardian.send(order)

    def _end_if_unused(self) -> None:
        """End the server if nobody uses it, and nobody is about to."""
        if self._sessions or self._links or self._is_over:
            return
        lock = None
        if self._has_its_place:  # else nobody finds us any more
            try:
                lock = pool_client.take_lock(self._stem + pool_client.LOCK, 0.0)
            except OSError:
                pass  # nobody can take the lock any more
            else:
                if lock is None:
                    self._loop.set_timer("end", _LOCK_INTERVAL, self._end_if_unused)
                    return
        self._accept()
        if not (self._sessions or self._links):
            self._end()
        if lock is not None:
            os.close(lock)

    def _end(self) -> None:
        loop = self._loop
        self._is_over = True
        loop.close(self._listening)
        if self._has_its_place:
            pools.remove_files(self._stem)
        loop.cancel_timer("record")
        for server in self._edge.servers.values():
            server.writer.close_when_empty()
        loop.set_timer("grace", _INPUT_ENDED_GRACE, lambda: self._send(INPUT_ENDED))
        if not self._edge.servers:
            loop.stop()

    @property
    def _has_its_place(self) -> bool:
        """Whether our files are still there: another pool takes the place of removed ones."""
        return _identify(self._stem + pool_client.SOCKET) == self._socket is not None

    def _write_record(self) -> None:
        if self._is_over or not self._has_its_place:
            return
        server = next(iter(self._edge.servers.values()), None)
        self._record["namespace"] = read_namespace()
        self._record["processes"] = leases.describe_processes(
            self._table,
            pool=os.getpid(),
            **(describe_guarded(server.process.guardian) if server is not None else {}),
        )
        self._record["sessions"] = [one.launch for one in self._sessions.values()]
        leases.Lease(self._stem + pools.RECORD, self._record).write()


def _has_unread(session: Session) -> bool:
    return bool(session.wire.out.pending or session.report.pending)


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


def _quote(byte: int) -> str:
    """Return a byte of a path as it is written in a URI."""
    is_plain = chr(byte).isalnum() if byte < 0x80 else False  # noqa: PLR2004  # ASCII
    return chr(byte) if is_plain or byte in b"/-._~" else f"%{byte:02X}"

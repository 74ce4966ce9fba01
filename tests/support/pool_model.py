"""Random schedules of a pool: sessions and servers that do anything at any moment.

Every request carries a tag that names its session, and a server repeats it in whatever belongs
to that request. So a session that gets something of another one is noticed at once, and so is a
request that is answered twice or never.
"""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from fakes import make_context
from pool_parties import Server, Session

from mcp_launch.broker import commands
from mcp_launch.broker.commands import Settings
from mcp_launch.broker.pool import Pool, client_lines
from mcp_launch.broker.routing import Served, bind_at_start
from mcp_launch.errors import LaunchError
from mcp_launch.hosts import Callers
from mcp_launch.launch.plan import Plan
from mcp_launch.values import Found

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker.backend import Backend

CONTEXT = make_context()
ROOTS: dict[str, Any] = {"roots": [{"uri": "file:///work/app"}]}

# Comes before a server is chosen, and is not limited.
_DISCOVER = "server/discover"

# The states of a server that is used for new connections.
ALIVE = {"starting", "ready"}


class Schedule:
    """One pool, its sessions and its servers."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311  # it chooses events
        self.pool = Pool(_make_settings(), _make_served(), ROOTS)
        self.sessions: dict[str, Session] = {}
        self.servers: dict[str, Server] = {}
        self.timers: set[str] = set()
        self._tasks: dict[str, set[str]] = {}  # by launch
        self.log: list[str] = []
        self.is_losing = False  # an event goes on that may end a connection at any time
        self.deaths = self.random.choice([0.0, 0.01, 0.04])
        self.departures = self.random.choice([0.0, 0.02, 0.06])
        self.most = self.random.choice([2, 3, 5])

    # The course of a schedule

    def run(self, steps: int) -> None:
        """Let anything happen, then let everything be answered, then let everyone leave."""
        for _ in range(steps):
            self._take_step()
        self._settle()
        for session in self._list_there():
            session.check_answered()
            session.end()
            self._report(f"leave {session.name}", self.pool.leave_pool, session.name)
        self._settle()
        self._check_traces()

    def _take_step(self) -> None:
        there, chance = self._list_there(), self.random.random()
        if len(there) < self.most and chance < 0.1:
            self._join()
        elif there and chance < 0.1 + self.departures:
            self._depart(self.random.choice(there))
        elif there and chance < 0.6:
            session = self.random.choice(there)
            if not session.input_has_ended and self.random.random() < 0.6:
                session.say_something(self.random, self.sessions)
            self._deliver(session, self.random.choice([1, 7, 100, 1 << 16, 1 << 16]))
        elif self.timers and chance < 0.63:
            self._fire()
        elif self.servers:
            self._step_server(self.random.choice([*self.servers.values()]))

    def _list_there(self) -> list[Session]:
        return [one for one in self.sessions.values() if not one.has_ended]

    def _join(self) -> None:
        name = f"s{len(self.sessions)}"
        owners = [one.owner for one in self.sessions.values() if one.has_ended]
        is_back = owners and self.random.random() < 0.3
        owner = self.random.choice(owners) if is_back else f"launch-{name}"
        if any(one.owner == owner for one in self._list_there()):
            owner = f"launch-{name}"
        tasks = self._tasks.setdefault(owner, set())
        self.sessions[name] = Session(name, owner, tasks)
        self._report(f"join {name} of {owner}", self.pool.join, name, owner)

    def _depart(self, session: Session) -> None:
        way = self.random.choice(["leave", "close", "close", "stop reading"])
        if way == "close":
            session.input_has_ended = True
        elif way == "leave":
            session.end()
            self._report(f"leave {session.name}", self.pool.leave_pool, session.name)
        else:
            self.is_losing = True
            self._report(f"reader lost {session.name}", self.pool.reader_lost, session.name)
            self.is_losing = False

    def _deliver(self, session: Session, size: int) -> None:
        """Let the pool read from a session, unless it has paused it."""
        if session.has_ended or session.is_paused or session.end_was_read:
            return
        data, session.to_us = session.to_us[:size], session.to_us[size:]
        if data:
            session.note_read(data)
            before = self._measure_waiting(session)
            self._report(f"{session.name} said {data!r}", self.pool.host_said, session.name, data)
            after = self._measure_waiting(session)
            assert session.is_paused or after <= max(before, client_lines.WAITING_LIMIT)
        elif session.input_has_ended:
            session.end_was_read = True
            session.note_end()
            self._report(f"{session.name} closed", self.pool.host_closed, session.name)

    def _measure_waiting(self, session: Session) -> int:
        member = self.pool._members.get(session.name)  # noqa: SLF001  # what it keeps
        return sum(map(len, member.waiting)) if member else 0

    def _fire(self) -> None:
        name = self.random.choice(sorted(self.timers))
        self.timers.discard(name)
        if name.partition(" ")[2] in self.pool.backends:
            self._report(f"timer {name}", self.pool.timer, name)

    # Servers

    def _step_server(self, server: Server) -> None:
        chance = self.random.random()
        if server.stage == "starting":
            if chance < self.deaths * 3:
                self._fail_to_start(server)
            elif chance < 0.5:
                server.stage = "running"
                self._report(f"{server.name} started", self.pool.server_started, server.name)
        elif server.stage == "dying":
            self._end_server(server)
        elif chance < self.deaths or (server.is_doomed and chance < 0.3):
            self._kill(server)
        elif chance < 0.5:
            server.read(self.random.choice([1, 20, 200, 1 << 20]))
        else:
            server.say_something(self.random)
            self._read_server(server, self.random.choice([1, 30, 1 << 16, 1 << 16]))

    def _read_server(self, server: Server, size: int) -> None:
        data, server.output = server.output[:size], server.output[size:]
        if data:
            self._report(f"{server.name} said {data!r}", self.pool.server_said, server.name, data)

    def _fail_to_start(self, server: Server) -> None:
        error = LaunchError("it cannot be started", fix="none")
        self.is_losing = True
        del self.servers[server.name]
        self._report(
            f"{server.name} failed", lambda: self.pool.server_start_failed(server.name, error)
        )
        self.is_losing = False

    def _kill(self, server: Server) -> None:
        server.stage = "dying"
        server.code = self.random.choice([0, 1, 137])
        if self.random.random() < 0.3:
            name = server.name
            self._report(f"{name} closed its input", self.pool.server_closed_input, name)

    def _end_server(self, server: Server) -> None:
        name = server.name
        if server.output and self.random.random() < 0.7:
            self._read_server(server, 1 << 20)
        self._report(f"{name} closed its output", self.pool.server_closed_output, name)
        self._report(f"{name} exited", self.pool.server_exited, name, server.code)
        self.is_losing = True
        unread = server.received[server.was_read :]
        del self.servers[name]
        self._report(f"{name} gone, unread {unread!r}", self.pool.server_gone, name, unread, b"")
        self.is_losing = False

    # The end

    def _settle(self) -> None:
        """Let everyone read everything, and servers answer everything."""
        for _ in range(400):
            is_quiet = True
            for server in [*self.servers.values()]:
                is_quiet &= not self._settle_server(server)
            for session in self._list_there():
                before = len(session.to_us), session.end_was_read
                self._deliver(session, 1 << 16)
                is_quiet &= before == (len(session.to_us), session.end_was_read)
            if is_quiet:
                return
        msg = "it never comes to rest"
        raise AssertionError(msg)

    def _settle_server(self, server: Server) -> bool:
        """Return whether there was anything to do."""
        if server.stage == "starting":
            server.stage = "running"
            self._report(f"{server.name} started", self.pool.server_started, server.name)
        elif server.stage == "dying" or server.is_doomed:
            server.stage = "dying"
            self._end_server(server)
        else:
            before = server.was_read
            server.read(1 << 30)
            server.answer_all(self.random)
            had_output = bool(server.output)
            self._read_server(server, 1 << 30)
            return had_output or server.was_read != before
        return True

    def _check_traces(self) -> None:
        pool = self.pool
        assert not pool.connections
        assert not pool._members  # noqa: SLF001  # what is left of those who have gone
        assert len(pool.backends) <= 1, "a server is kept that nobody needs"
        for name, backend in pool.backends.items():
            greeting = pool._greetings[name]  # noqa: SLF001
            requests = backend.requests
            assert not requests.open
            assert not requests.tokens
            assert not requests._noted  # noqa: SLF001
            assert not requests.listening
            assert not requests.subscriptions, "lines of those who have gone"
            assert not backend.queue
            assert not backend.own_requests
            assert not backend.connections
            assert not backend.tasks
            assert not greeting.waiting
            assert not greeting.subscribers

    # What the pool does

    def _report(self, what: str, event: Callable[..., None], *arguments: Any) -> None:
        self.log.append(f"> {what}")
        event(*arguments)
        for command in self.pool.take_commands():
            if isinstance(command, (commands.Note, commands.WriteLease)):
                continue
            self.log.append(f"    {_show(command)}")
            act = self._ACTS.get(type(command))
            assert act is not None, f"the runtime of a pool does not know {command}"
            act(self, command)
        self._check_servers()

    def _check_servers(self) -> None:
        """Check that no server is started or kept without need."""
        alive = [one for one in self.pool.backends.values() if one.state in ALIVE]
        kinds = [self.pool._greetings[one.name].kind for one in alive]  # noqa: SLF001
        assert len(kinds) == len(set(kinds)), f"two servers for clients of one kind: {kinds}"
        for backend in alive:
            assert self._is_needed(backend), f"{backend.name} is kept without need"
        for name, session in self.sessions.items():
            assert session.has_ended == (name not in self.pool.connections), name
            if not session.has_ended:
                self._check_limits(session)

    def _check_limits(self, session: Session) -> None:
        """Check that a session does not crowd out the others."""
        for backend in self.pool.backends.values():
            tickets = [one for one in backend.requests.open.values() if one.method != _DISCOVER]
            own = [one for one in tickets if one.connection == session.name]
            pings = [one for one in own if one.method == "ping"]
            assert len(own) <= 2 * client_lines.IN_FLIGHT_LIMIT
            assert len(own) - len(pings) <= client_lines.IN_FLIGHT_LIMIT

    def _is_needed(self, backend: Backend) -> bool:
        is_only = len(self.pool.backends) == 1
        waiting = self.pool._greetings[backend.name].waiting  # noqa: SLF001
        is_used = bool(backend.connections or backend.requests.open or waiting)
        return is_only or is_used or self.servers[backend.name].is_doomed

    def _send_to_host(self, command: Any) -> None:
        if command.connection in self.sessions:
            self.sessions[command.connection].read(command.data)

    def _send_to_server(self, command: Any) -> None:
        server = self.servers[command.backend]
        assert server.stage != "starting", "nothing can be sent to a server that does not run"
        server.received += command.data

    def _start_server(self, command: Any) -> None:
        assert command.backend not in self.servers
        self.servers[command.backend] = Server(command.backend)

    def _end(self, command: Any) -> None:
        if command.backend in self.servers:
            self.servers[command.backend].is_doomed = True

    def _pause(self, command: Any) -> None:
        self.sessions[command.connection].is_paused = True

    def _resume(self, command: Any) -> None:
        if command.connection in self.sessions:
            self.sessions[command.connection].is_paused = False

    def _set_timer(self, command: Any) -> None:
        self.timers.add(command.name)

    def _cancel_timer(self, command: Any) -> None:
        self.timers.discard(command.name)

    def _return_unread(self, command: Any) -> None:
        assert self.is_losing
        self.sessions[command.connection].take_back(command.line)

    def _end_connection(self, command: Any) -> None:
        session = self.sessions[command.connection]
        assert not session.has_ended
        if not self.is_losing:
            assert session.end_was_read
            session.check_answered()
        session.end()

    _ACTS: ClassVar[dict[type, Callable[[Schedule, Any], None]]] = {
        commands.SendToHost: _send_to_host,
        commands.SendToServer: _send_to_server,
        commands.StartServer: _start_server,
        commands.EndServer: _end,
        commands.CloseInput: _end,
        commands.PauseHost: _pause,
        commands.ResumeHost: _resume,
        commands.SetTimer: _set_timer,
        commands.CancelTimer: _cancel_timer,
        commands.ReturnUnread: _return_unread,
        commands.EndConnection: _end_connection,
    }


def run_schedule(seed: int, steps: int = 150) -> Schedule:
    """Run one schedule; a failure shows its seed and its last events."""
    schedule = Schedule(seed)
    try:
        schedule.run(steps)
    except Exception as error:
        last = "\n".join(line[:400] for line in schedule.log[-60:])
        msg = f"seed {seed}: {type(error).__name__}: {error}\n{last}"
        raise AssertionError(msg) from error
    return schedule


def _show(command: object) -> str:
    values = {name: getattr(command, name, None) for name in getattr(command, "__slots__", ())}
    return f"{type(command).__name__} {json.dumps(values, default=repr)}"


def _make_settings() -> Settings:
    return Settings(
        server="srv",
        launch="L",
        carries="one session at a time",
        callers=Callers(),
        plan_for=lambda context, _place: (context, None),  # type: ignore[arg-type,return-value]
        is_inside=lambda _place, _roots: True,
        describe=lambda _served, _place: {},
        explain_end=lambda _code, when, _words: when,
        explain_early_end=lambda _code, _words: LaunchError("it has ended", fix="ask again"),
        restart="off",
        no_meta=True,
    )


def _make_served() -> Served:
    plan = Plan(["srv"], Found("/work/app", "the launches"), {})
    return Served(CONTEXT, bind_at_start(CONTEXT.identity), plan)

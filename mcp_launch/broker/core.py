"""Joins N clients with M servers: events in as method calls, commands out. No I/O, no clock.

A plain launcher is 1 x 1, isolated sessions are 1 x M, a pool is N x 1: nothing here asks which
it is. Both sides are peers, with what they have asked and what they owe; every request gets a
number of ours, which is its progress token, too. So ids never collide, and an answer, progress or a
cancellation finds its asker by one look-up, or nobody.

A request is one object from its arrival to its record. It waits (`server.waiting`), is owed
(`peer.owes`), or is over. What becomes of a server is a table (`life`), which server gets a request
is another (`routing`), and who hears a message is one function (`hearers`).

The runtime sets `now` before each event, carries out `out` after it, and calls `time_passed` at
`timers.next`.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker import client_requests, ending, greeting, hearers, place, stamp, succession
from mcp_launch.broker.client import MODERN, Client, Habit, Kind
from mcp_launch.broker.ending import Leaving, StandIn
from mcp_launch.broker.life import LIFE
from mcp_launch.broker.recall import Recall, is_greeting
from mcp_launch.broker.request import Request
from mcp_launch.broker.routing import NotAdmitted, Router
from mcp_launch.broker.server import Server
from mcp_launch.broker.timers import Timers
from mcp_launch.protocol import message as messages
from mcp_launch.protocol.lines import TOO_LONG, CutLine
from mcp_launch.protocol.memory import LISTS
from mcp_launch.protocol.message import (
    ANSWER,
    LONG_LINE,
    NOTIFICATION,
    OTHER,
    REQUEST,
    find_answered,
    find_key,
    read,
    splice,
)
from mcp_launch.values import (
    CANCELLED,
    DECISION,
    DIED,
    FAILURE,
    OK,
    PROTOCOL_ERROR,
    REFUSAL,
    REFUSED,
    TIMED_OUT,
    TOOL_ERROR,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker.commands import Command, Settings
    from mcp_launch.broker.flow import Flow
    from mcp_launch.broker.request import Then
    from mcp_launch.broker.routing import Served
    from mcp_launch.errors import LaunchError
    from mcp_launch.protocol.message import Edit, Message

# How many bytes and messages wait for a server before we stop reading from the client.
_WAITING_SIZE, _WAITING_COUNT = 1 << 20, 1000

# Requests by which a client does not use its server: they neither wake it nor keep it awake.
CHATTER = {*LISTS, "ping", "initialize", "server/discover", "logging/setLevel"}

# How the requests begin that concern a task, which only the server that made it knows.
TASKS = "tasks/"

_NOT_UNDERSTOOD = "not delivered: this line cannot be read as JSON"
_CAPITALISED = "not delivered: members of this message are capitalised wrongly"
_REPEATED = "not delivered: members of this message are repeated"
_BATCH = (
    "not delivered: this line is an array (a JSON-RPC batch), which MCP removed in 2025-06-18 "
    "— fix: send each message on a line of its own"
)
_BATCH_WAS_DROPPED = (
    "the server wrote several messages as one array (a JSON-RPC batch), which MCP removed in "
    "2025-06-18: the host gets none of them, and what they answer stays open"
)
_CANCEL = (
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0,"reason":%b}}\n'
)


def make_flow(settings: Settings) -> Flow | None:
    """Return what limits the flow of requests; most launches have no limit."""
    if not (settings.in_flight or settings.max_concurrent or settings.call_timeout):
        return None
    from mcp_launch.broker.flow import Flow

    return Flow(settings)


class Counts:
    """What is counted of a whole launch."""

    __slots__ = ("last_call", "noise", "numbers", "refusals")

    def __init__(self) -> None:
        self.numbers = 0  # of requests, in either direction
        self.refusals = 0
        self.noise = 0  # lines that were not messages
        self.last_call: float | None = None


class Core:
    """The clients, the servers, and what happens to them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.now = 0.0
        self.out: list[Command] = []
        self.clients: dict[str, Client] = {}
        self.servers: dict[str, Server] = {}
        self.kinds: dict[str, Kind] = {"": Kind("")}
        self.timers = Timers()
        self.counts = Counts()
        self.leaving = Leaving()
        self.router = Router(settings)
        self.recall = Recall(settings)
        self.stamp = None if settings.no_meta else stamp.Stamp(settings)
        self.flow = make_flow(settings)
        self.first_served: Served | None = None  # what the launch began with
        # Whether nothing stands between a call and its server but its caller.
        self._is_plain = (
            settings.tools is None and self.flow is None and settings.read_outer is None
        )
        self.finished: list[Request] = []  # calls, until the runtime takes them

    # Clients

    def client_joined(self, name: str, owner: str = "") -> None:
        """Add a client."""
        kind = self.kinds[""]
        client = self.clients[name] = Client(name, owner, kind, place.Roots())
        kind.clients.append(client)

    def client_said(self, name: str, line: bytes) -> None:
        """Handle a whole line from a client."""
        client = self.clients.get(name)
        if client is None:
            return  # it has left while its lines were read
        if line.__class__ is CutLine:
            self._refuse_cut_line(client, line)
            return
        frame = client.frame
        is_usual = frame is not None and len(line) <= LONG_LINE
        found = frame.match(line) if is_usual else None  # type: ignore[union-attr]
        if found is not None and self._pass_alike(client, *found):
            return
        message = read(line)
        if message.kind is ANSWER and (b'"method"' in line or b"\\u" in line):
            message = messages.parse(line)  # a server might read it as a request
        kind = message.kind
        if self.settings.tools is not None and self._is_doubtful(message):
            self._refuse_line(client, message, _REPEATED)
        elif kind is REQUEST:
            self._take_request(client, message)
        elif kind is ANSWER:
            self._take_answer(client, message)
        elif self.leaving.failure is not None and kind is not messages.BATCH:
            pass  # there is nobody to hear it
        elif kind is NOTIFICATION or kind is OTHER:
            self._take_notification(client, message)
        else:
            self._take_unreadable(client, message)

    def client_closed(self, name: str) -> None:
        """Note that a client sends nothing more; it may still wait for answers."""
        self.note("the host has closed our stdin")
        self.keep_memories()  # the host may kill us next
        succession.end_input(self, self.clients[name])

    def client_lost(self, name: str) -> None:
        """Note that a client can read nothing more."""
        succession.lose_reader(self, self.clients[name])

    def client_left(self, name: str) -> None:
        """Remove a client, and take back what servers do for it."""
        succession.remove_client(self, self.clients.pop(name))

    def client_is_behind(self, name: str, *, is_behind: bool) -> None:
        """Note that a client has not read what it was sent, or that it has by now."""
        client = self.clients.get(name)
        if client is not None:
            client.is_behind = is_behind
            self.release(client)

    def host_lost(self) -> None:
        """Note that the host has ended, even if another process still holds our stdin open."""
        self.note("the host has ended")
        self.leaving.host_is_lost = True
        self.leaving.enter("ending")
        for client in [*self.clients.values()]:
            succession.end_input(self, client)

    def signal_received(self, number: int) -> None:
        """Pass a signal on to the servers, and leave soon."""
        succession.pass_signal(self, number)

    def restart_requested(self) -> None:
        """Replace the servers that run, and try again to start one that could not be started."""
        for server in self.servers.values():
            succession.restart(self, server)

    # Servers

    def open_server(self, served: Served, kind: Kind | None = None) -> Server:
        """Add a place for a server."""
        kind = kind or self.kinds[""]
        self.first_served = self.first_served or served
        count = len(self.servers) + 1
        while (name := "server" if count == 1 else f"server-{count}") in self.servers:
            count += 1
        server = self.servers[name] = Server(name, kind, served)
        kind.servers.append(server)
        return server

    def server_started(self, name: str, pid: int = 0) -> None:
        """Note that a server runs."""
        server = self.servers[name]
        server.process.pid = pid
        self.happen(server, "started")

    def server_failed(self, name: str, error: LaunchError) -> None:
        """Note that a server could not be started."""
        self.happen(self.servers[name], "failed", error)

    def server_said(self, name: str, line: bytes) -> None:
        """Handle a whole line from a server's stdout."""
        server = self.servers[name]
        if self.leaving.failure is not None:
            return  # its clients have our own answers
        at, end = find_answered(line)
        request = server.owes.get(line[at:end]) if end else None
        if request is not None and request.method == "tools/call" and self.flow is None:
            self._take_result(server, request, line, at, end)
            return
        message = read(line)
        kind = message.kind
        if self.leaving.grace_until and not self.leaving.host_is_lost:
            succession.extend_grace(self)
        if kind is ANSWER:
            self._take_answer(server, message)
            if server.state == "draining" and not server.list_unfinished():
                self.happen(server, "drained")
        elif kind is REQUEST:
            self._take_question(server, message)
        elif kind in {NOTIFICATION, OTHER, messages.AMBIGUOUS}:
            self._take_notification(server, message)
        else:
            self._take_noise(server, message)

    def server_overflowed(self, name: str) -> None:
        """End a server that writes a line without an end."""
        server = self.servers[name]
        server.process.why_ended = f"was ended, because it wrote a line of more than {TOO_LONG}"
        self.note(f"the server {server.process.why_ended}", FAILURE)
        self.out.append(("end", name, "input ended"))

    def server_closed_output(self, name: str) -> None:
        """Note that a server has closed its stdout."""
        server = self.servers[name]
        if server.state != "starting" and server.kind.is_opened:
            self.timers.set("output", name, self.now + ending.DYING)

    def server_closed_input(self, name: str) -> None:
        """Note that a server has closed its stdin.

        If it is dying, the next server gets the rest. If not, the host notices as it would
        without us. A server that has not answered yet is an exception: the host then gets
        the reason.
        """
        server = self.servers[name]
        server.process.has_closed_input = True
        self.resume(server)
        if server.state != "starting" and server.kind.is_opened:
            self.timers.set("input", name, self.now + ending.DYING)

    def server_exited(self, name: str, code: int) -> None:
        """Note the exit code; processes that the server started may still run."""
        self.servers[name].process.exit_code = code

    def server_gone(self, name: str, unread: list[bytes], stderr_end: bytes) -> None:
        """Note that all processes of a server are gone; it has not read these lines."""
        server = self.servers[name]
        for kind in ("drain", "greeting", "input", "output", "rest", "deadline"):
            self.timers.cancel(kind, name)
        self.happen(server, "gone", succession.End(self, server, unread, stderr_end))

    def bytes_moved(self) -> None:
        """Note that a slow reader has read something."""
        if self.leaving.grace_until:
            succession.extend_grace(self)

    def time_passed(self) -> None:
        """Do what is due."""
        for kind, name in self.timers.take_due(self.now):
            _WHEN_DUE[kind](self, name)

    def happen(self, server: Server, event: str, *details: object) -> None:
        """Have something happen to a server: the only place that changes its state."""
        row = LIFE.get((server.state, event))
        if row is not None:
            before = server.state
            server.state, action = row
            _ACTIONS[action](self, server, *details)
            if before in {"absent", "ending"} or server.state in {"absent", "ready"}:
                self.write_lease()

    # Requests of clients

    def _take_request(self, client: Client, message: Message) -> None:
        counts, method = self.counts, message.method
        counts.numbers += 1
        request = Request(b"%d" % counts.numbers, client, message, self.now)
        client.asked[message.key] = request
        if self.leaving.failure is not None:
            succession.answer_in_place(self, request, self.leaving.failure)
            return
        tools = self.settings.tools
        if tools is not None and (verdict := tools.judge(message, self.settings.server)):
            self.refuse(request, verdict)
            return
        if not client.kind.name and method not in {"server/discover", "ping", "initialize"}:
            self.assign(client, MODERN)  # its first request, and it has not greeted
        if method != "tools/call":
            handle = client_requests.HANDLERS.get(method)
            if handle is not None and handle(self, client, request):
                return
        elif client.roots.state != "known" and place.hold_call(self, client, request):
            return
        request.caller = self.router.read_caller(method, message.meta)
        self.place(request)

    def _pass_alike(self, client: Client, message: Message, token_at: int, token_end: int) -> bool:
        """Send a call that looks like the last one; return whether its server may still have it.

        This is what `_take_request` comes to for nearly all calls.
        """
        habit, router = client.habit, self.router
        server, callers = habit.server, router.callers
        caller = habit.caller if callers.is_in_request else router.read_caller("tools/call", {})
        if (
            server.state != "ready"
            or not server.process.is_used
            or server.served is not habit.served
            or len(client.kind.servers) > 1
            or (caller is not None and caller != router.known)
            or router.root is not None
            or router.place is not habit.place
            or client.roots.state != "known"
        ):
            client.frame = None
            return False
        counts, now, line = self.counts, self.now, message.line
        counts.numbers += 1
        number = b"%d" % counts.numbers
        request = Request(number, client, message, now)
        request.caller, request.served, request.place = caller, habit.served, habit.place
        request.answerer, request.pid = server, server.process.pid
        client.asked[message.key] = request
        server.owes[number] = request
        history = server.history
        history.calls += 1
        history.last_active = counts.last_call = now
        id_at, meta_at = message.id_at, message.meta_span[0]  # type: ignore[index]  # a call's
        id_end = id_at + len(message.id)
        member = habit.member
        parts: tuple[bytes, ...]
        if token_end:
            request.token = line[token_at:token_end]
            if id_at < meta_at:
                parts = (line[:id_at], number, line[id_end:meta_at], member)
                parts += (line[meta_at:token_at], number, line[token_end:])
            else:
                parts = (line[:meta_at], member, line[meta_at:token_at], number)
                parts += (line[token_end:id_at], number, line[id_end:])
        elif id_at < meta_at:
            parts = (line[:id_at], number, line[id_end:meta_at], member, line[meta_at:])
        else:
            parts = (line[:meta_at], member, line[meta_at:id_at], number, line[id_end:])
        self.out.append(("send", server.name, b"".join(parts)))
        return True

    def _learn_frame(self, client: Client, server: Server, request: Request) -> None:
        """Note what a call looks like, to find others like it without parsing them."""
        client.misses += 1
        # If nothing ever matches, learn less and less often: after 1, 2, 4, 8 … misses.
        if client.misses & (client.misses - 1) or self.stamp is None:
            return
        names = self.router.callers.names
        if names is None:
            return
        from mcp_launch.protocol.frames import learn  # not before the first call

        client.frame = learn(request.message, (*names, stamp.KEY, "traceparent"))
        if client.frame is not None:
            member = self.stamp.find_member(request)
            client.habit = Habit(server, server.served, request.place, request.caller, member)
            if not member or stamp.KEY in request.message.meta:
                client.frame = None

    def place(self, request: Request) -> None:
        """Send a request to the server that may have it, answer it from memory, or have it wait."""
        client, router = request.asker, self.router
        servers = client.kind.servers  # type: ignore[union-attr]  # only clients' are placed
        if len(servers) == 1:
            server = servers[0]
            caller = request.caller
            is_known = caller is None or caller == router.known
            is_away = router.root is not None and (
                caller is not None or request.method == "tools/call"
            )
            if is_known and not is_away and server.state == "ready":
                self.give(server, request)
                return
        chosen = self._choose(client, request)  # type: ignore[arg-type]
        if chosen is not None:
            self.give(chosen, request)

    def _choose(self, client: Client, request: Request) -> Server | None:  # noqa: PLR0911  # one for each way out
        """Return the server that a request is for; None: it was refused, or waits for another."""
        servers, caller, method = client.kind.servers, request.caller, request.method
        if not servers:
            return self._open_for(client)
        if method.startswith(TASKS):
            having = client_requests.list_with_task(servers, request)
            if isinstance(having, NotAdmitted):
                self.refuse(request, having)
                return None
            servers = having
        server = servers[0] if method in CHATTER else self.router.pick(servers, caller)
        is_call = method == "tools/call"
        has_to_judge = caller is not None or (self.router.root is not None and is_call)
        if method == "initialize" or not has_to_judge:
            return server
        if server.state not in {"ready", "absent"}:
            return server  # it is placed again when that is ready
        may_open = self.settings.server_limit > 1 and client.is_ready
        verdict = self.router.judge(
            server, caller, may_open=may_open, is_sessions_own=not hearers.is_first(server)
        )
        if isinstance(verdict, NotAdmitted):
            self.refuse(request, verdict)
            return None
        action, served = verdict
        if action == "open":
            return server if method in CHATTER else self._open_beside(client, request)
        if action == "deliver":
            self._bind(server, served)
            return server
        return self._replace_for(server, request, served)

    def _replace_for(self, server: Server, request: Request, served: Served) -> Server | None:
        """Have a request wait for a fresh server with another environment or directory."""
        self._note_binding(server.served, served)
        succession.forget_other_session(self, server, served)
        if server.state == "absent":
            server.served = server.next_served = served
            return server
        self.note(f"a fresh server is needed for {served.bound}")
        server.next_served = served
        self.wait(server, request)
        self.happen(server, "unfit")
        return None

    def _open_for(self, client: Client) -> Server:
        """Return a new place for a server of a client whose kind has none."""
        return self.open_server(self.first_served, client.kind)  # type: ignore[arg-type]  # never the first

    def _open_beside(self, client: Client, request: Request) -> Server | None:
        """Return a place for the server of another session; None if there is no room for one."""
        servers = client.kind.servers
        free = [one for one in servers if one.state == "absent" and not one.waiting]
        free = [one for one in free if not one.subscriptions and not hearers.is_first(one)]
        if len(servers) < self.settings.server_limit:
            server = self.open_server(succession.forget_session(self, servers[0]), client.kind)
        elif free:
            server = free[0]
            server.served = succession.forget_session(self, servers[0])
        else:
            return self._make_room(client, request)
        server.history.calls_at_start = server.history.calls_of_others = server.history.calls
        server.stand_in = None
        verdict = self.router.judge(server, request.caller, may_open=False, is_sessions_own=True)
        if isinstance(verdict, NotAdmitted):
            self.refuse(request, verdict)
            return None
        if verdict[0] == "restart":
            server.next_served = verdict[1]
        self._bind(server, verdict[1])
        return server

    def _make_room(self, client: Client, request: Request) -> Server | None:
        """Have the server that has been idle longest give way to another session's."""
        limit, name = self.settings.server_limit, self.settings.server
        idle = [one for one in client.kind.servers if succession.is_free(self, one)]
        if not idle:
            problem = f"{name} already has {limit} servers for other sessions, and each is at work "
            problem += "or has a subscriber"
            fix = "call again later, or allow more servers with --max-servers"
            self.refuse(request, NotAdmitted(problem, fix, is_counted=False))
            return None
        server = min(idle, key=lambda one: one.history.last_active)
        verdict = self.router.judge(server, request.caller, may_open=False, is_sessions_own=True)
        if isinstance(verdict, NotAdmitted):
            self.refuse(request, verdict)
            return None
        why = f"of {server.served.bound} was ended, because --max-servers is {limit}"
        server.process.why_ended = why
        return self._replace_for(server, request, verdict[1])

    def _bind(self, server: Server, served: Served) -> None:
        """Note whom a server serves from now on."""
        if served is not server.served:
            has_changed = self._note_binding(server.served, served)
            server.served = served
            if has_changed:
                # Before the request: a launch below this server may read the lease at once.
                self.out.append(("lease", "", True))

    def _note_binding(self, before: Served, after: Served) -> bool:
        bound, claimed = before.bound, after.bound
        if (claimed.session, claimed.thread) != (bound.session, bound.thread):
            self.note(f"now serves {claimed}, according to {claimed.evidence}")
            # Codex may have all threads of a project speak over one connection.
            is_other = bound.state == "confirmed" and claimed.thread not in {None, bound.thread}
            if self.stamp is not None and self.settings.carries == "one thread":
                self.stamp.carries_many |= is_other
        facts = ((one.state, one.session, one.thread) for one in (bound, claimed))
        return next(facts) != next(facts)

    def give(self, server: Server, request: Request) -> None:
        """Send a request to a server if that is ready; else answer it from memory, or wait."""
        if server.state == "ready" and request.method != "initialize":
            if self.flow is None or not self._must_wait(server, request):
                self.deliver(server, request)
            return
        client: Client = request.asker  # type: ignore[assignment]
        answer = self.recall.answer(request, client, self.now)
        if answer:
            greeting.answer_from_memory(self, server, request, answer)
        elif request.is_stream and greeting.hold_stream(self, client, request):
            pass  # the next server gets it
        elif (
            server.stand_in is not None
            and server.state == "absent"
            and (self.now < server.stand_in.retry_at)
        ):
            succession.answer_in_place(self, request, server.stand_in)
        elif self.leaving.phase == "ending" and server.state == "absent":
            text = f"{self.settings.server} is not started any more; it did not read this"
            self.answer(request, text, "ask again in the next session", DIED, text)
        else:
            self.wait(server, request)
            is_ready = server.state == "ready"
            if is_ready and request.method == "initialize":
                self.happen(server, "hailed")
            elif server.state == "absent":
                self.note_need(server, request)
                self.happen(server, "needed")

    def note_need(self, server: Server, request: Request) -> None:
        """Log what a server is started for."""
        if server.history.starts or request.asker is not None:
            whom = server.to_serve.bound
            self.note(f"a server is started for {whom}: it is needed for {request.method}")

    def wait(self, server: Server, request: Request) -> None:
        """Have a request wait for a server."""
        request.answerer = server
        request.has_waited = request.has_waited or server.state != "ready"
        waiting = server.waiting
        waiting[request.number] = request
        sizes = sum(one.size for one in waiting.values())
        if len(waiting) > _WAITING_COUNT or sizes > _WAITING_SIZE:
            self.out.append(("pause", request.asker.name, True))  # type: ignore[union-attr]

    def resume(self, server: Server) -> None:
        """Read again from clients that had to stop because too much waited for a server."""
        for client in server.kind.clients:
            self.out.append(("pause", client.name, False))

    def _must_wait(self, server: Server, request: Request) -> bool:
        """Return whether a request has to wait until its server is less busy, or was refused."""
        client: Client = request.asker  # type: ignore[assignment]  # only clients' requests wait
        must_wait = self.flow.queue(server, request, client, self.now)  # type: ignore[union-attr]
        if isinstance(must_wait, NotAdmitted):
            self.refuse(request, must_wait)
            return True
        if must_wait and sum(one.size for one in client.queue) > _WAITING_SIZE:
            self.out.append(("pause", client.name, True))
        return must_wait

    def release(self, client: Client | None, server: Server | None = None) -> None:
        """Send what has waited until a server is less busy."""
        if self.flow is None:
            return
        servers = [server] if server is not None else client.kind.servers if client else []
        for one in servers:
            while one.state == "ready" and (free := self.flow.release(one, client, self.now)):
                for request in free:
                    self.place(request)
        if client is not None and not client.kind.servers and not client.is_behind:
            queue, client.queue = client.queue, []  # another kind has taken its server
            for request in queue:
                self.place(request)
        if client is not None and sum(one.size for one in client.queue) < _WAITING_SIZE // 2:
            self.out.append(("pause", client.name, False))

    def deliver(self, server: Server, request: Request) -> None:
        """Send a request to a server that is ready; a call gets its context."""
        message = request.message
        if message.method == "tools/call" and not request.sent:
            self._deliver_call(server, request)
            return
        if request.sent:
            # A long one that the last server has not read: it goes to this one as it was.
            line, request.sent, request.answerer = request.sent, b"", server
            server.owes[request.number] = request
            self._note_call(server, request)
            self.out.append(("send", server.name, line))
            return
        if request.is_stream:
            request.asker.streams[request.number] = request  # type: ignore[union-attr]
        elif client_requests.note_setting(server, request):
            self.reply(request, protocol.make_result(message.id, {}))
            return
        if request.method not in CHATTER:
            server.history.last_active = self.now
            # Claude Code opens its stream of list changes before it asks for the first list.
            if not (server.process.is_used or request.is_stream):
                self._note_first_use(server)
        self.send_request(server, request, [])

    def _deliver_call(self, server: Server, request: Request) -> None:
        """Send a call with its context."""
        request.served, request.place = server.served, self.router.place
        edits: list[Edit] = []
        arguments = self.settings.arguments
        if arguments is not None:
            reviewed = arguments.review(request)
            if isinstance(reviewed, NotAdmitted):
                self.refuse(request, reviewed)
                return
            edits = reviewed
        if self.stamp is not None:
            self.stamp.add(edits, request)
        self._note_call(server, request)
        if self._is_plain:
            self._learn_frame(request.asker, server, request)  # type: ignore[arg-type]
        self.send_request(server, request, edits)

    def _note_call(self, server: Server, request: Request) -> None:
        """Note that a server gets a call, which has to be answered in time."""
        history, process = server.history, server.process
        request.pid = process.pid
        history.calls += 1
        history.last_active = self.counts.last_call = self.now
        if not process.is_used:
            self._note_first_use(server)
        if self.flow is not None and (moment := self.flow.give_time(request, self.now)):
            self.timers.set_earlier("deadline", server.name, moment)

    def _note_first_use(self, server: Server) -> None:
        """Note that a server may have state to lose from now on."""
        server.process.is_used = True
        self.write_lease()

    def send_request(self, answerer: Client | Server, request: Request, edits: list[Edit]) -> None:
        """Send a request under our number."""
        message, number = request.message, request.number
        line, id_at = message.line, message.id_at
        edits.append((id_at, id_at + len(message.id), number))
        token = message.meta.get("progressToken")
        if token.__class__ is int or token.__class__ is str:
            start, end = message.find_token(token)
            request.token = line[start:end]
            edits.append((start, end, number))
        request.answerer = answerer
        answerer.owes[number] = request
        self.out.append(("send", answerer.name, splice(line, edits)))
        if request.size > LONG_LINE and request.method == "tools/call":
            message.shorten()  # others may have to be sent again

    def ask(self, peer: Client | Server, message: Message, then: Then) -> None:
        """Ask a server or a client something ourselves."""
        request = Request(self._number(), None, message, self.now)
        request.then = then
        self.send_request(peer, request, [])

    def _take_question(self, server: Server, message: Message) -> None:
        """Pass a server's request on to the one client that it can be for."""
        question = Request(self._number(), server, message, self.now)
        server.asked[message.key] = question
        if message.method == "ping":
            self.reply(question, protocol.make_result(message.id, {}))
            return
        if message.method == "roots/list" and self.settings.roots is not None:
            self.reply(question, protocol.make_result(message.id, self.settings.roots))
            return
        server.process.has_spoken_up |= message.method != "roots/list"
        person, why = hearers.find_person(server, message, self.now)
        if person is None:
            text = f"[mcp-launch] {why}"
            self.reply(question, protocol.make_error(message.id, protocol.NOT_SERVED, text))
            return
        if message.method == "roots/list" and person.roots.state == "due":
            person.roots.state = "asked"
            self.timers.cancel("roots", person.name)
        if (named := message.params.get("elicitationId")) is not None:
            server.process.elicited[find_key(named)] = person
        self.send_request(person, question, [])

    # The same in both directions

    def _take_answer(self, peer: Client | Server, message: Message) -> None:
        request = peer.owes.pop(message.id, None)
        if request is None:  # it may have written our number as a float
            request = peer.owes.pop(hearers.spell(message.parse().get("id")), None)
        if request is None:
            self._take_unexpected_answer(peer, message)
            return
        if request.then is not None:
            request.then(message)
            return
        asker = request.asker
        if request.is_stream:
            if peer.__class__ is Server and peer.state == "ending":
                return  # it goes on with the next server
            line = greeting.close_stream(request, message)
        elif peer.__class__ is Server:
            line = self._note_answer(peer, request, message)
        else:
            line = message.with_id(request.id)
            if request.method == "roots/list":
                place.note_roots(self, peer, message)  # type: ignore[arg-type]
        self.reply(request, line, message)
        if self.flow is not None and asker.__class__ is Client:
            self.release(asker, peer)  # type: ignore[arg-type]

    def _take_result(
        self, server: Server, request: Request, line: bytes, at: int, end: int
    ) -> None:
        """Pass on the answer to a call, in which our number is from `at` to `end`."""
        client: Client = request.asker  # type: ignore[assignment]
        del server.owes[request.number]
        self._judge_result(server, request, line)
        message = request.message
        line = b"".join((line[:at], message.id, line[end:]))
        if client.opened and not (client.has_left_input or self.leaving.grace_until):
            if client.asked.get(message.key) is request:
                del client.asked[message.key]
            self.out.append(("send", client.name, line))
        else:
            if self.leaving.grace_until and not self.leaving.host_is_lost:
                succession.extend_grace(self)
            self.reply(request, line)
        if server.state == "draining" and not server.list_unfinished():
            self.happen(server, "drained")

    def _judge_result(self, server: Server, request: Request, line: bytes) -> None:
        """Note how a call has ended, and the task that its result may tell of."""
        request.length = len(line)
        # Most results have none of these words. One that has may still be a success.
        if line.rfind(b'"taskId"') >= 0:
            hearers.note_task(server, request.asker.owner, messages.look(line))  # type: ignore[union-attr]
        if not request.outcome:
            request.outcome = OK if line.rfind(b'rror"') < 0 else judge_answer(line)
            request.ended = self.now
            if request.held_since is not None:
                request.end_hold(self.now)
            self.finished.append(request)

    def _note_answer(self, server: Server, request: Request, message: Message) -> bytes:
        """Note what a server's answer says; return the line for the client."""
        method = request.method
        client: Client = request.asker  # type: ignore[assignment]
        if method == "tools/call":
            self._judge_result(server, request, message.line)
        if method in LISTS or is_greeting(method):
            greeting.note_answer(self, server, request, message)
        if method.startswith(TASKS):
            hearers.note_task(server, client.owner, message.parse())
        line = message.with_id(request.id)
        if method == "tools/list" and self.settings.tools is not None:
            line = self.settings.tools.filter(line)
        if method in client_requests.SETTINGS and "error" in message.parse():
            client_requests.forget_setting(server, request)
        return line

    def _take_unexpected_answer(self, peer: Client | Server, message: Message) -> None:
        """Note an answer that nobody is waiting for."""
        if peer.__class__ is Server:
            hearers.note_task(peer, "", message.parse())
            succession.cancel_tasks(self, peer)
            peer.orphans.pop(message.id, None)
        self.note("an answer that nobody is waiting for was dropped")

    def _take_notification(self, peer: Client | Server, message: Message) -> None:
        method = message.method
        if method == hearers.CANCELLED:
            request = peer.asked.get(find_key(message.params.get("requestId")))
            if request is not None:
                self.withdraw(request, message)
        elif peer.__class__ is Server:
            self._pass_notification(peer, message)
        elif method == hearers.PROGRESS:
            number = find_key(message.params.get("progressToken"))
            question = peer.owes.get(b"%d" % number if number.__class__ is int else b"")
            if question is not None and question.token:
                line = message.put(question.token, "params", "progressToken")
                self.out.append(("send", question.asker.name, line))  # type: ignore[union-attr]
        else:
            self._take_clients_notification(peer, message)  # type: ignore[arg-type]

    def _take_clients_notification(self, client: Client, message: Message) -> None:
        method = message.method
        if method in {"notifications/initialized", "notifications/roots/list_changed"}:
            place.expect_roots(self, client)
        if method == "notifications/initialized":
            return  # each server gets ours, when it has answered the greeting
        if method == "tools/call":
            self.note("a call without an id was dropped: nobody could be told how it ends")
            return
        if method == "notifications/roots/list_changed" and self.settings.roots is not None:
            return  # all clients work in the directory that the server was told
        for server in client.kind.servers:
            if server.state in {"ready", "draining"}:
                self.out.append(("send", server.name, message.line))
            elif server.state in {"starting", "greeting"} and method not in _FOR_THE_PRESENT:
                self.wait(server, self.make_request(client, message))

    def _pass_notification(self, server: Server, message: Message) -> None:
        """Pass on what a server tells."""
        method, out = message.method, self.out
        asked = hearers.find_asked(server, message)
        if asked is not None:
            if asked.asker is None:
                return  # about a question of our own
            if method == hearers.PROGRESS and self.flow is not None:
                self.flow.give_time(asked, self.now)
            line = greeting.name_asker(asked, message)
            if line:
                out.append(("inform", asked.asker.name, line))
            return
        succession.note_sign(self, server, method)
        if method in hearers.CHANGES:
            # What it announces at its start, our own question for the list has seen.
            process = server.process
            process.has_changed_lists |= process.is_used and not process.comparison.is_going_on
        for client in hearers.list_hearers(server, message):
            if method:
                self.inform(client, message.line)
            else:
                out.append(("send", client.name, message.line))  # it may be an answer to somebody
        if method in hearers.CHANGES and not hearers.is_first(server):
            self.note(f"{method} of another session's server was dropped: its host keeps one list")

    def inform(self, client: Client, line: bytes) -> None:
        """Tell a client what it has not asked for; one that has closed its end may break at it."""
        if not client.has_left_input:
            self.out.append(("inform", client.name, line))

    def withdraw(self, request: Request, message: Message | None = None, why: str = "") -> None:
        """End a request that its asker does not wait for any more."""
        answerer, number = request.answerer, request.number
        self.close(request)
        if request.asker.__class__ is Client:
            request.reason = why
            self.finish(request, CANCELLED)
            request.asker.streams.pop(number, None)
            if request in request.asker.roots.waiting:
                request.asker.roots.waiting.remove(request)
        if answerer is None:
            return
        if answerer.owes.pop(number, None) is None:
            if answerer.__class__ is Server:
                answerer.waiting.pop(number, None)
                if self.flow is not None:
                    self.flow.drop(answerer, request)
            return
        if message is None:
            text = why or "the session has ended"
            message = read(_CANCEL % protocol.encode(text).rstrip())
        line = message.put(number, "params", "requestId")
        if answerer.__class__ is Client:
            self.inform(answerer, line)
        else:
            self.out.append(("send", answerer.name, line))
            hearers.note_orphan(answerer, request, self.now)  # type: ignore[arg-type]
            if not answerer.list_unfinished():  # type: ignore[union-attr]
                self.happen(answerer, "drained")  # type: ignore[arg-type]
            self.release(request.asker, answerer)  # type: ignore[arg-type]

    # What no server answers

    def refuse(self, request: Request, verdict: NotAdmitted) -> None:
        """Answer a request that no server may get."""
        if verdict.is_counted:
            self.counts.refusals += 1
            self.note(f"refused: {verdict.problem}", REFUSAL)
        self.write_lease()
        request.reason = verdict.recorded
        self._answer(request, verdict.reason, REFUSED)

    def answer(self, request: Request, problem: str, fix: str, outcome: str, reason: str) -> None:
        """Answer a request ourselves, with what is wrong and what helps."""
        request.reason = reason
        self._answer(request, f"{problem} — fix: {fix}", outcome)

    def _answer(self, request: Request, text: str, outcome: str) -> None:
        if not request.id:
            return  # a notification has no answer
        is_modern = protocol.PROTOCOL_VERSION in request.message.meta
        line = protocol.make_refusal(
            request.id, request.method, f"[mcp-launch] {text}", is_modern=is_modern
        )
        self.end_request(request, line, outcome)

    def end_request(self, request: Request, line: bytes, outcome: str) -> None:
        """Give a client our own answer to a request."""
        request.length = len(line)
        self.finish(request, outcome)
        self.reply(request, line)

    def reply(self, request: Request, line: bytes, message: Message | None = None) -> None:
        """Send the answer to a request, once."""
        self.close(request)
        asker = request.asker
        if asker is None or not line:
            return
        self.out.append(("send", asker.name, line))
        if asker.__class__ is Client:
            if not asker.opened:
                greeting.note_opening(self, asker, request, message or read(line))
            if asker.has_left_input:
                succession.end_if_finished(self, asker)

    def close(self, request: Request) -> None:
        """Forget a request of a peer: it is over."""
        asked = request.asker.asked if request.asker is not None else {}
        if asked.get(request.message.key) is request:
            del asked[request.message.key]

    def finish(self, request: Request, outcome: str) -> None:
        """Note how a call has ended, for its record."""
        if request.method != "tools/call" or request.outcome:
            return
        request.outcome = outcome
        request.ended = self.now
        if request.held_since is not None:
            request.end_hold(self.now)
        self.finished.append(request)

    def finish_calls(self, reason: str) -> None:
        """Note that nobody will read the answers to the calls that are still open."""
        for client in self.clients.values():
            for request in [*client.asked.values()]:
                request.reason = reason
                self.finish(request, CANCELLED)

    def _refuse_cut_line(self, client: Client, line: bytes) -> None:
        """Refuse a line that was too long to be kept."""
        problem = f"not delivered: this message is longer than {TOO_LONG}"
        fix = "send it in parts, or pass the path of a file"
        shown = messages.read_ends(line)
        if shown.kind is REQUEST:
            request = self.make_request(client, shown)
            self.refuse(request, NotAdmitted(problem, fix, is_counted=True))
            return
        self.note(f"refused: {problem}", REFUSAL)
        text = f"[mcp-launch] {problem} — fix: {fix}"
        error = protocol.make_error(shown.id, protocol.INVALID_REQUEST, text)
        self.out.append(("send", client.name, error))

    def _take_unreadable(self, client: Client, message: Message) -> None:
        """Refuse what others may read as something else; pass on what is no message at all."""
        if message.kind == messages.BATCH:
            self.note(f"refused: {_BATCH}", REFUSAL)
            self._refuse_line(client, message, _BATCH)
        elif message.kind == messages.AMBIGUOUS:
            self._refuse_line(client, message, _CAPITALISED)
        elif messages.may_hide_a_message(message.line):
            self._refuse_line(client, message, _NOT_UNDERSTOOD, protocol.PARSE_ERROR)
        else:
            self._take_clients_notification(client, message)

    def _is_doubtful(self, message: Message) -> bool:
        """Return whether a policy does not know how servers read a message.

        A call is refused in a way that the model can read.
        """
        tools = self.settings.tools
        is_judged = message.kind is ANSWER or message.method == "tools/call"
        return tools is not None and not is_judged and tools.is_doubtful(message.line)

    def _refuse_line(
        self, client: Client, message: Message, text: str, code: int = protocol.INVALID_REQUEST
    ) -> None:
        error = protocol.make_error(message.id, code, f"[mcp-launch] {text}")
        self.out.append(("send", client.name, error))

    def _take_noise(self, server: Server, message: Message) -> None:
        """Keep from clients what is no message; a prompt before one on its line is cut off."""
        line = message.line
        start = line.find(b'{"jsonrpc"')
        if start > 0 and messages.parse(line[start:]).kind not in {messages.NOISE, messages.BATCH}:
            self.counts.noise += 1
            self.out.append(("noise", server.name, line[:start] + b"\n"))
            self.server_said(server.name, line[start:])
            return
        if line.startswith(b'{"') and line.endswith(b"}\n") and b'"jsonrpc"' in line:
            # Meant as a message: its client waits for it, even if it is broken.
            self._pass_notification(server, message)
            return
        self.counts.noise += 1
        self.out.append(("noise", server.name, line))
        if message.kind == messages.BATCH and b'"jsonrpc"' in line:
            self.note(_BATCH_WAS_DROPPED)
        self.write_lease()

    # Kinds of clients

    def assign(self, client: Client, name: str) -> Kind:
        """Have a client use the servers for its kind; a kind without takes over free ones.

        Where clients stay for others, a server that was greeted for one kind is never another's.
        """
        kind = self.kinds.setdefault(name, Kind(name))
        last = client.kind
        if kind is last:
            return kind
        last.clients.remove(client)
        kind.clients.append(client)
        client.kind = kind
        if not kind.servers:
            free = (one for one in self.kinds.values() if one.servers and one is not kind)
            is_open = self.settings.returns_unread
            owner = next((one for one in free if not (one.name and (one.clients or is_open))), None)
            if owner is not None:
                kind.servers, owner.servers = owner.servers, []
                for server in kind.servers:
                    server.kind = kind
                    if kind.greeting is not None:
                        self.happen(server, "hailed")
        succession.end_unused(self)
        return kind

    # Calls that take too long

    def _end_overdue_calls(self, name: str) -> None:
        """Answer the calls whose time is over in their server's place."""
        server, flow = self.servers[name], self.flow
        if flow is None:
            return
        for request in [one for one in server.owes.values() if one.deadline]:
            if request.deadline > self.now:
                self.timers.set_earlier("deadline", name, request.deadline)
                continue
            del server.owes[request.number]  # a late answer is nobody's
            cancelled = read(_CANCEL % protocol.encode(f"{flow.reason} (call_timeout)").rstrip())
            self.out.append(("send", name, cancelled.put(request.number, "params", "requestId")))
            self.note(f"a call was ended: {flow.reason}")
            hearers.note_orphan(server, request, self.now)
            self.answer(request, *flow.explain(), TIMED_OUT, flow.reason)
            self.release(request.asker, server)  # type: ignore[arg-type]
        if not server.list_unfinished():
            self.happen(server, "drained")

    # Small things

    def note(self, text: str, kind: str = DECISION) -> None:
        """Log a decision, or an event."""
        self.out.append(("note", kind, text))

    def write_lease(self) -> None:
        """Have the lease written soon."""
        self.out.append(("lease", "", False))

    def keep_memories(self) -> None:
        """Have what was learned written to disk."""
        self.timers.cancel("keep", "")
        for memory in self.recall.take_changed():
            self.out.append(("keep", "", memory))

    def make_stand_in(self, error: LaunchError, shown: ending.Shown, failures: int = 1) -> StandIn:
        """Return what answers in place of a server."""
        return StandIn(self.settings.server, error, shown, failures, self.now)

    def make_request(self, client: Client, message: Message) -> Request:
        """Return a request of a client, or a notification that waits like one."""
        return Request(self._number(), client, message, self.now)

    def _number(self) -> bytes:
        self.counts.numbers += 1
        return b"%d" % self.counts.numbers


# Notifications that mean nothing to a server which is started later.
_FOR_THE_PRESENT = {"notifications/roots/list_changed", hearers.PROGRESS}


def judge_answer(line: bytes) -> str:
    """Return the outcome of a call by its server's answer."""
    said = messages.look(line)
    if protocol.get_member(said, "error") is not None:
        return PROTOCOL_ERROR
    return TOOL_ERROR if protocol.get_member(said, "result", "isError") is True else OK


# What is done in each row of `life.LIFE`.
_ACTIONS: dict[str, Callable[..., None]] = {
    "start": succession.start,
    "greet": greeting.greet,
    "restore": greeting.restore,
    "flush": greeting.flush,
    "fail": succession.fail_to_start,
    "give_up": succession.give_up,
    "drain": succession.drain,
    "rest": succession.rest,
    "replace": succession.replace,
    "bury": succession.bury,
}

# What is done when a time is over, by the kind of its timer.
_WHEN_DUE: dict[str, Callable[[Core, str], None]] = {
    "roots": place.handle_timer,
    "deadline": Core._end_overdue_calls,  # noqa: SLF001  # one of its own
    "keep": lambda core, _: core.keep_memories(),
    "greeting": succession.give_up_greeting,
    "drain": succession.end_drain,
    "rest": succession.consider_rest,
    "input": succession.give_up_input,
    "output": succession.give_up_output,
    "grace": succession.end_grace,
    "leave": lambda core, _: succession.finish(core),
}

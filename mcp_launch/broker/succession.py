"""How a server starts, rests and ends, what follows it, and how a launch ends with its last.

These are the actions of the table in `life`, and what clients' ends do to servers. What a server
leaves is decided in one place, `bury`: what it has not read waits again, the rest is answered, and
nothing is done twice.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker import client_requests, ending, hearers, place
from mcp_launch.broker.client import MODERN
from mcp_launch.broker.routing import bind_at_start, isolates
from mcp_launch.broker.server import ENDED, FAILED, RESTING, Process
from mcp_launch.errors import LaunchError, ServerFailed
from mcp_launch.protocol.memory import ANNOUNCED_BY, name_client
from mcp_launch.protocol.message import NOTIFICATION, REQUEST, read, splice
from mcp_launch.values import DECISION, DIED, FAILURE, REST, RESTART

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.client import Client
    from mcp_launch.broker.core import Core
    from mcp_launch.broker.ending import StandIn
    from mcp_launch.broker.request import Request
    from mcp_launch.broker.routing import Served
    from mcp_launch.broker.server import Server
    from mcp_launch.protocol.json_text import Object

# How long a server that will be replaced may take to finish its requests.
DRAIN_LIMIT = 10.0

# A server that dies more often than this within the span is not started again for a while.
DEATHS_LIMIT = 3
_DEATHS_SPAN = 60.0

# How long after its start a server may send notifications that are no sign of state: some
# announce their lists once they have loaded them.
BOOT_TIME = 1.0

# How long a server that was started only to compare its lists stays if nobody calls it.
_CHECKED_FOR = 10.0

# What keeps a server awake for a moment, and is not worth a line in the log.
_BUSY = "a request is open"

# What to do about a server that is not started again, and about a request that one has read.
_RECONNECT = "reconnect the server in its host, because it is not started again"
_CHECK = "check before you repeat it"

_REPLACED = "was replaced, because its session has changed"
_RESTARTED = "was replaced, because a restart was requested"

# How many characters of a server's own reason are kept.
_REASON_LIMIT = 2000

# The exit code of a server that was killed is larger than this.
_KILLED = 128

# Streams of these keep no server awake: a new server gets them again, and its lists are compared.
_LIST_CHANGES = {f"{what}ListChanged" for what in ANNOUNCED_BY.values()}


class End:
    """How a server has ended, and what it has left."""

    __slots__ = ("code", "is_planned", "stderr_end", "unread", "what")

    def __init__(self, core: Core, server: Server, unread: list[bytes], stderr_end: bytes) -> None:
        self.code = server.process.exit_code or 0
        self.is_planned = server.state in {"draining", "ending"}
        self.unread = unread
        self.stderr_end = stderr_end
        self.what = _explain_end(core, server, self)


def _explain_end(core: Core, server: Server, end: End) -> str:
    if server.process.why_ended:
        return server.process.why_ended
    if end.is_planned:
        return _explain_replacement(server)
    explain = core.settings.explain_end
    if has_no_more_input(core, server) and not end.code:
        return explain(end.code, "after the end of its input", b"")
    is_opened = server.kind.is_opened
    is_idle = is_opened and not server.list_unfinished()
    when = "while it was idle" if is_idle else "while it was at work"
    return explain(end.code, when, end.stderr_end)


def _explain_replacement(server: Server) -> str:
    return _REPLACED if server.restart_from is None else _RESTARTED


# The start


def start(core: Core, server: Server) -> None:
    """Have a server started for whoever waits for it."""
    history = server.history
    history.starts += 1
    history.wakes += server.why_absent == RESTING
    history.calls_at_start = history.calls
    has_died, server.why_absent = server.why_absent == ENDED, ""
    server.process = Process()
    core.router.known = None  # the next call must be checked
    for request in server.waiting.values():
        request.has_waited = True
    try:
        served = server.next_served or core.router.plan_again(server.served)
    except LaunchError as error:
        if not has_died:
            core.happen(server, "failed", error)
            return
        served = server.served
        core.note(f"started as the last one was: {error.problem}", FAILURE)
    server.served, server.next_served = served, None
    core.out.append(("start", server.name, served.plan))
    core.write_lease()


def begin(server: Server) -> None:
    """Note that the first server is being started already."""
    server.state, server.why_absent = "starting", ""
    server.history.starts += 1


def give_up_greeting(core: Core, name: str) -> None:
    """Give up a server that does not answer the greeting."""
    server = core.servers[name]
    limit = 120.0 if server.waiting else 30.0
    server.process.why_ended = f"had not answered the handshake for {limit:g} s"
    core.happen(server, "failed")


def give_up(core: Core, server: Server, *_: object) -> None:
    """End a server that did not complete the handshake."""
    server.why_absent = FAILED
    core.out.append(("end", server.name, "input ended"))


def fail_to_start(core: Core, server: Server, cause: LaunchError | End) -> None:
    """Answer what waits for a server that could not be started; a later call tries again."""
    if isinstance(cause, End):
        was_read = not _take_back(core, server, cause)
        error = _explain_early_end(core, server, cause)
        _withdraw_questions(core, server)
        what, code = cause.what, cause.code
    else:
        was_read, error, code = True, cause, 0
        what = f"could not be started ({cause.problem})"
    core.router.known = None
    if core.settings.returns_unread:
        part(core, server, code, was_read=was_read)
    elif core.leaving.failure is not None or not core.leaving.is_serving:
        finish_if_absent(core)
    elif _fall_back(core, server, what):
        pass  # another is started where the host runs
    elif _is_anothers_fault(core, server, code, was_read=was_read) and _count_death(core, server):
        core.note(f"the server {what}: another one is started", RESTART)
        core.happen(server, "needed")
    elif server.kind.is_opened:
        _stay_absent(core, server, error)
    elif isinstance(cause, End):
        _end_unopened(core, server, cause)
    else:
        fail(core, error)


def _is_anothers_fault(core: Core, server: Server, code: int, *, was_read: bool) -> bool:
    """Return whether a server could not be started because of what others have done."""
    is_killed = code > _KILLED and server.kind.is_opened and not server.process.why_ended
    return is_killed or (core.settings.is_shared and not was_read)


def _has_left_quietly(core: Core, server: Server, end: End) -> bool:
    """Return whether a server has ended as its client may expect: its input had ended before."""
    is_missed = bool(end.code) and bool(server.waiting)
    return has_no_more_input(core, server) and not is_missed


def _stay_absent(core: Core, server: Server, error: LaunchError) -> None:
    """Go on without a server; a later call tries to start one."""
    failures = server.stand_in.failures + 1 if server.stand_in is not None else 1
    server.stand_in = core.make_stand_in(error, "later", failures)
    server.why_absent = FAILED
    server.next_served = None
    server.process.exit_code = None  # it is not our own: we go on
    core.note(f"the server could not be started: {error.problem}", FAILURE)
    for client in core.recall.forget():
        core.out.append(("forget", "", client))
    _refuse_owed(core, server, "could not be started")
    waiting, server.waiting = server.waiting, {}
    for request in waiting.values():
        answer_in_place(core, request, server.stand_in)
    end_restart(core, server)
    core.resume(server)
    finish_if_absent(core)


def _explain_early_end(core: Core, server: Server, end: End) -> LaunchError:
    error = core.settings.explain_early_end(end.code, end.stderr_end)
    why = server.process.why_ended
    if why:
        what = core.settings.explain_end(end.code, f"after it {why}", end.stderr_end)
        return ServerFailed(f"{core.settings.server} {what}", fix=error.fix, exit_code=end.code)
    return error


def _fall_back(core: Core, server: Server, what: str) -> bool:
    """Start a server in its host's directory, if it cannot work in its session's."""
    if core.router.moving is not server or server.next_served is not None:
        return False
    where = server.served.context.place.value
    served = core.router.plan_in_hosts_directory(server.served)
    if served is None:
        return False
    core.note(f"the server {what} in {where}: another starts where its host runs")
    server.next_served = served
    core.happen(server, "needed")
    return True


# The end of a server


def drain(core: Core, server: Server, *_: object) -> None:
    """Let a server finish its requests before another takes its place."""
    if server.list_unfinished():
        core.timers.set("drain", server.name, core.now + DRAIN_LIMIT)
    else:
        core.happen(server, "drained")


def end_drain(core: Core, name: str) -> None:
    """Answer what a server has not finished in its time."""
    server = core.servers[name]
    _refuse_owed(core, server, server.process.why_ended or _explain_replacement(server))
    core.happen(server, "drained")


def replace(core: Core, server: Server, *_: object) -> None:
    """End a server: another one takes its place."""
    core.timers.cancel("drain", server.name)
    server.process.has_closed_input = True
    reason = "replaced" if server.restart_from is None else "restarted"
    # In this order: a pool lets a session go at the end of its input.
    core.out += [("end", server.name, reason), ("close", server.name, None)]


def rest(core: Core, server: Server, *_: object) -> None:
    """End a server that nobody needs now."""
    core.note("the server is ended: nobody calls it; the next call starts it again", REST)
    server.why_absent = RESTING
    server.process.why_ended = "rests"
    server.process.has_closed_input = True
    core.out += [("close", server.name, None), ("end", server.name, "rest")]


def bury(core: Core, server: Server, end: End) -> None:  # noqa: C901  # one branch for each way to end
    """Decide what becomes of everything that a server has left."""
    if _has_failed_to_start(core, server, end):
        fail_to_start(core, server, end)
        return
    _take_back(core, server, end)
    _withdraw_questions(core, server)
    core.router.known = None if len(server.kind.servers) > 1 else core.router.known
    leaving, settings = core.leaving, core.settings
    is_planned = end.is_planned and server.why_absent != RESTING
    if leaving.phase in {"failed", "finished"}:
        if not leaving.is_shown_as_tool:
            finish(core)
    elif settings.returns_unread:
        part(core, server, end.code)
    elif leaving.phase == "serving" and _fall_back(core, server, end.what):
        pass  # another server is started
    elif _is_over(core, server):
        _answer_for_the_last_time(core, server, end)
    elif not server.kind.is_opened and not end.is_planned:
        _end_unopened(core, server, end)
    elif not any(client.is_ready for client in server.kind.clients) and not end.is_planned:
        finish(core)  # it has refused its client, and left
    elif not settings.restarts and not end.is_planned:
        core.note(f"the server {end.what}", FAILURE)
        _answer_everything(core, [*core.servers.values()], end.what)
        finish(core)
    elif server.why_absent == RESTING:
        server.process.exit_code = None
        _refuse_owed(core, server, "rests")
        core.write_lease()
        _go_on(core, server, is_needed=bool(server.waiting))
    else:
        _follow(core, server, end, is_planned=is_planned)


def _has_failed_to_start(core: Core, server: Server, end: End) -> bool:
    """Return whether a server has ended before it was of any use.

    One of the 2026 era is not greeted: what shows that it works is its first list.
    """
    is_silent = server.kind.name == MODERN and server.process.comparison.is_going_on
    is_own = not (core.settings.is_shared or core.settings.returns_unread)
    is_unexpected = not (end.is_planned or has_no_more_input(core, server))
    return server.why_absent == FAILED or (is_silent and is_own and is_unexpected)


def _follow(core: Core, server: Server, end: End, *, is_planned: bool) -> None:
    """Start the next server, or wait until it is needed."""
    is_bystander = core.settings.is_shared and not (
        server.owes or server.subscriptions or server.waiting
    )
    kind = RESTART if server.next_served else DECISION if server.restart_from else FAILURE
    core.note(f"the server {end.what}", kind)
    is_first_death = is_planned or is_bystander or _count_death(core, server)
    _refuse_owed(core, server, end.what)
    server.process.exit_code = None  # it is not our own: we go on
    if not is_first_death:
        times = f"{len(server.history.deaths)} times within a minute"
        name = core.settings.server
        core.out.append(("tell", "", f"{name} died {times}: it is started again by a later call"))
        problem = f"{name} {end.what}; it has died {times}"
        fix = f"see why it dies: mcp-launch logs {name}"
        _stay_absent(core, server, ServerFailed(problem, fix=fix, exit_code=end.code))
        return
    server.why_absent = ENDED
    may_be_absent = core.settings.starts_when_called or bool(core.settings.rests_after)
    may_be_absent = may_be_absent or is_bystander or not hearers.is_first(server)
    is_needed = bool(server.waiting) or bool(server.next_served) or server.restart_from is not None
    is_needed = is_needed or bool(server.subscriptions) or not (may_be_absent or is_planned)
    if not is_needed:
        core.note("no other server is started before it is needed", REST)
    _go_on(core, server, is_needed=is_needed)


def _go_on(core: Core, server: Server, *, is_needed: bool) -> None:
    if is_needed:
        core.happen(server, "needed")
    else:
        core.resume(server)
        finish_if_absent(core)


def _end_unopened(core: Core, server: Server, end: End) -> None:
    """Handle the death of a server that has answered nothing yet."""
    probes = [one for one in server.owes.values() if one.method == "server/discover"]
    others = [one for one in server.list_unfinished() if one not in probes]
    if probes and not others and core.settings.restarts and _count_death(core, server):
        # It has died of a request that older servers do not know. The host says `initialize` next.
        core.note(f"the server {end.what}: another one gets `initialize`", RESTART)
        for request in probes:
            del server.owes[request.number]
            error = protocol.make_error(request.id, protocol.METHOD_NOT_FOUND, "Method not found")
            core.reply(request, error)
        core.happen(server, "needed")
    elif _has_left_quietly(core, server, end):
        finish(core)
    else:
        fail(core, core.settings.explain_early_end(end.code, end.stderr_end))


def _count_death(core: Core, server: Server) -> bool:
    """Count a death; return whether another server may be started at once."""
    deaths = [one for one in server.history.deaths if core.now - one < _DEATHS_SPAN]
    server.history.deaths = [*deaths, core.now]
    return core.settings.restarts and len(server.history.deaths) <= DEATHS_LIMIT


def _take_back(core: Core, server: Server, end: End) -> bool:
    """Have wait again what a server has not read; return whether that was the greeting, too."""
    unread: dict[bytes, Request] = {}
    has_greeting = False
    for line in end.unread:
        message = read(line)
        # An answer of ours has the server's id, which may be the same as one of our numbers.
        request = server.owes.pop(message.id, None) if message.kind is REQUEST else None
        if request is None:
            is_kept = message.kind is NOTIFICATION and message.method not in _FOR_LAST_SERVER
            if is_kept and server.kind.clients:
                kept = core.make_request(server.kind.clients[0], message)
                unread[kept.number] = kept
        elif request.then is not None:
            has_greeting |= request.method == "initialize"
        elif not request.is_stream:
            request.sent = line if not request.message.line or request.size > _LONG else b""
            unread[request.number] = request
    for sessions in server.held.values():
        unread |= {one.number: one for one in sessions}
    server.held = {}
    for client in core.clients.values():
        queued = {one.number: one for one in client.queue if one.answerer is server}
        client.queue = [one for one in client.queue if one.number not in queued]
        unread |= queued
    server.waiting = unread | server.waiting
    server.owes = {
        number: one for number, one in server.owes.items() if one.then is None and not one.is_stream
    }
    return has_greeting


# Notifications that the next server must not get: they concern a request of the last one, or
# are repeated anyway.
_FOR_LAST_SERVER = {"notifications/initialized", hearers.CANCELLED, hearers.PROGRESS}

# Of a longer request only the beginning is kept, so the line goes to the next server as it is.
_LONG = 1 << 16


def _withdraw_questions(core: Core, server: Server) -> None:
    for question in [*server.asked.values()]:
        core.withdraw(question, why="the server that asked is gone")


def _refuse_owed(core: Core, server: Server, what: str, fix: str = _CHECK) -> None:
    """Answer what a server has read but not answered: nobody knows how far it got."""
    owed, server.owes = server.list_unfinished(), {}
    name = core.settings.server
    for request in owed:
        core.leaving.unanswered.add(request.method)
        problem = f"{name} {what}; {request.method} was not answered, but it may have taken effect"
        core.answer(request, problem, fix, DIED, f"{name} {what}")


def _answer_everything(core: Core, servers: list[Server], what: str) -> None:
    """Answer all open and waiting requests: there will be no other server."""
    for server in servers:
        _refuse_owed(core, server, what, f"{_RECONNECT}, and {_CHECK}")
        server.waiting, server.held = {}, {}
    name = core.settings.server
    asked = [one for client in core.clients.values() for one in client.asked.values()]
    for client in core.clients.values():
        client.roots.waiting = []
    for request in asked:
        if request.is_stream or request.answerer not in {None, *servers}:
            continue
        core.leaving.unanswered.add(request.method)
        problem = f"{name} {what}; it did not read this"
        core.answer(request, problem, f"{_RECONNECT}; then ask again", DIED, f"{name} {what}")


def part(core: Core, server: Server, code: int, *, was_read: bool = True) -> None:
    """End the connections to the clients of a server, with what it has not read.

    Each of them decides what follows. The one whose greeting has killed the server does not get it
    back, unless the server was killed by somebody else.
    """
    for request in server.owes.values():
        if request.method == "server/discover":
            refused = protocol.make_error(b"0", protocol.METHOD_NOT_FOUND, "Method not found")
            name = name_client(request.message.parse())
            core.recall.discoveries.setdefault(name, read(refused))  # it may have died of it
    server.kind.servers.remove(server)
    del core.servers[server.name]
    # One may have asked this server before it was another kind's, or before it was of this kind.
    askers = [one.asker for one in (*server.waiting.values(), *server.owes.values())]
    clients: list[Client] = server.kind.clients.copy() if not server.kind.servers else []
    clients += [
        one for one in core.clients.values() if one in askers and one.kind is not server.kind
    ]
    unsent = (one for client in clients for one in client.asked.values() if not _was_sent(one))
    waiting = server.waiting | {one.number: one for one in unsent}
    greeter = next((one for one in waiting.values() if one.method == "initialize"), None)
    for request in sorted(waiting.values(), key=lambda one: int(one.number)):
        is_guilty = request is greeter and was_read and code <= _KILLED
        client: Client = request.asker  # type: ignore[assignment]
        if not is_guilty and client in clients:
            core.out.append(("return", client.name, _write_as_asked(request)))
    server.owes, server.waiting = {}, {}
    why = server.process.why_ended
    for client in clients:
        if why and server.why_absent == "":
            core.out.append(("tell", client.name, f"the shared server {why}"))
        core.client_left(client.name)
        core.out.append(("leave", client.name, code))
    server.kind.answer = None


def _write_as_asked(request: Request) -> bytes:
    """Return the line of a request that no server has read, as its client wrote it."""
    client: Client = request.asker  # type: ignore[assignment]  # servers' are not returned
    level = client.level if request.method == "logging/setLevel" else None
    if level is not None and level.key == request.message.key:
        return level.line  # the server would have got the lowest level of all
    if not request.sent:
        return request.message.line
    sent = read(request.sent)
    edits = [sent.edit(request.id, "id")]
    if request.token:
        edits.append(sent.edit(request.token, "params", "_meta", "progressToken"))
    return splice(request.sent, edits)


# Rest


def note_sign(core: Core, server: Server, method: str) -> None:
    """Note a notification that is a sign of state: no request has led to it."""
    process = server.process
    # A list that changes after a call is state: a new server starts with the old one.
    is_list = method.endswith("/list_changed")
    if process.is_used and (is_list or method == "notifications/resources/updated"):
        process.has_spoken_up = True
    is_booting = core.now < process.ready_since + BOOT_TIME
    if not process.is_used or is_booting or (server.list_unfinished() and not is_list):
        return
    process.unasked = method


def expect_rest(core: Core, server: Server) -> None:
    """Look after some time whether a server may rest."""
    if server.state != "ready":
        return
    if core.settings.rests_after:
        server.history.last_active = core.now
        core.timers.set("rest", server.name, core.now + core.settings.rests_after)
    elif server.process.is_checked_only:
        core.timers.set("rest", server.name, core.now + _CHECKED_FOR)


def consider_rest(core: Core, name: str) -> None:
    """End a server that was not called for long enough, unless something keeps it awake."""
    server = core.servers[name]
    after = core.settings.rests_after
    if not after and server.process.is_used:
        return  # it was started only to compare its lists, and is needed now
    span = after or _CHECKED_FOR
    wait = server.history.last_active + span - core.now if after else 0.0
    if wait <= 0:
        wait = span
        reason = _find_reason_to_stay(core, server)
        if not reason:
            core.happen(server, "idle")
            return
        if reason not in {_BUSY, server.process.why_awake}:
            server.process.why_awake = reason
            core.note(f"the server does not rest: {reason}")
    core.timers.set("rest", name, core.now + wait)


def _find_reason_to_stay(core: Core, server: Server) -> str:
    """Return why a server must not be ended; empty if it may."""
    reason = _find_open(core, server)
    if reason or not server.process.is_used or core.settings.rest_anyway:
        return reason
    if server.process.unasked:
        return f"it has sent {server.process.unasked} unasked, so it may keep state"
    sign = core.settings.find_state(server.name)
    return f"{sign}, so it may keep state" if sign else ""


def _find_open(core: Core, server: Server) -> str:
    """Return what goes on between clients and a server."""
    is_busy = bool(server.list_unfinished() or server.asked or server.waiting or server.held)
    is_ready = server.state == "ready" and all(one.is_ready for one in server.kind.clients)
    if is_busy or not is_ready or not core.leaving.is_serving or has_no_more_input(core, server):
        return _BUSY
    kept = _find_kept(server)
    if kept:
        return kept
    for task, (_, goes_on) in server.process.tasks.items():
        if goes_on:
            return f"its task {task} is not finished"
    return ""


def _find_kept(server: Server) -> str:
    """Return what a later server of the same session has to go on with."""
    for _, uri in server.subscriptions:
        return f"the host has subscribed to {uri}"
    for client in server.kind.clients if hearers.is_first(server) else ():
        for stream in client.streams.values():
            wanted = protocol.get_member(stream.message.params, "notifications")
            if not isinstance(wanted, dict) or not wanted.keys() <= _LIST_CHANGES:
                return "the host listens to it"
    return ""


def is_free(core: Core, server: Server) -> bool:
    """Return whether a server may be given to another session."""
    if server.state == "absent":
        return not (server.waiting or _find_kept(server))
    return not _find_open(core, server)


# Another session's turn


def forget_session(core: Core, first: Server) -> Served:
    """Return what a server serves that is nobody's."""
    served = core.first_served or first.served
    bound = bind_at_start(served.context.identity)
    return served if bound.state == "unbound" else served.forget_session()


def forget_other_session(core: Core, server: Server, served: Served) -> None:
    """Forget what a session has subscribed to, if the next server is only another session's."""
    bound, before = served.bound, server.served.bound
    if not isolates(server.served, core.router.rule):
        return
    if before.state == "confirmed" and before.session != bound.session:
        server.history.calls_of_others = server.history.calls
    for key, request in [*server.subscriptions.items()]:
        caller = request.caller
        if caller is not None and caller[0] not in {None, bound.session}:
            del server.subscriptions[key]


# A restart on request


def restart(core: Core, server: Server) -> None:
    """Replace a server because a user asks for it, or try again to start one."""
    server.history.deaths.clear()
    if has_no_more_input(core, server) or not core.leaving.is_serving:
        return
    if server.restart_from is None:  # else it is the same request
        server.restart_from = server.history.starts
    if server.state == "ready":
        core.note("a restart was requested: the server is replaced")
        core.happen(server, "unfit")
    elif server.state == "absent" and server.stand_in is not None:
        core.note("a restart was requested: a server is started")
        core.happen(server, "needed")
    elif server.state == "absent":
        core.note("a restart was requested: no server runs; the next call starts one", RESTART)
        end_restart(core, server)


def end_restart(core: Core, server: Server) -> None:
    """Report that a request was carried out: the command reads the lease."""
    if server.restart_from is not None:
        server.restart_from = None
        server.history.restarts += 1
        core.out.append(("lease", "", True))


# Clients that leave


def has_no_more_input(core: Core, server: Server) -> bool:
    """Return whether no client of a server sends anything more, and none will come."""
    clients = server.kind.clients
    is_open = core.settings.returns_unread
    return not is_open and bool(clients) and all(client.has_left_input for client in clients)


def end_input(core: Core, client: Client) -> None:
    """Note that a client sends nothing more."""
    client.has_left_input = True
    if core.settings.returns_unread:
        end_if_finished(core, client)
        return
    if core.leaving.host_is_lost:
        core.leaving.enter("ending")
    place.stop_waiting(core, client)  # it answers nothing more
    if core.flow is not None:
        core.flow.stop_holding()
        for server in client.kind.servers:
            core.release(client, server)
    if not core.leaving.grace_until:
        core.leaving.grace_until = core.now + ending.GRACE_LIMIT
        extend_grace(core)
    if core.leaving.phase == "failed":
        finish(core)
        return
    for server in core.servers.values():
        close_if_over(core, server)
    finish_if_absent(core)


def close_if_over(core: Core, server: Server) -> None:
    """Close the input of a server for which nothing more will come."""
    is_lost = core.leaving.host_is_lost and server.state != "absent"
    if not is_lost and not (server.state == "ready" and has_no_more_input(core, server)):
        return
    if not server.process.has_closed_input and (is_lost or not server.waiting):
        server.process.has_closed_input = True
        core.out.append(("close", server.name, None))
        extend_grace(core)


def extend_grace(core: Core) -> None:
    """Give servers whose input has ended more time: they are still at work."""
    leaving = core.leaving
    if leaving.grace_until:
        moment = min(core.now + ending.INPUT_ENDED_GRACE, leaving.grace_until)
        core.timers.set("grace", "", moment)


def end_grace(core: Core, _: str) -> None:
    """End the servers that go on after the end of their input."""
    leaving = core.leaving
    for server in core.servers.values():
        if server.state == "absent":
            continue
        is_late = leaving.host_is_lost or core.now >= leaving.grace_until
        is_first = not server.kind.is_opened
        if server.state == "greeting" and is_first and not server.process.has_closed_input:
            # It may read everything before it answers, as a script does.
            server.process.has_closed_input = True
            core.out.append(("close", server.name, None))
            extend_grace(core)
        elif server.state != "ready" and not (is_late or server.process.has_closed_input):
            extend_grace(core)  # requests still wait for a server
        else:
            leaving.is_out_of_time = True
            leaving.enter("ending")
            core.note("the server goes on after the end of its input: SIGTERM, then SIGKILL")
            core.out += [("cut", server.name, None), ("end", server.name, "input ended")]


def lose_reader(core: Core, client: Client) -> None:
    """Note that a client can read nothing more: no server is started for it."""
    client.is_reading = False
    if core.settings.returns_unread:
        dismiss(core, client)
        return
    if all(not one.is_reading for one in core.clients.values()):
        core.leaving.enter("ending")
    for server in client.kind.servers:
        core.out.append(("mute", server.name, client.name))
    if client.has_left_input or core.leaving.is_shown_as_tool:
        end_input(core, client)
    finish_if_absent(core)


def pass_signal(core: Core, number: int) -> None:
    """Pass a signal on to the servers, and leave soon."""
    running = [one for one in core.servers.values() if one.state != "absent"]
    then = "passed on to the server" if running else "no server runs"
    core.note(f"signal {number}: {then}")
    core.keep_memories()  # while the server is there to be measured
    core.out += [("signal", server.name, number) for server in core.servers.values()]
    leaving = core.leaving
    if not leaving.signalled:
        leaving.signalled = number
        leaving.enter("ending")
        core.timers.set("leave", "", core.now + ending.LEAVE_AFTER)
    if leaving.is_shown_as_tool:
        finish(core)
    finish_if_absent(core)


def end_if_finished(core: Core, client: Client) -> None:
    """End the connection to a client that sends nothing more and awaits nothing."""
    if not core.settings.returns_unread:
        return
    awaits = any(not one.is_stream for one in client.asked.values())
    if client.has_left_input and not awaits and client.name in core.clients:
        dismiss(core, client)


def dismiss(core: Core, client: Client) -> None:
    """Remove a client, and end its connection."""
    core.client_left(client.name)
    core.out.append(("leave", client.name, 0))


def remove_client(core: Core, client: Client) -> None:
    """Take back what servers do for a client that has left."""
    client.kind.clients.remove(client)
    # What was not sent goes first: else it takes the room that the rest makes.
    for request in sorted([*client.asked.values(), *client.streams.values()], key=_was_sent):
        core.withdraw(request, why="the session has ended")
    for question in [*client.owes.values()]:
        text = "[mcp-launch] the session that was asked has ended"
        error = protocol.make_error(question.id, protocol.NOT_SERVED, text)
        core.reply(question, error)
    client_requests.forget_client(core, client)
    owners = {one.owner for one in core.clients.values()}
    for server in core.servers.values():
        client_requests.cancel_tasks(core, server, owners)
    end_unused(core)


def _was_sent(request: Request) -> bool:
    return request.answerer is not None and request.number in request.answerer.owes


def cancel_tasks(core: Core, server: Server) -> None:
    """Cancel the tasks of a server that are nobody's."""
    client_requests.cancel_tasks(core, server, {one.owner for one in core.clients.values()})


def end_unused(core: Core) -> None:
    """End a server that has lost its last client, if there are others."""
    for server in [*core.servers.values()] if len(core.servers) > 1 else ():
        if not server.kind.clients:
            core.happen(server, "unfit")


def give_up_input(core: Core, name: str) -> None:
    """Stop reading from a client whose server does not read, but goes on."""
    for client in _give_up_wire(core, name):
        core.leaving.enter("ending")  # what it sends could reach no other server
        client.has_left_input = True
        core.out.append(("deafen", client.name, None))


def give_up_output(core: Core, name: str) -> None:
    """Stop writing to a client whose server does not write, but goes on."""
    for client in _give_up_wire(core, name):
        core.out.append(("close", client.name, None))
        lose_reader(core, client)  # we close it, so no other server is started


def _give_up_wire(core: Core, name: str) -> list[Client]:
    """Return the clients of a server that has closed a pipe, but goes on; end one of several."""
    server = core.servers.get(name)
    if server is None or server.process.exit_code is not None or server.state != "ready":
        return []
    if len(core.servers) > 1 or core.settings.returns_unread:
        core.out.append(("end", name, "replaced"))
        return []
    return [*server.kind.clients]


# The end of a launch


def fail(core: Core, error: LaunchError, *, is_refused: bool = False) -> None:
    """Answer all open requests and all that follow with the reason, then leave.

    A client gets the tool only if there will be no server: an installation may go on.
    """
    leaving = core.leaving
    has_server = any(one.state != "absent" for one in core.servers.values())
    may_show = _may_show_tool(core) and (is_refused or not has_server)
    stand_in = core.make_stand_in(error, core.settings.on_failure if may_show else "error")  # type: ignore[arg-type]
    leaving.failure = stand_in
    leaving.enter("failed")
    core.out.append(("fail", "", error))
    is_answered = False
    for server in core.servers.values():
        _withdraw_questions(core, server)
        open_requests = [*server.list_unfinished(), *server.waiting.values()]
        open_requests += [one for held in server.held.values() for one in held]
        server.owes, server.waiting, server.held = {}, {}, {}
        for request in sorted(open_requests, key=lambda one: int(one.number)):
            if request.id and request.then is None:
                answer_in_place(core, request, stand_in)
                is_answered |= request.method != "server/discover"
        core.resume(server)
    has_left = all(client.has_left_input for client in core.clients.values())
    if has_left or leaving.host_is_lost:
        finish(core)
    elif leaving.is_shown_as_tool:
        core.note("stays until the host leaves, with a tool that gives the reason")
        core.out.append(("lease", "", True))
    elif not is_answered:
        core.timers.set("leave", "", core.now + ending.FIRST_REQUEST_GRACE)


def _may_show_tool(core: Core) -> bool:
    """Return whether the client gets a tool instead of an error: it has no other tools yet."""
    leaving, clients = core.leaving, core.clients.values()
    has_left = leaving.host_is_lost or bool(leaving.signalled)
    is_over = any(one.opened or not one.is_reading or one.has_left_input for one in clients)
    return core.settings.on_failure != "error" and not has_left and not is_over


def refuse_greeting(core: Core, server: Server, said: Object) -> bool:
    """Return whether a client that would not show the refusal of its greeting gets a tool."""
    if not core.leaving.is_serving or not _may_show_tool(core):
        return False
    why = str(protocol.get_member(said, "error", "message"))
    why = why if len(why) <= _REASON_LIMIT else f"{why[:_REASON_LIMIT]}…"
    error = ServerFailed(
        f"{core.settings.server} refused the handshake: {core.settings.mask(why)}",
        fix=core.settings.explain_early_end(1, b"").fix,
        exit_code=1,
    )
    fail(core, error, is_refused=True)
    core.out.append(("end", server.name, "input ended"))
    return True


def answer_in_place(core: Core, request: Request, stand_in: StandIn) -> None:
    """Answer a request with the reason why there is no server."""
    if not request.id:
        return
    line = stand_in.answer(request, core.now)
    request.length, request.reason = len(line), stand_in.error.problem
    core.finish(request, DIED)
    core.close(request)
    core.out.append(("send", request.asker.name, line))  # type: ignore[union-attr]
    is_last = stand_in is core.leaving.failure and stand_in.shown == "error"
    if is_last and request.method != "server/discover":
        core.timers.set("leave", "", core.now + ending.HANG_UP_GRACE)


def _is_over(core: Core, server: Server) -> bool:
    """Return whether no other server is started: we leave, or nobody asks for anything more."""
    is_ended = has_no_more_input(core, server) and not server.waiting
    return core.leaving.phase == "ending" or is_ended


def _answer_for_the_last_time(core: Core, server: Server, end: End) -> None:
    """Answer what a server leaves that is not replaced, if its client may still read that."""
    leaving = core.leaving
    clients = server.kind.clients
    is_missed = bool(end.code and server.waiting) and leaving.is_serving
    if (
        not any(client.opened for client in clients)
        and not leaving.signalled
        and (is_missed or not has_no_more_input(core, server))
    ):
        fail(core, core.settings.explain_early_end(end.code, end.stderr_end))
        return
    core.note(f"the server {end.what}")
    is_heard = not (leaving.signalled or leaving.host_is_lost)
    if is_heard and any(client.opened and client.is_reading for client in clients):
        _answer_everything(core, [server], end.what)
    server.waiting, server.owes = {}, {}
    finish_if_absent(core)


def finish_if_absent(core: Core) -> None:
    """Leave, if there is no server to wait for and no client to serve."""
    if core.settings.returns_unread:
        return
    has_no_client = all(one.has_left_input for one in core.clients.values())
    is_over = core.leaving.phase == "ending" or has_no_client
    if is_over and all(one.state == "absent" for one in core.servers.values()):
        finish(core)


def finish(core: Core) -> None:
    """Leave, once, with the exit code of the failure, or else of the server."""
    leaving = core.leaving
    if leaving.phase == "finished":
        return
    leaving.enter("finished")
    core.keep_memories()
    codes = [one.process.exit_code for one in core.servers.values()]
    code = next((one for one in codes if one is not None), None)
    if code is None:
        code = leaving.signalled and 128 + leaving.signalled
    failure = leaving.failure
    for client in core.clients.values():
        core.out.append(("leave", client.name, failure.error.exit_code if failure else code))

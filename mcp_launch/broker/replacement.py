"""What follows a server that is gone, or that a user asks to have replaced.

Another one takes its place, there is none for a while, or we end as well.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker import commands as do
from mcp_launch.broker.backend import WAKING_LIMIT
from mcp_launch.broker.rest import Rest
from mcp_launch.errors import ServerFailed
from mcp_launch.values import DECISION, FAILURE, REST, RESTART

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.commands import Settings
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.errors import LaunchError

# How long a server may take to exit after the end of its input, counted from its last sign of
# work. The specification asks for a wait but names no number; its SDKs wait this long.
INPUT_ENDED_GRACE = 2.0

# How long a call waits while the lists of a new server are compared with the host's.
COMPARE_LIMIT = 2.0

# How long a server that is busy with its first answer may take before the request is given up.
WAIT_LIMIT = 30.0

# How often to look whether a server that cannot be replaced yet can be now.
_LOOK_AGAIN = 0.1

# A server that dies more often than this within the span is not restarted.
DEATHS_LIMIT = 3
DEATHS_SPAN = 60.0


class Replacement(Rest):
    """Starts another server in the place of one that is gone, and gives it what waits."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._deaths: list[float] = []
        self._grace_limit = 0.0

    def _extend_grace(self) -> None:
        seconds = min(INPUT_ENDED_GRACE, self._grace_limit - self.now)
        self.out.append(do.SetTimer("grace", max(0.0, seconds)))

    def _leave_if_absent(self) -> None:
        """Leave, if there is no server to wait for and no host to serve."""
        hosts = self.connections.values()
        has_no_host = all(one.input_has_ended or one.input_is_lost for one in hosts)
        is_over = self.phase == "ending" or has_no_host
        states = {backend.state for backend in self.backends.values()}
        if is_over and states == {"absent"}:
            self.finish()

    def _stay_absent(self, backend: Backend, unread: bytes, stderr_end: bytes) -> None:
        """Go on without a server: it rests, or could not be started for a request."""
        code, backend.exit_code = backend.exit_code or 0, None
        backend.requeue(unread)
        if backend.is_waking:
            self.fail_to_wake(backend, self._explain_failed_wake(backend, code, stderr_end))
        else:
            self._close_open_requests(backend, "rests")
            self.schedule_lease_write()
            waiting, backend.queue = backend.queue, []
            for one in waiting:
                self.take_line(self.connections[one.connection], one.line)
            self.resume_hosts(backend)
        self._leave_if_absent()

    def _explain_failed_wake(self, backend: Backend, code: int, stderr_end: bytes) -> LaunchError:
        error = self.settings.explain_early_end(code, stderr_end)
        why, backend.why_given_up = backend.why_given_up, ""
        if why:
            what_happened = self.settings.explain_end(code, why, stderr_end)
            error = ServerFailed(
                f"{self.settings.server} {what_happened}", fix=error.fix, exit_code=code
            )
        return error

    def _follow_up(self, backend: Backend, state: str, what_happened: str, unread: bytes) -> bool:
        """Start the next server, now that the last one is gone; False if none is started."""
        connection = self._first(backend)
        if connection.input_is_lost:
            backend.requeue(unread)
            self._answer_everything(backend, what_happened)
            return False  # the host's messages could not reach another server
        is_planned = state in {"draining", "ending"}
        if not connection.handshake.is_ready:
            if not is_planned:
                return self._fall_back_to_initialize(backend, what_happened, unread)
            if backend.requests.list_unfinished():
                return False
        is_over = self.has_no_more_input(backend)
        kind = DECISION if is_over or backend.restart else FAILURE
        self.note(f"the server {what_happened}", RESTART if backend.next_served else kind)
        backend.requeue(unread)
        has_ended_well = is_over and not backend.list_waiting()
        # The call of another session may have killed a server that several share.
        is_bystander = self.settings.is_shared and self._is_idle(backend)
        is_last = not is_planned and (
            has_ended_well or not self._may_restart(is_counted=not is_bystander)
        )
        self._close_open_requests(backend, what_happened, is_last=is_last)
        if is_last:
            return False
        if not is_planned and not backend.queue and (self._may_be_absent or is_bystander):
            backend.exit_code = None  # it is not our own: we go on
            self.resume_hosts(backend)
            self.note("no other server is started before it is needed", REST)
            self.schedule_lease_write()
        else:
            self._start_next(backend)
        return True

    @staticmethod
    def _is_idle(backend: Backend) -> bool:
        """Return whether nobody waits for anything from a server."""
        requests = backend.requests
        return not (requests.open or requests.subscriptions or backend.queue)

    @property
    def _may_be_absent(self) -> bool:
        return self.settings.starts_when_called or bool(self.settings.rests_after)

    def _fall_back_to_initialize(self, backend: Backend, what_happened: str, unread: bytes) -> bool:
        """Refuse `server/discover` for a server that died of it; False if it did not."""
        connection = self._first(backend)
        is_first = not backend.generation
        if self.has_no_more_input(backend) or self.settings.restart == "off":
            return False
        if not is_first and not self.settings.is_shared:
            return False
        backend.requeue(unread)  # what it has not read cannot have killed it
        # Notifications mean nothing before `initialize`.
        backend.queue = backend.list_waiting()
        unread_keys = {one.key or b"" for one in backend.queue}
        if self._is_anothers_death(connection, unread_keys):
            self.note(f"the server {what_happened}: another one is started", RESTART)
            connection.handshake.pending.clear()  # they are sent again
            self._start_next(backend)
            return True
        if not is_first:
            return False
        refusals = connection.handshake.refuse_discovery(unread_keys)
        if not refusals and not connection.discovery_was_refused:
            return False
        self.note(f"the server {what_happened}: another one gets `initialize`", RESTART)
        backend.requests.close_all("server/discover")
        for key, refusal in refusals.items():
            self.answer(connection, key, refusal)
        self._close_open_requests(backend, what_happened)
        self._start_next(backend)
        return True

    def _is_anothers_death(self, connection: HostConnection, unread: set[bytes]) -> bool:
        """Return whether a shared server has died before it read anything of this host."""
        pending = connection.handshake.pending.keys()
        return self.settings.is_shared and pending <= unread and self._may_restart()

    def _may_restart(self, *, is_counted: bool = True) -> bool:
        is_on = self.settings.restart == "on"
        if is_on and not is_counted:
            return True
        self._deaths = [death for death in self._deaths if self.now - death < DEATHS_SPAN]
        self._deaths.append(self.now)
        if is_on and len(self._deaths) <= DEATHS_LIMIT:
            return True
        if is_on:
            times = f"{len(self._deaths)} times within a minute"
            text = f"{self.settings.server} died {times}: it is not started again; "
            text += "reconnect it in its host"
            self.out.append(do.WriteStderr(text))
        return False

    def _fall_back(self, backend: Backend, what_happened: str, unread: bytes = b"") -> bool:
        """Start a server in its host's directory, if it cannot work in its session's."""
        is_moving = self._admission.moving is backend and backend.next_served is None
        if not is_moving or self.phase != "serving" or self._first(backend).input_is_lost:
            return False
        place = backend.served.context.place.value
        served = self._admission.plan_in_hosts_directory(backend.served)
        if served is None:
            return False
        self.note(f"the server {what_happened} in {place}: another starts where its host runs")
        backend.requeue(unread)
        backend.next_served = served
        self._start_next(backend)
        return True

    def _start_next(self, backend: Backend) -> None:
        if backend.next_served:
            served, backend.next_served = backend.next_served, None
        else:
            served, problem = self._admission.plan_again(backend.served)
            if problem:
                self.note(f"started as the last one was: {problem}", FAILURE)
            self._note_binding(backend.served.bound, served.bound)
        backend.generation += 1
        backend.is_successor = True
        self.note_awaited_start(backend.queue)
        backend.start(served)

    def _complete_handover(self, backend: Backend) -> None:
        """Give a server that has answered the greeting the state of the last one, and go on."""
        backend.restore_state(self._first(backend).handshake, self.make_id)
        if self._is_compared(backend):
            self._flush(backend)

    def _end_comparison(self, backend: Backend) -> None:
        if backend.state == "greeting":
            self._note_gone_tools(backend)
            self._flush(backend)

    def _is_compared(self, backend: Backend) -> bool:
        """Return whether a new server may get requests; if not, its lists are compared first."""
        if backend.is_unverified and backend.comparison.is_going_on:
            self.out.append(do.SetTimer(f"compare {backend.name}", COMPARE_LIMIT))
            return False
        return True

    def _note_gone_tools(self, backend: Backend) -> None:
        """Note which of the tools that the host knows the server no longer has."""
        self.out.append(do.CancelTimer(f"compare {backend.name}"))
        backend.is_unverified = False
        connection = self._first(backend)
        memory = connection.memories.get(connection.client)
        if memory is None or backend.comparison.is_going_on:
            return
        backend.gone_tools = backend.remembered_tools - set(memory.list_names("tools/list"))
        if backend.gone_tools:
            self.note(f"tools of the host are gone: {', '.join(sorted(backend.gone_tools))}")

    def _flush(self, backend: Backend) -> None:
        """Deliver the messages that have waited."""
        backend.state = "ready"
        backend.is_waking = False
        if self._admission.moving is backend:
            self._admission.moving = None
        backend.failed_wakes, backend.retry_at = 0, 0.0
        is_only_checked, backend.is_checking = backend.is_checking and not backend.queue, False
        while backend.queue and backend.is_ready:
            one = backend.queue.pop(0)
            self.take_line(self.connections[one.connection], one.line)
        self.resume_hosts(backend)
        if self.has_no_more_input(backend) and backend.is_ready:
            backend.input_is_closed = True
            self.out.append(do.CloseInput(backend.name))
            self._extend_grace()
        elif is_only_checked:
            self.rest_if_unused(backend)
        else:
            self.expect_rest(backend)

    def release(self, backend: Backend) -> None:
        """Deliver the messages that were held back."""
        if backend.state == "holding":
            self._flush(backend)

    def _goes_on_without(self, backend: Backend) -> bool:
        """Return whether we stay if a server cannot be started: for more calls, or for others."""
        is_ending = self.phase == "ending" and self.failure is None
        return self.phase == "serving" or (backend.has_neighbours and is_ending)

    def _give_up(self, backend: Backend) -> None:
        goes_on = backend.is_waking or self._admission.moving is backend
        if goes_on and self._goes_on_without(backend):
            backend.why_given_up = (
                "after it had refused the handshake"
                if backend.greeting_was_refused
                else f"after it had not answered the handshake for {WAKING_LIMIT:g} s"
            )
            backend.give_up("ending")
            return
        self.failure = ServerFailed(
            f"{self.settings.server} was started again, but did not complete the handshake",
            fix="check its stderr, and whether it can be started twice in this directory; "
            "with --restart off it is not restarted",
            exit_code=1,
        )
        self.enter("ending")
        backend.give_up()


class Restart(Replacement):
    """Replaces servers because a user asks for it (`mcp-launch restart`).

    The host keeps its connection. Open requests may finish, as in any replacement. If the next
    server cannot be started, the launch goes on without one: a later call tries again, and so
    does another restart. It counts neither as a death nor as a failed start.

    Requests that arrive while one is carried out are the same request. A server that still
    starts, or that has not answered its host yet, is replaced as soon as it has.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._restart_until = 0.0  # the end of a wait

    def restart_requested(self) -> None:
        """Replace the servers that run, and try again to start one that could not be started."""
        self._deaths.clear()
        self._restart_until = self.now + WAIT_LIMIT
        for backend in self.backends.values():
            backend.failed_wakes, backend.retry_at = 0, 0.0
            if backend.restart != "going on":
                backend.restart = "waiting"
                self.restart_if_possible(backend)

    def restart_if_possible(self, backend: Backend) -> None:
        """Replace a server, or look again later."""
        if self._is_leaving(backend):
            backend.restart = ""
        elif backend.state == "absent" or backend.is_resting:
            self._restart_absent(backend)
        elif self._is_fresh(backend):
            backend.restart = "going on"
        elif backend.is_ready and self._is_between_messages(backend):
            self.note("a restart was requested: the server is replaced")
            backend.restart = "going on"
            backend.drain()
            self.end_if_drained(backend)
        elif self.now >= self._restart_until:
            self.note("not restarted: it has not answered its host yet", FAILURE)
            self._end_restart(backend)
        else:
            self.out.append(do.SetTimer(f"restart {backend.name}", _LOOK_AGAIN))

    def _is_leaving(self, backend: Backend) -> bool:
        """Return whether this is the last server of its hosts."""
        connection = self._first(backend)
        is_lost = connection.input_is_lost or connection.reader_is_lost
        return self.phase != "serving" or is_lost or self.has_no_more_input(backend)

    @staticmethod
    def _is_fresh(backend: Backend) -> bool:
        """Return whether another server is about to be started anyway."""
        is_starting_again = backend.state == "starting" and backend.is_successor
        return backend.is_replacing or is_starting_again

    def _is_between_messages(self, backend: Backend) -> bool:
        """Return whether the host awaits no answer to its greeting, and is not within a line."""
        connections = [self.connections[name] for name in backend.connections or self.connections]
        return all(
            (one.handshake.is_over or not one.handshake.pending) and not one.lines.is_midway
            for one in connections
        )

    def _restart_absent(self, backend: Backend) -> None:
        if backend.wake_error is None:
            self.note("a restart was requested: no server runs; the next call starts one", RESTART)
            self._end_restart(backend)
            return
        served, problem = self._admission.plan_again(backend.served)
        if problem:
            self.note(f"the server could not be started: {problem}", FAILURE)
            self._end_restart(backend)
            return
        self.note("a restart was requested: a server is started")
        backend.restart = "going on"
        self._admission.known = None  # the next call must be checked
        self._start(backend, served)

    def _start_next(self, backend: Backend) -> None:
        if backend.restart == "going on" and self._first(backend).handshake.is_ready:
            backend.is_waking = True  # if this fails, the launch goes on …
            backend.exit_code = None  # … and does not end with the code of the last server
            self._expect_comparison(backend)
        super()._start_next(backend)

    def _flush(self, backend: Backend) -> None:
        super()._flush(backend)
        if backend.restart == "going on":
            self.note("restarted on request", RESTART)
            self._end_restart(backend)

    def fail_to_wake(self, backend: Backend, error: LaunchError) -> None:
        """Answer what waits for a server that could not be started; a later call tries again."""
        for one in backend.queue if backend.restart else []:
            # It came while the last server was ended, and counts for all later ones.
            method = protocol.look_message(one.line).get("method")
            if method == "notifications/initialized":
                self.note_state_of_host(self.connections[one.connection], method, one.line)
        super().fail_to_wake(backend, error)
        if backend.restart:
            self._end_restart(backend)

    def _end_restart(self, backend: Backend) -> None:
        """Report that a request was carried out: the command reads the lease."""
        backend.restart = ""
        backend.restart_requests += 1
        self.out += [do.CancelTimer(f"restart {backend.name}"), do.WriteLease(is_urgent=True)]

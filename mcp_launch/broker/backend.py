"""A backend: the life of one server after the other, its open requests, and its queue.

| state | event | then |
| --- | --- | --- |
| absent | a request that memory cannot answer, or restart after failure | StartServer → starting |
| starting | started | the host's own words → ready; its handshake is over: replay it → greeting |
| starting | start failed | → failed; a request was waiting for it: answer it → absent |
| greeting | answered | restore the state, compare the lists → ready |
| greeting | refused, or the timer | EndServer → failed; a request was waiting for it → ending |
| ready | late | answer the host from memory → greeting |
| ready | rest | EndServer(rest) → ending |
| ready | hold | → holding |
| holding | release | → ready |
| ready, holding | input broken | → lost |
| ready | restart for another, or restart on request | SetTimer(drain) → draining |
| draining | last answer, or the timer | answer what is left, EndServer(replaced) → ending |
| any | gone | → absent |

While the server is not ready, messages from the host wait in a queue, unless memory can answer
them. The broker decides when to deliver them, and whether to start another server.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.commands import (
    CancelTimer,
    CloseInput,
    Divert,
    EndServer,
    SendToServer,
    SetTimer,
    StartServer,
)
from mcp_launch.broker.waiting import Waiting
from mcp_launch.protocol import json_edit
from mcp_launch.protocol.memory import LISTS, Comparison, find_page
from mcp_launch.protocol.requests import SUBSCRIPTION_ID, OpenRequests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal

    from mcp_launch.broker.commands import Command
    from mcp_launch.broker.routing import Served
    from mcp_launch.errors import LaunchError
    from mcp_launch.protocol.framing import StdoutGuard
    from mcp_launch.protocol.json_text import Message
    from mcp_launch.protocol.requests import Handshake, Ticket

    State = Literal[
        "absent", "starting", "greeting", "ready", "holding", "draining", "ending", "lost", "failed"
    ]
    MakeId = Callable[[], str | int]

    # Our own requests: "greeting", "state" (a setting of the host), or a list's method; its page.
    OwnRequest = tuple[str, bytes]

# How long a server that will be replaced may take to finish its requests.
DRAIN_LIMIT = 10.0

# How much longer, if it is writing an answer at that moment.
LINE_LIMIT = 2.0

# How long a new server may take to answer the greeting: Codex's own limit for a start.
GREETING_LIMIT = 30.0

# How long, if a request waits for it: a package that is installed first takes its time.
WAKING_LIMIT = 120.0


class Backend(Waiting):
    """One server at a time, and everything that outlives it."""

    lines: StdoutGuard

    deaths: tuple[float, ...] = ()  # when its last servers died, if it has neighbours
    has_neighbours = False  # there are other backends, which may have the same hosts
    is_pooled = False  # hosts come and go, so its ids are always our own
    is_sessions_own = False  # opened for one session, beside the server of its host
    notes_use = False  # it may be ended if it is not used, so its use is noted

    def __init__(self, name: str, served: Served, out: list[Command]) -> None:
        self.name = name
        self.served = served
        self.state: State = "absent"
        self.requests = OpenRequests()
        self.queue, self.held = [], {}
        self.pid = 0  # of the current server, or the last
        # Requests that we have answered in the server's place, and until when it may do so, too.
        self.expired: dict[bytes, float] = {}
        self.last_length = 0  # of an unfinished line, when `calls` looked last
        self.next_deadline = 0.0  # when `limits` looks again; 0: its timer is not set
        self.connections: list[str] = []  # the hosts that have sent it something
        self.generation = 0  # how many servers ran here before this one
        self.exit_code: int | None = None
        self.input_is_closed = False  # by the server itself, or because its hosts have left
        self.is_overdue = False  # the old server's time is up, but it is writing a line
        self.owes_newline = False  # its last line had no end
        self.next_served: Served | None = None  # of the next server, if it is decided
        self.greeting_was_answered = False  # since the broker last looked
        self.greeting_was_refused = False  # the answer was an error
        self.own_requests: dict[bytes, OwnRequest] = {}  # by their spelt ids
        self.comparison = Comparison()
        self.learns = False  # its lists are kept for other launches, so all pages are read
        self._acknowledged: set[bytes] = set()  # streams that the host knows to be confirmed
        self._unacknowledged: set[bytes] = set()  # of these, not yet confirmed by the new server
        self._calls_at_start = 0
        self.calls = self.calls_of_others = 0  # in all; before it was given to another session
        self.starts = 0  # how often a server was started
        self.has_run = False
        self.wakes = 0  # how often it was started again after a rest
        self.is_successor = False  # the host was answered without it: by another, or from memory
        # A request waits for it, or its host was answered from memory; it follows another server,
        # so messages wait for it even if memory has answers.
        self.is_waking = self.keeps_order = False
        self.is_late = self.is_unverified = False  # the host was answered before it, by memory
        self.remembered_tools: set[str] = set()  # the names of those
        self.gone_tools: set[str] = set()  # of these, what the server does not have
        # Why it is ended: one that was started for a request; one whose session has not changed.
        # Or a line of it that was too long.
        self.why_given_up = self.why_replaced = self.why_ended = ""
        self.is_checking = False  # it was started only to compare its lists with memory
        self.is_resting = False  # it is ended because nobody calls it
        self.wake_error: LaunchError | None = None  # why it could not be started the last time
        self.failed_wakes = 0  # in a row
        self.retry_at = 0.0  # no other server is started before
        self.ready_since = 0.0
        # Nothing but chatter has reached it, so it has no state to lose; its lists changed since.
        self.is_unused, self.lists_have_changed = True, False
        self.last_active = 0.0  # when it was last used
        self.tasks: set[str] = set()  # that it has not finished
        self.task_hosts: dict[str, str] = {}  # the connection that each task was made for
        self.unasked = ""  # the method of a notification that no request has led to
        self.speaks_to_its_host = False  # it has asked it something, or announced a change
        self.why_awake = ""  # why it does not rest, as it was last logged
        self.restart, self.restart_requests = "", 0  # on request: "waiting" or "going on"; done
        self._out = out

    # State

    @property
    def is_ready(self) -> bool:
        """Whether the server takes requests now."""
        return self.state == "ready"

    @property
    def is_replacing(self) -> bool:
        """Whether the server is being replaced on purpose."""
        return self.state in {"draining", "ending"}

    @property
    def is_shared(self) -> bool:
        """Whether several hosts use the server, so that their ids are changed."""
        return self.is_pooled or len(self.connections) > 1

    @property
    def is_away(self) -> bool:
        """Whether a server goes to rest or comes from it, so that memory stands in for it."""
        is_in_order = self.restart == "going on" or self.keeps_order
        return (self.is_waking or self.is_resting) and self.state != "ready" and not is_in_order

    @property
    def to_serve(self) -> Served:
        """What this server serves, or the next one if that is decided."""
        return self.next_served or self.served

    @property
    def was_never_called(self) -> bool:
        """Whether no call was delivered to this server yet."""
        return self.calls == self._calls_at_start

    @property
    def own_calls(self) -> int:
        """How many calls the session has made that this server serves."""
        return self.calls - self.calls_of_others

    # Start and end

    def start(self, served: Served) -> None:
        """Have a server started for this context and session."""
        self.served = served
        self.note_begin()
        self._out.append(StartServer(self.name, served.plan))

    def note_begin(self) -> None:
        """Note that a server is being started."""
        self.state = "starting"
        self.why_replaced = ""
        self.starts += 1

    def note_start(self, handshake: Handshake, make_id: MakeId) -> None:
        """Note that the server runs; one that the host was answered without gets its greeting."""
        self.has_run = self.is_unused = True
        self.gone_tools, self.lists_have_changed = set(), False
        self.tasks.clear()
        self.task_hosts.clear()
        self.unasked = self.why_ended = ""
        self.exit_code = None
        self.input_is_closed = False
        self._calls_at_start = self.calls
        if not self.is_successor:
            self.state = "ready"
            return
        self.await_greeting(has_limit=bool(handshake.greeting))
        if handshake.greeting:
            self.ask("greeting", handshake.greeting, make_id)

    def await_greeting(self, *, has_limit: bool) -> None:
        """Hold messages back until the server has answered the greeting."""
        self.lines.holds_requests = True
        self.is_successor = True
        self.state = "greeting"
        if has_limit:
            limit = WAKING_LIMIT if self.is_waking else GREETING_LIMIT
            self._out.append(SetTimer(f"greeting {self.name}", limit))

    def note_gone(self) -> None:
        """Note that all processes of the server are gone."""
        self.state = "absent"
        self.greeting_was_answered = False  # perhaps with its last words
        self.own_requests.clear()
        self.comparison = Comparison()
        self.expired.clear()
        self.next_deadline = 0.0
        for name in ("drain", "greeting", "input", "output", "rest", "compare", "deadline"):
            self._out.append(CancelTimer(f"{name} {self.name}"))

    def rest(self) -> None:
        """End the server because nobody calls it."""
        self.is_resting = True
        self.state = "ending"
        self._out += [CloseInput(self.name), EndServer(self.name, "rest")]
        self.wait_as_needed()

    # Sending

    def send(self, data: bytes) -> None:
        """Send bytes to the server."""
        if data:
            self._out.append(SendToServer(self.name, data))

    def ask(self, kind: str, line: bytes, make_id: MakeId, page: bytes = b"") -> None:
        """Repeat a host request under our own id."""
        key = protocol.spell(make_id())
        self.own_requests[key] = (kind, page)
        self.send(json_edit.replace(line, key, "id"))
        self.wait_as_needed()

    def wait_as_needed(self) -> None:
        """Have lines held until they are complete, if one of them may have to be read."""
        requests = self.requests
        self.lines.waits_for_whole_lines = (
            bool(self.own_requests)
            or requests.awaits_noted
            # While a server is being ended, we have already answered its requests ourselves.
            or self.state == "ending"
            or self.is_shared
            or self.has_neighbours
            or requests.has_renamed
            or bool(self.expired)
        )

    # Replacement

    def drain(self) -> None:
        """Let the server finish its requests; then a new one starts."""
        self.state = "draining"
        self.is_overdue = False
        self._out.append(SetTimer(f"drain {self.name}", DRAIN_LIMIT))

    @property
    def is_drained(self) -> bool:
        """Whether a server that will be replaced has finished its requests.

        Not while the host has only the beginning of a line: it must get the end, too.
        """
        if self.state != "draining" or self.lines.is_within_a_line:
            return False
        return self.is_overdue or not self.requests.list_unfinished()

    def give_up(self, state: State = "failed") -> None:
        """End a server that did not complete the handshake."""
        self.state = state
        self._out.append(EndServer(self.name, "input ended"))

    def end(self) -> None:
        """End the server: another one replaces it."""
        self.state = "ending"
        self._out += [
            CancelTimer(f"drain {self.name}"),
            CloseInput(self.name),
            EndServer(self.name, "replaced"),
        ]
        self.wait_as_needed()

    # Messages from the server

    def take_own_answer(
        self, key: bytes, answer: Message, line: bytes, make_id: MakeId
    ) -> OwnRequest | None:
        """Take the answer to our own request; None if the answer is for the host."""
        own = self.own_requests.pop(key, None)
        if own is None:
            return None
        if own[0] == "greeting":
            self._out.append(CancelTimer(f"greeting {self.name}"))
        elif own[0] in LISTS:
            self._compare_list(own[0], answer, line, make_id)
        self.wait_as_needed()
        return own

    def restore_state(self, handshake: Handshake, make_id: MakeId) -> None:
        """Repeat settings and subscriptions, and check whether the lists are the same."""
        requests = self.requests
        self.send(handshake.initialized)
        for line in (requests.level, *requests.subscriptions.values()):
            if line:
                self.ask("state", line, make_id)
        self._unacknowledged = self._acknowledged & requests.listening.keys()
        for line in requests.listening.values():
            self.send(line)
        for known in self.comparison.begin(requests.lists):
            self.ask(known.method, known.request, make_id)

    @property
    def is_restored(self) -> bool:
        """Whether a server that is not ready has got the state of its host already."""
        has_greeted = all(kind != "greeting" for kind, _ in self.own_requests.values())
        return self.state == "greeting" and has_greeted

    @property
    def has_state_of_host(self) -> bool:
        """Whether a server runs that was told what its host has set, and must hear of changes."""
        return self.state in {"ready", "holding"} or self.is_restored

    def acknowledge(self, key: bytes) -> None:
        """Note that a stream was confirmed to the host without a server."""
        self._acknowledged.add(key)

    def take_acknowledgement(self, said: Message) -> bool:
        """Return whether this confirms a stream that was already confirmed to the host."""
        key = protocol.spell(protocol.get_member(said, "params", "_meta", SUBSCRIPTION_ID))
        self._acknowledged &= self.requests.listening.keys()
        self._acknowledged.add(key)
        if key not in self._unacknowledged:
            return False
        self._unacknowledged.discard(key)
        return True

    def _compare_list(self, method: str, answer: Message, line: bytes, make_id: MakeId) -> None:
        known = self.requests.lists[method]
        pages = known.pages
        following = self.comparison.take(known, answer, line, reads_all=self.learns)
        if self.is_sessions_own:
            known.pages = pages  # the host keeps the list of its first server
        is_open = self.state in {"greeting", "ready", "holding"} and not self.input_is_closed
        if following and is_open:
            self.ask(method, following, make_id, find_page(answer))

    def serve_nobody(self, served: Served) -> None:
        """Give up the session of a server that does not run; any other may claim the next."""
        self.served, self.next_served = served, None
        self._calls_at_start = self.calls_of_others = self.calls
        self.wake_error = None
        self.failed_wakes, self.retry_at = 0, 0.0

    def divert(self, line: bytes) -> None:
        """Withhold a line that is not a message from the host; it goes to stderr."""
        self._out.append(Divert(self.name, line))

    @property
    def is_one_of_many(self) -> bool:
        """Whether another server or another host may have used the same ids."""
        has_followed = self.is_successor and not (self.is_late and not self.generation)
        return has_followed or self.has_neighbours or self.is_shared

    def list_calls(self) -> Iterator[tuple[bytes, Ticket]]:
        """Yield the calls that the server has not answered yet, by the ids that it knows."""
        for known, ticket in self.requests.open.items():
            if ticket.method == "tools/call":
                yield known, ticket

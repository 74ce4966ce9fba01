"""Roots: the directories in which a host says that it works.

A host whose sessions move without notice is asked for them. If they contradict the directory of
a server, its calls are routed by `--on-change`.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.commands import CancelTimer, SetTimer
from mcp_launch.broker.connection import Parties
from mcp_launch.broker.routing import Admission, Rule
from mcp_launch.values import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.commands import Settings
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.protocol.json_text import Message

# How long to wait for the server to ask for the host's roots, or for a call, before we ask …
_ASK_AFTER = 0.1
# … and how long a call waits for the answer, if its routing depends on it.
_ANSWER_LIMIT = 2.0


class Roots(Parties):
    """Asks hosts for their directories, and compares them with those of the servers."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        rule = Rule(settings.carries, settings.on_change)
        self._admission = Admission(rule, settings.callers, settings.plan_for, settings.is_inside)

    def release(self, backend: Backend) -> None:
        """Deliver the messages that were held back."""
        raise NotImplementedError

    def _expect_roots(self, connection: HostConnection) -> None:
        """Have the roots asked for soon: the host is ready, or its roots have changed."""
        settings = self.settings
        is_relevant = settings.moves_unannounced and settings.cwd in {"session", "project_root"}
        if is_relevant and connection.supports_roots:
            connection.roots_are_due = True
            connection.roots_were_asked = False
            self.out.append(SetTimer(f"roots {connection.name}", _ASK_AFTER))

    def _ask_for_roots(self, connection: HostConnection) -> None:
        if not connection.roots_were_asked:
            connection.roots_were_asked = True
            request_id = self.make_id()
            connection.roots_key = protocol.spell(request_id)
            self.send_own(connection, protocol.make_request(request_id, "roots/list"))

    def _hold_call(self, connection: HostConnection, backend: Backend, line: bytes) -> bool:
        """Return whether a call has to wait for the roots; if so, keep it."""
        self._ask_for_roots(connection)
        connection.roots_are_due = bool(connection.roots_key)
        if not connection.roots_are_due or self.settings.on_change not in {"restart", "refuse"}:
            return False
        backend.queue.insert(0, (connection.name, line))
        backend.state = "holding"
        self.out.append(SetTimer(f"roots {connection.name}", _ANSWER_LIMIT))
        return True

    def handle_roots_timer(self, connection: HostConnection) -> None:
        """Ask for the roots or, if a call waits for them already, go on without them."""
        if any(backend.state == "holding" for backend in self.backends.values()):
            self._stop_waiting_for_roots(connection)
        else:
            self._ask_for_roots(connection)

    def _note_roots(self, connection: HostConnection, answer: Message) -> None:
        connection.read_roots(answer)
        served = self._find_backend(connection).served
        place, roots = served.context.place, connection.roots
        is_elsewhere = bool(roots) and not self.settings.is_inside(place.value, roots)
        root = Found(roots[0], "the host's roots/list") if is_elsewhere else None
        self._admission.contradict(root)
        if is_elsewhere:
            self.note(f"the host works in {roots[0]}, the server in {place.value}")
        self.schedule_lease_write()
        self._stop_waiting_for_roots(connection)

    def _stop_waiting_for_roots(self, connection: HostConnection) -> None:
        connection.roots_are_due = False
        self.out.append(CancelTimer(f"roots {connection.name}"))
        self.release(self._find_backend(connection))

"""What a new server is told so that it can take up where the last one left off.

All of it is the host's own words, repeated under ids that no client uses: the greeting,
the log level and the subscriptions in force. Its tools are compared with those that the
host knows, and the host is told if they differ, in a way that it has agreed to.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.protocol import json_edit
from mcp_launch.protocol.requests import hash_tools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker.connection import Conversation
    from mcp_launch.protocol.json_text import Message

    # What is done with an answer, and the line that it is.
    Heard = Callable[[Message, bytes], None]

_SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
_TOOLS_CHANGED = "notifications/tools/list_changed"


class Recollection:
    """Our own requests to a server, and what becomes of them."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._open: dict[bytes, Heard] = {}  # our requests, by their ids
        self._count = 0
        self._pages: list[int] = []  # of tools, as the new server has them
        self._unacknowledged: set[bytes] = set()  # streams that the host has had confirmed

    @property
    def awaits_answers(self) -> bool:
        """Whether the server has to answer us, not the host."""
        return bool(self._open)

    def make_id(self) -> str:
        """Return an id for a request of our own, which nobody else uses."""
        self._count += 1
        return f"mcp-launch/{self._talk.calls.found.launch.value}/{self._count}"

    def forget(self) -> None:
        """Expect no more answers: the server is gone."""
        self._open.clear()

    def ask(self, line: bytes, hear: Heard) -> None:
        """Repeat a request of the host's, and hear the answer."""
        key = protocol.spell(self.make_id())
        self._open[key] = hear
        self._talk.relay.guard.waits_for_whole_lines = True
        self._talk.relay.deliver(json_edit.replace(line, key, "id"))

    def remind(self) -> None:
        """Tell the server what is in force, and find out whether its tools are the same."""
        ledger = self._talk.ledger
        self._talk.relay.deliver(self._talk.opening.initialized)
        for line in (ledger.level, *ledger.subscriptions.values()):
            if line:
                self.ask(line, _leave_alone)
        self._unacknowledged = set(ledger.listening)
        for line in ledger.listening.values():
            self._talk.relay.deliver(line)
        self._pages = []
        if ledger.tools and ledger.tools_request:
            self.ask(ledger.tools_request, self._hear_tools)

    def hear_own(self, key: bytes, answer: Message, line: bytes) -> bool:
        """Take an answer that is for us; False if it is the host's."""
        hear = self._open.pop(key, None)
        if hear is not None:
            hear(answer, line)
        return hear is not None

    def hear_acknowledged(self, told: Message) -> bool:
        """Tell whether a stream is confirmed that the host knows to be."""
        key = protocol.spell(protocol.get_member(told, "params", "_meta", _SUBSCRIPTION_ID))
        if key not in self._unacknowledged:
            return False
        self._unacknowledged.discard(key)
        return True

    def _hear_tools(self, answer: Message, line: bytes) -> None:
        ledger = self._talk.ledger
        self._pages.append(hash_tools(line))
        has_more = bool(protocol.get_member(answer, "result", "nextCursor"))
        if has_more and len(self._pages) < len(ledger.tools):
            cursor = json_edit.read_raw(line, "result", "nextCursor")
            further = json_edit.put(ledger.tools_request, cursor, "params", "cursor")
            self.ask(further, self._hear_tools)
        elif self._pages != ledger.tools and "result" in answer:
            ledger.tools = self._pages
            self._tell_tools_changed()

    def _tell_tools_changed(self) -> None:
        talk = self._talk
        announced = ("result", "capabilities", "tools", "listChanged")
        if talk.opening.greeting and protocol.get_member(talk.opening.answer, *announced):
            talk.relay.say(protocol.make_notification(_TOOLS_CHANGED))
        for line in talk.ledger.listening.values():
            asked = protocol.look(line)
            if protocol.get_member(asked, "params", "notifications", "toolsListChanged"):
                stream = json_edit.read_raw(line, "id")
                changed = protocol.make_notification(_TOOLS_CHANGED)
                talk.relay.say(json_edit.put(changed, stream, "params", "_meta", _SUBSCRIPTION_ID))


def _leave_alone(_answer: Message, _line: bytes) -> None:
    """Keep an answer from the host that it has had already."""

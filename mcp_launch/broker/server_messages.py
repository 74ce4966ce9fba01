"""Messages from the server, the handover to a new server, and the host's roots.

Answers are matched with their requests; answers to our own requests do not reach the host.
Requests from a replacement server get new ids, because both servers count from the same
number.
"""

from __future__ import annotations

import os

from mcp_launch import protocol, trace
from mcp_launch.launch.context import is_inside
from mcp_launch.protocol import json_edit, server_lines
from mcp_launch.protocol.requests import hash_tools
from mcp_launch.values import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker import Connection
    from mcp_launch.protocol.json_text import Json, Message

    # Called with an answer and its line.
    Heard = Callable[[Message, bytes], None]

# Methods whose answers have to be read.
_NOTEWORTHY = {"initialize", "tools/list", "subscriptions/listen"}


class ServerMessages:
    """Notes the server's messages, and returns the bytes that the host gets."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._replacement = connection.replacement
        self._ledger = connection.ledger
        self._asked = connection.ledger.asked
        self._opening = connection.opening

    def recognise(self, data: bytes) -> bool:
        """Return whether this is one complete answer that need not be read."""
        key = protocol.read_answered(data)
        if key not in self._asked or data.find(b"\n") != len(data) - 1:
            return False
        if self._replacement.is_away or not self._opening.is_over:
            return False
        if self._asked[key][0] in _NOTEWORTHY or self._connection.relay.guard.is_midway:
            return False
        del self._asked[key]
        return True

    def note_message(self, line: bytes) -> bytes:
        """Note a message from the server; return the bytes that the host gets."""
        said = protocol.look(line)
        if isinstance(said, dict) and isinstance(said.get("method"), str):
            return self._note_request(said, line)
        if isinstance(said, dict) and "id" in said:
            return self._note_answer(protocol.spell(said["id"]), said, line)
        parts = said if isinstance(said, list) else []
        answers = [one for one in parts if isinstance(one, dict) and protocol.is_answer(one)]
        asked = [self._ledger.note_answer(protocol.spell(one["id"])) for one in answers]
        if asked and not any(asked) and self._replacement.is_away:
            return b""  # we have answered them
        self._replacement.note_answer()
        return line

    def note_long_message(self, head: bytes, tail: bytes) -> None:
        """Note a long line that has passed."""
        self._ledger.note_answer(server_lines.read_answered(head, tail))
        self._replacement.note_answer()

    def _note_answer(self, key: bytes, said: Message, line: bytes) -> bytes:
        if self._replacement.handover.hear_own(key, said, line):
            self.wait_as_needed()
            return b""
        asked = self._ledger.note_answer(key)
        if not self._opening.is_over or key in self._opening.pending:
            self._opening.hear_server(said)
            self._connection.note_news()
        if asked is None and self._replacement.is_away:
            return b""  # the host already got an error instead
        if asked is not None and asked[0] == "tools/list":
            self._ledger.note_tools(said, line)
            self.wait_as_needed()
        self._replacement.note_answer()
        return line

    def wait_as_needed(self) -> None:
        """Have lines held until they are complete, if one of them may have to be read."""
        replacement = self._replacement
        is_needed = replacement.handover.awaits_answers or self._ledger.awaits_tools
        # While a server is being ended, we have already answered its requests ourselves.
        self._connection.relay.guard.waits_for_whole_lines = is_needed or replacement.is_ending

    def _note_request(self, said: Message, line: bytes) -> bytes:
        method = said["method"]
        if protocol.is_request(said):
            return self._note_question(said, line)
        if method == "notifications/cancelled":
            own = protocol.spell(protocol.get_member(said, "params", "requestId"))
            known = self._ledger.stop_wanting(own)
            if known != own:
                return json_edit.replace(line, known, "params", "requestId")
        elif method == "notifications/subscriptions/acknowledged":
            return b"" if self._replacement.handover.hear_acknowledged(said) else line
        return line

    def _note_question(self, said: Message, line: bytes) -> bytes:
        if said["method"] == "roots/list":
            self._connection.roots.has_been_asked = True
        if not self._replacement.generation:
            self._ledger.want(said, line)
            return line
        # The last server used the same ids, and the host may still be working on one of them.
        key = protocol.spell(self._replacement.handover.make_id())
        self._ledger.want(said, line, key)
        return json_edit.replace(line, key, "id")


_SCHEME = "file://"

# When to ask the host, unless the server or a call has made us ask before …
_ASK_AFTER = 0.1
# … and how long a call waits for the answer, if the answer decides about the call.
_ANSWER_LIMIT = 2.0


class Roots:
    """The host's answer to `roots/list`, compared with the server's directory."""

    def __init__(self, connection: Connection) -> None:
        self.paths: list[str] = []
        self.is_due = False  # the next call has to wait for them
        self.has_been_asked = False  # by the server, or by us
        self._connection = connection
        self._key = b""  # our own request

    @property
    def is_asking(self) -> bool:
        """Whether a request of our own is waiting for the host's answer."""
        return bool(self._key)

    def expect(self) -> None:
        """Ask soon: the host is ready, or says that its roots have changed."""
        if self._is_useful():
            self.is_due = True
            self.has_been_asked = False
            self._connection.relay.set_alarm("roots", _ASK_AFTER, self._ask)

    def hold_call(self, line: bytes) -> bool:
        """Keep a call if it has to wait for the roots; return whether it does."""
        self._ask()
        self.is_due = self.is_asking
        if not self.is_due or self._connection.calls.profile.on_change not in {"restart", "refuse"}:
            return False
        self._connection.replacement.hold(line)
        self._connection.relay.set_alarm("roots", _ANSWER_LIMIT, self._go_on)
        return True

    def hear_own(self, key: bytes, answer: Message) -> bool:
        """Take the answer to our own request; False if the answer is for the server."""
        if not self._key or key != self._key:
            return False
        self._key = b""
        self.hear(answer)
        return True

    def hear(self, answer: Message) -> None:
        """Note an answer, to the server or to us."""
        listed = protocol.get_member(answer, "result", "roots")
        addresses = [protocol.get_member(root, "uri") for root in _as_list(listed)]
        self.paths = [
            _read_address(address)
            for address in addresses
            if isinstance(address, str) and address.startswith(_SCHEME)
        ]
        calls = self._connection.calls
        place = calls.found.place
        is_contradicted = bool(self.paths) and not is_inside(place.value, self.paths)
        calls.contradict(Found(self.paths[0], "the host's roots/list") if is_contradicted else None)
        if is_contradicted:
            trace.note(f"the host works in {self.paths[0]}, the server in {place.value}")
        self._connection.note_news()
        self._go_on()

    def _is_useful(self) -> bool:
        """Return whether roots matter: not if the directory was configured or announced."""
        calls, opening = self._connection.calls, self._connection.opening
        greeting = protocol.look(opening.greeting)
        return (
            calls.found.facts.moves_unannounced
            and calls.profile.cwd in {"session", "project_root"}
            and opening.era == "initialize"
            and protocol.get_member(greeting, "params", "capabilities", "roots") is not None
        )

    def _ask(self) -> None:
        if not self.has_been_asked:
            self.has_been_asked = True
            request_id = self._connection.replacement.handover.make_id()
            self._key = protocol.spell(request_id)
            self._connection.relay.say(protocol.make_request(request_id, "roots/list"))

    def _go_on(self) -> None:
        self.is_due = False
        self._connection.relay.drop_alarm("roots")
        self._connection.replacement.release()


def _as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _read_address(address: str) -> str:
    first, *rest = address[len(_SCHEME) :].encode().split(b"%")
    try:
        parts = [bytes.fromhex(part[:2].decode()) + part[2:] for part in rest]
    except ValueError:
        return address[len(_SCHEME) :]  # a bare percent sign
    return os.fsdecode(b"".join([first, *parts]))


_SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
_TOOLS_CHANGED = "notifications/tools/list_changed"


class Handover:
    """Our own requests to a new server, which give it the state of the last one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open: dict[bytes, Heard] = {}  # our requests, by their ids
        self._count = 0
        self._pages: list[int] = []  # hashes of the new server's tools, page by page
        self._unacknowledged: set[bytes] = set()  # streams already confirmed to the host

    @property
    def awaits_answers(self) -> bool:
        """Whether a request of our own is waiting for the server's answer."""
        return bool(self._open)

    def make_id(self) -> str:
        """Return a unique id for a request of our own."""
        self._count += 1
        return f"mcp-launch/{self._connection.calls.found.launch.value}/{self._count}"

    def forget(self) -> None:
        """Expect no more answers: the server is gone."""
        self._open.clear()

    def ask(self, line: bytes, hear: Heard) -> None:
        """Repeat a host request under our own id; `hear` gets the answer."""
        key = protocol.spell(self.make_id())
        self._open[key] = hear
        self._connection.relay.guard.waits_for_whole_lines = True
        self._connection.relay.deliver(json_edit.replace(line, key, "id"))

    def restore_state(self) -> None:
        """Repeat settings and subscriptions, and check whether the tools are the same."""
        ledger = self._connection.ledger
        self._connection.relay.deliver(self._connection.opening.initialized)
        for line in (ledger.level, *ledger.subscriptions.values()):
            if line:
                self.ask(line, _ignore_answer)
        self._unacknowledged = set(ledger.listening)
        for line in ledger.listening.values():
            self._connection.relay.deliver(line)
        self._pages = []
        if ledger.tools and ledger.tools_request:
            self.ask(ledger.tools_request, self._hear_tools)

    def hear_own(self, key: bytes, answer: Message, line: bytes) -> bool:
        """Take the answer to our own request; False if the answer is for the host."""
        hear = self._open.pop(key, None)
        if hear is not None:
            hear(answer, line)
        return hear is not None

    def hear_acknowledged(self, message: Message) -> bool:
        """Return whether this confirms a stream that was already confirmed to the host."""
        key = protocol.spell(protocol.get_member(message, "params", "_meta", _SUBSCRIPTION_ID))
        if key not in self._unacknowledged:
            return False
        self._unacknowledged.discard(key)
        return True

    def _hear_tools(self, answer: Message, line: bytes) -> None:
        ledger = self._connection.ledger
        self._pages.append(hash_tools(line))
        has_more = bool(protocol.get_member(answer, "result", "nextCursor"))
        if has_more and len(self._pages) < len(ledger.tools):
            cursor = json_edit.read_raw(line, "result", "nextCursor")
            further = json_edit.put(ledger.tools_request, cursor, "params", "cursor")
            self.ask(further, self._hear_tools)
        elif self._pages != ledger.tools and "result" in answer:
            ledger.tools = self._pages
            self._announce_changed_tools()

    def _announce_changed_tools(self) -> None:
        connection = self._connection
        announced = ("result", "capabilities", "tools", "listChanged")
        if connection.opening.greeting and protocol.get_member(
            connection.opening.answer, *announced
        ):
            connection.relay.say(protocol.make_notification(_TOOLS_CHANGED))
        for line in connection.ledger.listening.values():
            asked = protocol.look(line)
            if protocol.get_member(asked, "params", "notifications", "toolsListChanged"):
                stream = json_edit.read_raw(line, "id")
                changed = protocol.make_notification(_TOOLS_CHANGED)
                connection.relay.say(
                    json_edit.put(changed, stream, "params", "_meta", _SUBSCRIPTION_ID)
                )


def _ignore_answer(_answer: Message, _line: bytes) -> None:
    """Drop an answer that the host already got from the last server."""

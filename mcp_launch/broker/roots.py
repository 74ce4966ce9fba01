"""The directories a host says it works in, as a witness of the server's place.

Claude Code moves (`--worktree`, `/cd`, a resumed session) without telling its servers; the
variable with the project stays behind. What it answers to `roots/list` is where it is.
"""

from __future__ import annotations

import os

from mcp_launch import protocol, trace
from mcp_launch.launch.context import is_inside
from mcp_launch.values import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.connection import Conversation
    from mcp_launch.protocol.json_text import Json, Message

_SCHEME = "file://"

# When to ask the host, if the server has not done so by then, nor a call come …
_ASK_AFTER = 0.1
# … and how long a call waits for the answer, where something follows from it.
_ANSWER_LIMIT = 2.0


class Roots:
    """What the host said to `roots/list`, and whether it fits."""

    def __init__(self, talk: Conversation) -> None:
        self.told: list[str] = []
        self.is_due = False  # the next call must not go before they are known
        self.has_been_asked = False  # by the server, or by us
        self._talk = talk
        self._key = b""  # our own request

    @property
    def is_asking(self) -> bool:
        """Whether the host has to answer us, not the server."""
        return bool(self._key)

    def expect(self) -> None:
        """Find out soon: the host is ready, or says that they have changed."""
        if self._is_witness():
            self.is_due = True
            self.has_been_asked = False
            self._talk.relay.set_alarm("roots", _ASK_AFTER, self._ask)

    def detain(self, line: bytes) -> bool:
        """Tell whether a call has to wait for them, and keep it if so."""
        self._ask()
        self.is_due = self.is_asking
        if not self.is_due or self._talk.calls.profile.on_change not in {"restart", "refuse"}:
            return False
        self._talk.succession.hold(line)
        self._talk.relay.set_alarm("roots", _ANSWER_LIMIT, self._go_on)
        return True

    def hear_own(self, key: bytes, answer: Message) -> bool:
        """Take an answer that is for us; False if it is the server's."""
        if not self._key or key != self._key:
            return False
        self._key = b""
        self.hear(answer)
        return True

    def hear(self, answer: Message) -> None:
        """Take note of an answer, whoever asked."""
        listed = protocol.get_member(answer, "result", "roots")
        addresses = [protocol.get_member(root, "uri") for root in _as_list(listed)]
        self.told = [
            _read_address(address)
            for address in addresses
            if isinstance(address, str) and address.startswith(_SCHEME)
        ]
        calls = self._talk.calls
        place = calls.found.place
        is_contradicted = bool(self.told) and not is_inside(place.value, self.told)
        calls.contradict(Found(self.told[0], "the host's roots/list") if is_contradicted else None)
        if is_contradicted:
            trace.note(f"the host works in {self.told[0]}, the server in {place.value}")
        self._talk.note_news()
        self._go_on()

    def _is_witness(self) -> bool:
        """Tell whether there is something to learn: who was told a directory is not asked."""
        calls, opening = self._talk.calls, self._talk.opening
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
            request_id = self._talk.succession.recollection.make_id()
            self._key = protocol.spell(request_id)
            self._talk.relay.say(protocol.make_request(request_id, "roots/list"))

    def _go_on(self) -> None:
        self.is_due = False
        self._talk.relay.drop_alarm("roots")
        self._talk.succession.release()


def _as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _read_address(address: str) -> str:
    first, *rest = address[len(_SCHEME) :].encode().split(b"%")
    try:
        parts = [bytes.fromhex(part[:2].decode()) + part[2:] for part in rest]
    except ValueError:
        return address[len(_SCHEME) :]  # a bare percent sign
    return os.fsdecode(b"".join([first, *parts]))

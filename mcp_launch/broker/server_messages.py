"""What the server says, message by message.

Answers are counted off against what was asked; our own are kept; and the requests of a
server that took another's place get ids of ours, for both count from the same number.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.protocol import json_edit, server_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.connection import Conversation
    from mcp_launch.protocol.json_text import Message

# What is looked at closely when it is answered.
_NOTEWORTHY = {"initialize", "tools/list", "subscriptions/listen"}


class Hearing:
    """Takes note of what the server says, and returns what of it is the host's."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._succession = talk.succession
        self._ledger = talk.ledger
        self._asked = talk.ledger.asked
        self._opening = talk.opening

    def recognise(self, data: bytes) -> bool:
        """Tell whether this is one answer, whole, of which there is nothing else to note."""
        key = protocol.read_answered(data)
        if key not in self._asked or data.find(b"\n") != len(data) - 1:
            return False
        if self._succession.is_away or not self._opening.is_over:
            return False
        if self._asked[key][0] in _NOTEWORTHY or self._talk.relay.guard.is_midway:
            return False
        del self._asked[key]
        return True

    def heed(self, line: bytes) -> bytes:
        """Take note of a message of the server's; return what of it is the host's."""
        said = protocol.look(line)
        if isinstance(said, dict) and isinstance(said.get("method"), str):
            return self._heed_request(said, line)
        if isinstance(said, dict) and "id" in said:
            return self._heed_answer(protocol.spell(said["id"]), said, line)
        parts = said if isinstance(said, list) else []
        answers = [one for one in parts if isinstance(one, dict) and protocol.is_answer(one)]
        asked = [self._ledger.note_answer(protocol.spell(one["id"])) for one in answers]
        if asked and not any(asked) and self._succession.is_away:
            return b""  # we have answered them
        self._succession.note_answer()
        return line

    def heed_ends(self, head: bytes, tail: bytes) -> None:
        """Take note of a long line that has passed."""
        self._ledger.note_answer(server_lines.read_answered(head, tail))
        self._succession.note_answer()

    def _heed_answer(self, key: bytes, said: Message, line: bytes) -> bytes:
        if self._succession.recollection.hear_own(key, said, line):
            self.wait_as_needed()
            return b""
        asked = self._ledger.note_answer(key)
        if not self._opening.is_over or key in self._opening.pending:
            self._opening.hear_server(said)
            self._talk.note_news()
        if asked is None and self._succession.is_away:
            return b""  # the host has been told that there will be none
        if asked is not None and asked[0] == "tools/list":
            self._ledger.note_tools(said, line)
            self.wait_as_needed()
        self._succession.note_answer()
        return line

    def wait_as_needed(self) -> None:
        """Have lines held until they are whole, if one may come that is ours or of interest."""
        succession = self._succession
        is_needed = succession.recollection.awaits_answers or self._ledger.awaits_tools
        # Whatever a server still answers while it is being ended, we have answered already.
        self._talk.relay.guard.waits_for_whole_lines = is_needed or succession.is_ending

    def _heed_request(self, said: Message, line: bytes) -> bytes:
        method = said["method"]
        if protocol.is_request(said):
            return self._heed_question(said, line)
        if method == "notifications/cancelled":
            own = protocol.spell(protocol.get_member(said, "params", "requestId"))
            known = self._ledger.stop_wanting(own)
            if known != own:
                return json_edit.replace(line, known, "params", "requestId")
        elif method == "notifications/subscriptions/acknowledged":
            return b"" if self._succession.recollection.hear_acknowledged(said) else line
        return line

    def _heed_question(self, said: Message, line: bytes) -> bytes:
        if said["method"] == "roots/list":
            self._talk.roots.has_been_asked = True
        if not self._succession.generation:
            self._ledger.want(said, line)
            return line
        # The last server counted from the same number, and the host may still be at it.
        key = protocol.spell(self._succession.recollection.make_id())
        self._ledger.want(said, line, key)
        return json_edit.replace(line, key, "id")

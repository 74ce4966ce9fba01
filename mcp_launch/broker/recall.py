"""Answers from memory, while no server is there to answer: the greeting, the lists, a ping.

Memory is what servers have answered before: to this client, or to another of the same kind. Only
what a server answers before the first call is remembered: that is what a fresh one answers.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.client import MODERN
from mcp_launch.protocol.memory import ANNOUNCED_BY, GREETINGS, Remembered, name_client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.client import Client
    from mcp_launch.broker.commands import Settings
    from mcp_launch.broker.request import Request
    from mcp_launch.protocol.json_text import Object
    from mcp_launch.protocol.message import Message

# How long to collect answers before they are written to disk. What was never written is not
# collected: Codex 0.125 kills its servers at the end of a session, which may come sooner.
REMEMBER_AFTER = 1.0


class Recall:
    """The memories of all kinds of clients."""

    def __init__(self, settings: Settings) -> None:
        self._store = settings.handshakes
        self._answers_first = settings.answers_from_memory
        self.memories: dict[str, Remembered] = {}  # by what a client says of itself
        # What clients of a pool have got for a discovery, by what they say of themselves.
        self.discoveries: dict[str, Message] = {}

    def find(self, message: Message, client: Client | None, now: float) -> Remembered | None:
        """Return the memory for the client that sends a request; a new one is empty."""
        name = name_client(message.parse())
        if not name:
            return client.kind.memory if client is not None else None
        if name not in self.memories:
            kept = self._store.read(name, now) if self._store is not None else None
            self.memories[name] = kept or Remembered(name, now)
        return self.memories[name]

    def answer(self, request: Request, client: Client, now: float) -> bytes:
        """Return the answer to a request as a line, while no server is ready; empty: unknown."""
        method, message = request.method, request.message
        if method == "initialize" and (known := client.kind.answer) is not None:
            return known.with_id(request.id)
        if not (self._answers_first or client.opened):
            return b""
        if method == "server/discover" and client.opened and client.kind.name != MODERN:
            return b""
        memory = self.find(message, client, now)
        answer = memory.answer(message.parse(), message.line, now) if memory is not None else b""
        if not answer and client.is_ready and _needs_no_server(client, method):
            answer = protocol.make_result(request.id, {})
        return answer

    def learn(  # noqa: PLR0913, PLR0917  # an answer, and whose it is
        self,
        asked: Message,
        client: Client,
        question: tuple[str, bytes],
        said: Object,
        line: bytes,
        now: float,
    ) -> float | None:
        """Remember a server's answer; return after how long it is to be written, if it is."""
        memory = self.find(asked, client, now)
        if memory is None:
            return None
        memory.renew(now)
        memory.learn(question, said, line)
        if not (memory.has_changed or memory.is_due or not memory.size_of_server):
            return None
        memory.is_due, memory.has_changed = False, True
        return 0.0 if memory.is_new and memory.is_worth_keeping else REMEMBER_AFTER

    def take_changed(self) -> list[Remembered]:
        """Return the memories that are to be written."""
        changed = []
        for memory in self.memories.values():
            if memory.has_changed and memory.is_worth_keeping:
                memory.has_changed = memory.is_new = False
                changed.append(memory)
        return changed if self._store is not None else []

    def forget(self) -> list[str]:
        """Return whose memories are to be removed from disk: the next host must learn the truth."""
        for memory in self.memories.values():
            memory.has_changed = False
        return [*self.memories] if self._store is not None else []

    def take_due(self, memory: Remembered) -> bool:
        """Return whether a memory is old, and this launch is the one to compare it."""
        if not memory.is_due or self._store is None:
            return False
        memory.is_due = False
        self._store.claim_check(memory.client)
        return True


def describe(memory: Remembered, now: float) -> str:
    """Return how much is remembered, and how old it is, for the log."""
    count = len(memory.list_names("tools/list"))
    known = f"{count} tool{'' if count == 1 else 's'}"
    return f"{known}, remembered {_name_age(now - memory.written)} ago"


def grant(client: Client, stream: Message) -> Object | None:
    """Return what a stream of list changes is granted without a server; None for any other."""
    wanted = protocol.get_member(stream.params, "notifications")
    changes = {f"{what}ListChanged": what for what in ANNOUNCED_BY.values()}
    if not client.is_ready or not isinstance(wanted, dict) or not wanted.keys() <= changes.keys():
        return None
    capabilities = protocol.get_member(client.answer, "result", "capabilities")
    return {
        name: True
        for name, is_wanted in wanted.items()
        if is_wanted and protocol.get_member(capabilities, changes[name], "listChanged")
    }


def _needs_no_server(client: Client, method: str) -> bool:
    """Return whether we answer a request in place of any server; its answer says nothing."""
    logging = protocol.get_member(client.answer, "result", "capabilities", "logging")
    return method == "ping" or (method == "logging/setLevel" and logging is not None)


def is_greeting(method: str) -> bool:
    """Return whether a request opens a connection."""
    return method in GREETINGS


def _name_age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, int(seconds))} s"

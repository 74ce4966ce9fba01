"""Rules for servers that are absent: what memory may answer, when a server rests or starts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_launch.broker import commands
from mcp_launch.protocol.memory import GREETINGS, LISTS, Remembered, name_client

if TYPE_CHECKING:
    from broker_model import Books, Request, Said
    from broker_setup import Setup
    from broker_world import Server, World

# How old the memory of a schedule is when it begins, in seconds.
_AGE = 20.0
_BEGINNING = 1000.0  # by the clock of the schedules

# The parameters by which hosts of the 2026 era name themselves in every request.
MODERN: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
CAPABILITIES: dict[str, Any] = {"roots": {}}

# What memory answers by itself, without having heard a server.
_EMPTY_ANSWERS = {"ping", "logging/setLevel"}


def _list_known(setup: Setup) -> dict[str, dict[tuple[str, str], Any]]:
    """Return what is remembered when a schedule begins, by client."""
    name = "t1" if setup.memory == "same" else "t0"
    tools: dict[str, Any] = {"tools": [{"name": name}]}
    offered = {"capabilities": {"tools": {"listChanged": True}, "logging": {}}}
    old = name_client({"method": "initialize", "params": {"capabilities": CAPABILITIES}})
    new = name_client({"method": "server/discover", "params": {"_meta": MODERN}})
    first = {("initialize", ""): {"result": offered}, ("tools/list", ""): {"result": tools}}
    life = {"ttlMs": 60_000, "cacheScope": "private"}
    second: dict[tuple[str, str], Any] = {
        ("server/discover", ""): {"result": offered | life},
        ("tools/list", ""): {"result": tools | {"ttlMs": 5000}},
    }
    if setup.era == "refused discover":
        refusal = {"code": -32601, "message": "Method not found"}
        second = {("server/discover", ""): {"error": refusal}}
    return {old: first, new: second}


class Store:
    """Keeps the handshakes of one schedule."""

    def __init__(self, setup: Setup) -> None:
        self._known = _list_known(setup) if setup.memory else {}
        self._is_due = setup.is_due
        self.claimed = 0

    def read(self, client: str, now: float) -> Remembered | None:
        if client not in self._known:
            return None
        answers = {
            (method, json.dumps(cursor).encode() if cursor else b""): json.dumps(
                answer, separators=(",", ":")
            ).encode()
            for (method, cursor), answer in self._known[client].items()
        }
        assert now >= _BEGINNING
        memory = Remembered(client, _BEGINNING - _AGE, answers)
        memory.is_due = self._is_due
        return memory

    def claim_check(self, client: str) -> None:
        assert client in self._known
        self.claimed += 1


class _Given:
    """An answer that may be given again."""

    def __init__(self, question: tuple[str, str], answer: Any, said: Said | None) -> None:
        self.question = question
        self.answer = answer
        self.said = said
        self.heard_at: float | None = None


class AbsenceRules:
    """Checks what happens while there is no server, and when there is none."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.world: World = books.world
        self.given: list[_Given] = []
        self.rests = 0
        self.recalled = 0
        self.failed_wakes = 0  # in a row
        self.failures = 0  # to wake a server
        self._retry_at = 0.0
        self._was_absent = False
        self._acknowledged: set[Any] = set()
        self._levels: dict[int, Any] = {}  # that each server has got last
        self._greetings: dict[int, Any] = {}  # the ids of greetings that were repeated to servers
        self._initialized: set[int] = set()  # servers that got the notification
        self.world.on_command = self.note_command
        self.world.on_event = self.check_event
        if self.world.setup.memory:
            for known in _list_known(self.world.setup).values():
                for question, answer in known.items():
                    given = _Given(question, answer, None)
                    given.heard_at = self.world.clock - _AGE
                    self.given.append(given)

    # What the servers say and get

    def note_given(self, asked: Any, answer: Any, said: Said) -> None:
        """Note an answer of a server that memory may give again."""
        method, params = asked["method"], asked.get("params", {})
        if method in LISTS or method in GREETINGS:
            content = {name: answer[name] for name in ("result", "error") if name in answer}
            self.given.append(_Given((method, params.get("cursor", "")), content, said))

    def _note_heard(self) -> None:
        for one in self.given:
            if one.heard_at is None and one.said is not None:
                server = one.said.server
                if one.said.end <= getattr(server, "written", 0) - len(server.output):
                    one.heard_at = self.world.clock

    def note_repeated(self, server: Server, said: Any) -> None:
        """Note a request of ours to a server."""
        is_first = not server.generation and not self.recalled
        assert not is_first, "the first server is asked nothing by us"
        if said["method"] == "initialize":
            self._greetings[server.generation] = said["id"]
        self.note_level(server, said)

    def note_level(self, server: Server, said: Any) -> None:
        if said["method"] == "logging/setLevel":
            self._levels[server.generation] = said["params"]["level"]

    def note_initialized(self, server: Server) -> None:
        self._initialized.add(server.generation)

    def check_call(self, server: Server, request: Request) -> None:
        """Check that a server may get a call now."""
        books, setup, generation = self.books, self.world.setup, server.generation
        self._note_heard()
        if generation in self._greetings:
            own = self._greetings[generation]
            is_greeted = any(
                one.heard_at is not None
                and one.said is not None
                and one.said.server is server
                and json.loads(one.said.line).get("id") == own
                for one in self.given
            )
            assert is_greeted, f"{request} came before the greeting was answered"
        places = [
            place
            for line, place in books.notifications.items()
            if b'"notifications/initialized"' in line
        ]
        greetings = [one for one in books.requests.values() if one.method == "initialize"]
        is_agreed = any(one.answers and one.answers != ["us"] for one in greetings)
        if is_agreed and any(place < request.index for place in places):
            assert generation in self._initialized, f"{request} came before initialized"
        if request.caller and setup.style in {"codex", "vscode"}:
            is_codex = setup.style == "codex"
            session = f"s-{request.caller}" if is_codex else request.caller
            wrong = server.held.find_wrong(session, request.caller if is_codex else None)
            may_follow = setup.on_change == "follow"
            assert wrong != "requested" or may_follow, f"{request} reached a server of another"

    # Commands

    def note_command(self, command: Any) -> None:
        """Check a command before it is carried out."""
        if isinstance(command, commands.StartServer):
            is_asked_for = "restart" in self.world.event
            assert is_asked_for or self.world.clock >= self._retry_at, "started before its time"
        elif isinstance(command, commands.SendToServer):
            assert self.world.server.stage != "gone", f"sent to nobody: {command.data!r}"
        elif isinstance(command, commands.EndServer):
            assert self.world.server.stage in {"running", "dead", "starting"}, "nothing to end"
            if command.reason == "rest":
                self._check_rest(self.world.server)
        elif isinstance(command, commands.Remember):
            self._check_memory(command.memory)

    def _check_rest(self, server: Server) -> None:
        self.rests += 1
        world, books = self.world, self.books
        books.check_host_input()
        assert not world.sign or world.setup.rest_anyway, f"it rests although {world.sign}"
        assert world.broker.phase == "serving"
        for request in books.requests.values():
            is_here = any(one is server for one, _ in request.deliveries)
            if is_here and not request.is_cancelled and request.method != "subscriptions/listen":
                assert request.answers or not world.host_reads, f"{request} is open"
        open_here = [one.line for one in books.questions.values() if one.server is server]
        assert not open_here, f"the host is being asked {open_here}"
        assert not self._list_subscriptions(), "the host has subscribed"
        for request in self._list_streams():
            wanted = json.loads(request.line)["params"].get("notifications", {"": 1})
            assert set(wanted) <= {"toolsListChanged"}, f"{request} is open"

    def _list_subscriptions(self) -> set[str]:
        found: set[str] = set()
        setup = self.world.setup
        is_default = setup.on_change == "auto" and setup.holds == "requested"
        for request in self.books.requests.values():
            is_sure = not request.is_cancelled  # else it may have been carried out, or not
            is_named = bool(request.caller) and request.method == "resources/subscribe"
            if setup.style in {"codex", "vscode"} and is_default and is_named:
                # Each session gets its own server, which forgets those of the last.
                is_sure = False
                found.discard(_read_uri(request))
            if request.deliveries and is_sure and request.method == "resources/subscribe":
                found.add(_read_uri(request))
            elif request.deliveries and request.method == "resources/unsubscribe":
                found.discard(_read_uri(request))
        return found

    def _list_streams(self) -> list[Request]:
        return [
            request
            for request in self.books.requests.values()
            if request.method == "subscriptions/listen"
            and request.deliveries
            and not (request.is_cancelled or request.answers)
        ]

    @staticmethod
    def _check_memory(memory: Remembered) -> None:
        greeting_or_list = {*GREETINGS, *LISTS}
        for (method, _), kept in memory.answers.items():
            assert method in greeting_or_list
            answer = json.loads(kept)
            is_list = method == "tools/list" and "result" in answer
            assert not is_list or answer["result"]["tools"], "an empty list is remembered"

    # Events

    def check_event(self) -> None:
        """Check what must be true after every event."""
        self._note_heard()
        world = self.world
        backend = world.broker.backends["server"]
        if world.event == "restart requested":
            self._retry_at = 0.0
        if backend.failed_wakes > self.failed_wakes:
            assert backend.failed_wakes == self.failed_wakes + 1
            self.failures += 1
            self._retry_at = world.clock + min(60.0, 2.0**self.failed_wakes)
        self.failed_wakes = backend.failed_wakes
        if backend.state == "ready":
            assert not backend.failed_wakes
            self._retry_at = 0.0
        is_gone = world.server.stage == "gone"
        assert is_gone if backend.state == "absent" else not is_gone or backend.state == "failed"
        has_left = world.input_end_was_heard or world.signalled or not world.host_reads
        if is_gone and has_left and not world.failures:
            assert world.finished, "it waits for nothing"
        if is_gone and self._was_absent and world.finished and not world.failures:
            code = 128 + world.signalled if world.signalled else 0
            assert world.finished == [code], f"{world.finished} is not {code}"
        self._was_absent = is_gone and not world.finished

    # What the host gets

    def take_line(self, said: Any, line: bytes) -> Request | None:
        """Return the request that a line answers from memory; None if it is none."""
        if not isinstance(said, dict) or "method" in said or said.get("id") is None:
            return None
        request = self.books.requests.get(said["id"])
        if request is None or b"[mcp-launch]" in line or self.is_of_server(line):
            return None
        if request.method in _EMPTY_ANSWERS and said.get("result") == {}:
            assert self.world.setup.may_be_absent
            return request
        if request.method not in LISTS and request.method not in GREETINGS:
            return None
        setup = self.world.setup
        is_known = setup.memory and setup.era == "refused discover"
        if "result" not in said and not said["error"].get("data") and not is_known:
            return None  # we have refused it ourselves
        self._check_recalled(request, said, line)
        return request

    def is_of_server(self, line: bytes) -> bool:
        """Return whether a server has written a line."""
        text = line.strip()
        return any(text in one.line for one in self.books.said.values())

    def _check_recalled(self, request: Request, said: Any, line: bytes) -> None:
        self._note_heard()
        asked = json.loads(request.line)
        question = (request.method, asked.get("params", {}).get("cursor", ""))
        same = [
            one
            for one in self.given
            if one.question == question and _strip(one.answer) == _strip(said)
        ]
        assert same, f"never heard of a server: {line!r}"
        life = said.get("result", {}).get("ttlMs")
        limits = [
            max(0.0, one.answer["result"]["ttlMs"] - (self.world.clock - one.heard_at) * 1000)
            for one in same
            if one.heard_at is not None and life is not None
        ]
        assert life is None or life <= max(limits) + 1e-3, f"{line!r} lives longer than {limits}"
        assert any(one.heard_at is not None for one in same)
        self.recalled += 1

    def take_acknowledgement(self, said: Any) -> None:
        """Check that a stream is confirmed once."""
        stream = said["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
        assert self.books.requests[stream].method == "subscriptions/listen"
        assert stream not in self._acknowledged, f"{stream} was confirmed twice"
        self._acknowledged.add(stream)

    # When nothing happens any more

    def check_state(self) -> None:
        """Check that a server knows the state of its host."""
        server, books = self.world.server, self.books
        if not server.is_running or self.world.broker.backends["server"].state != "ready":
            return
        for request in books.requests.values():
            is_open = request.method == "subscriptions/listen" and request.id in self._acknowledged
            if is_open and not (request.is_cancelled or request.answers):
                assert server in [one for one, _ in request.deliveries], f"{request} is not open"
        levels = [one for one in books.requests.values() if one.method == "logging/setLevel"]
        if levels and levels[-1].answers and levels[-1].answers[0] != "us":
            level = json.loads(levels[-1].line)
            if isinstance(level, dict):
                assert self._levels.get(server.generation) == level["params"]["level"]


def _read_uri(request: Request) -> str:
    return str(json.loads(request.line)["params"]["uri"])


def _strip(answer: Any) -> Any:
    """Return an answer without what changes each time."""
    content = {name: answer[name] for name in ("result", "error") if name in answer}
    result = content.get("result")
    if isinstance(result, dict):
        content["result"] = result | {"ttlMs": "ttlMs" in result}
    return content

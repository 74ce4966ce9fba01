"""A host and its servers that send messages at random, and record them in the books."""

from __future__ import annotations

import contextlib
import json
from random import Random
from typing import TYPE_CHECKING, Any

from broker_absence import CAPABILITIES, MODERN
from broker_model import ROOTS, Books, Request, Said
from broker_setup import Setup
from broker_world import World

from mcp_launch import protocol
from mcp_launch.protocol.memory import GREETINGS

if TYPE_CHECKING:
    from broker_world import Server

_METHODS = ["tools/call"] * 6 + [
    "tools/list",
    "ping",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "logging/setLevel",
    "subscriptions/listen",
]


class Players:
    """One host, and its servers, one after the other."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311  # the seed is enough to repeat a schedule
        self.setup = Setup(self.random)
        self.world = World(self.setup, Random(seed + 1))  # noqa: S311
        self.books = Books(self.world)
        self.written = 0  # by the host
        self.ids = 0
        self.places = 0
        self.numbers = 0
        self.greeting: Request | None = None
        self.stage = "new"  # of the host: new, asked, ready
        self.todo: dict[int, list[Any]] = {}  # requests that each server has read, but not answered
        self.asked: dict[int, list[Said]] = {}  # requests that each server has made
        self.read_up_to: dict[int, int] = {}
        self.outbox: dict[int, bytes] = {}
        self.is_exempt = ""  # why requests may stay unanswered

    # The host

    def _write(self, line: bytes) -> None:
        self.world.to_us += line
        self.written += len(line)

    def _place(self) -> int:
        self.places += 1
        return self.places

    def _make(self, method: str, **params: Any) -> tuple[dict[str, Any], Request]:
        self.ids += 1
        oddly = 0.05 if self.setup.is_regular else 0.3
        request_id: Any = self.ids if self.random.random() > oddly else f"r{self.ids}"
        caller = ""
        if method == "tools/call":
            params["name"] = self.random.choice(["t", "t", "t0", "t1"])
        meta: dict[str, Any] = {}
        if self.random.random() < oddly:
            meta["progressToken"] = self.ids
        if self.setup.style in {"codex", "vscode"} and self.random.random() > oddly:
            caller = self.random.choice(
                ["a", "b", "c"] if self.random.random() < 2 * oddly else ["a"]
            )
            meta["threadId"] = caller
        has_caller = method == "tools/call" or self.random.random() < 0.3
        if meta and has_caller:
            params["_meta"] = meta
        if self.setup.is_modern and method in {"server/discover", "tools/list"}:
            params["_meta"] = params.get("_meta", {}) | MODERN
        if self.random.random() < 0.1:
            params["pad"] = "x" * self.random.randrange(600)
        if method == "tools/call" and self.random.random() < self.setup.long_calls:
            params["arguments"] = self._make_long_arguments()
        if "_meta" in params and self.random.random() > oddly:
            params = {"_meta": params.pop("_meta"), **params}  # as Codex writes it
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params:
            said["params"] = params
        request = Request(self._place(), request_id, method, caller if has_caller else "", b"")
        self.books.requests[request_id] = request
        return said, request

    def _make_long_arguments(self) -> dict[str, Any]:
        """Return arguments with long strings, or with many short values."""
        length = protocol._LONG_STRING  # noqa: SLF001
        texts = ["x" * length, '"' * length, "\\" * (2 * length), "\u00e4" * length]
        made: dict[str, Any] = {f"a{n}": self.random.choice(texts) for n in range(5)}
        if self.random.random() < 0.4:
            made["many"] = [1] * protocol.LONG_LINE
        return made

    def _spell(self, said: Any) -> bytes:
        if self.random.random() < (0.05 if self.setup.is_regular else 0.3):
            return json.dumps(said).encode()
        return json.dumps(said, separators=(",", ":")).encode()

    def ask(self, method: str, **params: Any) -> Request:
        said, request = self._make(method, **params)
        end = b"\r\n" if self.random.random() < 0.05 else b"\n"
        request.line = self._spell(said) + end
        self._write(request.line)
        request.end = self.written
        return request

    def send_batch(self) -> None:
        self.ids += 1  # a request that nobody may get
        said = {"jsonrpc": "2.0", "id": self.ids, "method": self.random.choice(_METHODS)}
        self._write(self._spell([said]) + b"\n")
        self.books.batches.append(self.written)

    def notify(self, method: str, **params: Any) -> None:
        place = self._place()
        said = {"jsonrpc": "2.0", "method": method, "params": {"place": place, **params}}
        line = self._spell(said) + b"\n"
        self.books.notifications[line] = place
        self._write(line)

    def host_acts(self) -> None:
        """Let the host send one message, or do nothing."""
        if self.world.input_was_closed:
            return
        if self.stage == "new":
            self.stage = "asked"
            era = self.setup.era
            if era == "bare":
                self.stage = "ready"
            else:
                self.greeting = self.ask(
                    "server/discover" if "discover" in era else "initialize",
                    capabilities=CAPABILITIES,
                )
            return
        if self.stage == "asked" and self.greeting is not None:
            if self.greeting.answers and self._note_greeting_answer():
                return
            if self.stage == "asked" and self.random.random() < 0.97:
                self.hurry()
                return  # a patient host waits for the answer
        self._send_anything()

    def hurry(self) -> None:
        """Get the greeting answered soon: most events come after it."""
        if self.world.can_read_host and self.world.to_us:
            self.world.read_host(self.random.choice([40, 5000]))
        if self.setup.is_slow and self.random.random() < 0.7:
            if self.random.random() < 0.5:
                self.world.pass_time()
            return
        self.server_reads(5000)
        self.server_answers()
        self.server_writes(5000)

    def _note_greeting_answer(self) -> bool:
        greeting = self.greeting
        if greeting is None:
            return False
        if greeting.method == "server/discover":
            if self.setup.era == "refused discover" or greeting.answers[0] == "us":
                self.greeting = self.ask("initialize", capabilities=CAPABILITIES)
                return True
            self.stage = "ready"
            return False
        self.stage = "ready"
        self.notify("notifications/initialized")
        return True

    def _send_anything(self) -> None:
        chance = self.random.random()
        if self.books.questions and chance < 0.3:
            self.answer_question()
        elif chance < 0.33:
            self.cancel()
        elif chance < 0.45:
            self.notify(self.random.choice(["notifications/roots/list_changed", "notifications/x"]))
        elif chance < 0.48:
            line = self.random.choice([b"hello\n", b"\n", b"12\n", b'"text"\n'])
            self.books.plain.add(line)
            self._write(line)
        elif chance < 0.54:
            self.send_batch()
        else:
            method = self.random.choice(_METHODS)
            if method == "subscriptions/listen" and not self.setup.is_modern:
                method = "ping"
            self.ask(method, **self._choose_params(method))

    def _choose_params(self, method: str) -> dict[str, Any]:
        if "subscribe" in method:
            return {"uri": f"u{self.random.randrange(3)}"}
        if method == "logging/setLevel":
            return {"level": f"level {self.ids}"}
        if method == "tools/list" and self.random.random() < 0.2:
            return {"cursor": "2"}
        streams: list[dict[str, Any]] = [{}, {"x": True}, *[{"toolsListChanged": True}] * 4]
        return {"notifications": self.random.choice(streams)} if "listen" in method else {}

    def answer_question(self) -> None:
        key = self.random.choice(list(self.books.questions))
        asked = self.books.answered[key] = self.books.questions.pop(key)
        if asked is ROOTS:
            place = self.random.choice(["/work/app", "/elsewhere"])
            result: dict[str, Any] = {"roots": [{"uri": f"file://{place}"}]}
        else:
            number = json.loads(asked.line)["params"]["n"]
            result = {"q": number}
        said = {"jsonrpc": "2.0", "id": json.loads(key), "result": result}
        self._write(self._spell(said) + b"\n")

    def cancel(self) -> None:
        known = [one for one in self.books.requests.values() if one is not self.greeting]
        if known:
            recent = [one for one in known[-6:] if not one.is_cancelled]
            if recent:
                request = self.random.choice(recent)
                request.is_cancelled = True
                self.notify("notifications/cancelled", requestId=request.id)
                request.cancelled_at = self.written

    # The server

    def server_reads(self, size: int) -> None:
        server = self.world.server
        if not (server.is_running and server.reads):
            return
        self.world.read_input(size)
        start = self.read_up_to.get(server.generation, 0)
        seen = server.received[: server.read]
        todo = self.todo.setdefault(server.generation, [])
        while (end := seen.find(b"\n", start) + 1) > 0:
            with contextlib.suppress(ValueError):
                said = json.loads(seen[start:end])
                todo += self._list_requests(server, said)
            start = end
        self.read_up_to[server.generation] = start

    def _list_requests(self, server: Server, said: Any) -> list[Any]:
        if not isinstance(said, dict):
            return []
        if said.get("method") == "notifications/cancelled" and self.random.random() < 0.7:
            todo = self.todo[server.generation]
            todo[:] = [one for one in todo if one["id"] != said["params"]["requestId"]]
        if "method" in said and "id" in said:
            if said["method"] == "server/discover" and self.setup.dies_of_discover:
                self.world.kill(1)
                return []
            return [said]
        return []

    def server_sends(self, kind: str, said: Any) -> Said:
        server = self.world.server
        return self._put(server, kind, self._spell(said) + b"\n")

    def _put(self, server: Server, kind: str, line: bytes) -> Said:
        generation = server.generation
        outbox = self.outbox[generation] = self.outbox.get(generation, b"") + line
        written = getattr(server, "written", 0)
        # A line is complete even without its newline.
        one = Said(server, kind, line, written + len(outbox) - 1)
        self.books.said[self.numbers] = one
        return one

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers

    def server_answers(self) -> None:
        todo = self.todo.get(self.world.server.generation, [])
        if not todo:
            return
        one = todo.pop(self.random.randrange(len(todo)))
        is_own = str(one["id"]).startswith("mcp-launch/")
        if is_own and self.setup.is_slow and self.random.random() < 0.9:
            todo.append(one)
            return
        if one["method"] == "subscriptions/listen":
            params = {
                "n": self._number(),
                "_meta": {"io.modelcontextprotocol/subscriptionId": one["id"]},
            }
            method = "notifications/subscriptions/acknowledged"
            self.server_sends("ack", {"jsonrpc": "2.0", "method": method, "params": params})
            return
        answer = self._make_answer(one)
        said = self.server_sends("own" if is_own else "answer", answer)
        self.books.absence.note_given(one, answer, said)
        if not is_own:
            said.answers = [self.books.requests[one["id"]]]

    def _make_answer(self, asked: Any) -> dict[str, Any]:
        number = self._number()
        result: dict[str, Any] = {"n": number}
        if self.random.random() < 0.15:
            result["pad"] = "y" * self.random.randrange(900)
        if asked["method"] == "tools/list":
            self._list_tools(result, asked.get("params", {}))
        elif asked["method"] in GREETINGS:
            result["capabilities"] = {"tools": {"listChanged": True}, "logging": {}}
        is_refused = (
            (self.setup.era == "refused discover" and asked["method"] == "server/discover")
            or (self.setup.era == "refused" and asked["method"] == "initialize")
            or (asked["method"] == "initialize" and self.random.random() < self.setup.danger)
        )
        outcome = (
            {"error": {"code": self._choose_code(), "message": "no", "data": result}}
            if is_refused
            else {"result": result}
        )
        if self.random.random() < 0.3:
            return {**outcome, "jsonrpc": "2.0", "id": asked["id"]}
        return {"jsonrpc": "2.0", "id": asked["id"], **outcome}

    def _choose_code(self) -> int:
        return self.random.choice([-1, -32601])

    def _list_tools(self, result: dict[str, Any], params: Any) -> None:
        generation = self.world.server.generation
        name = "t1" if self.setup.memory else f"t{min(generation, 1)}"
        result["tools"] = [{"name": name}]
        if self.setup.remembers and self.random.random() < 0.1:
            result["tools"] = []
        elif self.setup.has_pages and not params.get("cursor"):
            result["nextCursor"] = "2"
        if self.setup.is_modern and self.random.random() < 0.5:
            result["ttlMs"] = self.random.choice([0, 1000, 90_000])

    def server_notifies(self) -> None:
        server = self.world.server
        chance = self.random.random()
        asked = self.asked.setdefault(server.generation, [])
        if chance < 0.4:
            params: dict[str, Any] = {"n": self._number()}
            if self.random.random() < 0.2:
                params["pad"] = "z" * self.random.randrange(900)
            self.server_sends(
                "note", {"jsonrpc": "2.0", "method": "notifications/y", "params": params}
            )
        elif chance < 0.7:
            own = len(asked) + 1  # every server counts from the same number
            method = self.random.choice(["ping", "sampling/createMessage", "elicitation/create"])
            said = {"jsonrpc": "2.0", "id": own, "method": method, "params": {"n": self._number()}}
            one = self.server_sends("question", said)
            one.question = own
            asked.append(one)
        elif chance < 0.85:
            open_ones = [one for one in asked if not isinstance(one.question, tuple)]
            if open_ones:
                one = self.random.choice(open_ones)
                params = {"requestId": one.question, "n": self._number()}
                method = "notifications/cancelled"
                said = {"jsonrpc": "2.0", "method": method, "params": params}
                cancel = self.server_sends("cancel", said)
                cancel.question = one.question
                one.question = ("cancelled", one.question)
        elif self.random.random() < 0.3:
            self._put(server, "noise", b'log "n":%d, all is well\n' % self._number())
        elif self.random.random() < 0.1 and (todo := self.todo.get(server.generation)):
            answer = self._make_answer(todo[0])  # which is not given that way
            self._put(server, "noise", self._spell([answer]) + b"\n")

    def server_writes(self, size: int) -> None:
        server = self.world.server
        outbox = self.outbox.get(server.generation, b"")
        if server.is_running and server.output_is_open and not server.output_was_closed:
            data = outbox[:size]
            self.outbox[server.generation] = outbox[size:]
            server.output += data
            server.written = getattr(server, "written", 0) + len(data)  # type: ignore[attr-defined]

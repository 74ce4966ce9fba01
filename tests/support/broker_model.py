"""A record of everything that a host and its servers send, and rules about what each gets."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from broker_absence import AbsenceRules

from mcp_launch import protocol
from mcp_launch.broker.routing import KEY
from mcp_launch.protocol import json_edit

if TYPE_CHECKING:
    from broker_world import Server, World

    from mcp_launch.broker.routing import FollowedCall

_NUMBER = re.compile(rb'"n": ?(\d+)[,}]')
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_OURS = {
    "notifications/cancelled",
    "roots/list",
    "notifications/tools/list_changed",
    _ACKNOWLEDGED,
}

# Methods that are repeated to the next server, even if another server has read them.
_REPEATED = {"subscriptions/listen"}


class Request:
    """A request from the host, with its deliveries and answers."""

    def __init__(self, index: int, request_id: Any, method: str, caller: str, line: bytes) -> None:
        self.index = index
        self.id = request_id
        self.method = method
        self.caller = caller
        self.line = line
        self.is_cancelled = False
        self.end = 0  # where its line ends in everything that the host has written
        self.cancelled_at = 1 << 60  # where its cancellation ends
        self.answers: list[str] = []
        self.deliveries: list[tuple[Server, int]] = []

    @property
    def is_shortened(self) -> bool:
        """Whether it was checked without its long strings."""
        return len(self.line) > protocol.LONG_LINE and len(protocol.shorten(self.line)) < len(
            self.line
        )

    @property
    def is_condensed(self) -> bool:
        """Whether too little of it is kept for another server."""
        return (
            len(self.line) > protocol.LONG_LINE
            and len(protocol.shorten(self.line)) > protocol.LONG_LINE
        )

    def __repr__(self) -> str:
        return f"{self.id}:{self.method}"


class Said:
    """A line from a server."""

    def __init__(self, server: Server, kind: str, line: bytes, end: int) -> None:
        self.server = server
        self.kind = kind  # answer, own, note, question, noise
        self.line = line
        self.end = end  # its end in everything that the server has written
        self.answers: list[Request] = []
        self.question: Any = None
        self.has_arrived = False


class Books:
    """Everything that was sent, and the rules."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.requests: dict[Any, Request] = {}
        self.notifications: dict[bytes, int] = {}  # lines from the host, with their place
        self.plain: set[bytes] = set()  # lines from the host that are not messages
        self.said: dict[int, Said] = {}
        self.questions: dict[bytes, Said] = {}  # open at the host, by their ids as written
        self.answered: dict[bytes, Said] = {}  # by the host
        self.sent: dict[int, bytes] = {}  # to each server
        self._parsed: dict[int, int] = {}
        self._last_index: dict[int, int] = {}
        self._callers: dict[int, set[str]] = {}  # the callers whose requests each server got
        self._heard = 0  # how much of the host's input was checked
        # Where each array of the host ends in what it has written.
        self.batches: list[int] = []
        self.refused_batches = 0
        self._last_number = 0
        self._is_midway = False  # the host had the beginning of a line when it closed its end
        self.cut_offs = 0
        self.has_lost_input = False
        self.is_deaf = False  # the host has closed its end, and hears no news or questions
        world.on_sent = self.note_sent
        self.absence = AbsenceRules(self)

    # What the servers get

    def note_sent(self, server: Server, data: bytes) -> None:
        generation = server.generation
        is_lost = not self.world.host_is_there
        assert server.input != "closed" or is_lost, f"sent to a closed stdin: {data!r}"
        sent = self.sent[generation] = self.sent.get(generation, b"") + data
        start = self._parsed.get(generation, 0)
        while (end := sent.find(b"\n", start) + 1) > 0:
            self._take_sent(server, sent[start:end], start)
            start = end
        self._parsed[generation] = start

    def _take_sent(self, server: Server, line: bytes, start: int) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            # A server that died may have read its beginning.
            is_known = any(one.endswith(line) for one in self.plain)
            assert is_known or not line.strip(), f"never sent: {line!r}"
            return
        if "method" in said and "id" in said:
            self._take_request(server, said, line, start)
        elif "method" in said:
            self._take_notification(server, said, line)
        elif "error" in said:
            is_over = self.world.broker.connections["host"].input_has_ended
            assert is_over, f"a question was refused: {said}"
        else:
            question = said["result"]["q"]
            asked = self.said[question]
            assert asked.server is server, "an answer reached a server that did not ask"
            if isinstance(asked.question, tuple):
                assert asked.question == ("cancelled", said["id"]), "it was answered twice"
            else:
                assert asked.question == said["id"], (
                    f"{asked.question} was answered as {said['id']}"
                )
                asked.question = ("answered", said["id"])

    def _take_request(self, server: Server, said: Any, line: bytes, start: int) -> None:
        if str(said["id"]).startswith("mcp-launch/"):
            self.absence.note_repeated(server, said)
            return
        request = self.requests[said["id"]]
        for before, at in request.deliveries:
            if request.method not in _REPEATED:
                assert before is not server, f"{request} was delivered twice to one server"
                assert before.read <= at, f"{request} was delivered again after it was read"
        is_void = request.cancelled_at <= self.world.delivered and request.method not in _REPEATED
        assert not is_void, f"{request} was delivered after it was cancelled"
        request.deliveries.append((server, start))
        self._keep_order(server, request.index, request.method)
        self.absence.note_level(server, said)
        if request.method == "tools/call":
            self.absence.check_call(server, request)
        params = said.get("params", {})
        stamp = params.get("_meta", {}).pop(KEY.text, None)
        if params.get("_meta") == {} and stamp is not None:
            del params["_meta"]
        whole = json.loads(request.line)
        original = json.loads(request.line)
        if original.get("params", {}).get("_meta") == {} and stamp is not None:
            del original["params"]["_meta"]
        assert said == original, f"{request} has changed: {line!r}"
        has_stamp = said["method"] == "tools/call" and not self.world.setup.no_meta
        assert (stamp is not None) == has_stamp
        if not has_stamp:
            assert line.strip() in request.line
        else:
            raw = json_edit.read_raw(line, "params", "_meta", KEY.text)
            expected = json_edit.put_meta(request.line, whole["params"], KEY, raw)
            assert line == expected, f"{request} has changed: {line!r}"
        self._check_caller(server, request, stamp)

    def _check_caller(self, server: Server, request: Request, stamp: Any) -> None:
        setup = self.world.setup
        caller = request.caller
        if setup.style == "claude" and request.method in {"tools/call", "resources/read"}:
            caller = self.world.record
        if not caller or request.method in _REPEATED:
            return
        if stamp is not None and setup.style != "other":
            name = f"s-{caller}" if setup.style == "codex" else caller
            assert stamp["session"] == name, f"{request} is of {name}, stamped {stamp}"
        known = self._callers.setdefault(server.generation, set())
        known.add(caller)
        is_refused = setup.on_change == "refuse"
        is_restarted = setup.on_change == "restart" or (
            setup.on_change == "auto" and setup.holds == "requested"
        )
        if is_refused or is_restarted:
            assert len(known) == 1, f"a server got requests of {known}"
        if is_refused and setup.style in {"codex", "vscode"}:
            everyone = set().union(*self._callers.values())
            assert len(everyone) == 1, f"the servers got requests of {everyone}"

    def _keep_order(self, server: Server, index: int, method: str) -> None:
        if method in _REPEATED:
            return
        last = self._last_index.get(server.generation, -1)
        assert index > last, f"number {index} of the host's came after {last}"
        self._last_index[server.generation] = index

    def _take_notification(self, server: Server, said: Any, line: bytes) -> None:
        assert line in self.notifications, f"never sent: {line!r}"
        if said["method"] == "notifications/cancelled":
            request = self.requests[said["params"]["requestId"]]
            servers = [one for one, _ in request.deliveries]
            assert server in servers, f"{request} was cancelled where it was not asked"
        elif said["method"] == "notifications/initialized":
            self.absence.note_initialized(server)
        else:
            self._keep_order(server, self.notifications[line], said["method"])

    # What the host gets

    def check_host_input(self) -> None:
        """Check the lines that the host has got since the last time."""
        text = self.world.from_us
        while (end := text.find(b"\n", self._heard) + 1) > 0:
            line = text[self._heard : end]
            self._heard = end
            self._check_line(line)
            self._is_midway = False
        self._note_deafness()

    def _note_deafness(self) -> None:
        """Note that the host's end was closed: only a line that has begun may be finished."""
        if self.world.broker.connections["host"].input_has_ended and not self.is_deaf:
            self.is_deaf = True
            self._is_midway = self._heard < len(self.world.from_us)

    def _check_hears(self, line: bytes) -> None:
        assert not self.is_deaf or self._is_midway, f"the host has closed its end: {line!r}"

    def check_last_line(self) -> None:
        """Check a last line that has no newline."""
        rest = self.world.from_us[self._heard :]
        self._heard = len(self.world.from_us)
        if rest:
            assert self.world.server.output_was_closed, f"half a line: {rest!r}"
            self._check_line(rest)

    def _check_line(self, line: bytes) -> None:
        if not line.strip():
            return
        found = _NUMBER.search(line)
        try:
            said = json.loads(line)
        except ValueError:
            said = None
        if request := self._find_answered_by_failure(said, line):
            self._note_answer(request, "failure")
        elif request := self.absence.take_line(said, line):
            self._note_answer(request, "memory")
        elif found is None and said is not None:
            self._check_own_line(said, line)
        elif found is None:
            assert self._is_broken_off(line), f"never sent: {line!r}"
        else:
            self._check_server_line(self.said[int(found[1])], int(found[1]), said, line)

    def _find_answered_by_failure(self, said: Any, line: bytes) -> Request | None:
        """Return the request that a launch which failed answers in place of a server."""
        if not self.world.broker.is_shown_as_tool or not isinstance(said, dict):
            return None
        request = self.requests.get(said.get("id")) if "result" in said else None
        if request is None or request.method == "tools/call" or self.absence.is_of_server(line):
            return None
        assert self.world.setup.on_failure != "error"
        assert not any(one.handshake.is_over for one in self.world.broker.connections.values())
        is_listed = self.world.setup.on_failure == "tool"
        assert is_listed or request.method != "tools/list", "a tool was listed"
        return request

    def _is_broken_off(self, line: bytes) -> bool:
        start = line.rstrip(b"\n").removesuffix(b" [cut off]")
        self.cut_offs += 1
        if line.endswith(b" [cut off]\n"):
            causes = ("timer drain", "output closed")
            assert self.world.event.startswith(causes), f"cut off for no reason: {line!r}"
        return any(one.line.startswith(start) for one in self.said.values())

    def _check_server_line(self, one: Said, number: int, said: Any, line: bytes) -> None:
        assert number > self._last_number, f"{line!r} came after number {self._last_number}"
        self._last_number = number
        assert one.kind != "own", f"the host has got an answer to us: {line!r}"
        if said is None and line != one.line:
            assert self._is_broken_off(line), f"{line!r} is not {one.line!r}"
            return
        assert one.kind != "noise"
        one.has_arrived = True
        # Those of a server that came after another, or that the host was answered without.
        is_renamed = line.rstrip(b"\n") != one.line.rstrip(b"\n") and one.question is not None
        if is_renamed and one.kind == "question":
            was = json.loads(one.line)
            assert str(said["id"]).startswith("mcp-launch/")
            assert said | {"id": was["id"]} == was
        elif is_renamed:
            was = json.loads(one.line)
            was["params"]["requestId"] = said["params"]["requestId"]
            assert said == was
        else:
            assert line.rstrip(b"\n") == one.line.rstrip(b"\n"), f"{line!r} is not {one.line!r}"
        for request in one.answers:
            assert one.server in [server for server, _ in request.deliveries]
            self._note_answer(request, f"server {one.server.generation}")
        if one.kind not in {"answer", "noise"}:
            self._check_hears(line)
        if one.kind == "question":
            key = json.dumps(said["id"]).encode()
            assert key not in self.questions, f"{key!r} is already open"
            self.questions[key] = one
        elif one.kind == "ack":
            self.absence.take_acknowledgement(said)
        elif one.kind == "cancel":
            key = json.dumps(said["params"]["requestId"]).encode()
            asked = self.questions.pop(key, None)
            assert asked is None or asked.server is one.server

    def _check_own_line(self, said: Any, line: bytes) -> None:
        if "method" not in said and said["id"] is None:
            assert said["error"]["code"] == protocol.INVALID_REQUEST
            self.refused_batches += 1
            return
        if "method" not in said:
            text = json.dumps(said)
            assert "[mcp-launch]" in text or "Method not found" in text, f"invented: {line!r}"
            request = self.requests[said["id"]]
            self._note_answer(request, "us")
            if request.deliveries and "was not answered" in text and "was replaced" not in text:
                server, at = request.deliveries[-1]
                is_lost = server.input == "closed" or server.read > at or request.is_condensed
                assert is_lost, f"{request} was given up although it was never read"
            return
        self._check_hears(line)
        if said["method"] == "roots/list":
            assert self.world.setup.moves_unannounced
            self.questions[json.dumps(said["id"]).encode()] = ROOTS
        else:
            assert said["method"] in _OURS, f"invented: {line!r}"
            if said["method"] == _ACKNOWLEDGED:
                self.absence.take_acknowledgement(said)
            if said["method"] == "notifications/cancelled":
                key = json.dumps(said["params"]["requestId"]).encode()
                is_known = key in self.questions or key in self.answered
                assert is_known, f"a question was cancelled that was not open: {line!r}"
                self.questions.pop(key, None)

    def _note_answer(self, request: Request, by: str) -> None:
        request.answers.append(by)
        assert len(request.answers) == 1 or (request.is_cancelled and len(request.answers) == 2), (
            f"{request} was answered by {request.answers}"
        )

    # Rules for when nothing happens any more

    def check_answers(self, delivered: int) -> None:
        expected = sum(end <= delivered for end in self.batches)
        assert self.refused_batches == expected, "an array was not refused"
        for request in self.requests.values():
            if request.end <= delivered and not request.is_cancelled:
                is_stream = request.method in _REPEATED
                assert request.answers or is_stream, f"{request} was never answered"

    def check_records(self, finished: list[FollowedCall]) -> None:
        numbers = [call.number for call in finished]
        assert numbers == list(range(1, len(finished) + 1)), "records are not numbered in order"
        keys = [protocol.read_key(call.line) for call in finished]
        for request in self.requests.values():
            if request.method != "tools/call":
                continue
            count = keys.count(protocol.spell(request.id))
            is_open = not request.answers
            assert count == 1 or (is_open and not count), f"{request} was recorded {count} times"
            outcomes = [
                one.outcome
                for one, key in zip(finished, keys, strict=True)
                if key == protocol.spell(request.id)
            ]
            if request.answers == ["us"]:
                assert outcomes[0] in {"refused", "died", "cancelled"}, f"{request}: {outcomes}"

    def check_arrivals(self) -> None:
        for number, one in self.said.items() if not self.is_deaf else ():
            is_whole = one.end <= getattr(one.server, "written", 0)
            if one.kind in {"note", "question", "cancel"} and is_whole:
                assert one.has_arrived, f"number {number} never reached the host: {one.line!r}"

    def check_questions(self) -> None:
        server = self.world.server
        for asked in [*self.questions.values(), *self.answered.values()]:
            if asked is ROOTS or not server.is_running or not server.reads:
                continue
            if asked in self.questions.values():
                assert asked.server is server, f"the server that asked is gone: {asked.line!r}"
            elif asked.server is server:
                assert isinstance(asked.question, tuple), f"no answer came to {asked.line!r}"

    def check_size(self) -> None:
        broker = self.world.broker
        backend, connection = broker.backends["server"], broker.connections["host"]
        requests = backend.requests
        unfinished = [one.line for one in requests.list_unfinished()]
        assert not unfinished, f"still open: {unfinished}"
        assert not requests.tokens
        assert not requests._noted  # noqa: SLF001
        assert not backend.queue
        # A server that refuses its host is not started again.
        assert not backend.restart or broker.failure, "a restart was not carried out"
        assert not backend.own_requests
        assert not connection.unsent
        assert set(connection.server_requests) <= set(self.questions)
        assert len(connection.handshake.pending) <= len(self.requests)


class _Roots(Said):
    def __init__(self) -> None:
        self.kind = "roots"
        self.server = None  # type: ignore[assignment]


ROOTS = _Roots()

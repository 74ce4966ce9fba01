"""What a host and several servers have said, and the rules for what each of them may get."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from isolation_world import read_json

from mcp_launch.broker.routing import ACTING, KEY

if TYPE_CHECKING:
    from isolation_world import Process, World

_NUMBER = re.compile(rb'"n": ?(\d+)')
_CANCELLED = "notifications/cancelled"
_NEVER = 1 << 60  # where a line is that cannot be read any more

# Where each session works that names a directory.
PLACES = {"d": "/work/d"}


class Request:
    """A request from the host."""

    def __init__(self, request_id: int, method: str, session: str) -> None:
        self.id = request_id
        self.method = method
        self.session = session  # empty if it names none
        self.end = _NEVER  # where its line ends in what the host has written
        self.deliveries: list[tuple[Process, int]] = []
        self.answers: list[str] = []
        self.is_cancelled = False
        self.level = ""  # that it sets

    def __repr__(self) -> str:
        return f"request {self.id} ({self.method} of {self.session or 'nobody'})"


class Said:
    """A line from a server."""

    def __init__(self, process: Process, kind: str, said: Any, line: bytes) -> None:
        self.process = process
        self.kind = kind  # answer, own, question, note, noise
        self.said = said
        self.line = line
        self.host_id: Any = None  # of a question: the id that the host knows
        self.host_token: Any = None
        self.answers = 0  # how many the server got
        self.was_answered = self.was_cancelled = False  # by the host; by anybody


class Books:
    """Checks everything that is sent."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.requests: dict[int, Request] = {}
        self.notifications: dict[int, tuple[str, str]] = {}  # method and session, by number
        self.said: dict[int, Said] = {}
        self.questions: dict[Any, Said] = {}  # that the host has not answered, by its id
        self.level = ""  # the last one that a server got from the host, or that we accepted
        self._level_of = 0  # the request that set it
        self._heard = 0
        self._is_deaf = False  # the host has closed its end, and hears no news or questions
        self._is_midway = False  # then, it had the beginning of a line
        self._last: dict[int, int] = {}  # the last number of each process that the host got
        world.on_sent = self._check_sent
        world.on_end = self._check_end

    # What servers get

    def _check_sent(self, process: Process, data: bytes) -> None:
        at = len(process.received) + len(process.pending)
        at = at if process.input in {"open", "closing"} and process.reads else _NEVER
        for line in data.splitlines(keepends=True):
            said = read_json(line)
            assert not isinstance(said, list), f"sent to a server: {line!r}"
            if isinstance(said, dict):
                self._check_message(process, said, at)
            at += len(line)

    def _check_message(self, process: Process, said: Any, at: int) -> None:
        if "method" not in said:
            self._check_host_answer(process, said)
            return
        params = said.get("params", {})
        session = params.get("_meta", {}).get("session", "")
        if said["method"] in ACTING and (session or said["method"] == "tools/call"):
            self._check_session(process, said, session)
        if said["method"] == "logging/setLevel":
            process.level = params["level"]
        if "id" not in said:
            self._check_notification(process, said)
        elif not str(said["id"]).startswith("mcp-launch/"):
            self._check_request(process, self.requests[said["id"]], params, at)

    def _check_session(self, process: Process, said: Any, session: str) -> None:
        process.sessions.add(session)
        assert len(process.sessions) == 1, f"{process.name} got calls of {process.sessions}"
        wrong = process.plan.held.find_wrong(session, None)
        assert wrong is None, f"{said} was sent to a server with another session's variable"
        if self.world.setup.on_change != "auto" and session in PLACES:
            assert process.plan.cwd.value == PLACES[session], f"{said} is in the wrong directory"

    def _check_request(self, process: Process, request: Request, params: Any, at: int) -> None:
        assert not request.answers, f"{request} was delivered after it was answered"
        for before, start in request.deliveries:
            assert before is not process, f"{request} was delivered twice to one server"
            assert before.read <= start, f"{request} was delivered again after it was read"
        request.deliveries.append((process, at))
        self._note_level(request)
        if request.method == "tools/call":
            stamp = params["_meta"][KEY.text]["session"]
            assert (stamp or "") == request.session, f"{request} was stamped {stamp}"

    def _note_level(self, request: Request) -> None:
        if request.level and request.id > self._level_of:
            self.level, self._level_of = request.level, request.id

    def _check_notification(self, process: Process, said: Any) -> None:
        params = said.get("params", {})
        if said["method"] == _CANCELLED:
            request = self.requests[params["requestId"]]
            servers = [one for one, _ in request.deliveries]
            assert process in servers, f"{request} was cancelled where it was not asked"
        elif said["method"] == "notifications/progress":
            asked = [one.said["params"].get("_meta", {}) for one in self._list_asked(process)]
            token = params["progressToken"]
            assert {"progressToken": token} in asked, f"{process.name} did not ask for {said}"

    def _list_asked(self, process: Process) -> list[Said]:
        return [
            one for one in self.said.values() if one.kind == "question" and one.process is process
        ]

    def _check_host_answer(self, process: Process, said: Any) -> None:
        if "error" in said:
            is_over = self.world.broker.connections["host"].input_has_ended
            assert is_over, f"a question was refused: {said}"
            return
        asked = self.said[said["result"]["q"]]
        assert asked.process is process, f"{process.name} did not ask for {said}"
        assert asked.said["id"] == said["id"], f"{asked.said} was answered with {said}"
        asked.answers += 1
        assert asked.answers == 1, f"{asked.said} was answered twice"

    def _check_end(self, process: Process) -> None:
        """Check that a server is not ended for another session while it is at work."""
        backend = self.world.broker.backends[process.name]
        is_skipped = self.world.setup.server_limit == 1 or not self.world.host_reads
        is_skipped = is_skipped or bool(self.world.broker.connections["host"].unsent)
        self.check_host_input()
        if backend.next_served is None or is_skipped or not process.sessions:
            return
        if {backend.next_served.bound.session} == process.sessions:
            return
        for request in self.requests.values():
            is_open = not (request.answers or request.is_cancelled)
            has_it = bool(request.deliveries) and request.deliveries[-1][0] is process
            assert not (is_open and has_it), f"{request} was open, but its server is ended"
        for asked in self.questions.values():
            assert asked.process is not process, f"{asked.said} was open, but its server is ended"

    # What the host gets

    def check_host_input(self) -> None:
        """Check the lines that the host has got since the last time."""
        text = self.world.from_us
        while (end := text.find(b"\n", self._heard) + 1) > 0:
            line = text[self._heard : end]
            self._heard = end
            if line.strip():
                self._check_line(line)
            self._is_midway = False
        if self.world.broker.connections["host"].input_has_ended and not self._is_deaf:
            self._is_deaf = True
            self._is_midway = self._heard < len(text)

    def check_last_line(self) -> None:
        """Check a last line that has no newline."""
        rest = self.world.from_us[self._heard :]
        self._heard = len(self.world.from_us)
        if rest:
            self._check_line(rest)

    def _check_line(self, line: bytes) -> None:
        said = read_json(line)
        if isinstance(said, dict):
            self._check_one(said, line)
        else:
            start = line.rstrip(b"\n").removesuffix(b" [cut off]")
            lines = [one.line for one in self.said.values()]
            noise = [one.line for one in self.said.values() if one.kind == "noise"]
            is_known = any(one.startswith(start) for one in lines)
            # A line of noise is divided if a server is opened beside its own.
            is_known = is_known or any(start in one for one in noise)
            assert is_known, f"never said: {line!r}"

    def _check_one(self, said: Any, line: bytes) -> None:
        is_heard = not self._is_deaf or self._is_midway or "method" not in said
        assert is_heard, f"the host has closed its end: {line!r}"
        found = _NUMBER.search(json.dumps(said).encode())
        if found is None:
            self._check_own_line(said, line)
            return
        number = int(found[1])
        one = self.said[number]
        process = one.process
        last = self._last.get(process.generation, -1)
        assert number > last, f"{line!r} came after number {last}"
        self._last[process.generation] = number
        assert one.kind != "own", f"the host has got an answer to us: {line!r}"
        if one.kind == "question":
            self._take_question(one, said)
            return
        assert said == one.said, f"{said!r} is not {one.said!r}"
        if one.kind == "answer":
            request = self.requests[said["id"]]
            servers = [server for server, _ in request.deliveries]
            assert process in servers, f"{request} was answered by another server"
            self._note_answer(request, process.name)

    def _take_question(self, one: Said, said: Any) -> None:
        was = json.loads(json.dumps(one.said))
        was["id"] = said["id"]
        if "_meta" in was["params"]:
            one.host_token = said["params"]["_meta"]["progressToken"]
            was["params"]["_meta"]["progressToken"] = one.host_token
        assert said == was, f"{said!r} is not {one.said!r}"
        assert said["id"] not in self.questions, f"{said['id']} is already open"
        one.host_id = said["id"]
        self.questions[said["id"]] = one

    def _check_own_line(self, said: Any, line: bytes) -> None:
        if "method" not in said and said["id"] is None:
            assert "array" in said["error"]["message"], f"invented: {line!r}"
        elif "method" not in said:
            text = json.dumps(said)
            is_ping = self.requests[said["id"]].method in {"ping", "logging/setLevel"}
            assert "[mcp-launch]" in text or is_ping, f"invented: {line!r}"
            self._note_answer(self.requests[said["id"]], "us")
            if said.get("result") == {}:
                self._note_level(self.requests[said["id"]])
        elif said["method"] == _CANCELLED:
            asked = self.questions.pop(said["params"]["requestId"], None)
            if asked is not None:
                asked.was_cancelled = True
        else:
            is_ours = said["method"] in {"roots/list", "notifications/tools/list_changed"}
            assert is_ours, f"invented: {line!r}"

    def _note_answer(self, request: Request, by: str) -> None:
        request.answers.append(by)
        assert len(request.answers) == 1, f"{request} was answered by {request.answers}"

    # Rules for when nothing happens any more

    def check_answers(self, delivered: int) -> None:
        for request in self.requests.values():
            if request.end <= delivered and not request.is_cancelled:
                assert request.answers, f"{request} was never answered"

    def check_questions(self) -> None:
        """Check that each answer of the host has arrived, and no open question is a dead one's."""
        for one in self.said.values():
            process = one.process
            if one.kind == "question" and process.is_running and not process.is_crippled:
                assert not one.was_answered or one.answers, f"no answer came to {one.said}"
        for one in self.questions.values():
            assert one.process.stage == "running", f"the server that asked is gone: {one.said}"

    def check_levels(self) -> None:
        if any(one.level and one.is_cancelled for one in self.requests.values()):
            return  # it may have taken effect
        for process in self.world.running:
            is_ready = self.world.broker.backends[process.name].is_ready
            if is_ready and not process.is_crippled and self.level:
                assert process.level == self.level, (
                    f"{process.name} has {process.level}, not {self.level}"
                )

    def check_size(self) -> None:
        broker = self.world.broker
        connection = broker.connections["host"]
        for backend in broker.backends.values():
            unfinished = [one.line for one in backend.requests.list_unfinished()]
            assert not unfinished, f"still open at {backend.name}: {unfinished}"
            assert not backend.queue, f"still waiting for {backend.name}: {backend.queue}"
            assert not backend.own_requests
            assert not backend.restart, "a restart was not carried out"
            assert backend.state in {"ready", "absent"}, f"{backend.name} is {backend.state}"
        assert not connection.unsent
        known = {json.loads(key) for key in connection.server_requests}
        assert known <= set(self.questions), f"{known} are open, not {set(self.questions)}"

"""The sessions and servers of a pool's random schedules: what they say, and what they may get."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_launch import protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

PREFIX = "io.modelcontextprotocol/"
STREAM = f"{PREFIX}subscriptionId"
TASK = f"{PREFIX}related-task"
MODERN = {f"{PREFIX}protocolVersion": "2026-07-28"}

LEVELS = ["debug", "info", "warning", "error"]
URIS = ["u:1", "u:2", "u:2/part"]

# How ids may be written; the number of the request takes the place of the braces.
SPELLINGS = ["{}", "{}", "{}", '"{}"', '"\\u0061{}"', "{}.0"]

# Requests that the pool may answer itself.
_CONFIRMED = {"resources/subscribe", "resources/unsubscribe", "logging/setLevel"}

# How the pool answers what a session has asked one server before it moved to another.
_LOST = "[mcp-launch] the server that was asked has ended"


class Asked:
    """A request of a session."""

    def __init__(self, tag: str, method: str, params: dict[str, Any], raw_id: str) -> None:
        self.tag = tag
        self.method = method
        self.params = params
        self.raw_id = raw_id

    @property
    def number(self) -> int:
        """How many requests its session had made with it."""
        return int(self.tag.partition("/")[2])

    @property
    def token(self) -> object:
        return self.params.get("_meta", {}).get("progressToken")


class Session:
    """One connection of a launch: what it has asked, and what it was answered."""

    def __init__(self, name: str, owner: str, tasks: set[str]) -> None:
        self.name = name
        self.owner = owner
        self.to_us = b""
        self.input_has_ended = False
        self.end_was_read = False  # by the pool
        self.has_ended = False
        self.is_paused = False
        self.open: dict[str, Asked] = {}  # by the id as it was written
        self.cancelled: dict[str, Asked] = {}  # whose answers may still be on their way
        self.server_requests: dict[str, str] = {}  # the ids that we know, and their tags
        self.tasks = tasks  # that its launch has got, also over an earlier connection
        self.subscribed: dict[str, int] = {}  # by which request, also if it is not answered yet
        self.capabilities: dict[str, Any] = {}
        self._unwritten: list[tuple[bytes, list[Asked]]] = []  # lines that were not read yet
        self._unread = b""
        self._held = b""
        self._count = 0

    # What it says

    def say_something(self, random: Random, others: Mapping[str, Session]) -> None:
        act = random.choices(*zip(*_ACTS, strict=True))[0]
        act(self, random, others)

    def make(self, random: Random, method: str, **params: Any) -> tuple[bytes, Asked]:
        """Return a request as a line, and what is known of it."""
        self._count += 1
        raw_id = random.choice(SPELLINGS).format(self._count)
        tag = f"{self.name}/{self._count}"
        params["tag"] = tag
        space = random.choice(["", "", " "])
        text = json.dumps(params, separators=("," + space, ":" + space))
        line = f'{{"jsonrpc":"2.0","id":{raw_id},"method":"{method}","params":{text}}}\n'
        if random.random() < 0.1:
            line = f'{{"method":"{method}","params":{text},"jsonrpc":"2.0","id":{raw_id}}}\n'
        return line.encode(), Asked(tag, method, params, raw_id)

    def ask(self, random: Random, method: str, **params: Any) -> None:
        line, asked = self.make(random, method, **params)
        self.put(line, asked)

    def put(self, line: bytes, *asked: Asked) -> None:
        self.to_us += line
        self._unwritten.append((line, [*asked]))

    def note(self, method: str, **params: Any) -> None:
        said = {"jsonrpc": "2.0", "method": method, "params": params}
        self.put(json.dumps(said).encode() + b"\n")

    @property
    def has_moved(self) -> bool:
        """Whether it may have: it has greeted after other requests, or twice."""
        return self._count > 1

    def note_read(self, data: bytes) -> None:
        """Note that the pool reads this: from now on, what it contains may be answered."""
        self._unread += data
        while self._unwritten and len(self._unread) >= len(self._unwritten[0][0]):
            line, asked = self._unwritten.pop(0)
            self._unread = self._unread[len(line) :]
            self._note_asked(asked)

    def note_end(self) -> None:
        """Note that the pool reads the end of our input: a line without its end is complete."""
        if self._unwritten and self._unread == self._unwritten[0][0].rstrip(b"\n"):
            self._note_asked(self._unwritten[0][1])

    def _note_asked(self, asked: list[Asked]) -> None:
        for one in asked:
            if one.method == "cancel":
                was_open = self.open.pop(one.raw_id, None)
                self.cancelled |= {one.raw_id: was_open} if was_open else {}
                continue
            assert one.raw_id not in self.open
            self.open[one.raw_id] = one
            if one.method == "resources/subscribe":
                self.subscribed[one.params["uri"]] = one.number
            if one.method == "initialize":
                self.capabilities = one.params.get("capabilities", {})

    def greet(self, random: Random, _others: object) -> None:
        if self.capabilities and random.random() < 0.95:
            self.note("notifications/initialized")
            return
        capabilities: dict[str, Any] = random.choice(
            [{"sampling": {}}, {"sampling": {}}, {"roots": {}}]
        )
        version = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
        self.ask(random, "initialize", **version)

    def discover(self, random: Random, _others: object) -> None:
        self.ask(random, "server/discover", _meta=MODERN)

    def call(self, random: Random, _others: object) -> None:
        params: dict[str, Any] = {"name": "x"}
        if random.random() < 0.3:
            params["_meta"] = {"progressToken": random.choice([7, "7", self._count])}
        if random.random() < 0.02:
            params["arguments"] = {"text": "x" * random.choice([2000, 1 << 17])}
        self.ask(random, random.choice(["tools/call"] * 4 + ["tools/list", "ping"]), **params)

    def flood(self, random: Random, _others: object) -> None:
        for _ in range(12):
            self.ask(random, "tools/call", name="x")

    def send_batch(self, random: Random, _others: object) -> None:
        line, _ = self.make(random, "tools/call", name="x")  # which no server may get
        self.put(b"[" + line.strip() + b"]\n")

    def cancel(self, random: Random, _others: object) -> None:
        if not self.open or random.random() < 0.1:
            self.note("notifications/cancelled", requestId=random.choice([900, "x", None]))
            return
        asked = random.choice([*self.open.values()])
        if asked.method in {"initialize", "server/discover"} | _CONFIRMED:
            return  # a host does not cancel these
        line = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}\n'
        self.put((line % asked.raw_id).encode(), Asked(asked.tag, "cancel", {}, asked.raw_id))

    def subscribe(self, random: Random, _others: object) -> None:
        what = random.choice(["subscribe", "subscribe", "unsubscribe"])
        self.ask(random, f"resources/{what}", uri=random.choice(URIS))

    def set_level(self, random: Random, _others: object) -> None:
        self.ask(random, "logging/setLevel", level=random.choice(LEVELS))

    def use_task(self, random: Random, others: Mapping[str, Session]) -> None:
        known = [task for one in others.values() for task in sorted(one.tasks)]
        what = random.choice(["make", "get", "cancel", "result", "list"])
        if what == "make" or not known:
            self.ask(random, "tools/call", name="task")
        elif what == "list":
            self.ask(random, "tasks/list")
        else:
            self.ask(random, f"tasks/{what}", taskId=random.choice(known))

    def listen(self, random: Random, _others: object) -> None:
        self.ask(random, "subscriptions/listen", notifications={"toolsListChanged": True})

    def answer(self, random: Random, others: Mapping[str, Session]) -> None:
        """Answer a request of the server: ours, or one that another session was asked."""
        known = [one for session in others.values() for one in session.server_requests]
        if not known:
            return
        mine = [*self.server_requests]
        key = random.choice(mine) if mine and random.random() < 0.8 else random.choice(known)
        if random.random() < 0.2:
            self.note("notifications/progress", progressToken=json.loads(key), progress=1)
        result = json.dumps({"by": self.name})
        self.put(f'{{"jsonrpc":"2.0","id":{key},"result":{result}}}\n'.encode())

    def talk_nonsense(self, random: Random, _others: object) -> None:
        lines = [b"\n", b"hello?\n", b"[]\n", b"17\n", b'{"jsonrpc":"2.0","id":\n', b"{}\n", b"[\n"]
        self.put(random.choice(lines))

    def talk_without_end(self, random: Random, _others: object) -> None:
        """Send the beginning of a line, and then nothing more."""
        line, asked = self.make(random, "tools/call", name="x")
        beginning = random.choice([b"hello", line[:12], line[:-9], line.rstrip(b"\n")])
        if beginning == line.rstrip(b"\n"):
            self.put(line, asked)
            self.to_us = self.to_us[:-1]
        else:
            self.put(beginning)
        self.input_has_ended = True

    # What it gets

    def read(self, data: bytes) -> None:
        assert not self.has_ended, "a connection that has ended gets nothing"
        *lines, self._held = (self._held + data).split(b"\n")
        for line in lines:
            if line in {b"noise"[:end] for end in range(6)}:
                continue
            said = json.loads(line)
            assert isinstance(said, dict), f"an array has come: {line!r}"
            self._take(said, line)

    def _take(self, said: dict[str, Any], line: bytes) -> None:
        if "method" not in said:
            self._take_answer(said, line)
        elif "id" in said:
            assert said["method"] == "sampling/createMessage"
            key = json.dumps(said["id"])
            assert key not in self.server_requests
            self.server_requests[key] = said["params"]["tag"]
            task = said["params"].get("_meta", {}).get(TASK, {}).get("taskId")
            assert task is None or task in self.tasks, "the task of another session"
        else:
            self._take_notification(said["method"], said["params"], line)

    def _take_answer(self, said: dict[str, Any], line: bytes) -> None:
        if said["id"] is None:
            assert said["error"]["code"] in {protocol.PARSE_ERROR, protocol.INVALID_REQUEST}
            return
        raw_id = protocol.json_text.encode(said["id"])
        keys = [key for key in self.open if json.loads(key) == said["id"]]
        assert keys, f"nobody has asked {raw_id}, or it was answered before"
        asked = self.open.pop(keys[0])
        assert f'"id":{asked.raw_id}'.encode() in line.replace(b'": ', b'":'), "the id has changed"
        if "error" in said:
            self._check_error(asked, said["error"])
        else:
            self._check_result(asked, said["result"])

    def _check_error(self, asked: Asked, error: dict[str, Any]) -> None:
        if error["message"].startswith(_LOST):
            assert self.has_moved
        elif error["code"] == protocol.NOT_SERVED:
            assert asked.method.startswith("tasks/")
            task = asked.params.get("taskId")
            assert task is None or task not in self.tasks, "it is its own"
        elif error["code"] == protocol.METHOD_NOT_FOUND:
            assert asked.method == "server/discover"
        elif asked.method != "initialize":
            assert error["message"] == asked.tag

    def _check_result(self, asked: Asked, result: dict[str, Any]) -> None:
        if asked.method == "initialize":
            assert result["capabilities"] == asked.params["capabilities"]
        elif asked.method == "server/discover":
            assert result["discovered"]
        elif asked.method in _CONFIRMED and result == {}:
            pass  # the server need not know
        elif result.get("isError"):
            assert self.has_moved
            assert result["content"][0]["text"].startswith(_LOST)
        else:
            assert result["tag"] == asked.tag, f"{result['tag']} is not {asked.tag}"
        if asked.method == "resources/unsubscribe":
            uri = asked.params["uri"]
            if self.subscribed.get(uri, 0) < asked.number:  # else it has subscribed again
                self.subscribed.pop(uri, None)
        if "task" in result:
            self.tasks.add(result["task"]["taskId"])

    def _take_notification(self, method: str, params: dict[str, Any], line: bytes) -> None:
        if method == "notifications/progress":
            tags = [one.tag for one in self.open.values() if one.token == params["progressToken"]]
            assert params["tag"] in tags, f"progress of a request that is not open: {line!r}"
        elif method == "notifications/cancelled":
            tag = self.server_requests.pop(json.dumps(params["requestId"]))
            is_of_pool = params.get("reason") == "the server that asked is gone"
            assert is_of_pool or tag == params["tag"], "it was not asked that"
        elif method == "notifications/resources/updated":
            uri = params["uri"]
            assert any(uri.startswith(one) for one in self.subscribed), f"not subscribed to {uri}"
        elif method.startswith("notifications/tasks"):
            assert params["taskId"] in self.tasks, "the task of another session"
        elif STREAM in params.get("_meta", {}):
            stream = json.dumps(params["_meta"][STREAM])
            asked = next(
                one for key, one in self.open.items() if json.loads(key) == json.loads(stream)
            )
            assert asked.method == "subscriptions/listen"
            assert asked.tag == params["tag"]
        else:
            assert method in {"notifications/message", "notifications/tools/list_changed"}

    def take_back(self, line: bytes) -> None:
        """Take a line that no server has read."""
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        said = json.loads(line)
        if "id" not in said or "method" not in said:
            return
        keys = [key for key in self.open if json.loads(key) == said["id"]]
        assert keys, f"it was answered, or returned before: {line!r}"
        assert said["params"] == self.open.pop(keys[0]).params

    def check_answered(self) -> None:
        """Check that everything was answered but streams, which never end."""
        left = [one for one in self.open.values() if one.method != "subscriptions/listen"]
        assert not left, f"never answered: {[(one.tag, one.method) for one in left]}"
        if not self.has_ended:
            assert not self.is_paused or not self.to_us, "it is paused for ever"

    def end(self) -> None:
        self.has_ended = True
        assert not self._held, "half a line was sent"


_ACTS: list[tuple[Any, int]] = [
    (Session.greet, 8),
    (Session.discover, 2),
    (Session.call, 30),
    (Session.flood, 2),
    (Session.send_batch, 3),
    (Session.cancel, 8),
    (Session.subscribe, 6),
    (Session.set_level, 2),
    (Session.use_task, 6),
    (Session.listen, 2),
    (Session.answer, 8),
    (Session.talk_nonsense, 1),
    (Session.talk_without_end, 1),
]


class Server:
    """One server: what it has read, and what it says."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stage = "starting"  # then "running", and "dying"
        self.is_doomed = False  # it was told to end
        self.code = 0
        self.received = b""
        self.was_read = 0  # of that
        self.output = b""
        self.open: dict[str, dict[str, Any]] = {}  # requests by their ids
        self.closed: list[dict[str, Any]] = []  # that were answered or cancelled
        self.asked: dict[int, str] = {}  # our own requests, and their tags
        self.tasks: list[str] = []
        self._count = 0

    def read(self, size: int) -> None:
        """Read some bytes; only whole lines count."""
        end = self.received.rfind(b"\n", 0, self.was_read + size) + 1
        if end <= self.was_read:
            return
        lines, self.was_read = self.received[self.was_read : end], end
        for line in lines.splitlines():
            self._take(json.loads(line))

    def _take(self, said: dict[str, Any]) -> None:
        assert isinstance(said, dict), "an array was passed on"
        method, params = said.get("method"), said.get("params", {})
        if method is None:
            tag = self.asked.pop(said["id"])  # each is answered once
            is_own = "error" in said or said["result"] in (
                {},
                {"roots": [{"uri": "file:///work/app"}]},
            )
            assert is_own or said["result"]["by"] is not None, tag
        elif "id" in said:
            key = json.dumps(said["id"])
            assert key not in self.open, "two open requests have one id"
            token = params.get("_meta", {}).get("progressToken")
            known = [
                one["params"].get("_meta", {}).get("progressToken") for one in self.open.values()
            ]
            assert token is None or token not in known, "two open requests have one token"
            self.open[key] = said
        elif method == "notifications/cancelled":
            key = protocol.spell(params["requestId"]).decode()
            assert key in self.open or any(json.dumps(one["id"]) == key for one in self.closed), key
            if key in self.open:
                self.closed.append(self.open.pop(key))

    def say(self, **message: Any) -> None:
        self.output += protocol.encode({"jsonrpc": "2.0", **message})

    def say_something(self, random: Random) -> None:
        act = random.choices(*zip(*_SERVER_ACTS, strict=True))[0]
        act(self, random)

    def answer(self, random: Random) -> None:
        answerable = [one for one in self.open.values() if one["method"] != "subscriptions/listen"]
        if answerable:
            said = random.choice(answerable)
            self.answer_one(random, said, is_refused=random.random() < 0.1)

    def answer_one(self, random: Random, said: dict[str, Any], *, is_refused: bool) -> None:
        del self.open[json.dumps(said["id"])]
        self.closed.append(said)
        method, params = said["method"], said.get("params", {})
        if is_refused:
            code = protocol.METHOD_NOT_FOUND if method == "server/discover" else -32000
            self.say(id=said["id"], error={"code": code, "message": params.get("tag", "")})
            return
        result: dict[str, Any] = {"tag": params.get("tag")}
        if method == "initialize":
            result = {"capabilities": params["capabilities"]}
        elif method == "server/discover":
            result = {"discovered": True}
        elif params.get("name") == "task":
            self.tasks.append(f"task {params['tag']}")
            result["task"] = {"taskId": self.tasks[-1], "status": "working"}
        message = {"result": result, "jsonrpc": "2.0", "id": said["id"]}
        if random.random() < 0.5:
            self.output += protocol.encode(message)
        else:
            self.say(id=said["id"], result=result)

    def answer_all(self, random: Random) -> None:
        for said in [*self.open.values()]:
            if said["method"] != "subscriptions/listen":
                self.answer_one(random, said, is_refused=False)

    def answer_in_a_batch(self, random: Random) -> None:
        """Write an answer that nobody may get; the request is answered later."""
        for one in random.sample([*self.open.values()], min(1, len(self.open))):
            answer = {"jsonrpc": "2.0", "id": one["id"], "result": {"tag": "in an array"}}
            self.output += json.dumps([answer]).encode() + b"\n"

    def report_progress(self, random: Random) -> None:
        known = [*self.open.values(), *self.closed[-3:]]
        tokens = [one for one in known if "progressToken" in one.get("params", {}).get("_meta", {})]
        if tokens:
            params = random.choice(tokens)["params"]
            token, tag = params["_meta"]["progressToken"], params["tag"]
            params = {"progressToken": token, "tag": tag, "progress": 1}
            self.say(method="notifications/progress", params=params)

    def ask(self, random: Random) -> None:
        self._count += 1
        tag = f"{self.name}/{self._count}"
        self.asked[self._count] = tag
        method = random.choice(["sampling/createMessage"] * 3 + ["ping", "roots/list"])
        params: dict[str, Any] = {"tag": tag}
        if self.tasks and random.random() < 0.3:
            params["_meta"] = {TASK: {"taskId": random.choice(self.tasks)}}
        self.say(id=self._count, method=method, params=params)

    def take_back(self, random: Random) -> None:
        """Cancel a request of our own, which may have been answered before."""
        if self._count:
            number = random.randint(1, self._count)
            params = {"requestId": number, "tag": f"{self.name}/{number}"}
            self.say(method="notifications/cancelled", params=params)

    def announce(self, random: Random) -> None:
        notes: list[tuple[str, dict[str, Any]]] = [
            ("tools/list_changed", {}),
            ("message", {"level": random.choice(LEVELS), "data": 1}),
            ("resources/updated", {"uri": random.choice(URIS)}),
        ]
        notes += [("tasks/status", {"taskId": one, "status": "working"}) for one in self.tasks[-1:]]
        streams = [one for one in self.open.values() if one["method"] == "subscriptions/listen"]
        for one in streams[:1]:
            meta = {STREAM: one["id"]}
            notes.append(("tools/list_changed", {"_meta": meta, "tag": one["params"]["tag"]}))
        method, params = random.choice(notes)
        self.say(method=f"notifications/{method}", params=params)

    def make_noise(self, _random: Random) -> None:
        self.output += b"noise\n"


_SERVER_ACTS: list[tuple[Any, int]] = [
    (Server.answer, 20),
    (Server.answer_in_a_batch, 2),
    (Server.report_progress, 5),
    (Server.ask, 5),
    (Server.take_back, 2),
    (Server.announce, 8),
    (Server.make_noise, 1),
]

"""Clients and servers under random schedules, and what must be true of every message between them.

    python tests/support/core_world.py SEED WORLDS

A world is one core with everything around it: what its clients and servers say, when they die, what
the runtime reports. Every request carries a tag, so an answer, a question or a notification that
reaches the wrong one is recognised by whoever gets it.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from core_setup import HOME, Setup

from mcp_launch.broker import succession
from mcp_launch.broker.core import Core
from mcp_launch.errors import ServerFailed
from mcp_launch.protocol import PROTOCOL_VERSION, SUBSCRIPTION_ID

if TYPE_CHECKING:
    from collections.abc import Iterable

    Said = dict[str, Any]

CONTEXT = "mcp-launch/context"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
URIS = ["a:1", "a:1/part", "b:2", "refused:3"]
ACTS = {"tools/call", "prompts/get", "resources/read"}  # what must not happen twice
_IDS = (*range(1, 9), "a", 'b"c', "é", "7", 10**17)
_TRAPS: list[Said] = [
    {},
    {"id": 7, "method": "x"},
    {"_meta": {"progressToken": 1, "session": "Z"}},
    {"x": '"id":7,"_meta":{"progressToken":3}'},
    {"é": "\u2028", "long": '\\"x' * 30_000},
]


class Call:
    """A request of a client, as its client knows it."""

    def __init__(self, client: Client, said: Said) -> None:
        self.client, self.method, self.params = client, said["method"], said["params"]
        self.meta: Said = self.params.get("_meta", {})
        self.token = self.meta.get("progressToken")
        self.is_over = self.is_cancelled = self.was_read = False
        self.answer: Said | None = None  # of a server
        self.shows: object = None  # the subscription of a stream, as its server knows it


class Client:
    """A host's connection, or a session's."""

    def __init__(self, name: str, owner: str, era: str, kind: str) -> None:
        self.name, self.owner, self.era, self.kind = name, owner, era, kind
        self.open: dict[Any, int] = {}  # the tags of its requests, by their ids
        self.used: set[Any] = set()  # ids of requests that were cancelled
        self.questions: dict[int, Said] = {}
        self.is_greeted = self.is_silent = self.is_deaf = self.is_paused = self.has_left = False
        self.lists: dict[str, str] = {}  # what it has of a list, if it was not called outdated
        self.subscribed: dict[str, bool | None] = {}  # None: nobody knows
        self.last: dict[str, int] = {}  # the tags of the last requests that set something
        self.level: str | None = "unsure"
        self.streams: set[int] = set()
        self.tasks: set[tuple[str, str | None]] = set()

    def is_asking(self, tag: int) -> bool:
        return tag in self.open.values()


class Process:
    """A server that runs."""

    def __init__(self, name: str, plan: Any, number: int) -> None:
        self.name, self.cwd = name, plan.cwd.value
        self.session = plan.environ.get("SESSION")
        self.inbox: list[bytes] = []
        self.open: dict[int, Said] = {}  # requests that it has read
        self.orphaned = 0.0  # when a request was last cancelled
        self.questions: dict[Any, int] = {}
        self.expected: dict[int, str] = {}
        self.runs = self.is_ending = self.is_closed = self.is_greeted = False
        self.callers: set[str | None] = set()
        self.uris: set[str] = set()
        self.level: str | None = None
        self.version = f"v{number}"
        self.tasks: dict[str, str] = {}
        self.elicited: dict[str, str] = {}


class World:
    """One core, its clients and its servers."""

    def __init__(self, seed: int, setup: Setup | None = None) -> None:
        self.dice = random.Random(seed)  # noqa: S311  # no secret
        self.setup = setup or Setup(self.dice)
        self.setup.dice = self.dice
        self.core = Core(self.setup.make_settings())
        self.core.now = 1000.0
        self.clients: dict[str, Client] = {}
        self.processes: dict[str, Process] = {}
        self.calls: dict[int, Call] = {}
        self.counts: Counter[str] = Counter()
        self.tags = self.steps = 0
        self.heard: set[str] = set()  # who has heard the last notification
        self.has_failed = self.is_leaving = self.is_harsh = self.is_asleep = False
        self.fashion = self.dice.choice(["v-old", "v-new"])

    # The run

    def run(self, steps: int) -> None:
        self.begin()
        while self.steps < steps and self.is_going_on:
            self.step()
        if self.is_going_on and self.dice.random() < 0.7:
            self.settle()
        self.leave()

    @property
    def is_going_on(self) -> bool:
        return not (self.has_failed or self.is_leaving)

    def begin(self) -> None:
        first = self.core.open_server(self.setup.serve())
        self.join()
        if self.setup.is_pool:
            self.core.happen(first, "needed")
        elif not self.setup.is_deferred:
            succession.begin(first)
            self.start_process(first.name, self.setup.serve().plan)
        self.obey()

    def step(self) -> None:
        self.steps += 1
        self.core.now += self.dice.choice([0.001, 0.1, 0.5])
        act, weights = zip(*_CHOICES, strict=True)
        self.dice.choices(act, weights)[0](self)
        self.obey()
        self.check_limits()

    def obey(self) -> None:
        while self.core.out:
            out, self.core.out[:] = [*self.core.out], []
            for verb, name, what in out:
                self.carry_out(verb, name, what)

    def settle(self) -> None:
        """From now on nobody asks, all answer: everything must come to an end."""
        self.catch_up()
        self.work_off(self.has_open)
        for client in self.clients.values():
            open_calls = [self.calls[one].method for one in client.open.values()]
            assert client.is_deaf or not [one for one in open_calls if one != _LISTEN], open_calls
        if self.is_going_on:
            self.check_calm()

    def catch_up(self) -> None:
        for name in [*self.clients]:
            self.core.client_is_behind(name, is_behind=False)
        self.obey()

    def work_off(self, has_more: Any) -> None:
        """Have everybody answer, and time pass, until nothing more is to come."""
        for _ in range(6000):
            busy = self.start_one(is_good=True) or self.end_one() or self.serve(answers=True)
            busy = self.answer_question() or busy
            self.obey()
            if not busy and (not has_more() or not self.pass_time()):
                return
        raise AssertionError("it does not come to an end")

    def has_open(self) -> bool:
        return self.is_going_on and any(
            self.calls[tag].method != _LISTEN
            for client in self.clients.values()
            for tag in client.open.values()
        )

    def pass_time(self, until: float = float("inf")) -> bool:
        moment = self.core.timers.next
        if moment == float("inf"):
            return False
        self.core.now = max(self.core.now, min(moment, until))
        if self.core.now >= moment:
            self.core.time_passed()
            assert self.core.timers.next > self.core.now, "a timer is due at once"
        self.obey()
        return True

    def leave(self) -> None:
        """End the launch in one of many ways; whatever was asked before is answered if it may."""
        dice = self.dice
        way = dice.choice(["closes", "closes", "signal", "host lost", "reader lost"])
        self.is_leaving = True
        self.catch_up()
        self.is_harsh = self.is_harsh or way != "closes"
        for client in [*self.clients.values()]:
            if client.has_left:
                continue
            if self.setup.is_pool and dice.random() < 0.5:
                self.core.client_left(client.name)
                self.forget(client)
                self.obey()
                continue
            client.is_silent = True
            self.is_asleep = way == "closes" and not (self.processes or self.has_failed)
            self.is_asleep = self.is_asleep and not client.open
            if way == "signal":
                self.core.signal_received(15)
            elif way == "host lost":
                self.core.host_lost()
            elif way == "reader lost":
                client.is_deaf = True
                self.core.client_lost(client.name)
            self.obey()
            if client.name in self.core.clients and way != "host lost":
                self.core.client_closed(client.name)
            self.obey()
        for _ in range(dice.randrange(20) if self.is_harsh else 0):
            dice.choice([World.die, World.end_one, World.serve, World.start_one])(self)
            self.obey()
        self.work_off(lambda: any(not one.has_left for one in self.clients.values()))
        self.check_end()

    # Clients

    def join(self) -> None:
        self.counts["clients"] += 1
        name = f"client-{self.counts['clients']}"
        owner = f"owner of {name}" if self.setup.is_pool else ""
        kind = self.dice.choice("ab") if self.setup.is_pool else "a"
        self.clients[name] = Client(name, owner, self.setup.era, kind)
        self.core.client_joined(name, owner)

    def come(self) -> None:
        if self.setup.is_pool and len(self.clients) < 4:
            self.join()

    def go(self) -> None:
        client = self.choose_client()
        if client is not None and self.setup.is_pool:
            if self.dice.random() < 0.5:
                self.core.client_left(client.name)
                self.forget(client)
            else:
                client.is_silent = True
                self.core.client_closed(client.name)

    def forget(self, client: Client) -> None:
        for tag in client.open.values():
            self.calls[tag].is_cancelled = True
        self.note_orphans()
        client.has_left = True
        del self.clients[client.name]

    def note_orphans(self) -> None:
        for process in self.processes.values():
            process.orphaned = self.core.now

    def choose_client(self) -> Client | None:
        speaking = [one for one in self.clients.values() if not (one.is_silent or one.is_paused)]
        return self.dice.choice(speaking) if speaking else None

    def say(self, client: Client, said: Said) -> None:
        self.core.client_said(client.name, self.write(said))

    def ask(self, client: Client, method: str, params: Said, meta: Said) -> None:
        free = [one for one in _IDS if one not in client.open and one not in client.used]
        if not free:
            return
        self.tags += 1
        meta = {**meta, "tag": self.tags}
        if client.era == "2026" and method != "initialize":
            who = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
            who["clientInfo"] = {"name": client.kind}
            meta |= {PROTOCOL_VERSION.replace("protocolVersion", k): v for k, v in who.items()}
        if self.dice.random() < 0.4 and method != _LISTEN:
            meta["progressToken"] = self.dice.choice([1, 2, "x", "\\", 'q"', 4.0])
        ordered = [*params.items(), ("_meta", meta)]
        self.dice.shuffle(ordered)
        said: Said = {"jsonrpc": "2.0", "id": self.dice.choice(free), "method": method}
        said["params"] = dict(ordered)
        client.open[said["id"]] = self.tags
        self.calls[self.tags] = Call(client, said)
        self.counts[method] += 1
        self.say(client, said)

    def name_someone(self) -> Said:
        who = self.dice.choice("ABC")
        if self.setup.is_pool or self.dice.random() < 0.15:
            return {}
        named = {"session": f"s-{who}"}
        if self.setup.carries == "one thread":
            named["thread"] = f"t-{who}"
        if self.setup.names_places and self.dice.random() < 0.5:
            named["place"] = self.dice.choice([HOME, f"/p/{who}"])
        return named

    def request(self) -> None:  # noqa: C901, PLR0912  # what a client may ask
        client, dice = self.choose_client(), self.dice
        if client is None:
            return
        if not client.is_greeted and client.era == "2025":
            if not client.open:
                self.greet(client)
            elif dice.random() < 0.05:
                self.ask(client, "ping", {}, {})
            return
        if client.era == "2026" and not client.is_greeted and not client.open:
            self.ask(client, "server/discover", {}, {})
            return
        method = dice.choices([*_METHODS], [*_METHODS.values()])[0]
        params: Said = {}
        if method in ACTS:
            params = {"name": "echo", "arguments": dice.choice(_TRAPS)}
        elif method in {"resources/subscribe", "resources/unsubscribe"}:
            params = {"uri": dice.choice(URIS)}
            client.subscribed[params["uri"]] = None
            client.last[params["uri"]] = self.tags + 1
        elif method == "logging/setLevel":
            params = {"level": dice.choice([*LEVELS, "loud"])}
            if params["level"] in LEVELS:
                client.level, client.last["level"] = "unsure", self.tags + 1
        elif method == "tasks/get":
            params = {"taskId": dice.choice(["task-1", "task-2"])}
        elif method == _LISTEN:
            if client.era != "2026" or len(client.streams) > 1:
                return
            wanted: Said = {"toolsListChanged": True}
            if dice.random() < 0.3:
                wanted["resourceSubscriptions"] = ["a:1"]
            params = {"notifications": wanted}
            client.streams.add(self.tags + 1)
        named = method in ACTS or "resources/" in method
        named = named or (method != "tools/list" and dice.random() < 0.2)
        self.ask(client, method, params, self.name_someone() if named else {})

    def greet(self, client: Client) -> None:
        about = {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}}
        if self.dice.random() < 0.1:
            self.ask(client, "server/discover", {}, {PROTOCOL_VERSION: "2026-07-28"})
        else:
            self.ask(client, "initialize", {**about, "clientInfo": {"name": client.kind}}, {})

    def cancel(self) -> None:
        client = self.choose_client()
        mine = [] if client is None else [*client.open.items()]
        mine = [(id_, tag) for id_, tag in mine if self.calls[tag].method not in _GREETINGS]
        if client is None or not mine:
            return
        id_, tag = self.dice.choice(mine)
        del client.open[id_]
        client.used.add(id_)
        client.streams.discard(tag)
        call = self.calls[tag]
        call.is_cancelled = True
        self.note_orphans()
        self.counts["cancels"] += 1
        self.say(client, _notify("notifications/cancelled", requestId=id_, reason="no"))

    def notify(self) -> None:
        client = self.choose_client()
        if client is not None and client.is_greeted:
            method = self.dice.choice(["roots/list_changed", "unknown", "initialized"])
            self.say(client, _notify(f"notifications/{method}", x=1))

    def answer_question(self) -> bool:
        asked = [one for one in self.clients.values() if one.questions and not one.is_silent]
        if not asked:
            return False
        client = self.dice.choice(asked)
        id_ = self.dice.choice([*client.questions])
        question = client.questions[id_]
        token = question.get("params", {}).get("_meta", {}).get("progressToken")
        if token is not None and self.dice.random() < 0.3:
            self.say(client, _notify("notifications/progress", progressToken=token, progress=1))
        del client.questions[id_]
        result: Said = {"tag": question.get("params", {}).get("tag")}
        if question["method"] == "roots/list":
            result["roots"] = self.dice.choice([[], [{"uri": f"file://{HOME}"}], [{"uri": 5}]])
        said: Said = {"jsonrpc": "2.0", "id": id_}
        said |= {"error": {"code": 1}} if self.dice.random() < 0.1 else {"result": result}
        self.say(client, said)
        return True

    def fall_behind(self) -> None:
        client = self.choose_client()
        if client is not None and self.setup.is_pool:
            self.core.client_is_behind(client.name, is_behind=self.dice.random() < 0.3)

    def hear(self, client: Client, line: bytes) -> None:
        """Check what a client gets."""
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        said = json.loads(line)
        params = said.get("params", {})
        if "method" not in said:
            self.hear_answer(client, said)
        elif "id" in said:
            assert not client.is_silent, "a client is asked that has left"
            if "for" in params:
                assert params["for"] in {client.name, "anyone"}, (client.name, said)
                self.heard.add(client.name)
                self.counts["questions"] += 1
            assert said["id"] not in client.questions
            client.questions[said["id"]] = said
        elif said["method"] == "notifications/progress":
            call = self.calls[params["tag"]]
            assert client.is_asking(params["tag"]), "progress of nothing"
            assert repr(call.token) == repr(params["progressToken"])
            self.counts["progress"] += 1
        elif said["method"] == "notifications/cancelled":
            client.questions.pop(params["requestId"], None)
        else:
            self.hear_notification(client, said)

    def hear_notification(self, client: Client, said: Said) -> None:
        params, method = said.get("params", {}), said["method"]
        stream = params.get("_meta", {}).get(SUBSCRIPTION_ID)
        if stream is not None:
            assert client.open.get(stream) in client.streams, "a message of no stream"
            if method == "notifications/subscriptions/acknowledged":
                call = self.calls[client.open[stream]]
                assert not call.is_over, "a stream is opened twice"
                call.is_over = True
        if method == "notifications/tools/list_changed":
            client.lists.pop("tools/list", None)
            self.counts["announced"] += 1
        self.heard.add(client.name)

    def hear_answer(self, client: Client, said: Said) -> None:
        tag = client.open.pop(said["id"])  # a KeyError: an answer to nothing, or a second one
        call = self.calls[tag]
        assert not call.is_cancelled
        call.is_over = True
        client.streams.discard(tag)
        result = said.get("result", {})
        text = json.dumps(said, ensure_ascii=False)
        if "[mcp-launch]" in text or "mcp_launch_error" in text:
            self.counts["refusals"] += 1
            if "neither answered" in text:
                self.note_orphans()
            is_alone = self.setup.restarts or self.setup.limit == 1
            is_known = is_alone and "was replaced" not in text and "neither answered" not in text
            assert call.was_read or not is_known or "may have taken" not in text, text
            was_read = call.was_read and call.method in ACTS
            assert not was_read or "did not read this" not in text, text
        elif call.method in ACTS:
            assert call.answer is not None
            assert {**said, "id": 0} == {**call.answer, "id": 0}
            self.counts["answers"] += 1
        if "result" in said:
            self.note_result(client, call, result)
        elif call.method == "server/discover":
            client.era = "2025"
        elif call.answer and client.last.get(call.params.get("uri", "")) == tag:
            client.subscribed[call.params["uri"]] = False  # its server refuses

    def note_result(self, client: Client, call: Call, result: Said) -> None:
        method = call.method
        if method in _GREETINGS and not client.is_greeted:
            client.is_greeted = True
            if method == "initialize":
                self.say(client, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        elif method == "tools/list" and "cursor" not in call.params:
            version = result["tools"][0]["name"]
            client.lists["tools/list"] = version
            if "nextCursor" in result and not client.is_silent and not client.is_paused:
                self.ask(client, method, {"cursor": result["nextCursor"]}, {})
        elif method in {"resources/subscribe", "resources/unsubscribe"}:
            if client.last[call.params["uri"]] == call.meta["tag"]:
                client.subscribed[call.params["uri"]] = method == "resources/subscribe"
        elif method == "logging/setLevel" and client.last.get("level") == call.meta["tag"]:
            client.level = call.params["level"]

    # Servers

    def start_process(self, name: str, plan: Any) -> None:
        assert name not in self.processes, "two processes in one place"
        self.counts["starts"] += 1
        self.processes[name] = Process(name, plan, 0)
        self.processes[name].version = self.fashion
        limit = self.setup.limit
        assert self.setup.is_pool or len(self.processes) <= limit, "too many servers"

    def list_running(self) -> list[Process]:
        return [one for one in self.processes.values() if one.runs]

    def start_one(self, *, is_good: bool = False) -> bool:
        due = [one for one in self.processes.values() if not one.runs]
        if not due:
            return False
        process = self.dice.choice(due)
        if not is_good and self.dice.random() < self.setup.danger * 2:
            del self.processes[process.name]
            error = ServerFailed("no such program", fix="install it", exit_code=127)
            self.core.server_failed(process.name, error)
        else:
            process.runs = True
            self.core.server_started(process.name, 100 + self.steps)
        return True

    def die(self) -> bool:
        running = self.list_running()
        if not running or self.dice.random() > self.setup.danger * 4 + self.is_leaving:
            return False
        self.counts["deaths"] += 1
        self.bury(self.dice.choice(running), self.dice.choice([0, 1, 137]))
        return True

    def end_one(self) -> bool:
        ending = [one for one in self.list_running() if one.is_ending]
        ended = [one for one in self.list_running() if one.is_closed]
        ending += [one for one in ended if not (one.inbox or one.open)]
        if ending:
            self.bury(self.dice.choice(ending), 0)
        return bool(ending)

    def bury(self, process: Process, code: int) -> None:
        unread = process.inbox
        self.counts["requeued"] += len(unread)
        del self.processes[process.name]
        if self.dice.random() < 0.3:
            self.core.server_closed_output(process.name)
        self.core.server_exited(process.name, code)
        self.core.server_gone(process.name, unread, b"why")

    def serve(self, *, answers: bool = False) -> bool:
        """Have a server read a line, or say something."""
        useful = [one for one in self.list_running() if one.inbox or self.list_answerable(one)]
        if not useful:
            return False
        process, dice = self.dice.choice(useful), self.dice
        answerable = self.list_answerable(process)
        if process.inbox and (dice.random() < 0.6 or not answerable):
            self.read_line(process, process.inbox.pop(0))
            return True
        number = dice.choice(answerable)
        request = process.open[number]
        token = request["params"].get("_meta", {}).get("progressToken")
        if not answers and dice.random() < 0.3 and token.__class__ is int and "tag" in request:
            self.reply(process, _notify(_PROGRESS, progressToken=token, tag=request["tag"]))
            return True
        del process.open[number]
        self.answer(process, number, request)
        return True

    def list_answerable(self, process: Process) -> list[int]:
        return [id_ for id_, one in process.open.items() if one["method"] != _LISTEN]

    def reply(self, process: Process, said: Said) -> None:
        self.core.server_said(process.name, self.write(said))

    def answer(  # noqa: C901  # what a server may be asked
        self, process: Process, number: int, request: Said
    ) -> None:
        method, params = request["method"], request["params"]
        call = self.calls.get(request.get("tag", 0))
        said: Said = {"jsonrpc": "2.0", "id": number, "result": {}}
        if method in _GREETINGS:
            lists = {"listChanged": True}
            said["result"] = {"capabilities": {"tools": lists, "logging": {}, "resources": lists}}
            is_refused = self.dice.random() < self.setup.danger / 2
            if is_refused or (method != "initialize" and self.setup.era == "2025"):
                said = {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}}
        elif method == "tools/list":
            said["result"] = {"tools": [{"name": process.version}]}
            if self.setup.has_pages and "cursor" not in params:
                said["result"]["nextCursor"] = "2"
        elif (
            (method == "resources/subscribe" and params["uri"].startswith("refused"))
            or (method == "logging/setLevel" and params["level"] not in LEVELS)
            or (method == "tasks/get" and params["taskId"] not in process.tasks)
        ):
            said = {"jsonrpc": "2.0", "id": number, "error": {"code": 1, "message": "no"}}
        elif method == "tasks/get":
            said["result"] = {"taskId": params["taskId"], "status": "working"}
        elif method in ACTS:
            said["result"] = {"tag": request["tag"], "isError": False, "nested": {"id": 1}}
            if self.dice.random() < 0.1:
                said["error"] = {"code": 5, "message": "error", "data": said.pop("result")}
            elif self.dice.random() < 0.1 and method == "tools/call" and call is not None:
                task = self.dice.choice(["task-1", "task-2"])
                if not call.is_over and not call.is_cancelled and task not in process.tasks:
                    process.tasks[task] = call.client.name
                    said["result"]["task"] = {"taskId": task, "status": "working"}
        if call is not None:
            call.answer = said
        self.reply(process, said)

    def list_at_work(self, process: Process) -> set[str]:
        """Return the clients that wait for something from a process."""
        asked = [*process.open.values(), *(_parse(one) for one in process.inbox)]
        calls = [self.calls[tag] for one in asked if (tag := one.get("tag")) is not None]
        waiting = [one for one in calls if not one.is_over and not one.is_cancelled]
        return {one.client.name for one in waiting if one.method != _LISTEN and one.client.open}

    def read_line(self, process: Process, line: bytes) -> None:
        """Check what a server gets."""
        said = _parse(line)
        method = said.get("method")
        if method is None:
            tag = process.questions.pop(said["id"])  # a KeyError: an answer to nothing
            assert "error" in said or said["result"].get("tag", tag) == tag
        elif method == "notifications/initialized":
            assert not process.is_greeted
            process.is_greeted = True
        elif method == "notifications/cancelled":
            request = process.open.get(said["params"]["requestId"])
            call = self.calls.get((request or {}).get("tag", 0))
            assert call is None or call.is_cancelled or call.is_over, "cancelled for no reason"
            if request is not None and self.dice.random() < 0.7:
                del process.open[said["params"]["requestId"]]
        elif method == _PROGRESS:
            assert said["params"]["progressToken"] in process.questions
        elif "id" in said:
            assert said["id"] not in process.open
            assert process.is_greeted or method in {*_GREETINGS, "ping"} or self.setup.era == "2026"
            self.read_request(process, said)

    def read_request(self, process: Process, said: Said) -> None:
        method, meta = said["method"], said.get("params", {}).get("_meta", {})
        said.setdefault("params", {})
        process.open[said["id"]] = said
        uri, level = said["params"].get("uri", "refused"), said["params"].get("level")
        if method == "resources/subscribe" and not uri.startswith("refused"):
            process.uris.add(uri)
        elif method == "resources/unsubscribe":
            process.uris.discard(uri)
        elif level in LEVELS:
            process.level = level
        call = self.calls.get(meta.get("tag", 0))
        if "progressToken" in meta and isinstance(meta["progressToken"], (int, str)):
            assert meta["progressToken"] == said["id"], "a token that is not ours"
        if call is not None and (method in ACTS or not call.is_over):
            said["tag"] = meta["tag"]
            self.read_call(process, said, call)
            return
        assert method not in ACTS
        if method == "resources/subscribe":
            self.counts["replayed"] += 1

    def read_call(self, process: Process, said: Said, call: Call) -> None:
        method, params, setup = said["method"], said["params"], self.setup
        meta = params["_meta"]
        if method in ACTS:
            assert not call.was_read, "a call was carried out twice"
        call.was_read = True
        stamp = meta.get(CONTEXT)
        expected = {**call.params, "_meta": call.meta}
        if call.token is not None and call.token.__class__ is not float:
            expected["_meta"] = {**call.meta, "progressToken": said["id"]}
        bare = {name: value for name, value in meta.items() if name != CONTEXT}
        if method != "logging/setLevel":
            assert {**params, "_meta": bare} == expected, "a call was changed"
        if method not in ACTS:
            return
        caller = setup.name_caller(call.meta)
        if method == "tools/call" and not setup.is_pool:
            bound = stamp["for"][setup.carries == "one thread"] or None
            assert caller is None or bound == caller, "stamped for another"
        if setup.keeps_callers_apart and method == "tools/call" and caller is None:
            is_someone = setup.rule == "isolate" and setup.carries == "many sessions"
            caller = "" if is_someone else None
        if setup.keeps_callers_apart and caller is not None:
            process.callers.add(caller)
            assert len(process.callers) <= 1, "a server works for two"
            place = meta.get("place")
            assert place is None or process.cwd == place, "a server in the wrong place"
        session = meta.get("session")
        if setup.holds == "requested" and setup.rule != "follow" and method == "tools/call":
            assert None in {session, process.session} or process.session == session

    # What servers say of themselves

    def speak(self) -> None:
        running = [one for one in self.list_running() if one.is_greeted or self.setup.era == "2026"]
        running = [one for one in running if self.core.servers[one.name].kind.clients]
        if running:
            process = self.dice.choice(running)
            self.dice.choice([World.inquire, World.tell, World.tell, World.ramble])(self, process)

    def inquire(self, process: Process) -> None:
        """Have a server ask something: the one client that it works for is asked, or nobody."""
        dice = self.dice
        self.tags += 1
        id_ = dice.choice([one for one in range(99) if one not in process.questions])
        process.questions[id_] = self.tags
        kinds = ["ping", "roots/list", "sampling/createMessage", "elicitation/create"]
        method = dice.choice(kinds)
        at_work = self.list_at_work(process)
        around = {one.name for one in self.core.servers[process.name].kind.clients}
        asked = at_work or around
        person = next(iter(asked)) if len(asked) == 1 else "nobody"
        self.heard = set()
        params: Said = {"tag": self.tags, "for": person}
        if dice.random() < 0.4:
            params["_meta"] = {"progressToken": id_}
        if method == "elicitation/create":
            params["elicitationId"] = f"e-{id_}"
        self.reply(process, {"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        self.obey()
        if person in self.heard and method == "elicitation/create":
            process.elicited[f"e-{id_}"] = person
        is_ours = method == "ping" or (method == "roots/list" and self.setup.is_pool)
        may_ask = person in self.clients and not self.clients[person].is_silent
        was_left = self.core.now - process.orphaned < 60.0
        if not is_ours and may_ask and not was_left:
            assert self.heard == {person}, "nobody was asked"
        if self.dice.random() < 0.1 and id_ in process.questions:
            del process.questions[id_]
            lines = [(_parse(one), one) for one in process.inbox]  # but for our answer to it
            process.inbox = [one for said, one in lines if "method" in said or said["id"] != id_]
            self.reply(process, _notify("notifications/cancelled", requestId=id_))

    def tell(self, process: Process) -> None:
        """Have a server tell something, and compare who has heard of it."""
        dice, server = self.dice, self.core.servers[process.name]
        clients = [self.clients[one.name] for one in server.kind.clients]
        around = {one.name for one in clients if not one.is_silent}
        is_first = server.kind.servers[0] is server
        self.heard = set()
        what = dice.choice(_TOLD)
        params: Said = {}
        expected: set[str] | None = around
        if what == "message":
            params = {"level": dice.choice(LEVELS)}
            expected = None
            if all(one.level != "unsure" for one in clients):
                rank = LEVELS.index(params["level"])
                listening = self.list_at_work(process) & around or around
                levels = {one.name: one.level or "debug" for one in clients}
                expected = {one for one in listening if LEVELS.index(levels[one]) <= rank}
        elif what == "resources/updated":
            params = {"uri": dice.choice(URIS)}
            expected = self.find_subscribers(clients, params["uri"])
        elif what == "tools/list_changed":
            process.version = self.fashion = f"v{self.steps}"
            expected = around if is_first else set()
        elif what == "elicitation/complete":
            named = dice.choice([*process.elicited, "unknown"])
            params = {"elicitationId": named}
            expected = {process.elicited.get(named, "")} & around
        elif what == "tasks/status":
            named = dice.choice([*process.tasks, "task-x"])
            params = {"taskId": named, "status": "working"}
            owner = process.tasks.get(named, "")
            expected = {owner} & around if self.setup.is_pool else around
        self.reply(process, _notify(f"notifications/{what}", **params))
        self.obey()
        told = (what, self.heard, expected)
        assert expected is None or self.heard == expected & {*self.clients}, told

    def find_subscribers(self, clients: Iterable[Client], uri: str) -> set[str] | None:
        found = set()
        if self.setup.mode != "plain" and not self.setup.is_pool:
            return None
        if self.setup.rule == "auto" or any(None in one.subscribed.values() for one in clients):
            return None
        for client in clients:
            for one, is_on in client.subscribed.items():
                if is_on and (uri == one or uri.startswith(f"{one}/")):
                    found.add(client.name)
        everyone = [*clients]
        return (found if len(everyone) > 1 else {one.name for one in everyone}) & {
            one.name for one in clients if not one.is_silent
        }

    def ramble(self, process: Process) -> None:
        """Have a server say what nobody has asked for: none of it may reach a client."""
        self.heard = set()
        token = self.dice.choice([-1, "x", None, 10**9])
        lines = [
            {"jsonrpc": "2.0", "id": self.dice.choice([10**9, "x", 0]), "result": {"tag": 0}},
            _notify(_PROGRESS, progressToken=token, progress=1),
            _notify("notifications/x", _meta={SUBSCRIPTION_ID: token}),
        ]
        self.core.server_said(process.name, self.dice.choice([*map(self.write, lines), b"hi\n"]))
        self.obey()
        assert not self.heard

    def trouble(self) -> None:
        running = self.list_running()
        if not running or self.dice.random() > self.setup.danger:
            return
        process = self.dice.choice(running)
        what = self.dice.choice(["input", "output", "output", "long", "restart"])
        if what == "output" and (self.setup.is_pool or len(self.core.servers) > 1):
            server = self.core.servers[process.name]
            state = server.state if any(one.opened for one in server.kind.clients) else ""
            self.core.server_closed_output(process.name)
            self.core.now += 0.5
            self.core.time_passed()
            self.obey()
            assert process.is_ending or state != "ready", "nobody can hear it"
        elif what == "input":
            self.core.server_closed_input(process.name)
            self.bury(process, 1)
        elif what == "long":
            self.core.server_overflowed(process.name)
        elif what == "restart":
            self.core.restart_requested()

    def restart(self) -> None:
        if self.dice.random() < 0.2:
            self.counts["restarts"] += 1
            self.core.restart_requested()

    def wait(self) -> None:
        self.pass_time(self.core.now + self.dice.choice([0.5, 5.0, 200.0]))

    # Commands

    def carry_out(  # noqa: C901, PLR0912  # the table of commands
        self, verb: str, name: str, what: Any
    ) -> None:
        client, process = self.clients.get(name), self.processes.get(name)
        if verb in {"send", "inform"} and client is not None:
            if verb == "inform" and client.has_left:
                return
            assert not client.has_left, "sent to a client that has left"
            if not client.is_deaf:
                self.hear(client, what)
        elif verb in {"send", "inform"}:
            assert process is not None, (verb, name, what)
            assert process.runs, "sent to a server that was not started"
            assert what.endswith(b"\n")
            tag = _parse(what).get("tag", 0)
            is_dropped = tag and self.calls[tag].method in ACTS and self.calls[tag].is_cancelled
            assert not is_dropped, "a call that was cancelled"
            if not process.is_closed:
                process.inbox.append(what)
        elif verb == "start":
            self.start_process(name, what)
        elif verb == "end":
            assert process is not None
            self.counts[f"end: {what}"] += 1
            process.is_ending = True
        elif verb in {"close", "cut"} and process is not None:
            process.is_closed = True
            process.inbox = process.inbox if verb == "close" else []
        elif verb == "pause" and client is not None:
            client.is_paused = what
        elif verb == "leave":
            self.take_leave(client)
            assert not (self.is_asleep and what), "an exit code of a server that was replaced"
        elif verb == "return" and client is not None:
            if "id" not in _parse(what):
                return
            tag = client.open.pop(_parse(what)["id"])
            call = self.calls[tag]
            assert _parse(what)["params"] == {**call.params, "_meta": call.meta}
            assert not self.calls[tag].was_read or self.calls[tag].method not in ACTS
        elif verb == "fail":
            self.has_failed = self.is_harsh = True
        elif verb == "keep":
            self.setup.store.keep(what)
        elif verb == "forget":
            self.setup.store.kept.pop(what, None)
        elif verb == "signal" and process is not None:
            process.is_ending = True

    def take_leave(self, client: Client | None) -> None:
        assert client is not None
        assert not client.has_left, "a client leaves twice"
        client.has_left = True
        for tag in client.open.values():
            call = self.calls[tag]
            unread = [line for one in self.processes.values() for line in one.inbox]
            is_sent = self.setup.is_pool and tag in [_parse(one).get("tag") for one in unread]
            is_excused = call.was_read or is_sent or self.is_harsh or client.is_deaf
            is_excused = is_excused or call.method in {*_GREETINGS, _LISTEN}
            assert is_excused, f"{call.method} is lost"
        if self.setup.is_pool:
            for tag in client.open.values():
                self.calls[tag].is_cancelled = True
            del self.clients[client.name]
        else:
            self.is_leaving = True

    # What must be true

    def check_limits(self) -> None:
        limit = self.core.settings.max_concurrent
        for name in self.processes:
            server = self.core.servers[name]
            calls = [one for one in server.owes.values() if one.method == "tools/call"]
            assert not limit or len(calls) <= limit
            for client in server.kind.clients:
                most = self.core.settings.in_flight * 2
                assert not most or sum(one.asker is client for one in server.owes.values()) <= most

    def check_calm(self) -> None:
        """Check that nothing is left over when everything was answered."""
        core = self.core
        for client in core.clients.values():
            known = self.clients[client.name]
            assert not known.is_paused or client.is_behind
            assert [client.owes, client.queue, client.roots.waiting] == [{}, [], []]
            assert len(client.asked) == len(known.open), client.asked
            assert len(client.streams) == len(known.streams & {*known.open.values()})
        for server in core.servers.values():
            assert server.state in {"absent", "ready"}, server.state
            assert (server.state == "ready") == (server.name in self.processes)
            assert [server.list_unfinished(), server.held, server.asked] == [[], {}, {}]
            assert not server.waiting
            if server.state == "ready":
                self.check_restored(server)

    def check_restored(self, server: Any) -> None:
        """Check that a server knows what its clients want, and these what it lists."""
        process = self.processes[server.name]
        clients = [self.clients[one.name] for one in server.kind.clients]
        if server.kind.servers[0] is server:
            for client in clients:
                if client.is_greeted and client.era == "2025":
                    assert client.lists.get("tools/list") in {None, process.version}, "outdated"
        levels = [one.level for one in clients if one.level is not None]
        if levels and "unsure" not in levels:
            assert process.level == min(levels, key=LEVELS.index)
        if self.setup.rule in {"follow", "restart", "refuse"}:
            wanted = {u for one in clients for u, on in one.subscribed.items() if on is not False}
            sure = {u for one in clients for u, on in one.subscribed.items() if on}
            assert sure - process.uris == set(), "not subscribed again"
            assert process.uris <= wanted, "subscribed for nobody"

    def check_end(self) -> None:
        core = self.core
        assert all(one.has_left for one in self.clients.values())
        if self.setup.is_pool:
            for process in [*self.list_running()]:
                self.bury(process, 0)
            self.work_off(lambda: False)
            assert not core.clients
        for server in core.servers.values():
            assert not (server.held or server.asked) or self.is_harsh
        calls = [one for one in self.calls.values() if one.method == "tools/call"]
        assert len(core.finished) == len({*core.finished}) <= len(calls), "recorded twice"
        assert len(core.timers.take_due(float("inf"))) < 20

    # Layouts

    def write(self, said: Said) -> bytes:
        """Return a line in one of the layouts that real peers write."""
        dice = self.dice
        names = [*said]
        if dice.random() < 0.4:
            names.sort(key=lambda name: name in {"jsonrpc", "id"})
        elif dice.random() < 0.1:
            dice.shuffle(names)
        spaces = dice.choice([(",", ":"), (",", ":"), (", ", ": ")])
        ordered = {name: said[name] for name in names}
        text = json.dumps(ordered, separators=spaces, ensure_ascii=dice.random() < 0.5)
        if dice.random() < 0.05:
            text = text.replace('"id"', '"\\u0069d"', 1)
        return (text + "\n").encode()


def _parse(line: bytes) -> Said:
    said: Said = json.loads(line)
    tag = said.get("params", {}).get("_meta", {}).get("tag") if "id" in said else None
    return said if tag is None else said | {"tag": tag}


def _notify(method: str, **params: Any) -> Said:
    return {"jsonrpc": "2.0", "method": method, "params": params}


_PROGRESS, _LISTEN = "notifications/progress", "subscriptions/listen"
_GREETINGS = {"initialize", "server/discover"}
_TOLD = [
    *("message", "resources/updated", "tools/list_changed", "elicitation/complete"),
    *("unknown", "tasks/status"),
]
_METHODS = {
    "tools/call": 20,
    "resources/read": 3,
    "prompts/get": 1,
    "tools/list": 4,
    "ping": 1,
    "resources/subscribe": 2,
    "resources/unsubscribe": 1,
    "logging/setLevel": 1,
    "tasks/get": 1,
    _LISTEN: 2,
}
_CHOICES: list[tuple[Any, int]] = [
    (World.request, 25),
    (World.cancel, 3),
    (World.notify, 1),
    (World.answer_question, 5),
    (World.fall_behind, 1),
    (World.come, 2),
    (World.go, 1),
    (World.serve, 45),
    (World.speak, 6),
    (World.start_one, 8),
    (World.end_one, 5),
    (World.die, 2),
    (World.trouble, 1),
    (World.restart, 1),
    (World.wait, 2),
]


def run_worlds(seed: int, count: int, steps: int = 300) -> Counter[str]:
    """Run worlds, each of which may live again with what it remembers; return what happened."""
    total: Counter[str] = Counter()
    for number in range(seed, seed + count):
        world = World(number)
        try:
            world.run(steps)
            total += world.counts
            total["steps"] += world.steps
            if world.setup.store.kept:
                world = World(number, world.setup)
                world.run(steps)
                total += world.counts
                total["steps"] += world.steps
        except BaseException:
            shown = {k: v for k, v in vars(world.setup).items() if k not in {"dice", "context"}}
            print("world", number, "step", world.steps, shown)  # noqa: T201  # to run it again
            raise
    return total


if __name__ == "__main__":
    began = time.perf_counter()
    counted = dict(run_worlds(int(sys.argv[1]), int(sys.argv[2])))
    print(counted, f"{time.perf_counter() - began:.1f} s")  # noqa: T201  # a command

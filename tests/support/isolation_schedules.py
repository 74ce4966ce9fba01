"""Random schedules of a host with several sessions, and their servers.

A schedule is chaos for some steps. Then host and servers behave, and every request must be
answered. Then the host closes its end, and the launch must end.
"""

from __future__ import annotations

import json
import traceback
from random import Random
from typing import TYPE_CHECKING, Any

from isolation_model import PLACES, Books, Request, Said
from isolation_world import Setup, World, read_json

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from isolation_world import Process

STEP_LIMIT = 200
_SETTLE_LIMIT = 6000  # the number of steps after which nothing may happen any more
_CAPABILITIES: dict[str, Any] = {"roots": {}}
_METHODS = ["tools/call"] * 8 + [
    "tools/list",
    "ping",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "logging/setLevel",
    "tasks/get",
]


class Schedule:
    """One random sequence of events."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311  # the seed is enough to repeat a schedule
        self.setup = Setup(self.random)
        self.world = World(self.setup, Random(seed + 1))  # noqa: S311
        self.books = Books(self.world)
        self.written = 0  # by the host
        self.ids = 0
        self.numbers = 0
        self.is_exempt = ""  # why requests may stay unanswered
        self.has_been_many = False
        self._greet()

    def _greet(self) -> None:
        world = self.world
        process = world.processes["server"]
        world.start(process, fails=False)
        self._ask("initialize", capabilities=_CAPABILITIES)
        world.read_host(5000)
        while not process.output:
            self._read(process, 1 << 30)
            self._answer(process)
            self._write_out(process, 1 << 30)
        world.read_server(process, 1 << 30)
        self._notify("notifications/initialized")
        world.read_host(5000)
        self.books.check_host_input()

    # The host

    def _write(self, said: Any) -> None:
        separators = (",", ":") if self.random.random() < 0.7 else (", ", ": ")
        line = json.dumps(said, separators=separators).encode() + b"\n"
        self.world.to_us += line
        self.written += len(line)

    def _make_meta(self) -> dict[str, Any]:
        session = self.random.choice(["a", "a", "b", "b", "c", "d", "e", ""])
        if not session:
            return {}
        place = {"place": PLACES[session]} if session in PLACES else {}
        return {"session": session, **place}

    def _make(self, method: str, **params: Any) -> tuple[Any, Request]:
        self.ids += 1
        meta = self._make_meta()
        is_named = method.startswith(("tools/call", "resources/")) or self.random.random() < 0.3
        if meta and is_named and method != "initialize":
            params["_meta"] = meta
        if method == "tools/call" and self.random.random() < 0.1:
            params["pad"] = "x" * self.random.randrange(700)
        session = params.get("_meta", {}).get("session", "")
        request = self.books.requests[self.ids] = Request(self.ids, method, session)
        request.level = params.get("level", "")
        return {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}, request

    def _ask(self, method: str, **params: Any) -> None:
        said, request = self._make(method, **self._choose_params(method), **params)
        self._write(said)
        request.end = self.written

    def _choose_params(self, method: str) -> dict[str, Any]:
        if "subscribe" in method:
            return {"uri": f"u{self.random.randrange(3)}"}
        if method == "logging/setLevel":
            return {"level": f"level {self.ids}"}
        return {"taskId": f"t{self.random.randrange(9)}"} if method == "tasks/get" else {}

    def _notify(self, method: str, **params: Any) -> None:
        if self.random.random() < 0.3 and method != "notifications/initialized":
            params["_meta"] = self._make_meta()
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def _list_not_cancelled(self) -> list[Request]:
        known = [one for one in self.books.requests.values() if one.method != "initialize"]
        return [one for one in known if not one.is_cancelled]

    def _make_cancellation(self) -> Any:
        request = self.random.choice(self._list_not_cancelled()[-8:])
        request.is_cancelled = True
        params: dict[str, Any] = {"requestId": request.id}
        if self.random.random() < 0.3:
            params["_meta"] = self._make_meta()
        return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}

    def host_acts(self) -> None:
        """Let the host send one message, or do nothing."""
        chance = self.random.random()
        if self.world.input_was_closed:
            return
        if self.books.questions and chance < 0.3:
            self._answer_question()
        elif chance < 0.36 and self._list_not_cancelled():
            self._write(self._make_cancellation())
        elif chance < 0.42:
            methods = ["notifications/roots/list_changed", "notifications/x"]
            self._notify(self.random.choice(methods))
        elif chance < 0.45 and self.books.questions:
            self._report_progress()
        elif chance < 0.47:
            self.world.to_us += b"hello\n"
            self.written += 6
        elif chance < 0.53:
            self._write([{"jsonrpc": "2.0", "id": 0, "method": "tools/call"}])  # an array
        else:
            self._ask(self.random.choice(_METHODS))

    def _answer_question(self) -> None:
        key = self.random.choice(list(self.books.questions))
        asked = self.books.questions.pop(key)
        asked.was_answered = True
        number = asked.said["params"]["n"]
        self._write({"jsonrpc": "2.0", "id": key, "result": {"q": number}})

    def _report_progress(self) -> None:
        asked = self.random.choice(list(self.books.questions.values()))
        if asked.host_token is not None:
            self._notify("notifications/progress", progressToken=asked.host_token)

    # A server

    def _say(self, process: Process, kind: str, said: Any) -> Said:
        separators = (",", ":") if self.random.random() < 0.7 else (", ", ": ")
        line = json.dumps(said, separators=separators).encode() + b"\n"
        process.outbox += line
        one = self.books.said[self.numbers] = Said(process, kind, said, line)
        return one

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers

    def _read(self, process: Process, size: int) -> None:
        if not process.reads:
            return
        self.world.let_read(process, size)
        seen = process.received[: process.read]
        while (end := seen.find(b"\n", process.parsed) + 1) > 0:
            said = read_json(seen[process.parsed : end])
            process.parsed = end
            if isinstance(said, dict) and "method" in said:
                self._take(process, said)

    def _take(self, process: Process, said: Any) -> None:
        if "id" in said:
            process.todo.append(said)
        elif said["method"] == "notifications/cancelled" and self.random.random() < 0.7:
            cancelled = said["params"]["requestId"]
            process.todo = [one for one in process.todo if one["id"] != cancelled]

    def _answer(self, process: Process) -> None:
        if not process.todo:
            return
        asked = process.todo.pop(self.random.randrange(len(process.todo)))
        is_own = str(asked["id"]).startswith("mcp-launch/")
        result: dict[str, Any] = {"n": self._number()}
        if self.random.random() < 0.15:
            result["pad"] = "y" * self.random.randrange(900)
        if asked["method"] == "tools/list":
            result["tools"] = [{"name": f"t{process.generation % 3}"}]
        elif asked["method"] == "initialize":
            result["capabilities"] = {"tools": {"listChanged": True}, "logging": {}}
        elif asked["method"] == "tools/call" and self.random.random() < 0.1:
            status = self.random.choice(["working", "completed"])
            result["task"] = {"taskId": f"t{self.random.randrange(9)}", "status": status}
        is_refused = is_own and asked["method"] == "initialize"
        is_refused = is_refused and self.random.random() < self.setup.refusals
        outcome: dict[str, Any] = {"result": result}
        if is_refused:
            outcome = {"error": {"code": -1, "message": "no", "data": result}}
        said = {"jsonrpc": "2.0", "id": asked["id"], **outcome}
        self._say(process, "own" if is_own else "answer", said)

    def _speak(self, process: Process) -> None:
        chance = self.random.random()
        params: dict[str, Any] = {"n": self._number()}
        if chance < 0.4:
            process.questions += 1  # every server counts from the same number
            if self.random.random() < 0.5:
                params["_meta"] = {"progressToken": process.questions}
            method = self.random.choice(["sampling/createMessage", "ping", "elicitation/create"])
            question = {"jsonrpc": "2.0", "id": process.questions, "method": method}
            self._say(process, "question", {**question, "params": params})
        elif chance < 0.95:
            if self.random.random() < 0.2:
                params["pad"] = "z" * self.random.randrange(900)
            changed = "notifications/tools/list_changed"
            method = self.random.choice(["notifications/message"] * 4 + [changed])
            self._say(process, "note", {"jsonrpc": "2.0", "method": method, "params": params})
        else:
            line = b'log "n":%d, all is well\n' % params["n"]
            process.outbox += line
            self.books.said[self.numbers] = Said(process, "noise", None, line)

    def _write_out(self, process: Process, size: int) -> None:
        if process.output_is_open and not process.output_was_closed:
            process.output += process.outbox[:size]
            process.outbox = process.outbox[size:]

    def _work(self, process: Process) -> None:
        """Let a server read, answer and write everything."""
        self._read(process, 1 << 30)
        while process.todo:
            self._answer(process)
        self._write_out(process, 1 << 30)
        while process.output:
            self.world.read_server(process, 1 << 30)

    # Chaos

    def step(self) -> None:
        """Let one event happen."""
        world, random = self.world, self.random
        if random.random() < self.setup.danger:
            self._go_wrong()
        else:
            size = random.choice([1, 7, 40, 200, 5000])
            acts: list[Callable[[], object]] = [self.host_acts] * 3
            if world.can_read_host and (world.to_us or world.input_was_closed):
                line = world.to_us.find(b"\n") + 1
                acts += [lambda: world.read_host(line if random.random() < 0.7 else size)] * 5
            for process in list(world.processes.values()):
                acts += self._list_acts(process, size) + self._list_reports(process, size)
            if random.random() < 0.1:
                acts.append(world.pass_time)
            if random.random() < self.setup.restarts:
                acts.append(world.restart)
            random.choice(acts)()
        self.books.check_host_input()

    def _list_acts(self, process: Process, size: int) -> list[Callable[[], object]]:
        world, random = self.world, self.random
        if process.stage == "starting":
            fails = random.random() < self.setup.failing_starts
            return [lambda: world.start(process, fails=fails)] * 2
        if not process.is_running:
            return []
        acts: list[Callable[[], object]] = [lambda: self._read(process, size)] * 2
        acts += [lambda: self._answer(process)] * 2 + [lambda: self._speak(process)]
        acts += [lambda: self._write_out(process, size)] * 2
        if random.random() < 0.3:
            acts += [lambda: self._work(process)] * 2
        if random.random() < self.setup.deaths:
            acts += [lambda: world.kill(process, random.choice([0, 1, 137]))] * 3
            acts += [lambda: world.stop_reading(process), lambda: self._close_output(process)]
        return acts

    def _list_reports(self, process: Process, size: int) -> list[Callable[[], object]]:
        world = self.world
        if process.stage not in {"running", "dead"}:
            return []
        acts: list[Callable[[], object]] = []
        is_closed = not (process.output_is_open and process.is_running)
        if (process.output or is_closed) and not process.output_was_closed:
            acts += [lambda: world.read_server(process, size)] * 3
        if process.stage == "dead" and not process.exit_was_reported:
            acts.append(lambda: world.report_exit(process))
        elif process.stage == "dead" and not process.output:
            acts.append(lambda: world.report_gone(process))
        return acts

    @staticmethod
    def _close_output(process: Process) -> None:
        process.output_is_open = False

    def _go_wrong(self) -> None:
        acts: list[Callable[[], object]] = [self.world.pass_time] * 6
        acts += [self._hang_up, self._signal, self._lose_host, self._lose_reader]
        self.random.choice(acts)()

    def _hang_up(self) -> None:
        self.world.input_was_closed = True

    def _signal(self) -> None:
        self.is_exempt = "signal"
        self.world.signal()

    def _lose_host(self) -> None:
        self.is_exempt = "host lost"
        self.world.lose_host()

    def _lose_reader(self) -> None:
        if self.world.host_reads:
            self.is_exempt = "reader lost"
            self.world.lose_reader()

    # Then host and servers behave

    def settle(self) -> None:
        """Let host and servers behave until nothing happens any more."""
        for _ in range(_SETTLE_LIMIT):
            if self.world.finished or not self._do_next():
                break
            self.books.check_host_input()
        else:
            raise AssertionError("it never becomes quiet")

    def _do_next(self) -> bool:
        world = self.world
        processes = list(world.processes.values())
        self.random.shuffle(processes)
        if world.can_read_host and (world.to_us or world.input_was_closed):
            world.read_host(5000)
            return True
        for process in processes:
            if process.stage == "starting":
                world.start(process, fails=False)
                return True
            if reports := self._list_reports(process, 5000):
                reports[0]()
                return True
            if process.is_running and self._let_work(process):
                return True
        if self.books.questions and not world.input_was_closed:
            self._answer_question()
            return True
        return world.pass_time(without="rest ")

    def _let_work(self, process: Process) -> bool:
        if process.is_crippled:
            self.world.kill(process, 1)
        elif process.read < len(process.received):
            self._read(process, 1 << 30)
        elif process.todo:
            self._answer(process)
        elif process.outbox:
            self._write_out(process, 1 << 30)
        elif process.input in {"closed", "broken"}:
            self.world.kill(process, 0)
        else:
            return False
        return True

    def run(self, steps: int) -> None:
        """Run it.

        Raises:
            AssertionError: A rule was broken.

        """
        world = self.world
        for _ in range(steps):
            if world.finished:
                break
            self.step()
        self.settle()
        self._check()
        if not world.finished:
            world.input_was_closed = True
            self.settle()
            self._check()
        assert len(world.finished) == 1, f"it finished {len(world.finished)} times"

    def _check(self) -> None:
        world, books = self.world, self.books
        books.check_host_input()
        if self.is_exempt or not world.host_reads:
            return
        if world.finished:
            books.check_last_line()
        books.check_answers(self.written - len(world.to_us))
        if world.finished:
            is_single = len(world.broker.backends) == 1
            assert world.input_was_closed or is_single, "it has ended although its host is there"
            alive = [one.name for one in world.processes.values() if one.stage != "gone"]
            assert not alive or world.failures, f"it has ended before {alive}"
        elif not world.broker.connections["host"].input_is_lost and not world.failures:
            books.check_size()
            books.check_questions()
            books.check_levels()


def run(seed: int, steps: int | None = None) -> Schedule:
    """Run one schedule; the seed decides everything."""
    schedule = Schedule(seed)
    length = schedule.random.randrange(STEP_LIMIT)
    schedule.run(length if steps is None else steps)
    return schedule


def explain(seed: int) -> str:
    """Return the log of the shortest failing schedule of this seed; empty if none fails."""
    for steps in range(STEP_LIMIT):
        schedule = Schedule(seed)
        schedule.random.randrange(STEP_LIMIT)
        try:
            schedule.run(steps)
        except Exception as error:  # noqa: BLE001  # an exception in the broker is a finding, too
            log = "\n".join(schedule.world.log)
            where = traceback.format_exc(limit=-3)
            return f"seed {seed}, {steps} steps, {schedule.setup}\n{log}\n{where}{error!r}"
    return ""


def tally(schedule: Schedule, counts: Counter[str]) -> None:
    """Count what happened, to show what the schedules reach."""
    world, requests = schedule.world, schedule.books.requests.values()
    log = "\n".join(world.log)
    counts["requests"] += len(requests)
    counts["answered by a server"] += sum("server" in str(one.answers) for one in requests)
    counts["answered by us"] += sum("us" in one.answers for one in requests)
    counts["delivered again"] += sum(len(one.deliveries) > 1 for one in requests)
    counts["questions answered"] += sum(one.answers for one in schedule.books.said.values())
    counts["schedules with several servers"] += len(world.broker.backends) > 1
    counts["schedules with four servers"] += len(world.broker.backends) > 3
    counts["taken from an idle session"] += log.count("was ended, because --max-servers is")
    counts["refused because all are at work"] += log.count("at work or has a subscriber")
    counts["could not be started"] += log.count("> start of")
    counts["rests"] += log.count("'rest')")
    counts["restarts"] += log.count("restarted on request")
    counts["finished"] += len(world.finished)
    for name in ("drain", "greeting", "input", "output", "roots", "grace", "leave", "restart"):
        counts[f"timer {name}"] += log.count(f"> timer {name}")

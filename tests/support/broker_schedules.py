"""Random schedules of a host, its servers and the clock around a broker.

A schedule is chaos for some steps. Then host and servers behave, and every request must be
answered. Then the host closes its end, and the launch must end.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from broker_players import Players

from mcp_launch import protocol
from mcp_launch.broker import waiting
from mcp_launch.protocol import framing

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from broker_world import Server

STEP_LIMIT = 250
_TIMERS = [
    *["drain", "greeting", "input", "output", "roots", "grace", "leave", "linger"],
    *["patience", "remember", "compare", "rest", "restart"],
]
_SETTLE_LIMIT = 4000  # the number of steps after which nothing may happen any more


class Schedule(Players):
    """One random sequence of events."""

    # Chaos

    def step(self) -> None:
        """Let one event happen."""
        world, random = self.world, self.random
        server = world.server
        if random.random() < self.setup.danger:
            self._go_wrong()
            return
        size = random.choice([1, 7, 40, 200, 5000])
        acts: list[Callable[[], object]] = [self.host_acts, self.host_acts]
        if world.can_read_host and (world.to_us or world.input_was_closed):
            line = world.to_us.find(b"\n") + 1
            is_single = self.setup.is_regular and random.random() < 0.8
            acts += [lambda: world.read_host(line if is_single and line else size)] * 3
        if server.stage == "starting":
            is_woken = world.broker.backends["server"].is_waking
            risk = self.setup.failing_starts if is_woken else self.setup.danger
            acts += [lambda: world.start(fails=random.random() < risk)] * 2
        if server.is_running:
            acts += [lambda: self.server_reads(size)] * 2
            acts += [self.server_answers] * 2
            acts += [self.server_notifies]
            acts += [lambda: self.server_writes(size)] * 3
        acts += self._list_reports()
        if random.random() < 0.1 or "compare server" in world.timers:
            acts.append(world.pass_time)
        if self.setup.style == "claude" and random.random() < 0.1:
            acts.append(self._change_record)
        if random.random() < self.setup.restarts:
            acts.append(world.restart)
        random.choice(acts)()
        self.books.check_host_input()

    def _list_reports(self) -> list[Callable[[], object]]:
        world, server = self.world, self.world.server
        if server.stage not in {"running", "dead"}:
            return []
        acts: list[Callable[[], object]] = []
        size = self.random.choice([1, 30, 100, 5000])
        is_closed = not (server.output_is_open and server.is_running)
        if (server.output or is_closed) and not server.output_was_closed:
            acts += [lambda: world.read_server(size)] * 3
        if server.stage == "dead" and not server.exit_was_reported:
            acts.append(world.report_exit)
        if server.stage == "dead" and server.exit_was_reported and not server.output:
            acts.append(world.report_gone)
        return acts

    def _change_record(self) -> None:
        self.world.record = self.random.choice(["s-a", "s-b", "s-c"])

    def _go_wrong(self) -> None:
        world, random = self.world, self.random
        acts: list[Callable[[], object]] = [world.pass_time] * 3
        if world.server.is_running:
            acts += [lambda: world.kill(random.choice([0, 1, 137]))] * 12
            acts += [self._close_output, world.stop_reading] * 2
        acts += [self._hang_up, self._signal, self._lose_host]
        if world.host_reads:
            acts.append(self._lose_reader)
        random.choice(acts)()
        self.books.check_host_input()

    def _close_output(self) -> None:
        self.world.server.output_is_open = False

    def _hang_up(self) -> None:
        self.world.input_was_closed = True

    def _signal(self) -> None:
        self.is_exempt = "signal"
        self.world.signal(15)

    def _lose_host(self) -> None:
        self.is_exempt = "host lost"
        self.world.lose_host()

    def _lose_reader(self) -> None:
        self.is_exempt = "reader lost"
        self.world.lose_reader()

    # Then host and servers behave

    def settle(self) -> None:
        """Let host and servers behave until nothing happens any more."""
        world = self.world
        self._rests_left = self.random.choice([0, 1, 3])
        may_be_late = world.broker.is_out_of_time or world.broker.failure or self.is_exempt
        for _ in range(_SETTLE_LIMIT):
            if world.finished or not self._do_next():
                break
            self.books.check_host_input()
        else:
            raise AssertionError("it never becomes quiet")
        is_late = world.broker.is_out_of_time and not (may_be_late or world.broker.failure)
        assert not is_late, "the server was never told that its input has ended"

    def _do_next(self) -> bool:
        world, server = self.world, self.world.server
        if world.can_read_host and world.to_us:
            world.read_host(5000)
        elif world.can_read_host and world.input_was_closed:
            world.read_host(1)
        elif server.stage == "starting":
            world.start(fails=False)
        elif reports := self._list_reports():
            reports[0]()
        elif server.is_running and self._let_server_work(server):
            pass
        elif self.books.questions and not world.input_was_closed:
            self.answer_question()
        else:
            return self._pass_time()
        return True

    def _pass_time(self) -> bool:
        """Let time pass; a server that does not rest is asked again for ever."""
        if self._rests_left and self.world.pass_time():
            self._rests_left -= self.world.event.startswith("timer rest")
            return True
        return self.world.pass_time(without="rest ")

    def _let_server_work(self, server: Server) -> bool:
        is_crippled = not (server.reads and server.output_is_open) or server.output_was_closed
        if is_crippled:
            self.world.kill(1)
        elif server.read < len(server.received):
            self.server_reads(1 << 30)
        elif self.todo.get(server.generation):
            self.server_answers()
        elif self.outbox.get(server.generation):
            self.server_writes(1 << 30)
        elif server.input in {"closed", "broken"}:
            self.world.kill(0)
        else:
            return False
        return True

    def run(self, steps: int) -> None:
        """Run it.

        Raises:
            AssertionError: A rule was broken.

        """
        world, books = self.world, self.books
        for _ in range(steps):
            if world.finished:
                break
            self.step()
        self.settle()
        self._check()
        if not world.finished:
            if not self.is_exempt:
                books.check_size()
                books.check_questions()
                books.absence.check_state()
            world.input_was_closed = True
            self.settle()
            self._check()
        if self.random.random() < 0.5:
            self._end_while_writing()
        assert len(world.finished) == 1, f"it finished {len(world.finished)} times"
        if not self.is_exempt:
            books.check_last_line()

    def _end_while_writing(self) -> None:
        """Let the server end while the last lines are still being written."""
        for _ in range(8):
            self.server_writes(50)
            reports = self._list_reports()
            if reports:
                reports[-1]()
            elif self.world.server.is_running:
                self.world.kill(0)

    def _check(self) -> None:
        world, books = self.world, self.books
        books.check_host_input()
        broker = world.broker
        handshake = broker.connections["host"].handshake
        is_exempt = self.is_exempt or not world.host_reads
        has_hung_up = world.input_was_closed and not handshake.is_over
        if not (is_exempt or has_hung_up):
            if world.finished:
                books.check_last_line()
            books.check_answers(self.written - len(world.to_us))
            books.check_records(world.take_finished())
            if not world.failures and not broker.failure and not books.cut_offs:
                books.check_arrivals()


_SMALL: dict[tuple[ModuleType, str], int] = {
    (framing, "_WHOLE_LINE_LIMIT"): 300,
    (framing, "_EDGE"): 100,
    (waiting, "QUEUE_LIMIT"): 2000,
    (protocol, "LONG_LINE"): 500,
    (protocol, "_LONG_STRING"): 100,
}


@contextlib.contextmanager
def small_limits() -> Iterator[None]:
    """Lower the limits for long lines and queues, so that schedules stay short."""
    before = [getattr(module, name) for module, name in _SMALL]
    for (module, name), limit in _SMALL.items():
        setattr(module, name, limit)
    try:
        yield
    finally:
        for (module, name), limit in zip(_SMALL, before, strict=True):
            setattr(module, name, limit)


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
            return f"seed {seed}, {steps} steps, {schedule.setup}\n{log}\n{error!r}"
    return ""


def tally(schedule: Schedule, counts: Counter[str]) -> None:
    """Count what happened, to show what the schedules reach."""
    world, requests = schedule.world, schedule.books.requests.values()
    counts["servers"] += len(world.servers)
    counts["requests"] += len(requests)
    counts["answered by a server"] += sum("server" in str(one.answers) for one in requests)
    counts["answered by us"] += sum("us" in one.answers for one in requests)
    counts["cancelled"] += sum(one.is_cancelled for one in requests)
    counts["delivered again"] += sum(len(one.deliveries) > 1 for one in requests)
    counts["matched"] += world.matched
    long = [one for one in requests if one.is_shortened and one.deliveries]
    counts["long"] += len(long)
    counts["long and delivered again"] += sum(len(one.deliveries) > 1 for one in long)
    counts["condensed"] += sum(one.is_condensed and bool(one.deliveries) for one in requests)
    counts["failures"] += len(world.failures)
    counts["recalled"] += schedule.books.absence.recalled
    counts["rests"] += schedule.books.absence.rests
    counts["restarts"] += world.restarts
    counts["restarted"] += world.broker.backends["server"].restart_requests
    counts["failed wakes"] += schedule.books.absence.failures
    counts["deferred"] += schedule.setup.is_deferred and len(world.servers) > 1
    for name in _TIMERS:
        counts[f"timer {name}"] += sum(f"> timer {name}" in line for line in world.log)

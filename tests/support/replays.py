"""Replays a recorded launch on the broker, and notes what comes out.

The clock is the recording's. A timer of the broker fires when the recording says that it did;
a timer that the recording does not mention fires once it is clearly overdue. Where something
broke in the middle of an event, such as a server's input, it breaks at the same byte here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from launch_outcomes import ANSWERS, Outcome
from recorded_facts import make_error, make_plan, make_served, make_settings, remake_context

from mcp_launch.broker import Broker, commands

if TYPE_CHECKING:
    from collections.abc import Callable

    from playbooks import Playbook, Step

    from mcp_launch.broker.commands import Command
    from mcp_launch.hosts import Caller
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.plan import Plan
    from mcp_launch.values import Found

_HOST, _SERVER = "host", "server"

# How much of a server's stderr is kept.
_LAST_WORDS = 2048

# Recorded times are rounded, and a busy machine is late.
_LATENESS = 0.1

_OWN_ID = re.compile(rb"mcp-launch/launch-1/\d+")


class _RecordingEnds(Exception):
    """The launcher was killed in the middle of an event."""


class Replay:
    """A broker, and a recording's events for it."""

    def __init__(self, playbook: Playbook) -> None:
        self._head = playbook.head
        self._steps = playbook.steps
        self._at = 0  # the step that is being replayed
        self._outcome = Outcome()
        self._timers: dict[str, float] = {}
        self._caller: Caller | None = None
        self._answered: set[int] = set()  # steps that belong to an event before them
        self._number = 1  # of the server that runs
        self._closed: set[str] = set()  # which no bytes reach any more
        self._broken: set[str] = set()  # servers that read no more
        self._gone: set[str] = set()
        self._is_over = False
        self._stderr_end = b""
        self._undelivered = b""  # sent to a server after its input broke
        self._ids: dict[bytes, bytes] = {}  # as they are now: as they were recorded
        self._recorded_ids = _list_own_ids(playbook)
        self._last_step = _find_last_step(playbook.steps)
        self._until_break = 0  # how often something is sent to a server before its input breaks
        served = make_served(self._head)
        self._broker = Broker(make_settings(playbook, self._plan_for, self._read_caller))
        self._broker.connect(_HOST)
        self._broker.open_backend(_SERVER, served).state = "starting"
        self._note_start(served.plan)

    def run(self) -> Outcome:
        """Replay everything; return what came out."""
        for at, step in enumerate(self._steps):
            self._at = at
            if step.is_input:
                self._outcome.note_progress(step)
            if step.is_input and self._is_over:
                self._outcome.unheard += 1
            elif step.is_input:
                self._fire_overdue(step)
                self._broker.now = step.time / 1000
                self._replay_or_stop(step)
                if at == self._last_step and not self._is_over:
                    self._lose_server(b"")
        if any(step.verb == "exit" for step in self._steps):
            self._wait_for_exit()
        broker = self._broker
        if any(step.verb == "outcome" for step in self._steps):
            self._outcome.totals = {
                "outlasted_input": broker.is_out_of_time,
                "noise": broker.noise,
                "unanswered": sorted(broker.unanswered),
            }
        return self._outcome

    # The clock

    def _fire_overdue(self, step: Step) -> None:
        while self._timers and not self._is_over:
            name, due = min(self._timers.items(), key=lambda timer: timer[1])
            if due + _LATENESS >= step.time / 1000:
                return
            self._fire(name)

    def _fire(self, name: str) -> None:
        self._broker.now = max(self._broker.now, self._timers.pop(name))
        kind = name.partition(" ")[0]
        if kind not in {"leave", "linger"}:  # which were not recorded
            self._outcome.timers.append(kind)
        self._tell(self._broker.timer, name)

    def _wait_for_exit(self) -> None:
        """Let time pass, if nothing else can end the launch any more."""
        for name in ("leave", "linger"):
            if name in self._timers and not self._is_over:
                self._fire(name)

    # What goes in

    def _replay_or_stop(self, step: Step) -> None:
        if (step.party, step.verb) in ANSWERS or self._at in self._answered:
            return
        self._until_break = self._count_until_break()
        try:
            self._replay(step)
        except _RecordingEnds:
            self._do_all()
            self._is_over = True

    def _replay(self, step: Step) -> None:
        if step.party == "signal":
            self._tell(self._broker.signal_received, int(step.verb))
        elif step.party == "timer":
            self._replay_timer(step.verb)
        elif step.party == "host":
            self._replay_host(step)
        elif step.party.startswith("server-"):
            self._replay_server(step)

    def _replay_timer(self, kind: str) -> None:
        if kind == "lease":
            self._broker.lease_is_due = False
        for name in list(self._timers):
            if name.partition(" ")[0] == kind:
                self._fire(name)

    def _replay_host(self, step: Step) -> None:
        broker = self._broker
        if step.verb == "data":
            self._tell(broker.host_said, _HOST, self._use_ids_of_now(step.value))
        elif step.verb == "end":
            self._tell(broker.host_closed, _HOST)
        elif step.verb == "lost":
            self._tell(broker.host_lost)
        elif step.verb == "broken":
            self._tell(broker.reader_lost, _HOST)
        elif step.verb == "drained":
            self._tell(broker.bytes_moved)

    def _replay_server(self, step: Step) -> None:
        broker = self._broker
        match step.verb:
            case "started":
                self._tell(broker.server_started, _SERVER)
            case "start-failed":
                self._tell(broker.server_start_failed, _SERVER, make_error(step.value))
            case "data":
                self._tell(broker.server_said, _SERVER, self._use_ids_of_now(step.value))
            case "errors":
                self._stderr_end = (self._stderr_end + step.value)[-_LAST_WORDS:]
            case "end":
                self._closed.add(f"{step.party} output")
                self._tell(broker.server_closed_output, _SERVER)
            case "broken":
                self._break_input(step.party)
            case "exited" | "gone":
                self._gone.add(step.party)
                self._tell(broker.server_exited, _SERVER, step.value)
            case "unread":
                self._lose_server(step.value)

    def _lose_server(self, unread: bytes) -> None:
        server = f"server-{self._number}"
        self._gone.add(server)
        if f"{server} output" not in self._closed:
            self._tell(self._broker.server_closed_output, _SERVER)
        unread, words = self._use_ids_of_now(unread) + self._undelivered, self._stderr_end
        self._stderr_end = self._undelivered = b""
        self._tell(self._broker.server_gone, _SERVER, unread, words)

    def _count_until_break(self) -> int:
        """Return how often something is sent in this event until a server's input breaks."""
        count = 0
        for at in range(self._at + 1, len(self._steps)):
            step = self._steps[at]
            if step.is_input and (step.party, step.verb) not in ANSWERS:
                if count and step.verb == "broken" and step.party.startswith("server-"):
                    self._answered.add(at)
                    return count
                return 0
            count += step.party.startswith("server-") and step.verb == "data"
        return 0

    # Questions

    def _find_answer(self, party: str) -> Step | None:
        """Return the recorded answer to a question that the present event raises."""
        for at in range(self._at + 1, len(self._steps)):
            step = self._steps[at]
            if step.is_input and (step.party, step.verb) not in ANSWERS:
                return None
            if step.is_input and step.party == party and at not in self._answered:
                self._answered.add(at)
                return step
        return None

    def _read_caller(self) -> Caller | None:
        changed = self._find_answer("caller")
        if changed is not None:
            self._caller = tuple(changed.value) if changed.value else None
        return self._caller

    def _plan_for(self, context: Context, place: Found | None) -> tuple[Context, Plan]:
        facts = (context.session, context.thread, place or context.place)
        self._outcome.wanted.append([getattr(fact, "value", None) for fact in facts])
        step = self._find_answer("plan")
        if step is None and self._is_last_event():
            self._outcome.wanted.pop()
            raise _RecordingEnds
        assert step is not None, "a plan is wanted that was not wanted when it was recorded"
        unfit = self._find_answer("plan") if step.verb == "decided" else step
        if unfit is not None:
            raise make_error(unfit.value)
        recorded = [one for one in self._steps[: self._steps.index(step)] if one.party == "plan"]
        return remake_context(self._head, recorded[-1].value), make_plan(step.value)

    def _is_last_event(self) -> bool:
        """Tell whether the launcher was killed before it had done everything that follows."""
        rest = self._steps[self._at + 1 :]
        return not any(step.is_input or step.party == "launch" for step in rest)

    # What comes out

    def _tell(self, event: Callable[..., None], *facts: object) -> None:
        event(*facts)
        self._do_all()

    def _do_all(self) -> None:
        while done := self._broker.take_commands():
            for command in done:
                self._do(command)

    def _do(self, command: Command) -> None:
        match command:
            case commands.SendToHost(data=data):
                if "host" not in self._closed:
                    self._outcome.host += self._use_recorded_ids("host", data)
            case commands.SetTimer(name=name, seconds=seconds):
                self._timers[name] = self._broker.now + seconds
            case commands.CancelTimer(name=name):
                self._timers.pop(name, None)
            case commands.Note(text=text) if text.startswith("refused: "):
                # The log's wording has changed; the host's has not.
                self._outcome.refusals.append(text.removesuffix(": it was not delivered"))
            case commands.Fail(error=error):
                self._outcome.failure = (error.problem, error.fix, error.exit_code)
            case commands.Finish(exit_code=code):
                self._outcome.exit_code = code
                self._is_over = True
            case _:
                self._do_to_server(command, f"server-{self._number}")

    def _do_to_server(self, command: Command, server: str) -> None:
        match command:
            case commands.SendToServer(data=data):
                self._send(server, data)
            case commands.StartServer(plan=plan):
                self._number = len(self._outcome.starts) + 1
                self._note_start(plan)
            case commands.EndServer(reason=reason):
                self._outcome.ends.append((server, reason.replace(" ", "-")))
            case commands.SignalServer(number=number):
                self._outcome.ends.append((server, f"signal {number}"))
            case _:
                self._close(command, server)

    def _close(self, command: Command, server: str) -> None:
        match command:
            case commands.CloseInput() | commands.CutInput():
                names = [f"{server} input"]
            case commands.CloseOutput():
                self._closed.add("host")
                self._outcome.closed.add("host close")
                names = [f"{server} output"]
            case commands.CloseHostInput():
                names = ["host close-input"]
            case commands.CloseHostOutput():
                self._closed.add("host")
                names = ["host close"]
            case _:
                return
        for name in names:
            if name not in self._closed and server not in self._gone:
                self._outcome.closed.add(name)
            self._closed.add(name)

    def _send(self, server: str, data: bytes) -> None:
        if f"{server} input" not in self._closed:
            sent = self._use_recorded_ids(server, data)
            self._outcome.servers[server] = self._outcome.servers.get(server, b"") + sent
            self._until_break -= 1
            if self._until_break == 0:
                self._break_input(server)
        elif server in self._broken:
            self._undelivered += data  # decided before it broke; the next server gets it

    def _break_input(self, server: str) -> None:
        self._closed.add(f"{server} input")
        self._broken.add(server)
        self._tell(self._broker.server_closed_input, _SERVER)

    def _note_start(self, plan: Plan) -> None:
        held = [list(one) for one in plan.held._values]  # noqa: SLF001  # as recorded
        self._outcome.starts.append((plan.cwd.value, held))

    # Ids of our own, which are counted differently

    def _use_recorded_ids(self, party: str, data: bytes) -> bytes:
        def name(found: re.Match[bytes]) -> bytes:
            if found[0] not in self._ids:
                recorded = self._recorded_ids.get(party, [])
                self._ids[found[0]] = recorded.pop(0) if recorded else found[0]
            return self._ids[found[0]]

        return _OWN_ID.sub(name, data)

    def _use_ids_of_now(self, data: bytes) -> bytes:
        known = {recorded: now for now, recorded in self._ids.items()}
        return _OWN_ID.sub(lambda found: known.get(found[0], found[0]), data)


def _list_own_ids(playbook: Playbook) -> dict[str, list[bytes]]:
    """Return the ids of our own, for each party that got them first, in order."""
    ids: dict[str, list[bytes]] = {}
    seen: set[bytes] = set()
    for step in playbook.steps:
        if not step.is_input and step.verb == "data" and step.party != "stderr":
            for one in _OWN_ID.findall(step.value):
                if one not in seen:
                    seen.add(one)
                    ids.setdefault(step.party, []).append(one)
    return ids


def _find_last_step(steps: list[Step]) -> int:
    """Return after which step the last server was gone, if nobody asked what it had not read."""
    end = next((at for at, step in enumerate(steps) if step.verb == "outcome"), len(steps))
    inputs = [at for at, step in enumerate(steps[:end]) if step.is_input]
    starts = [step.party for step in steps if step.verb == "start"]
    verbs = {steps[at].verb for at in inputs if steps[at].party == starts[-1]}
    return inputs[-1] if "gone" in verbs and "unread" not in verbs else -1

"""Playbooks: `>>` is an event for a broker, `<<` is each command that it returns.

    >> host: 1 tools/list
    << server: 1 tools/list
    >> gone server
    << host: 1 error -31000 … tools/list was not answered …
    << start server

A message is written as `ID METHOD [PARAMS]`, `METHOD [PARAMS]`, `ID = RESULT`, `ID error CODE
TEXT` or `ID refused TEXT`; anything else as JSON, or as a bytes literal if it is not a whole
line. `…` stands for any text. Log entries and writes of the lease are left out. A timer can
fire only if it was set and not cancelled, and a host is resumed only if it was paused.
"""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING, Any

from fakes import make_context

from mcp_launch import protocol
from mcp_launch.broker import Broker, commands
from mcp_launch.broker.commands import Settings
from mcp_launch.broker.pool import Pool
from mcp_launch.broker.routing import Served, bind_at_start
from mcp_launch.errors import LaunchError
from mcp_launch.hosts import Callers
from mcp_launch.launch.context import is_inside
from mcp_launch.launch.plan import Plan
from mcp_launch.protocol import json_text
from mcp_launch.protocol.memory import Remembered
from mcp_launch.runtime.streams import explain_early_end, explain_end
from mcp_launch.values import Found

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker.commands import Command
    from mcp_launch.hosts import Caller
    from mcp_launch.launch.context import Context
    from mcp_launch.protocol.json_text import Json

HANDSHAKE = """
    >> started server
    >> host: 0 initialize {"capabilities":{"roots":{}}}
    << server: 0 initialize {"capabilities":{"roots":{}}}
    >> server: 0 = {"capabilities":{"tools":{"listChanged":true}}}
    << host: 0 = {"capabilities":{"tools":{"listChanged":true}}}
    >> host: notifications/initialized
    << server: notifications/initialized
"""


class NamedCallers(Callers):
    """Callers whose `_meta` names session, thread and place directly."""

    origins = ("the call's session", "the call's thread", "the call's place")
    identifying = ("session", "thread", "place")

    def read(self, meta: dict[str, Json]) -> Caller | None:
        named = [meta.get(name) for name in ("session", "thread", "place")]
        if not any(named):
            return None
        session, thread, place = (one if isinstance(one, str) else None for one in named)
        return session, thread, place


class Playbook:
    """Plays events to a broker, and compares its commands."""

    def __init__(
        self,
        *,
        connections: tuple[str, ...] = ("host",),
        backends: tuple[str, ...] = ("server",),
        is_started: bool = True,
        **settings: Any,
    ) -> None:
        context = make_context()
        self.first = Served(context, bind_at_start(context.identity), make_plan("/work/app"))
        self.plan_problem = ""  # the reason, if no server can be planned
        values: dict[str, Any] = {
            "server": "srv",
            "launch": "L",
            "carries": "one session at a time",
            "callers": NamedCallers(),
            "plan_for": self._plan_for,
            "is_inside": is_inside,
            "describe": lambda served, place: {"for": str(served.bound), "in": str(place)},
            "explain_end": explain_end,
            "explain_early_end": lambda code, words: explain_early_end("srv", code, words),
            "read_outer": lambda: None,
            "no_meta": True,
        }
        self.broker = self.make_broker(Settings(**(values | settings)))
        for name in connections:
            self.broker.connect(name)
        for name in backends:
            backend = self.broker.open_backend(name, self.first)
            backend.state = "starting" if is_started else "absent"
        self.timers: set[str] = set()
        self.notes: list[str] = []
        self._paused: set[str] = set()

    def make_broker(self, settings: Settings) -> Broker:
        """Return the broker to play with."""
        return Broker(settings)

    def _plan_for(self, context: Context, place: Found | None) -> tuple[Context, Plan]:
        if self.plan_problem:
            raise LaunchError(self.plan_problem, fix="plan again")
        context = context.at(place) if place else context
        return context, make_plan(context.place.value)

    def play(self, script: str) -> None:
        """Play the events in order, and check that each has exactly the expected commands."""
        events: list[tuple[str, list[str]]] = []
        for line in filter(None, map(str.strip, script.splitlines())):
            sign, _, text = line.partition(" ")
            if sign == ">>":
                events.append((text, []))
            else:
                assert sign == "<<", line
                events[-1][1].append(text)
        for event, expected in events:
            self.play_event(event)
            done = self.take()
            is_right = len(done) == len(expected) and all(map(_match, expected, done))
            assert is_right, "\n".join([f">> {event}", *(f"<< {one}" for one in done)])

    def take(self) -> list[str]:
        """Return the broker's commands as text."""
        done: list[str] = []
        sends: list[tuple[str, bytes]] = []
        for command in [*self.broker.take_commands(), None]:
            if isinstance(command, (commands.SendToHost, commands.SendToServer)):
                where = getattr(command, "connection", "") or getattr(command, "backend", "")
                if sends and sends[-1][0] == where:
                    sends[-1] = (where, sends[-1][1] + command.data)
                else:
                    sends.append((where, command.data))
                continue
            if command is not None and not self._is_shown(command):
                continue
            for where, data in sends:
                done += [f"{where}: {show(line)}" for line in data.splitlines(keepends=True)]
            sends = []
            if command is not None:
                done.append(_SHOWN[type(command)](command))
        return done

    def _is_shown(self, command: Command) -> bool:
        if isinstance(command, commands.Note):
            self.notes.append(command.text)
            return False
        if isinstance(command, commands.SetTimer):
            self.timers.add(command.name)
        elif isinstance(command, commands.CancelTimer):
            self.timers.discard(command.name)
        elif isinstance(command, commands.PauseHost):
            self._paused.add(command.connection)
        elif isinstance(command, commands.ResumeHost):
            was_paused = command.connection in self._paused
            self._paused.discard(command.connection)
            return was_paused
        return not isinstance(command, (commands.CancelTimer, commands.WriteLease))

    def play_event(self, event: str) -> None:
        """Play one event."""
        broker = self.broker
        where, colon, text = event.partition(": ")
        if colon and where in broker.connections:
            broker.host_said(where, write(text))
        elif colon and where in broker.backends:
            broker.server_said(where, write(text))
        elif event.startswith("after "):
            broker.now += float(event.removeprefix("after "))
        elif event.startswith("timer "):
            name = event.removeprefix("timer ")
            assert name in self.timers, f"{name} is not set: {self.timers}"
            self.timers.discard(name)
            broker.timer(name)
        elif event.startswith("gone "):
            name, *unread = event.removeprefix("gone ").split(" | ")
            broker.server_gone(name, b"".join(map(write, unread)), b"")
        else:
            self._play_other_event(event)

    def _play_other_event(self, event: str) -> None:
        broker = self.broker
        *words, last = event.split()
        events: dict[str, Callable[[str], None]] = {
            "started": broker.server_started,
            "start failed": lambda name: broker.server_start_failed(
                name, LaunchError("it cannot be started", fix="install it")
            ),
            "host closed": broker.host_closed,
            "host lost": lambda _: broker.host_lost(),
            "reader lost": broker.reader_lost,
            "input closed by": broker.server_closed_input,
            "output closed by": broker.server_closed_output,
            "bytes": lambda _: broker.bytes_moved(),
            "signal": lambda number: broker.signal_received(int(number)),
            "restart": lambda _: broker.restart_requested(),
        }
        if isinstance(broker, Pool):
            events |= {"join": lambda name: broker.join(name, f"launch-{name[0]}")}
            events |= {"leave": broker.leave_pool}
        if words[0] == "exited":
            broker.server_exited(words[1], int(last))
        else:
            events[" ".join(words)](last)


class Store:
    """Keeps handshakes without a disk."""

    def __init__(self, *memories: Remembered) -> None:
        self.memories = {one.client: one for one in memories}
        self.checked: list[str] = []

    def read(self, client: str, now: float) -> Remembered | None:
        memory = self.memories.get(client)
        if memory is None:
            return None
        read = Remembered(client, now - memory.written, dict(memory.answers))
        read.is_due = memory.is_due
        return read

    def claim_check(self, client: str) -> None:
        self.checked.append(client)


def make_plan(cwd: str) -> Plan:
    """Return the plan of a server in a directory."""
    return Plan(["srv"], Found(cwd, "inherited"), {})


def open_playbook(**settings: Any) -> Playbook:
    """Return a playbook whose host and server have completed the handshake."""
    playbook = Playbook(**settings)
    playbook.play(HANDSHAKE)
    return playbook


_SHOWN: dict[type[Command], Callable[[Any], str]] = {
    commands.StartServer: lambda one: (
        f"start {one.backend}"
        + (f" in {cwd}" if (cwd := one.plan.cwd.value) != "/work/app" else "")
    ),
    commands.EndServer: lambda one: f"end {one.backend}: {one.reason}",
    commands.SignalServer: lambda one: f"signal {one.backend}: {one.number}",
    commands.CloseInput: lambda one: f"close input of {one.backend}",
    commands.CutInput: lambda one: f"cut input of {one.backend}",
    commands.CloseOutput: lambda one: f"close output of {one.backend}",
    commands.PauseHost: lambda one: f"pause {one.connection}",
    commands.ResumeHost: lambda one: f"resume {one.connection}",
    commands.CloseHostInput: lambda one: f"close input from {one.connection}",
    commands.CloseHostOutput: lambda one: f"close output to {one.connection}",
    commands.ReturnUnread: lambda one: f"unread of {one.connection}: {show(one.line)}",
    commands.EndConnection: lambda one: f"end {one.connection}: {one.exit_code}",
    commands.SetTimer: lambda one: f"timer {one.name}: {one.seconds:g}",
    commands.WriteStderr: lambda one: f"stderr: {one.text}",
    commands.Divert: lambda one: f"divert: {one.line!r}",
    commands.Fail: lambda one: f"fail: {one.error.problem}",
    commands.Remember: lambda one: f"remember {len(one.memory.answers)} answers",
    commands.Forget: lambda _: "forget",
    commands.Finish: lambda one: f"finish {one.exit_code}",
}

_ID = r'(?P<id>-?\d+|null|"[^"\s]*")'
_PARAMS = r"(?: (?P<params>[{\[].*))?"
_NAMED = r"(?P<method>[a-z]\w*(?:/\w+)+|ping|initialize)"
_FORMS: dict[str, Callable[[re.Match[str]], str]] = {
    rf"{_ID} = (?P<value>.+)": lambda it: f'"id":{it["id"]},"result":{it["value"]}',
    rf"{_ID} error (?P<code>-?\d+) (?P<text>.+)": lambda it: (
        f'"id":{it["id"]},"error":{{"code":{it["code"]},"message":{json_text.encode(it["text"])}}}'
    ),
    rf"{_ID} refused (?P<text>.+)": lambda it: (
        f'"id":{it["id"]},"result":{{"content":[{{"type":"text","text":'
        f'{json_text.encode(it["text"])}}}],"isError":true}}'
    ),
    rf"{_ID} {_NAMED}{_PARAMS}": lambda it: (
        f'"id":{it["id"]},"method":"{it["method"]}"'
        + (f',"params":{it["params"]}' if it["params"] else "")
    ),
    rf"{_NAMED}{_PARAMS}": lambda it: (
        f'"method":"{it["method"]}"' + (f',"params":{it["params"]}' if it["params"] else "")
    ),
}


def write(text: str) -> bytes:
    """Return the bytes of a message in playbook notation."""
    if text.startswith(("b'", 'b"')):
        literal: bytes = ast.literal_eval(text)
        return literal
    for form, members in _FORMS.items():
        if found := re.fullmatch(form, text):
            return f'{{"jsonrpc":"2.0",{members(found)}}}\n'.encode()
    assert text.startswith(("{", "[")), f"not a message: {text}"
    return text.encode() + b"\n"


def show(line: bytes) -> str:
    """Return the shortest notation of exactly these bytes."""
    said = protocol.look(line)
    for text in [*_abbreviate(said), line.decode(errors="replace").removesuffix("\n")]:
        try:
            if write(text) == line:
                return text
        except AssertionError:
            continue
    return repr(line)


def _abbreviate(said: Json) -> list[str]:
    if not isinstance(said, dict):
        return []
    request_id = json_text.encode(said.get("id")) + " " if "id" in said else ""
    params = " " + json_text.encode(said["params"]) if "params" in said else ""
    error, result = said.get("error"), said.get("result")
    if isinstance(said.get("method"), str):
        return [f"{request_id}{said['method']}{params}"]
    if isinstance(error, dict):
        return [f"{request_id}error {error.get('code')} {error.get('message')}"]
    refused = protocol.get_member(result, "content")
    if isinstance(refused, list) and protocol.get_member(result, "isError"):
        return [f"{request_id}refused {protocol.get_member(refused[0], 'text')}"]
    return [f"{request_id}= {json.dumps(result, separators=(',', ':'))}"]


def _match(expected: str, done: str) -> bool:
    where, colon, text = expected.partition(": ")
    if text.startswith(("b'", 'b"')) and "divert" not in where:
        expected = f"{where}{colon}{show(write(text))}"
    pattern = ".*".join(map(re.escape, expected.split("…")))
    return re.fullmatch(pattern, done, re.DOTALL) is not None

"""Playbooks for the core: `>>` is an event, `<<` is each command that follows from it.

    >> host: 1 tools/list
    << server: #a tools/list
    >> gone server
    << host: 1 error -31000 … tools/list was not answered …
    << start server

A message is written as `ID METHOD [PARAMS]`, `METHOD [PARAMS]`, `ID = RESULT`, `ID error CODE
TEXT` or `ID refused TEXT`; anything else as JSON, or as a bytes literal. `…` stands for any text,
`#a` for a number of ours, which is bound where it is expected for the first time.

Servers are greeted without a word of it here, unless the playbook has no `greeting` for them. Log
entries and leases are left out, and pauses that change nothing. `after 5` lets time pass: what is
due on the way is done.
"""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING, Any

from fakes import make_context

from mcp_launch import protocol
from mcp_launch.broker import succession
from mcp_launch.broker.commands import Settings
from mcp_launch.broker.core import Core
from mcp_launch.broker.routing import Served, bind_at_start
from mcp_launch.errors import LaunchError, ServerFailed
from mcp_launch.hosts import Callers
from mcp_launch.launch.context import is_inside
from mcp_launch.launch.plan import Plan
from mcp_launch.protocol import json_text
from mcp_launch.protocol.memory import Remembered, name_client
from mcp_launch.protocol.message import look
from mcp_launch.values import Found

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker.commands import Command
    from mcp_launch.broker.request import Request
    from mcp_launch.broker.server import Server
    from mcp_launch.hosts import Caller
    from mcp_launch.launch.context import Context
    from mcp_launch.protocol.json_text import Json

HELLO = '{"protocolVersion":"1","capabilities":{"roots":{}},"clientInfo":{"name":"h"}}'
OFFERED = '{"capabilities":{"tools":{"listChanged":true},"logging":{}}}'
TOOLS = '{"tools":[{"name":"x"}]}'

# How a host opens the connection.
OPENING = f"""
    >> started server
    >> host: 0 initialize {HELLO}
    << host: 0 = {OFFERED}
    >> host: notifications/initialized
"""

# A modern host says who it is with each request.
PREFIX = "io.modelcontextprotocol/"
META = f'{{"{PREFIX}protocolVersion":"2026-07-28","{PREFIX}clientCapabilities":{{}}}}'


class NamedCallers(Callers):
    """Callers whose `_meta` names session, thread and place directly."""

    origins = ("the call's session", "the call's thread", "the call's place")
    names = ("session", "thread", "place")

    def read(self, meta: dict[str, Json]) -> Caller | None:
        named = [meta.get(name) for name in ("session", "thread", "place")]
        if not any(named):
            return None
        session, thread, place = (one if isinstance(one, str) else None for one in named)
        return session, thread, place


class Playbook:
    """Plays events to a core, and compares its commands."""

    def __init__(
        self,
        *,
        clients: tuple[str, ...] = ("host",),
        is_started: bool = True,
        greeting: str = OFFERED,
        **settings: Any,
    ) -> None:
        self.context = make_context()
        self.plan_problem = ""  # the reason, if no server can be planned
        values: dict[str, Any] = {
            "server": "srv",
            "launch": "L",
            "callers": NamedCallers(),
            "plan_for": self._plan_for,
            "is_inside": is_inside,
            "describe": lambda served, place: {
                "for": str(served.bound),
                "in": place.value if place else served.context.place.value,
            },
            "explain_end": explain_end,
            "explain_early_end": explain_early_end,
            "no_meta": True,
            "records_calls": True,
        }
        self.core = Core(Settings(**(values | settings)))
        self.greeting = greeting
        self.numbers: dict[str, bytes] = {}
        self.notes: list[str] = []
        self.urgent_leases = 0
        self._paused: set[str] = set()
        served = Served(self.context, bind_at_start(self.context.identity), make_plan("/work/app"))
        server = self.core.open_server(served)
        for name in clients:
            self.core.client_joined(name)
        if is_started:
            succession.begin(server)

    def _plan_for(self, context: Context, place: Found | None) -> tuple[Context, Plan]:
        if self.plan_problem:
            raise LaunchError(self.plan_problem, fix="plan again")
        context = context.at(place) if place else context
        return context, make_plan(context.place.value)

    @property
    def server(self) -> Server:
        """The first server."""
        return self.core.servers["server"]

    @property
    def outcomes(self) -> list[tuple[bytes, str]]:
        """The calls that are over, by their ids, and how they have ended."""
        return [(call.id, call.outcome) for call in self.core.finished]

    def find_call(self, raw_id: bytes) -> Request:
        """Return a call that is over."""
        [found] = [call for call in self.core.finished if call.id == raw_id]
        return found

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
            self.happen(event)
            done = self.take()
            is_right = len(done) == len(expected) and all(map(self._match, expected, done))
            assert is_right, "\n".join([f">> {event}", *(f"<< {one}" for one in done)])

    def happen(self, event: str) -> None:
        """Let one event happen."""
        core, event = self.core, re.sub(r"#[a-z]\w*", self._get_number, event)
        where, colon, text = event.partition(": ")
        if colon and where in core.clients:
            core.client_said(where, write(text))
        elif colon and where in core.servers:
            core.server_said(where, write(text))
        elif event.startswith("after "):
            self.pass_time(float(event.removeprefix("after ")))
        elif event.startswith(("gone ", "died ")):
            self._bury(event)
        else:
            self._happen(event)

    def _get_number(self, found: re.Match[str]) -> str:
        return self.numbers[found[0]].decode()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with everything that is due on the way."""
        core, until = self.core, self.core.now + seconds
        while core.timers.next <= until:
            core.now = max(core.now, core.timers.next)
            core.time_passed()
        core.now = until

    def _bury(self, event: str) -> None:
        """Let a server end: `gone NAME | UNREAD …`, or with an exit code, `died NAME CODE | …`."""
        first, *unread = event.split(" | ")
        verb, name, *code = first.split()
        if verb == "died":
            self.core.server_exited(name, int(code[0]))
        self.core.server_gone(name, [*map(write, unread)], b"")

    def _happen(self, event: str) -> None:
        core = self.core
        *words, last = event.split()
        events: dict[str, Callable[[str], None]] = {
            "started": core.server_started,
            "failed": lambda name: core.server_failed(
                name, LaunchError("it cannot be started", fix="install it")
            ),
            "overflowed": core.server_overflowed,
            "input ended": core.client_closed,
            "reader lost": core.client_lost,
            "host lost": lambda _: core.host_lost(),
            "input closed by": core.server_closed_input,
            "output closed by": core.server_closed_output,
            "bytes moved to": lambda _: core.bytes_moved(),
            "signal": lambda number: core.signal_received(int(number)),
            "restart": lambda _: core.restart_requested(),
            "joined": self._join,
            "left": core.client_left,
            "behind": lambda name: core.client_is_behind(name, is_behind=True),
            "caught up": lambda name: core.client_is_behind(name, is_behind=False),
        }
        if words[0] == "exited":
            core.server_exited(words[1], int(last))
        else:
            events[" ".join(words)](last)

    def _join(self, name: str) -> None:
        core = self.core
        core.client_joined(name, f"launch-{name[0]}")
        if all(one.state == "absent" for one in core.servers.values()):
            free = core.kinds[""].servers
            assert core.first_served is not None
            core.happen(free[0] if free else core.open_server(core.first_served), "needed")

    def take(self) -> list[str]:
        """Return the core's commands as text, after servers have answered their greetings."""
        core, done = self.core, []
        while core.out:
            command = core.out.pop(0)
            if self.greeting and self._take_greeting(command):
                continue
            if self._is_shown(command):
                verb, name, value = command
                done.append(_SHOWN[verb](name, value))
        return done

    def _take_greeting(self, command: Command) -> bool:
        verb, name, line = command
        if verb != "send" or name not in self.core.servers:
            return False
        said = protocol.look_message(line)
        if said.get("method") == "initialize" and "id" in said:
            rest, self.core.out[:] = self.core.out[:], []
            self.core.server_said(name, write(f"{said['id']} = {self.greeting}"))
            self.core.out += rest
            return True
        return said.get("method") == "notifications/initialized"

    def _is_shown(self, command: Command) -> bool:
        verb, name, value = command
        if verb == "note":
            self.notes.append(value)
        elif verb == "lease":
            self.urgent_leases += value
        elif verb == "pause":
            was_paused = name in self._paused
            (self._paused.add if value else self._paused.discard)(name)
            return was_paused is not value
        return verb not in {"note", "lease"}

    def _match(self, expected: str, done: str) -> bool:
        where, colon, text = expected.partition(": ")
        if text.startswith(("b'", 'b"')) and where != "noise":
            expected = f"{where}{colon}{show(write(text))}"
        pattern = "".join(map(self._make_pattern, re.split(r"(…|#[a-z]\w*)", expected)))
        for name in set(re.findall(r"<new>(\w+)>", pattern)):
            pattern = pattern.replace(f"<new>{name}>", rf"(?P<{name}>\d+)", 1)
            pattern = pattern.replace(f"<new>{name}>", f"(?P={name})")
        found = re.fullmatch(pattern, done, re.DOTALL)
        if found is not None:
            new = found.groupdict().items()
            self.numbers |= {f"#{name}": number.encode() for name, number in new}
        return found is not None

    def _make_pattern(self, part: str) -> str:
        if part == "…":
            return ".*"
        if not re.fullmatch(r"#[a-z]\w*", part):
            return re.escape(part)
        known = self.numbers.get(part)
        return known.decode() if known else f"<new>{part[1:]}>"


def open_playbook(script: str = "", **settings: Any) -> Playbook:
    """Return a playbook whose host has opened the connection."""
    playbook = Playbook(**settings)
    playbook.play(OPENING)
    playbook.play(script)
    return playbook


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


def remember(age: float = 0.0, *, is_due: bool = False) -> Store:
    """Return a store that knows the handshakes of a server in both eras."""
    living = b'{"result":{"tools":[{"name":"x"}],"ttlMs":5000,"cacheScope":"private"}}'
    known = (
        ("initialize", json.loads(HELLO), f'{{"result":{TOOLS}}}'.encode()),
        ("server/discover", {"_meta": json.loads(META)}, living),
    )
    memories = []
    for method, params, tools in known:
        greeting = f'{{"result":{OFFERED}}}'.encode()
        client = name_client({"method": method, "params": params})
        answers = {(method, b""): greeting, ("tools/list", b""): tools}
        memories.append(Remembered(client, age, answers))
        memories[-1].is_due = is_due
    return Store(*memories)


def make_plan(cwd: str) -> Plan:
    """Return the plan of a server in a directory."""
    return Plan(["srv"], Found(cwd, "inherited"), {})


def explain_end(code: int, when: str, stderr_end: bytes) -> str:
    """Describe how a server ended."""
    how = f"was killed by signal {code - 128}" if code > 128 else f"ended with exit code {code}"
    return f"{how} {when}{stderr_end.decode()}"


def explain_early_end(code: int, stderr_end: bytes) -> ServerFailed:
    """Return the error for a server that ended before it answered."""
    problem = f"srv {explain_end(code, 'before it answered', stderr_end)}"
    return ServerFailed(problem, fix="see its output", exit_code=code)


_SHOWN: dict[str, Callable[[str, Any], str]] = {
    "send": lambda name, line: f"{name}: {show(line)}",
    "inform": lambda name, line: f"{name}: {show(line)}",
    "start": lambda name, plan: (
        f"start {name}" + (f" in {cwd}" if (cwd := plan.cwd.value) != "/work/app" else "")
    ),
    "end": lambda name, reason: f"end {name}: {reason}",
    "signal": lambda name, number: f"signal {name}: {number}",
    "close": lambda name, _: f"close {name}",
    "cut": lambda name, _: f"cut {name}",
    "mute": lambda name, _: f"mute {name}",
    "deafen": lambda name, _: f"deafen {name}",
    "pause": lambda name, is_paused: f"pause {name}" if is_paused else f"resume {name}",
    "return": lambda name, line: f"return to {name}: {show(line)}",
    "leave": lambda name, code: f"leave {name}: {code}",
    "noise": lambda _, line: f"noise: {line!r}",
    "tell": lambda name, text: f"tell {name}: {text}",
    "keep": lambda _, memory: f"keep {len(memory.answers)} answers",
    "forget": lambda _name, _client: "forget",
    "fail": lambda _, error: f"fail: {error.problem}",
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
    said = look(line)
    for text in [*_abbreviate(said), line.decode(errors="replace").removesuffix("\n")]:
        try:
            if write(text) == line:
                return text
        except (AssertionError, UnicodeEncodeError):
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

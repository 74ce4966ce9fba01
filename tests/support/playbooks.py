r"""Playbooks: what went into one launch and what came out of it, as text.

A playbook is a head, an empty line, and steps, one per line:

    playbook 1
    test: "tests/processes/test_relay.py::test_half_a_line_waits_for_its_other_half"
    profile: {"server": "python", "stdout": "auto", …}
    …

        0 << server-1 start {"cwd": "/tmp/test/project", …}
       20 >> server-1 started {"server": 2001, "guardian": 3001}
       80 >> host data b'go on\n'
       80 << server-1 data b'go on\n'

A head line is a name and a JSON value. A step is a time in milliseconds since the start of
the launch, a direction, a party, a verb, and for some verbs a value: bytes as Python writes
them (`b'{"x":"' + b'y' * 70000 + b'"}\n'`: one byte many times is a product), everything else
as JSON. `>>` went into the core, `<<` came out of it. Steps are in the order in which they
happened; the time is rounded, and for orientation only.

The head: `profile`, `host` (the facts of the host that the core uses), `callers`
(how a request names its caller), `context`, `identity`, `binding` and `plan` at the start (a
fact is `[value, origin]`, or `{"searched": [...]}` if it is missing), `constants` (limits in
seconds or counts, some of which a test has changed), and `streams` (what stdin, stdout and
stderr are: pipe, socket, terminal or other).

Values that differ from run to run are replaced: launch ids are `launch-1`, `launch-2` …, the
test's own directory is `/tmp/test`, the repository is `/repo`, Python is in `/python`; the
launcher's pid is 1001, its parent's 1002, the host's 1003 if that is another process, those of
server N 2000 + N, of its guardian 3000 + N.

What goes in (`>>`):

    host data BYTES         read from our stdin          host end       it has ended, or was reset
    host lost               the host's process has ended
    host full N             N bytes of what was put do not fit now; `drained`: all of it is written
    host broken             writing to our stdout failed; likewise `stderr` and `server-N`
    server-N started PIDS   and `start-failed ERROR`
    server-N data BYTES     from its stdout              server-N end
    server-N errors BYTES   from its stderr              server-N errors-end
    server-N left COUNT     processes that it left behind
    server-N exited CODE    the server itself; `gone CODE`: it and all below it
    server-N unread BYTES   what it never read, asked for once it was gone
    plan decided PLAN       or `refused ERROR`, or `unfit ERROR`: no program can be given it
    caller changed CALLER   what the host's own record says now: [session, thread, directory] or []
    outer changed CONTEXT   what the launch around this one says now
    timer NAME              a timer has fired            signal NUMBER

What comes out (`<<`):

    host data BYTES         to our stdout; `dropped BYTES` if that is closed already
    host close              our stdout; `close-input`: our stdin
    host pause, resume      stop reading from it, and go on; likewise `server-N`
    server-N start PLAN     directory, variables, what it is told of session and thread
    server-N data BYTES     to its stdin; `dropped BYTES` if that is closed already
    server-N close          its stdin; `close-when-empty`: after what is pending
    server-N close-output   its stdout
    server-N signal NUMBER  by way of its guardian; `input-ended` and `replaced` end it
    stderr data BYTES       to our stderr
    plan wanted CONTEXT     a plan for this session, thread and directory
    timer set [NAME, SECONDS], timer drop NAME
    lease write FACTS       log note TEXT
    launch outcome FACTS    launch failed ERROR          launch exit CODE

A playbook without `launch exit` is of a launcher that was killed, by the test or at its end.
After `launch failed` the host's requests are answered by another reader of the same
descriptors; those steps follow as `host data` in both directions.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

FIRST_LINE = "playbook 1"


@dataclass(frozen=True)
class Step:
    """One thing that went in or came out."""

    time: int
    is_input: bool
    party: str
    verb: str
    value: Any = None


@dataclass(frozen=True)
class Playbook:
    """One launch."""

    head: dict[str, Any]
    steps: list[Step] = field(default_factory=list)


def read(path: Path) -> Playbook:
    """Return the playbook in a file."""
    return parse(path.read_text(encoding="ascii"))


def parse(text: str) -> Playbook:
    """Return the playbook that a text holds."""
    first, *lines = text.removesuffix("\n").split("\n")
    if first != FIRST_LINE:
        raise ValueError(f"not a playbook: it begins with {first[:40]!r}")
    border = lines.index("")
    head = {}
    for line in lines[:border]:
        name, _, value = line.partition(": ")
        head[name] = json.loads(value)
    return Playbook(head, [parse_step(line) for line in lines[border + 1 :]])


def parse_step(line: str) -> Step:
    """Return the step that a line holds."""
    time, direction, party, verb, *rest = line.strip().split(" ", 4)
    if direction not in {">>", "<<"}:
        raise ValueError(f"neither in nor out: {line[:80]!r}")
    return Step(int(time), direction == ">>", party, verb, _parse_value(rest[0]) if rest else None)


def _parse_value(text: str) -> Any:
    if text[:2] not in {"b'", 'b"'}:
        return json.loads(text)
    return _add_up(ast.parse(text, mode="eval").body)


def _add_up(node: ast.AST) -> bytes:
    """Return the bytes that a literal, a product or a sum of these stands for."""
    parts: list[bytes] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts.append(_multiply(node.right))
        node = node.left
    return b"".join([_multiply(node), *reversed(parts)])


def _multiply(node: ast.AST) -> bytes:
    match node:
        case ast.Constant(value=bytes(data)):
            return data
        case ast.BinOp(
            left=ast.Constant(value=bytes(one)), op=ast.Mult(), right=ast.Constant(value=int(count))
        ):
            return one * count
    raise ValueError(f"not bytes: {ast.dump(node)[:80]}")

"""Random messages in unusual JSON: every valid spelling, and look-alikes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

# Names that have a meaning in one place only.
NAMES = ["method", "params", "_meta", "id", "jsonrpc", "result", "threadId", "sessionId"]
NAMES += ["x-codex-turn-metadata", "thread_id", "mcp-launch/context", "arguments", "name", ""]
METHODS = ["tools/call", "tools/call", "tools/list", "ping", "notifications/cancelled", "x"]
TEXTS = ["", "t-1", "tools/call", '"_meta":{', "a\\u0041", "ä", "\u2028", "\U0001f600", "\x00", "{"]
NUMBERS = ["0", "-1", "1.10", "1e5", "1E+2", "-0.0", "123456789012345678901234567890"]

SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\n": "\\n", "\t": "\\t"}


class Raw:
    """A value that is written verbatim."""

    def __init__(self, text: str) -> None:
        self.text = text


class Members(list[tuple[str, Any]]):
    """An object that may have duplicate names."""


def spell(value: Any, random: Random, *, oddly: float) -> str:
    """Return a value as JSON, in one of its spellings; the usual one if `oddly` is 0."""
    gap = _make_gap(random, oddly)
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, str):
        return '"' + "".join(_spell_sign(sign, random, oddly) for sign in value) + '"'
    if isinstance(value, Members):
        members = (
            f"{gap()}{spell(name, random, oddly=oddly)}{gap()}:{gap()}"
            f"{spell(member, random, oddly=oddly)}{gap()}"
            for name, member in value
        )
        return "{" + (",".join(members) or gap()) + "}"
    if isinstance(value, list):
        elements = (gap() + spell(one, random, oddly=oddly) + gap() for one in value)
        return "[" + (",".join(elements) or gap()) + "]"
    return json.dumps(value)


def make_random_message(random: Random) -> bytes:
    """Return a line that may be a call: usual, odd, or only similar to one."""
    oddly = random.choice([0, 0, 0.05, 0.5])
    if random.random() < 0.1:
        text = spell(_make_value(random, 3), random, oddly=oddly)
    else:
        text = spell(_make_call(random, is_usual=oddly == 0), random, oddly=oddly)
    if random.random() < 0.02:
        text = text[: random.randrange(len(text) + 1)]  # truncated
    return text.encode("utf-8", "surrogatepass") + random.choice([b"\n", b"\n", b"\n", b"\r\n"])


def _make_call(random: Random, *, is_usual: bool) -> Members:
    request_id = random.choice([Raw("1"), Raw("77"), "a,b", None, Raw(random.choice(NUMBERS))])
    params: list[tuple[str, Any]] = [
        ("name", random.choice(TEXTS)),
        ("arguments", _make_value(random, 3)),
    ]
    if random.random() < 0.8:
        is_object = random.random() < 0.9
        meta = _make_meta(random) if is_object else _make_value(random, 1)
        params.insert(0 if is_usual else random.randrange(3), ("_meta", meta))
    members: list[tuple[str, Any]] = [
        ("jsonrpc", "2.0"),
        ("id", request_id),
        ("method", random.choice(METHODS)),
        ("params", Members(params) if random.random() < 0.9 else _make_value(random, 2)),
    ]
    if not is_usual:
        random.shuffle(members)
    while random.random() < 0.15:
        where = random.choice([members, params])
        stranger = (random.choice(NAMES), _make_value(random, 2))
        where.insert(random.randrange(len(where) + 1), stranger)
        if where is params:
            members = [
                (name, Members(params))
                if name == "params" and isinstance(value, Members)
                else (name, value)
                for name, value in members
            ]
    return Members(members)


def _make_meta(random: Random) -> Members:
    names = random.choices(NAMES, k=random.randrange(4))
    return Members(
        [
            (name, random.choice(TEXTS) if random.random() < 0.7 else _make_value(random, 2))
            for name in names
        ]
    )


def _make_value(random: Random, depth: int) -> Any:
    kind = random.randrange(8 if depth else 4)
    if kind == 0:
        return random.choice(TEXTS)
    if kind == 1:
        return Raw(random.choice(NUMBERS))
    if kind == 2:
        return random.choice([True, False, None])
    if kind == 3:
        return random.choice(NAMES + METHODS)
    if kind == 4:
        return [_make_value(random, depth - 1) for _ in range(random.randrange(3))]
    return Members(
        [(random.choice(NAMES), _make_value(random, depth - 1)) for _ in range(random.randrange(4))]
    )


def _make_gap(random: Random, oddly: float) -> Any:
    def gap() -> str:
        return random.choice([" ", "\t", "  "]) if oddly and random.random() < oddly else ""

    return gap


def _spell_sign(sign: str, random: Random, oddly: float) -> str:
    if oddly and random.random() < oddly:
        if sign in SHORT_ESCAPES and random.random() < 0.5:
            return SHORT_ESCAPES[sign]
        units = sign.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))
    if sign in '"\\' or sign < " ":
        return json.dumps(sign)[1:-1]
    return sign

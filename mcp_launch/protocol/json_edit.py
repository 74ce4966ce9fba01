"""Change a part of a line and leave every other byte as it was sent.

A message is never re-encoded: numbers, order of members, escapes and spacing stay as the host
wrote them. The part to change is found by its position in the text. Of several members with
one name the last counts, as in Python's parser.
"""

from __future__ import annotations

from mcp_launch.protocol import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_launch.protocol.json_text import Json

    # Name, start of its value, end of its value.
    Member = tuple[str, int, int]

# Characters between the parts of a message; a byte order mark only comes before it.
_SPACE = json_text.WHITESPACE + "\ufeff"

# How deep to read a message that exceeds Python's recursion limit: `_meta` is a member of
# `params`, and the ids of a call are members of `_meta`, or of members of it.
_DEPTH = 4


def find(text: str, path: Iterable[str]) -> tuple[int, int]:
    """Return where the value at the end of a path begins and ends; zeros if there is none."""
    start = end = 0
    for name in path:
        member = _find_last(text, start, name)
        if member is None:
            return 0, 0
        _, start, end = member
    return start, end


def find_all(text: str, start: int, name: str) -> list[tuple[int, int]]:
    """Return where the values of all members with a name are, in the object at `start`."""
    return [(at, end) for one, at, end in list_members(text, start) if one == name]


def replace(line: bytes, value: bytes, *path: str) -> bytes:
    """Return the line with another value at the end of a path, unchanged if there is none."""
    text = _decode(line)
    start, end = find(text, path)
    return _splice(text, start, end, value) if end else line


def put(line: bytes, value: bytes, *path: str) -> bytes:
    """Return the line with a value at the end of a path; missing objects are created."""
    text = _decode(line)
    at = 0
    for depth, name in enumerate(path):
        member = _find_last(text, at, name)
        if member is None or (depth + 1 < len(path) and text[member[1]] != "{"):
            return _put_branch(text, at, member, path[depth:], value)
        _, at, end = member
    return _splice(text, at, end, value)


def _put_branch(
    text: str, start: int, member: Member | None, path: tuple[str, ...], value: bytes
) -> bytes:
    """Return the text with the rest of a path added to the object at `start`."""
    for name in reversed(path[1:]):
        value = b"{" + _quote(name) + value + b"}"
    if member is not None:
        return _splice(text, member[1], member[2], value)
    comma = b"," if list_members(text, start) else b""
    inside = text.index("{", start) + 1
    return _splice(text, inside, inside, _quote(path[0]) + value + comma)


def read_raw(line: bytes, *path: str) -> bytes:
    """Return the value at the end of a path as it is written; empty if there is none."""
    text = _decode(line)
    start, end = find(text, path)
    return _encode(text[start:end])


def list_names(line: bytes, *path: str) -> list[str]:
    """Return the names of an object's members, repeated ones as often as they occur."""
    text = _decode(read_raw(line, *path) if path else line)
    try:
        return [name for name, _, _ in list_members(text, 0)]
    except (ValueError, IndexError, StopIteration, SystemError):
        return []  # it is missing, or not JSON


def join_line(line: bytes) -> bytes:
    """Return the same message with each carriage return between its parts made a space.

    Python's text streams end a line there, and would read a second message after it. In a
    string it may stay: the rest of a string has no quotes, so it cannot be a message.
    """
    text = _decode(line)
    body = text.rstrip("\r\n")
    parts = []
    at = 0
    try:
        while (start := body.find('"', at)) >= 0:
            end = json_text.read_string(body, start)[1]
            parts += [body[at:start].replace("\r", " "), body[start:end]]
            at = end
    except (ValueError, SystemError):
        return line  # an unterminated string: not a message
    parts.append(body[at:].replace("\r", " "))
    return _encode("".join(parts) + text[len(body) :])


def list_elements(line: bytes) -> list[bytes]:
    """Return the elements of an array, each as a line; none if it is not an array."""
    text = _decode(line)
    return [_encode(text[start:end]) + b"\n" for start, end in _list_elements(text)] if text else []


def look_at_deep(line: bytes) -> Json:
    """Return a message that exceeds Python's recursion limit, without its deep values.

    Only deep values are left out, so a thousand brackets cannot hide which session a call
    belongs to. None if the line is not a message.
    """
    text = _decode(line)
    try:
        if text[skip_space(text, 0)] == "[":
            return []  # no message, whatever it contains
        return _read_shallow(text, 0, _DEPTH)
    except (ValueError, IndexError, StopIteration, SystemError):
        return None


def _quote(name: str) -> bytes:
    return json_text.encode(name).encode() + b":"


def _splice(text: str, start: int, end: int, made: bytes) -> bytes:
    return _encode(text[:start]) + made + _encode(text[end:])


def _find_last(text: str, start: int, name: str) -> Member | None:
    members: list[Member] = []
    try:
        _add_members(members, text, start)
    except (ValueError, IndexError, StopIteration, SystemError):
        pass  # the text is not JSON from here on
    return next((member for member in reversed(members) if member[0] == name), None)


def list_members(text: str, start: int) -> list[Member]:
    """Return the members of the object at `start`; none if it is not an object."""
    members: list[Member] = []
    _add_members(members, text, start)
    return members


def _add_members(members: list[Member], text: str, start: int) -> None:
    at = skip_space(text, start)
    if text[at] != "{":
        return
    at = skip_space(text, at + 1)
    while text[at] != "}":
        name, at = json_text.read_string(text, at)
        at = skip_space(text, skip_space(text, at) + 1)  # over the colon
        end = find_end(text, at)
        members.append((name, at, end))
        at = skip_space(text, end)
        at = skip_space(text, at + 1) if text[at] == "," else at


def find_end(text: str, start: int) -> int:
    """Return where the value at `start` ends, however deep it is."""
    try:
        return json_text.find_end(text, start)
    except RecursionError:
        return _skip_deep(text, start)


def _skip_deep(text: str, start: int) -> int:
    depth, at = 0, start
    while True:
        sign = text[at]
        if sign == '"':
            at = json_text.read_string(text, at)[1]
            continue
        depth += (sign in "{[") - (sign in "}]")
        at += 1
        if depth == 0:
            return at


def _read_shallow(text: str, start: int, depth: int) -> Json:
    at = skip_space(text, start)
    try:
        return json_text.read_value(text, at)
    except RecursionError:
        if depth == 0 or text[at] != "{":
            return None
    return {
        name: _read_shallow(text, value_start, depth - 1)
        for name, value_start, _ in list_members(text, at)
    }


def _list_elements(text: str) -> list[tuple[int, int]]:
    elements: list[tuple[int, int]] = []
    at = skip_space(text, 0)
    if text[at] != "[":
        return elements
    at = skip_space(text, at + 1)
    while text[at] != "]":
        end = find_end(text, at)
        elements.append((at, end))
        at = skip_space(text, end)
        at = skip_space(text, at + 1) if text[at] == "," else at
    return elements


def skip_space(text: str, at: int) -> int:
    """Return the position of the next character that is not whitespace."""
    while text[at] in _SPACE:
        at += 1
    return at


def _decode(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

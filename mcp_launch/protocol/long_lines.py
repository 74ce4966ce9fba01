"""Tell from the two ends of a long line what it is: an answer, and to what, or a question.

A line of megabytes passes before its end has come, and is not kept. What it is stands
before the first long value, or behind the last.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.protocol import json_edit, json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from mcp_launch.protocol.json_text import Json

    Kind = Literal["answer", "question", ""]


def tell_kind(head: bytes) -> Kind:
    """Tell what a line is, by its beginning; nothing if that does not tell."""
    names = _read_beginning(head)
    if "method" in names:
        return "question"
    return "answer" if "result" in names or "error" in names else ""


def read_answered(head: bytes, tail: bytes) -> bytes:
    """Return the spelt id that a line answers; nothing if its ends do not tell."""
    members = _read_beginning(head)
    if "method" in members:
        return b""
    if members.get("id") is not None:
        return protocol.spell(members["id"])
    if b'"method"' in tail and "result" not in members and "error" not in members:
        return b""  # it may be a question after all
    # Whatever follows the last members closes the message, so nothing else may follow them.
    text = tail.decode("utf-8", "surrogateescape")
    at = text.rfind('"id"')
    while at > 0:
        last = protocol.look(f"{{{text[at:]}".encode("utf-8", "surrogateescape"))
        if isinstance(last, dict) and text[:at].rstrip(json_text.WHITESPACE).endswith(","):
            return protocol.spell(last["id"]) if "method" not in last else b""
        at = text.rfind('"id"', 0, at)
    return b""


def _read_beginning(head: bytes) -> dict[str, Json]:
    """Return the members up to the first that is an object or an array, which is None."""
    members: dict[str, Json] = {}
    text = head.decode("utf-8", "surrogateescape").lstrip(json_text.WHITESPACE)
    at = 1
    try:
        while True:
            start = json_edit.skip_space(text, at)
            name, at = json_text.read_string(text, start)
            at = json_edit.skip_space(text, json_edit.skip_space(text, at) + 1)  # over the colon
            members[name] = None
            if text[at] in "{[":
                return members
            end = json_edit.skip_space(text, json_text.find_end(text, at))
            if text[end] not in ",}":
                return members  # it goes on behind this end
            members[name] = json_text.read_value(text, at)
            at = end + 1
    except (ValueError, IndexError, StopIteration, SystemError, RecursionError):
        return members  # this is how far the beginning goes

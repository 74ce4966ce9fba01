"""Make a span of a call's record, by OpenTelemetry's semantic conventions for MCP.

The conventions know a client's span and a server's. Ours is a server's: it begins when the host's
request reaches the launcher, ends when the host has its answer, and has the host's span, which
`traceparent` names, as its parent. For the host, the launcher is the server; that also holds for a
call that no server ever got. A server with instrumentation of its own has a second span below
the same parent, because `_meta` is passed on.

Trace and span ids are made from the launch and the record's number, so a record that is exported
twice is the same span.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

from opentelemetry.proto.trace.v1.trace_pb2 import Span, SpanFlags, Status

from mcp_launch.commands.export import call_facts
from mcp_launch.commands.export.attributes import make_attributes

if TYPE_CHECKING:
    from mcp_launch.commands.export.attributes import Value
    from mcp_launch.protocol.json_text import Json

METHOD = "tools/call"

# https://www.w3.org/TR/trace-context/#traceparent-header; later versions may append fields.
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")

# The texts of a record that become attributes.
_TEXTS = {
    "mcp.session.id": "session",
    "mcp.protocol.version": "protocol",
    "mcp_launch.host": "host",
    "mcp_launch.server": "server",
    "mcp_launch.thread": "thread",
    "mcp_launch.project": "project",
    "mcp_launch.cwd": "cwd",
    "mcp_launch.launch": "launch",
    "mcp_launch.reason": "reason",
}
_NUMBERS = {
    "process.pid": "pid",
    "mcp_launch.number": "number",
    "mcp_launch.request.size": "request",
    "mcp_launch.response.size": "response",
}

# What OTLP can hold as an integer.
_LARGEST = 2**63 - 1


def make_span(record: dict[str, Json]) -> Span | None:
    """Return the span of a call; None if the record has no time."""
    moment = call_facts.read_moment(record)
    if moment is None:
        return None
    # In whole microseconds: a float has no nanoseconds of our time.
    start = round(moment * 1_000_000) * 1000
    trace, own = make_ids(record)
    span = Span(
        trace_id=trace,
        span_id=own,
        name=f"{METHOD} {call_facts.read_text(record, 'tool')}".rstrip(),
        kind=Span.SPAN_KIND_SERVER,
        start_time_unix_nano=start,
        end_time_unix_nano=start + round(call_facts.read_duration(record) * 1_000_000),
        attributes=make_attributes(list_attributes(record)),
    )
    parent = read_traceparent(call_facts.read_text(record, "trace"))
    if parent:
        span.trace_id, span.parent_span_id, flags = parent
        span.flags = (
            flags
            | SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
            | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
        )
    if call_facts.find_error_type(record):
        reason = call_facts.read_text(record, "reason")
        span.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=reason))
    return span


def make_ids(record: dict[str, Json]) -> tuple[bytes, bytes]:
    """Return a trace's and a span's id, the same for the same record."""
    launch, number = record.get("launch"), record.get("number")
    # A record without these is damaged, but still itself.
    own = [launch, number] if launch and number else record
    digest = hashlib.sha256(json.dumps(own, sort_keys=True).encode()).digest()
    return digest[:16], digest[16:24]


def read_traceparent(text: str) -> tuple[bytes, bytes, int] | None:
    """Return the ids of trace and span, and the flags; None if the text is not valid."""
    found = _TRACEPARENT.fullmatch(text)
    if not found:
        return None
    version, trace, span, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest) or not int(trace, 16) or not int(span, 16):
        return None
    return bytes.fromhex(trace), bytes.fromhex(span), int(flags, 16)


def list_attributes(record: dict[str, Json]) -> dict[str, Value]:
    """Return the attributes of a call's span, without those that are not known."""
    found: dict[str, Value] = {
        "mcp.method.name": METHOD,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call_facts.read_text(record, "tool"),
        "network.transport": "pipe",
        "jsonrpc.request.id": _read_id(record),
        "error.type": call_facts.find_error_type(record),
        "mcp_launch.outcome": call_facts.read_outcome(record),
        "mcp_launch.waited": record.get("waited") is True,
        "mcp_launch.changed": _read_names(record),
    }
    found |= {name: call_facts.read_text(record, key) for name, key in _TEXTS.items()}
    for name, key in _NUMBERS.items():
        value = record.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST:
            found[name] = value
    return {name: value for name, value in found.items() if value not in ("", [])}


def _read_id(record: dict[str, Json]) -> str:
    value = record.get("id")
    is_id = isinstance(value, str | int | float) and not isinstance(value, bool)
    return call_facts.make_text(str(value)) if is_id else ""


def _read_names(record: dict[str, Json]) -> list[str]:
    names = record.get("changed")
    if not isinstance(names, list):
        return []
    return [call_facts.make_text(name) for name in names if isinstance(name, str)]

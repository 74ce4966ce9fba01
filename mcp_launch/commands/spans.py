"""What `mcp-launch export` does: every recorded call as a span, sent to a collector.

Imported late: OpenTelemetry's SDK may be missing, and takes long to import.

A call is over when we read its record, so a span is made whole rather than measured: the SDK's
tracer would drop some (OTEL_TRACES_SAMPLER, OTEL_SDK_DISABLED, a parent that is not sampled). The
SDK's exporter encodes and sends, with the variables that every program with OpenTelemetry obeys.

No call is lost: the position in the records moves on only when the collector has accepted what
comes before it. Ids are made from the record, so a span that is sent twice is the same span.

By the semantic conventions for MCP a call has a client's span and a server's. Ours is the
server's: from the host's request to its answer, with the host's span, which `traceparent` names,
as its parent. For the host, the launcher is the server, also of a call that no server ever got.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.trace.status import Status, StatusCode

from mcp_launch import __version__, state
from mcp_launch.commands.screen import say
from mcp_launch.errors import LaunchError, UsageError, tell
from mcp_launch.machine import units
from mcp_launch.machine.call_records import RecordedCall, list_parts, read_on
from mcp_launch.masking import mask_text
from mcp_launch.state.calls import find_calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_launch.machine.call_records import Part

# How often new calls are looked for, and the longest time between two attempts to reach a
# collector that is away, in seconds.
_INTERVAL = 2.0
_LONGEST_WAIT = 300.0

# Where OpenTelemetry's own programs send if nothing is set.
_USUAL = "http://localhost:4318"

# How many bytes of the records are in one request: some 400 calls.
_PIECE = 1 << 18

# The positions of more parts than there ever are; the names of older ones are dropped.
_MOST_PARTS = 100

# The exit code of a program that ^C has ended.
_INTERRUPTED = 130

# Collectors and their stores limit the length of a value, too.
_LONGEST_TEXT = 1024

# The attributes of a span, and the fields of a call that they are.
_ATTRIBUTES = {
    "gen_ai.tool.name": "tool",
    "mcp.session.id": "session",
    "mcp.protocol.version": "protocol",
    "process.pid": "pid",
    "mcp_launch.host": "host",
    "mcp_launch.server": "server",
    "mcp_launch.thread": "thread",
    "mcp_launch.project": "project",
    "mcp_launch.cwd": "cwd",
    "mcp_launch.launch": "launch",
    "mcp_launch.number": "number",
    "mcp_launch.outcome": "outcome",
    "mcp_launch.reason": "reason",
    "mcp_launch.waited": "has_waited",
    "mcp_launch.changed": "changed",
    "mcp_launch.request.size": "request",
    "mcp_launch.response.size": "response",
}

# Outcomes as classes of errors, in the words of the conventions where they have one.
_ERROR_TYPES = {
    "tool error": "tool_error",
    "protocol error": "protocol_error",
    "refused": "refused",
    "timed out": "timeout",
    "died": "server_died",
}

_NOTHING_LOST = "; nothing is lost: the calls stay on record for 14 days"
_ADDRESS = "check the address: /v1/traces is added to it"
_FIXES = {
    401: "set OTEL_EXPORTER_OTLP_HEADERS=authorization=TOKEN",
    403: "set OTEL_EXPORTER_OTLP_HEADERS=authorization=TOKEN, with a token that it accepts",
    404: _ADDRESS,
    405: _ADDRESS,
}
_TOO_LARGE = 413


class CollectorFailed(LaunchError):
    """A collector cannot be reached, or has refused a request."""


def run(address: str, environ: Mapping[str, str], *, is_following: bool) -> int:
    """Export what is new, once or until the process is ended."""
    # What the SDK logs is the exporter's trouble in its own words; we say it in ours.
    logger = logging.getLogger("opentelemetry")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    collector = Collector(address, environ)
    positions = Positions(state.find_directory(environ), collector.shown)
    directory = find_calls(environ)
    try:
        if is_following:
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            _follow(directory, positions, collector)
        return _export_once(directory, positions, collector)
    except KeyboardInterrupt:
        # What was accepted is remembered, and the rest is for the next time.
        return 0 if is_following else _INTERRUPTED
    finally:
        positions.close()


def _export_once(directory: str, positions: Positions, collector: Collector) -> int:
    sent = 0
    try:
        for count in _export_new(directory, positions, collector):
            sent += count
    except CollectorFailed as error:
        if sent:
            say(f"Exported {units.count(sent, 'call')} to {collector.shown}")
        tell(error, sys.stderr)
        return 1
    say(f"Exported {units.count(sent, 'call') if sent else 'nothing new'} to {collector.shown}")
    return 0


def _follow(directory: str, positions: Positions, collector: Collector) -> None:
    say(f"Exporting to {collector.shown}")
    wait, known = _INTERVAL, ""
    while True:
        problem = ""
        try:
            for _ in _export_new(directory, positions, collector):
                wait = _INTERVAL
        except CollectorFailed as error:
            problem = error.problem
            # Twice as long each time, so that a collector that comes back is not overrun.
            wait = min(wait * 2, _LONGEST_WAIT)
        if problem != known:
            say(f"{problem}; trying again" if problem else "The collector accepts calls again")
        known = problem
        sys.stdout.flush()
        time.sleep(wait)


def _export_new(directory: str, positions: Positions, collector: Collector) -> Iterator[int]:
    """Send what is new, the oldest part first; yield how many calls were accepted at a time."""
    for part in list_parts(directory):
        start = positions.find(part)
        while True:
            calls, end = read_on(part, start, _PIECE)
            if end == start:
                break
            if calls:
                collector.send(calls)
            positions.move(part, end)
            yield len(calls)
            start = end


class Positions:
    """How far each part of the records was sent: one line in one file for each collector.

    The file is also the lock that keeps a second exporter away, so it is written in place. A
    kill leaves the old line or the new one; if it is damaged, everything on record is sent again.
    """

    def __init__(self, directory: str, shown: str) -> None:
        key = hashlib.sha256(shown.encode()).hexdigest()[:16]  # an address is not a file name
        self._path = f"{directory}/exports/{key}.json"
        self._parts: dict[str, int] = {}
        try:
            state.make_private(os.path.dirname(self._path))
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise self._describe(error) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LaunchError(
                f"another process already exports to {shown}",
                fix="end it first: systemctl --user stop mcp-launch-export, if it is the service",
            ) from None
        try:
            # What follows the first line is left from a longer one.
            parts = json.loads(os.pread(self._fd, 1 << 20, 0).partition(b"\n")[0])["parts"]
            self._parts = {str(name): int(at) for name, at in parts.items()}
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            pass  # nothing was sent yet, or it is damaged

    def close(self) -> None:
        """Let others export."""
        os.close(self._fd)

    def find(self, part: Part) -> int:
        """Return how far a part was sent."""
        at = self._parts.get(os.path.basename(part.path), 0)
        return at if 0 <= at <= part.size else 0  # a shorter file is another one

    def move(self, part: Part, end: int) -> None:
        """Remember how far a part was sent."""
        self._parts[os.path.basename(part.path)] = end
        last = dict(sorted(self._parts.items())[-_MOST_PARTS:])
        line = json.dumps({"version": 1, "parts": last}) + "\n"
        try:
            os.pwrite(self._fd, line.encode(), 0)
            os.fsync(self._fd)
        except OSError as error:
            raise self._describe(error) from None

    def _describe(self, error: OSError) -> LaunchError:
        return LaunchError(
            f"{self._path} cannot be written: {error.strerror}",
            fix="without it, calls would be exported again and again; check the directory and "
            f"the space: ls -ld {os.path.dirname(self._path)}; df {self._path}",
        )


class _Session(requests.Session):
    """Keeps the last answer and the first error: the SDK's exporter returns only that it failed.

    It tries again until its time is up, and the last try may have no time left for an answer.
    """

    answer: requests.Response | None = None
    error: OSError | None = None

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # noqa: ANN401
        """Send a request."""
        try:
            self.answer = super().send(request, **options)
        except OSError as error:  # all errors of `requests` are
            self.error = self.error or error
            raise
        return self.answer


class Collector:
    """Sends to one collector."""

    def __init__(self, address: str, environ: Mapping[str, str]) -> None:
        # The address of the signal itself, by OpenTelemetry's rules; all others are a base.
        whole = "" if address else environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
        address = address or whole or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "") or _USUAL
        try:
            url = urlsplit(address.strip())
            is_valid = url.scheme in {"http", "https"} and bool(url.hostname)
            self._is_for_grpc = url.port == 4317  # noqa: PLR2004  # as collectors have it
        except ValueError:
            is_valid = False
        # The user and the query may be secrets: they are sent, and never shown.
        if not is_valid:
            raise UsageError(
                f"{mask_text(address.rpartition('@')[2])!r} is not the address of a collector",
                fix="write it as in mcp-launch export --otlp http://127.0.0.1:4318",
            )
        base = url.path.rstrip("/").removesuffix("/v1/traces")
        place = url.netloc.rpartition("@")[2]
        self.shown = mask_text(f"{url.scheme}://{place}{base}")
        self._session = _Session()
        # A proxy has another loopback.
        self._session.trust_env = url.hostname not in {"localhost", "127.0.0.1", "::1"}
        endpoint = whole or url._replace(path=f"{base}/v1/traces").geturl()
        self._exporter = OTLPSpanExporter(endpoint, session=self._session)
        # Which user and machine this is; OpenTelemetry's own variables win.
        own = {
            "service.name": "mcp-launch",
            "service.version": __version__,
            "host.name": socket.gethostname(),
            "user.name": environ.get("USER") or str(os.geteuid()),
        }
        self._resource = Resource(own).merge(OTELResourceDetector().detect())

    def send(self, calls: list[RecordedCall]) -> None:
        """Send calls.

        Raises:
            CollectorFailed: They were not accepted.

        """
        self._session.answer = self._session.error = None
        self._exporter.export([_make_span(call, self._resource) for call in calls])
        answer = self._session.answer
        if answer is None:
            why, fix = _explain(self._session.error)
            if self._is_for_grpc:
                fix = "write port 4318, of OTLP over HTTP: port 4317 is for gRPC"
            raise CollectorFailed(
                f"the collector at {self.shown} cannot be reached: {why}", fix=fix + _NOTHING_LOST
            )
        if answer.status_code == _TOO_LARGE and len(calls) > 1:
            self.send(calls[: len(calls) // 2])
            self.send(calls[len(calls) // 2 :])
        elif not 200 <= answer.status_code < 300:  # noqa: PLR2004  # for the SDK, so is a redirect
            raise CollectorFailed(
                f"the collector at {self.shown} refused the calls: "
                f"{answer.status_code} {answer.reason}",
                fix=_FIXES.get(answer.status_code, "look into the collector's own log")
                + _NOTHING_LOST,
            )
        else:
            _report_rejected(answer.content)


def _report_rejected(content: bytes) -> None:
    """Report the spans that a collector did not take: they must not be sent again."""
    try:
        told = ExportTraceServiceResponse.FromString(content).partial_success
    except DecodeError:
        return  # some answer with JSON or nothing
    if told.rejected_spans > 0:
        why = f": {told.error_message[:500]}" * bool(told.error_message)
        say(f"The collector did not take {units.count(told.rejected_spans, 'span')}{why}")


def _explain(error: BaseException | None) -> tuple[str, str]:
    """Return why a request got no answer, and what to do about it."""
    if isinstance(error, requests.exceptions.SSLError):
        fix = "write http:// if it has none, or set OTEL_EXPORTER_OTLP_CERTIFICATE to the PEM file "
        return "TLS failed", fix + "of its authority"
    if isinstance(error, requests.exceptions.Timeout):
        return "no answer in time", "look into its own log, or set OTEL_EXPORTER_OTLP_TIMEOUT=30"
    if error and not isinstance(error, requests.exceptions.RequestException):
        fix = "set OTEL_EXPORTER_OTLP_CERTIFICATE to a PEM file that you can read"
        return "the certificate of its authority cannot be used", fix
    while error and not getattr(error, "strerror", None):
        error = error.__cause__ or error.__context__  # the system's word is below all others
    return getattr(error, "strerror", "the connection broke"), "start it, or check the address"


def _make_span(recorded: RecordedCall, resource: Resource) -> ReadableSpan:
    call = RecordedCall(*map(_cut, recorded))
    # A record without these is damaged, but still itself.
    own = [call.launch, call.number] if call.launch and call.number else recorded
    digest = hashlib.sha256(repr(own).encode(errors="backslashreplace")).digest()
    found = TraceContextTextMapPropagator().extract({"traceparent": call.trace})
    parent = get_current_span(found).get_span_context()
    context = SpanContext(
        parent.trace_id if parent.is_valid else int.from_bytes(digest[:16]),
        int.from_bytes(digest[16:24]),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    attributes = {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "network.transport": "pipe",
        "jsonrpc.request.id": None if call.id is None else str(call.id),
        "error.type": _ERROR_TYPES.get(call.outcome, "_OTHER") if call.has_failed else None,
    } | {name: getattr(call, field) for name, field in _ATTRIBUTES.items()}
    start = round(call.time * 1e6) * 1000  # a float has no nanoseconds of our time
    return ReadableSpan(
        f"tools/call {call.tool}".rstrip(),
        context,
        parent if parent.is_valid else None,
        resource,
        {name: value for name, value in attributes.items() if value not in (None, "", ())},
        kind=SpanKind.SERVER,
        status=Status(StatusCode.ERROR, call.reason) if call.has_failed else Status(),
        start_time=start,
        end_time=start + round((call.ms or 0) * 1e6),
        instrumentation_scope=InstrumentationScope("mcp-launch", __version__),
    )


def _cut(value: Any) -> Any:  # noqa: ANN401  # any field of a call
    """Return a text of bounded length, without the halves of characters that JSON can have."""
    if isinstance(value, tuple):
        return tuple(map(_cut, value))
    if isinstance(value, str):
        return value[:_LONGEST_TEXT].encode(errors="backslashreplace").decode()
    return value

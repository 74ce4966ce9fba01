"""A collector for tests: receives OTLP over HTTP on loopback, and keeps what it has accepted.

It parses requests with the official messages, so what they do not describe is refused. A test can
make it fail: before it has kept a request, or after, when only the answer is lost.
"""

from __future__ import annotations

import gzip
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Reply(NamedTuple):
    """How the collector answers a request."""

    status: int = 200
    is_kept: bool = True
    is_answered: bool = True  # False: the connection is closed instead
    text: str = ""
    headers: dict[str, str] = {}  # noqa: RUF012  # never changed
    rejected: int = 0


ACCEPTED = Reply()


class OtlpReceiver:
    """A collector on a port of its own."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[dict[str, str]] = []  # their headers
        self.traces: list[ExportTraceServiceRequest] = []
        self.decide: Callable[[int], Reply] = lambda _number: ACCEPTED
        self.changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["content-length"]))
                reply = receiver.take(self.path, self._read_headers(), content)
                if not reply.is_answered:
                    self.close_connection = True
                    return
                answer = reply.text.encode() or receiver.make_answer(reply)
                self.send_response(reply.status)
                kind = "text/plain" if reply.text else "application/x-protobuf"
                for name, value in {"content-type": kind, **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def _read_headers(self) -> dict[str, str]:
                return {name.lower(): value for name, value in self.headers.items()}

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def take(self, path: str, headers: dict[str, str], content: bytes) -> Reply:
        """Parse a request, and keep it if it is accepted."""
        assert path.partition("?")[0] == "/v1/traces"
        assert headers["content-type"] == "application/x-protobuf"
        if headers.get("content-encoding") == "gzip":
            content = gzip.decompress(content)
        parsed = ExportTraceServiceRequest.FromString(content)
        with self.changed:
            self.requests.append(headers)
            reply = self.decide(len(self.requests))
            if reply.is_kept:
                self.traces.append(parsed)
            self.changed.notify_all()
        return reply

    def make_answer(self, reply: Reply) -> bytes:
        if not reply.rejected:
            return b""
        answer = ExportTraceServiceResponse()
        answer.partial_success.rejected_spans = reply.rejected
        answer.partial_success.error_message = "too \x1b[31mold"
        return bytes(answer.SerializeToString())

    def wait_until(self, is_right: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait for requests until something is right."""
        with self.changed:
            assert self.changed.wait_for(is_right, seconds), "the collector waited in vain"

    @property
    def spans(self) -> list[Span]:
        """All spans, in the order of their arrival."""
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def count_spans(self) -> Counter[bytes]:
        """Return how often each span has arrived."""
        return Counter(span.span_id for span in self.spans)


def read_attributes(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    """Return attributes as Python has them."""
    return {one.key: _read_value(one.value) for one in attributes}


def _read_value(value: AnyValue) -> Any:
    if value.HasField("array_value"):
        return [_read_value(one) for one in value.array_value.values]
    return getattr(value, value.WhichOneof("value") or "string_value")

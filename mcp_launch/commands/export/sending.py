"""Send telemetry to a collector, by OTLP over HTTP: one request, one answer.

The exporters of OpenTelemetry's SDK are not used: they queue, retry and drop on their own, and
say neither why a request was refused nor which records were accepted. We must know both before
we remember how far we got.
"""

from __future__ import annotations

import gzip
import http.client
import re
import ssl
import urllib.request
from typing import TYPE_CHECKING, NamedTuple
from urllib.error import HTTPError, URLError

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics, ScopeMetrics
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans

from mcp_launch import __version__
from mcp_launch.errors import LaunchError, printable
from mcp_launch.masking import Scrubber, mask_text

if TYPE_CHECKING:
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    from mcp_launch.commands.export.destination import Destination

# How long a collector may take for a request, in seconds; the default of OpenTelemetry.
_TIMEOUT = 10.0

# How much of an answer is read: it says at most how many spans were refused, and why.
_ANSWER_SIZE = 64 << 10

_TOO_LARGE = 413
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_SCOPE = InstrumentationScope(name="mcp-launch", version=__version__)


class Answer(NamedTuple):
    """What a collector said to a request that it has accepted."""

    rejected: int = 0  # how many spans or points it did not take; they must not be sent again
    message: str = ""


class CollectorFailed(LaunchError):
    """A collector cannot be reached, or has refused a request."""

    def __init__(
        self, problem: str, *, fix: str, wait: float = 0.0, is_too_large: bool = False
    ) -> None:
        super().__init__(problem, fix=fix)
        self.wait = wait  # how long it asked us to wait, in seconds
        self.is_too_large = is_too_large


class Collector:
    """Sends to one collector."""

    def __init__(self, destination: Destination, resource: Resource) -> None:
        self._destination = destination
        self._resource = resource
        self._clean = Scrubber(destination.headers.values()).clean
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if destination.host in _LOOPBACK:
            handlers.append(urllib.request.ProxyHandler({}))  # a proxy has another loopback
        if destination.base.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=_make_context(destination)))
        self._opener = urllib.request.build_opener(*handlers)

    def send_spans(self, spans: list[Span]) -> Answer:
        """Send spans.

        Raises:
            CollectorFailed: They were not accepted.

        """
        scoped = ScopeSpans(scope=_SCOPE, spans=spans)
        request = ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(resource=self._resource, scope_spans=[scoped])]
        )
        answer = ExportTraceServiceResponse()
        _parse(answer, self._post("v1/traces", request.SerializeToString()))
        told = answer.partial_success
        return Answer(max(told.rejected_spans, 0), self._make_safe(told.error_message))

    def send_metrics(self, metrics: list[Metric]) -> Answer:
        """Send metrics.

        Raises:
            CollectorFailed: They were not accepted.

        """
        scoped = ScopeMetrics(scope=_SCOPE, metrics=metrics)
        request = ExportMetricsServiceRequest(
            resource_metrics=[ResourceMetrics(resource=self._resource, scope_metrics=[scoped])]
        )
        answer = ExportMetricsServiceResponse()
        _parse(answer, self._post("v1/metrics", request.SerializeToString()))
        told = answer.partial_success
        return Answer(max(told.rejected_data_points, 0), self._make_safe(told.error_message))

    def _post(self, path: str, content: bytes) -> bytes:
        request = urllib.request.Request(  # noqa: S310  # `destination` allows only http and https
            f"{self._destination.base}/{path}",
            gzip.compress(content, 6),
            {
                "content-type": "application/x-protobuf",
                "content-encoding": "gzip",
                "user-agent": f"mcp-launch/{__version__}",
                **self._destination.headers,
            },
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as answer:
                return bytes(answer.read(_ANSWER_SIZE))
        except HTTPError as error:
            with error:
                raise self._describe_refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._describe_failure(error) from None

    def _describe_refusal(self, error: HTTPError) -> CollectorFailed:
        said = ""
        if "text" in error.headers.get("content-type", "") or "json" in error.headers.get(
            "content-type", ""
        ):
            said = self._make_safe(error.read(500).decode(errors="replace").strip())
        words = f"{error.code} {self._make_safe(error.reason)}{': ' if said else ''}{said}"
        after = error.headers.get("retry-after", "")
        return CollectorFailed(
            f"the collector at {self._destination.shown} refused the request: {words}",
            fix=self._destination.hint or _FIXES.get(error.code, _LOOK),
            wait=min(float(after), 300.0) if re.fullmatch(r"\d{1,6}", after) else 0.0,
            is_too_large=error.code == _TOO_LARGE,
        )

    def _describe_failure(self, error: Exception) -> CollectorFailed:
        reason = error.reason if isinstance(error, URLError) else error
        return CollectorFailed(
            f"the collector at {self._destination.shown} cannot be reached: "
            f"{self._make_safe(_explain(reason))}",
            fix=self._destination.hint
            or "start it, or check the address; nothing is lost: the "
            "calls stay on record for 14 days",
        )

    def _make_safe(self, text: str) -> str:
        return printable(self._clean(text))[:500]


def _explain(reason: object) -> str:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {reason.verify_message}"
    if isinstance(reason, ssl.SSLError):
        return f"TLS fails: {(reason.reason or 'no reason').replace('_', ' ').lower()}"
    if isinstance(reason, TimeoutError):
        return f"it did not answer within {_TIMEOUT:g} s"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return "it closed the connection, or did not answer in HTTP"


_LOOK = "look into the collector's own log"
_FIXES = {
    401: "give it credentials: --header authorization=TOKEN, or OTEL_EXPORTER_OTLP_HEADERS",
    403: "give it other credentials: --header authorization=TOKEN",
    404: "check the address: /v1/traces and /v1/metrics are added to it",
    405: "check the address: /v1/traces and /v1/metrics are added to it",
}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: our headers are for the collector that the user has named."""

    def redirect_request(self, *_: object) -> None:
        """Return that there is nothing to follow."""


def _make_context(destination: Destination) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=destination.certificate or None)
    except OSError as error:
        why = "it is not in PEM format" if isinstance(error, ssl.SSLError) else error.strerror
        raise LaunchError(
            f"the certificate {mask_text(destination.certificate)} cannot be used: {why}",
            fix="let OTEL_EXPORTER_OTLP_CERTIFICATE name a PEM file that you can read",
        ) from None


def _parse(
    answer: ExportTraceServiceResponse | ExportMetricsServiceResponse, content: bytes
) -> None:
    try:
        answer.ParseFromString(content)
    except DecodeError:
        answer.Clear()  # some answer with JSON or nothing; 200 means accepted

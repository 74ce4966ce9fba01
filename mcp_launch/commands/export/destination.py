"""Where telemetry goes: the address of a collector, and the headers it wants.

Headers and the user in an address are secrets: they are sent, and never shown.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from mcp_launch.errors import UsageError
from mcp_launch.masking import mask_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
CERTIFICATE = "OTEL_EXPORTER_OTLP_CERTIFICATE"

# https://www.rfc-editor.org/rfc/rfc9110#name-tokens
_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_EXAMPLE = "mcp-launch export --otlp http://127.0.0.1:4318"

# Collectors listen for gRPC here, and answer HTTP with nonsense.
_GRPC_PORT = 4317


class Destination(NamedTuple):
    """A collector."""

    base: str  # without user, and without the path of a signal
    headers: dict[str, str]
    certificate: str = ""  # the file with the authority that has signed the collector's

    @property
    def shown(self) -> str:
        """Return the address without secrets."""
        return mask_text(self.base)

    @property
    def host(self) -> str:
        """Return its host."""
        return urlsplit(self.base).hostname or ""

    @property
    def hint(self) -> str:
        """Return what may be wrong with the address; empty: nothing that we know of."""
        is_for_other = urlsplit(self.base).port == _GRPC_PORT
        return "port 4317 is for gRPC; OTLP over HTTP usually has 4318" if is_for_other else ""


def read_destination(
    address: str, headers: Iterable[str], environ: Mapping[str, str]
) -> Destination:
    """Return the collector that options and variables name; options take precedence.

    Raises:
        UsageError: None is named, or what names it is not valid.

    """
    address = address or environ.get(ENDPOINT, "")
    if not address:
        raise UsageError(
            "there is no collector to export to",
            fix=f"name one, as in {_EXAMPLE}, or set {ENDPOINT}",
        )
    base, user = _split_address(address)
    found = {"authorization": f"Basic {user}"} if user else {}
    for pair in filter(str.strip, environ.get(HEADERS, "").split(",")):
        found |= _read_header(unquote(pair), HEADERS)
    for pair in headers:
        found |= _read_header(pair, "--header")
    return Destination(base, found, environ.get(CERTIFICATE, ""))


def _split_address(address: str) -> tuple[str, str]:
    """Return an address without its user, and the user as `Basic` has it."""
    try:
        parts = urlsplit(address.strip())
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port  # raises, if it is not a port
    except ValueError:
        is_valid = False
    if not is_valid or not address.isprintable() or " " in address.strip():
        raise UsageError(
            f"{mask_text(_hide_user(address))!r} is not the address of a collector",
            fix=f"write it with http:// or https://, as in {_EXAMPLE}",
        )
    user, _, place = parts.netloc.rpartition("@")
    path = re.sub(r"/v1/(traces|metrics|logs)/?$", "", parts.path).rstrip("/")
    encoded = base64.b64encode(unquote(user).encode()).decode()
    return urlunsplit((parts.scheme, place, path, "", "")), encoded


def _hide_user(address: str) -> str:
    return re.sub(r"//[^/]*@", "//***@", address)


def _read_header(pair: str, where: str) -> dict[str, str]:
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not equals or not _HEADER_NAME.fullmatch(name) or not value.isprintable():
        # Not quoted: it may be the secret itself.
        raise UsageError(
            f"a header in {where} is not valid",
            fix="write NAME=VALUE, as in --header authorization=TOKEN",
        )
    return {name.lower(): value}

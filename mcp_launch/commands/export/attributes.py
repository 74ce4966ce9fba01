"""Attributes in the form of OTLP, and those of the resource: which machine and user this is."""

from __future__ import annotations

import os
import platform
import socket
from typing import TYPE_CHECKING
from urllib.parse import unquote

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from mcp_launch import __version__
from mcp_launch.commands.export.call_facts import make_text

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = str | bool | int | list[str]


def make_attributes(values: Mapping[str, Value]) -> list[KeyValue]:
    """Return attributes in the form of OTLP."""
    return [KeyValue(key=key, value=_make_value(value)) for key, value in values.items()]


def _make_value(value: Value) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=map(_make_value, value)))
    return AnyValue(string_value=value)


def make_resource(instance: str, environ: Mapping[str, str]) -> Resource:
    """Return what tells this exporter from others; OTEL_RESOURCE_ATTRIBUTES takes precedence."""
    known: dict[str, Value] = {
        "service.name": "mcp-launch",
        "service.version": __version__,
        "service.instance.id": instance,
        "host.name": make_text(socket.gethostname()),
        "os.type": platform.system().lower(),
        "user.name": make_text(_find_user()),
    }
    for pair in environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            known[make_text(unquote(name.strip()))] = make_text(unquote(value.strip()))
    if service := environ.get("OTEL_SERVICE_NAME"):
        known["service.name"] = make_text(service)
    return Resource(attributes=make_attributes(known))


def _find_user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())  # a container's uid without a user

"""The address of a collector, and its headers: understood, sent, and never shown."""

from __future__ import annotations

import base64

import pytest

from mcp_launch.commands.export.destination import read_destination
from mcp_launch.errors import UsageError


@pytest.mark.parametrize(
    ("address", "base"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318"),
        ("http://127.0.0.1:4318/", "http://127.0.0.1:4318"),
        ("http://127.0.0.1:4318/v1/traces", "http://127.0.0.1:4318"),
        ("https://collector.example/otlp/", "https://collector.example/otlp"),
        ("http://[::1]:4318", "http://[::1]:4318"),
    ],
)
def test_an_address_has_no_path_of_a_signal(address: str, base: str) -> None:
    assert read_destination(address, (), {}).base == base


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:4318",
        "ftp://x",
        "http://",
        "http://x:y",
        "http://x:99999",
        "http://[",
        "http://a b",
    ],
)
def test_what_is_not_an_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="is not the address of a collector") as caught:
        read_destination(address, (), {})

    assert "--otlp http://127.0.0.1:4318" in caught.value.fix


def test_without_an_address_the_variable_names_it() -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://variable:4318"}

    assert read_destination("", (), environ).host == "variable"
    assert read_destination("http://option:4318", (), environ).host == "option"
    with pytest.raises(UsageError, match="there is no collector") as caught:
        read_destination("", (), {})
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in caught.value.fix


def test_a_user_is_sent_as_a_header_and_not_shown() -> None:
    destination = read_destination("https://me:p%40ss@collector.example", (), {})

    sent = destination.headers["authorization"].removeprefix("Basic ")
    assert base64.b64decode(sent) == b"me:p@ss"
    assert destination.shown == "https://collector.example"


def test_the_user_of_a_wrong_address_is_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        read_destination("htp://me:hunter2@collector.example", (), {})

    assert "hunter2" not in caught.value.problem


def test_headers_come_from_variable_and_options() -> None:
    environ = {"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20one,x-tenant=a"}

    headers = read_destination("http://x", ["X-Tenant=b=c"], environ).headers

    assert headers == {"authorization": "Bearer one", "x-tenant": "b=c"}


@pytest.mark.parametrize("header", ["hunter2", "a b=hunter2", "=hunter2", "a=hunter2\r\nb: c"])
def test_a_header_that_is_not_valid_is_refused_and_not_shown(header: str) -> None:
    with pytest.raises(UsageError, match="a header in --header is not valid") as caught:
        read_destination("http://x", [header], {})

    assert "hunter2" not in str(caught.value) + caught.value.fix


def test_the_port_of_grpc_is_pointed_out() -> None:
    assert "4318" in read_destination("http://x:4317", (), {}).hint
    assert not read_destination("http://x:4318", (), {}).hint

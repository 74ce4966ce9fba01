"""A span of a call: what the semantic conventions ask for, from any record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from export_records import MOMENT, make_record
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from otlp_receiver import read_attributes

from mcp_launch.commands.export.attributes import make_resource
from mcp_launch.commands.export.spans import make_span, read_traceparent

if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


def make(**facts: Any) -> Span:
    span = make_span(make_record(**facts))
    assert span is not None
    return span


def test_a_call_is_a_span_by_the_conventions() -> None:
    span = make()

    assert span.name == "tools/call search"
    assert span.kind == Span.SPAN_KIND_SERVER
    assert span.start_time_unix_nano == round(MOMENT * 1000) * 1_000_000
    assert span.end_time_unix_nano - span.start_time_unix_nano == 12_500_000
    assert span.status.code == Status.STATUS_CODE_UNSET
    assert (len(span.trace_id), len(span.span_id), span.parent_span_id) == (16, 8, b"")
    assert read_attributes(span.attributes) == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "network.transport": "pipe",
        "jsonrpc.request.id": "7",
        "mcp.session.id": "s-1",
        "mcp.protocol.version": "2025-11-25",
        "process.pid": 4711,
        "mcp_launch.host": "codex",
        "mcp_launch.server": "docs",
        "mcp_launch.thread": "t-1",
        "mcp_launch.project": "/work/shop",
        "mcp_launch.cwd": "/work/shop/src",
        "mcp_launch.launch": "019a0b0c0d0e0f0102030405",
        "mcp_launch.number": 1,
        "mcp_launch.outcome": "ok",
        "mcp_launch.waited": False,
        "mcp_launch.request.size": 120,
        "mcp_launch.response.size": 340,
    }


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        ("ok", None),
        ("cancelled", None),
        ("tool error", "tool_error"),
        ("protocol error", "protocol_error"),
        ("refused", "refused"),
        ("timed out", "timeout"),
        ("died", "server_died"),
        ("of a later version", "_OTHER"),
    ],
)
def test_a_failure_has_its_class_and_its_reason(outcome: str, error: str | None) -> None:
    span = make(outcome=outcome, reason="it is so")

    assert read_attributes(span.attributes).get("error.type") == error
    assert span.status.code == (Status.STATUS_CODE_ERROR if error else Status.STATUS_CODE_UNSET)
    assert span.status.message == ("it is so" if error else "")


def test_what_a_policy_did_and_a_wait_are_attributes_and_arguments_never() -> None:
    span = make(waited=True, changed=["cwd", "path"], arguments={"query": "secret"}, id="a-7")

    attributes = read_attributes(span.attributes)
    assert attributes["mcp_launch.waited"] is True
    assert attributes["mcp_launch.changed"] == ["cwd", "path"]
    assert attributes["jsonrpc.request.id"] == "a-7"
    assert b"secret" not in span.SerializeToString()


def test_the_hosts_span_is_the_parent() -> None:
    span = make(trace=f"00-{TRACE}-{PARENT}-01")

    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert span.flags == 0x301  # sampled, and the parent is known to be in another process
    assert span.span_id == make().span_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-01-more",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{PARENT}-01\n",
    ],
)
def test_a_traceparent_that_is_not_valid_is_ignored(text: str) -> None:
    assert read_traceparent(text) is None
    assert make(trace=text).parent_span_id == b""


def test_a_later_version_of_traceparent_may_have_more() -> None:
    assert read_traceparent(f"01-{TRACE}-{PARENT}-01-more")


def test_ids_are_the_records_own() -> None:
    spans = [make(number=number) for number in range(1, 101)]
    again = make(number=5)
    other = make(number=5, launch="another")

    assert len({span.span_id for span in spans} | {other.span_id}) == 101
    assert (again.trace_id, again.span_id) == (spans[4].trace_id, spans[4].span_id)


@pytest.mark.parametrize("time", [None, "now", True, -1, 1e300, float("nan"), 10**400])
def test_a_record_without_a_time_has_no_span(time: object) -> None:
    assert make_span(make_record(time=time)) is None


NAMES = sorted(make_record(trace="", reason="", waited=True, held=1, changed=[], arguments={}))
VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_any_record_can_be_encoded_or_has_no_span(facts: dict[str, Json]) -> None:
    span = make_span(facts)

    assert span is None or Span.FromString(span.SerializeToString()) == span


def test_a_long_name_is_cut() -> None:
    assert len(make(tool="x" * 100_000).SerializeToString()) < 5000


def test_the_resource_names_machine_and_user_and_variables_take_precedence() -> None:
    environ = {
        "OTEL_RESOURCE_ATTRIBUTES": "team=shop%20one, host.name = build-7 ,broken,=x",
        "OTEL_SERVICE_NAME": "mcp",
    }

    plain = read_attributes(make_resource("i-1", {}).attributes)
    changed = read_attributes(make_resource("i-1", environ).attributes)

    assert (plain["service.name"], plain["service.instance.id"]) == ("mcp-launch", "i-1")
    assert plain["host.name"]
    assert plain["user.name"]
    assert changed == plain | {"service.name": "mcp", "team": "shop one", "host.name": "build-7"}

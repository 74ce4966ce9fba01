"""Calls that look like the last one reach the server as any other call does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from core_playbooks import open_playbook
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from core_playbooks import Playbook

COMPACT = (",", ":")

TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(['"', "\\", '","_meta":{"', '"_meta":{}', "}}", "\u2028", '"id":7', "\r"]),
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXTS, inner, max_size=2)),
    max_leaves=6,
)
METAS = st.fixed_dictionaries(
    {"callId": TEXTS, "turn": VALUES},
    optional={
        "progressToken": st.one_of(st.integers(0, 10**6), TEXTS),
        "session": st.sampled_from(["s-1", "s-2"]),
        "_meta": VALUES,
        "traceparent": TEXTS,
    },
)
CALLS = st.lists(st.tuples(METAS, VALUES, st.booleans()), min_size=2, max_size=6)

LAYOUTS: dict[str, Any] = {
    "Codex": lambda head, params: {**head, "method": "tools/call", "params": params},
    "TypeScript SDK": lambda head, params: {"method": "tools/call", "params": params, **head},
}


def write(
    layout: str, number: int, params: dict[str, Any], separators: Any, ascii_only: Any
) -> bytes:
    message = LAYOUTS[layout]({"jsonrpc": "2.0", "id": number}, params)
    return json.dumps(message, separators=separators, ensure_ascii=ascii_only).encode() + b"\n"


def send(playbook: Playbook, line: bytes) -> dict[str, Any]:
    """Return what the server gets for a call."""
    playbook.core.client_said("host", line)
    commands, playbook.core.out = playbook.core.out, []
    [sent] = [what for verb, name, what in commands if (verb, name) == ("send", "server")]
    message: dict[str, Any] = json.loads(sent)
    return message


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("separators", [COMPACT, (", ", ": ")], ids=["compact", "with spaces"])
@settings(max_examples=40)
@given(calls=CALLS, is_last=st.booleans())
def test_calls_that_look_alike_reach_the_server_as_they_were_written(
    layout: str, separators: Any, calls: list[Any], *, is_last: bool
) -> None:
    playbook = open_playbook(no_meta=False, describe=lambda served, _: {"for": str(served.bound)})
    for number, (meta, arguments, ascii_only) in enumerate(calls, start=50):
        rest = {"name": "read", "arguments": {"value": arguments}}
        params = {**rest, "_meta": meta} if is_last else {"_meta": meta, **rest}

        got = send(playbook, write(layout, number, params, separators, ascii_only))

        context = got["params"]["_meta"].pop("mcp-launch/context")
        assert context["for"] == f"session {meta['session']}" if "session" in meta else context
        token = {"progressToken": got["id"]} if "progressToken" in meta else {}
        assert got["params"] == {**rest, "_meta": {**meta, **token}}
        answer = json.dumps({"jsonrpc": "2.0", "id": got["id"], "result": {}}, separators=COMPACT)
        playbook.core.server_said("server", answer.encode() + b"\n")
        [(_, _, answered)] = [one for one in playbook.core.out if one[:2] == ("send", "host")]
        playbook.core.out = []
        assert json.loads(answered)["id"] == number

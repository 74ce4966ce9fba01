"""When a server's answers are kept, and to which requests they are given."""

from __future__ import annotations

import json
from typing import Any

import pytest
from broker_playbooks import Playbook, Store

from mcp_launch.protocol.memory import Remembered, name_client

CLIENT = '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c"}}'

# A server that nothing is known of has answered the greeting and its first list.
LISTED = f"""
    >> started server
    >> host: 0 initialize {CLIENT}
    << server: 0 initialize {CLIENT}
    >> server: 0 = {{}}
    << timer remember host: 1
    << host: 0 = {{}}
    >> host: 1 tools/list
    << server: 1 tools/list
    >> server: 1 = {{"tools":[{{"name":"x"}}]}}
    << timer remember host: 0
    << host: 1 = {{"tools":[{{"name":"x"}}]}}
"""

PREFIX = "io.modelcontextprotocol/"
META = f'{{"{PREFIX}protocolVersion":"2026-07-28","{PREFIX}clientCapabilities":{{}}}}'


@pytest.mark.parametrize(
    ("event", "then"),
    [
        ("host closed host", "<< timer grace: …\n<< close input of server"),
        ("signal 15", "<< signal server: 15\n<< timer leave: …"),
    ],
    ids=["end of input", "signal"],
)
def test_what_was_learned_is_kept_before_the_server_is_ended(event: str, then: str) -> None:
    Playbook(handshakes=Store()).play(f"""
        {LISTED}
        >> {event}
        << remember 2 answers
        {then}
    """)


def test_what_was_never_kept_is_kept_at_once_and_more_of_it_later() -> None:
    # Codex 0.125 kills its servers at the end of a session, which may be a short one.
    Playbook(handshakes=Store()).play(f"""
        {LISTED}
        >> timer remember host
        << remember 2 answers
        >> host: 2 prompts/list
        << server: 2 prompts/list
        >> server: 2 = {{"prompts":[]}}
        << timer remember host: 1
        << host: 2 = {{"prompts":[]}}
        >> timer remember host
        << remember 3 answers
    """)


def test_a_list_that_is_asked_for_after_a_stream_was_opened_is_kept() -> None:
    # Claude Code 2.1.327 opens the stream first, and greets the server a second time.
    Playbook(handshakes=Store()).play(f"""
        >> started server
        >> host: 0 server/discover {{"_meta":{META}}}
        << server: 0 server/discover …
        >> server: 0 = {{"ttlMs":0}}
        << timer remember host: 1
        << host: 0 = {{"ttlMs":0}}
        >> host: 1 subscriptions/listen {{"_meta":{META},"notifications":{{}}}}
        << server: 1 subscriptions/listen …
        >> host: 2 tools/list {{"_meta":{META}}}
        << server: 2 tools/list …
        >> server: 2 = {{"tools":[{{"name":"x"}}],"ttlMs":0}}
        << timer remember host: 0
        << host: 2 = {{"tools":[{{"name":"x"}}],"ttlMs":0}}
        >> timer remember host
        << remember 2 answers
    """)


def test_a_discovery_that_is_asked_for_again_is_answered_from_memory() -> None:
    # Claude Code 2.1.325 does so, if the server's answer has no time to live.
    said: dict[str, Any] = {"method": "server/discover", "params": {"_meta": json.loads(META)}}
    answers = {
        ("server/discover", b""): b'{"result":{"ttlMs":0}}',
        ("tools/list", b""): b'{"result":{"tools":[{"name":"x"}],"ttlMs":0}}',
    }
    store = Store(Remembered(name_client(said), 0.0, answers))
    Playbook(handshakes=store, is_started=False).play(f"""
        >> host: 0 server/discover {{"_meta":{META}}}
        << host: 0 = {{"ttlMs":0}}
        >> host: 1 server/discover {{"_meta":{META}}}
        << host: 1 = {{"ttlMs":0}}
        >> host: 2 tools/list {{"_meta":{META}}}
        << host: 2 = {{"tools":[{{"name":"x"}}],"ttlMs":0}}
        >> host: 3 tools/call {{"_meta":{META},"name":"x"}}
        << start server
        >> host: 4 server/discover {{"_meta":{META}}}
        << host: 4 = {{"ttlMs":0}}
    """)

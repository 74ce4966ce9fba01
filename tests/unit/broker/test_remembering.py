"""When a server's answers are kept, and to which requests they are given."""

from __future__ import annotations

import pytest
from broker_playbooks import Playbook, Store

CLIENT = '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c"}}'


@pytest.mark.parametrize(
    ("event", "then"),
    [
        ("host closed host", "<< timer grace: …\n<< close input of server"),
        ("signal 15", "<< signal server: 15\n<< timer leave: …"),
    ],
    ids=["end of input", "signal"],
)
def test_what_was_learned_is_kept_before_the_server_is_ended(event: str, then: str) -> None:
    # Codex 0.125 kills us right after it has closed our stdin.
    Playbook(handshakes=Store()).play(f"""
        >> started server
        >> host: 0 initialize {CLIENT}
        << server: 0 initialize {CLIENT}
        >> server: 0 = {{}}
        << timer remember host: 1
        << host: 0 = {{}}
        >> host: 1 tools/list
        << server: 1 tools/list
        >> server: 1 = {{"tools":[{{"name":"x"}}]}}
        << timer remember host: 1
        << host: 1 = {{"tools":[{{"name":"x"}}]}}
        >> {event}
        << remember 2 answers
        {then}
    """)

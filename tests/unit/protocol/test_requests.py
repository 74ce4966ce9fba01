"""Open requests, both ways: nothing is forgotten that matters, and nothing kept that does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_launch.protocol import look
from mcp_launch.protocol.requests import Ledger, hash_tools


def want(ledger: Ledger, request_id: object, key: bytes = b"") -> None:
    """Note a request of the server's."""
    asked: dict[str, Any] = {"id": request_id, "method": "sampling/createMessage"}
    ledger.want(asked, json.dumps(asked).encode() + b"\n", key)


def test_a_request_that_its_server_cancels_leaves_nothing_behind() -> None:
    ledger = Ledger()
    for number in range(3):
        want(ledger, number, b'"ours/%d"' % number)

    assert [ledger.stop_wanting(b"%d" % number) for number in range(3)] == [
        b'"ours/0"',
        b'"ours/1"',
        b'"ours/2"',
    ]
    assert not ledger.wanted
    assert ledger.stop_wanting(b"1") == b"1", "nothing is known of it any more"


def test_what_a_server_asked_is_forgotten_with_it() -> None:
    ledger = Ledger()
    want(ledger, 1, b'"ours/1"')
    assert ledger.take_wanted() == [b'"ours/1"']

    want(ledger, 1, b'"ours/2"')  # the next server counts from the same number

    assert ledger.stop_wanting(b"1") == b'"ours/2"'


def test_a_reply_is_matched_once() -> None:
    ledger = Ledger()
    want(ledger, "a", b'"ours/1"')

    assert ledger.note_reply(b'"ours/1"') == ("sampling/createMessage", b'"a"', b'"a"')
    assert ledger.note_reply(b'"ours/1"') is None
    assert ledger.stop_wanting(b'"a"') == b'"a"'


def test_an_id_is_cancelled_as_the_server_wrote_it() -> None:
    ledger = Ledger()
    line = b'{"id":1e2,"method":"sampling/createMessage"}\n'
    asked = look(line)
    assert isinstance(asked, dict)

    ledger.want(asked, line)

    assert ledger.take_wanted() == [b"1e2"]


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ({"tools": [{"name": "a"}]}, {"tools": [{"name": "b"}]}),
        ({"tools": []}, {"tools": [], "nextCursor": "2"}),
    ],
    ids=["other tools", "one more page"],
)
def test_pages_that_differ_have_other_hashes(one: object, another: object) -> None:
    pages = [json.dumps({"id": 1, "result": page}).encode() for page in (one, another)]

    assert hash_tools(pages[0]) != hash_tools(pages[1])


@pytest.mark.parametrize("cursor", ["null", '""'])
def test_a_last_page_may_say_so(cursor: str) -> None:
    plain = b'{"id":1,"result":{"tools":[]}}'
    spelled = f'{{"id":1,"result":{{"tools":[],"nextCursor":{cursor}}}}}'.encode()

    assert hash_tools(plain) == hash_tools(spelled)


def test_the_deepest_schema_has_a_hash() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000

    assert hash_tools(b'{"id":1,"result":{"tools":' + deep + b"}}\n")

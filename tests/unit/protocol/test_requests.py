"""Open requests, both ways: nothing is forgotten that matters, and nothing kept that does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_launch.broker.connection import HostConnection
from mcp_launch.protocol import look, spell
from mcp_launch.protocol.memory import hash_page
from mcp_launch.protocol.requests import OpenRequests, Ticket


def note_server_request(host: HostConnection, request_id: object, key: bytes) -> None:
    """Note a request of the server's, and the id that the host knows it by."""
    asked: dict[str, Any] = {"id": request_id, "method": "sampling/createMessage"}
    host.note_server_request("server", asked, json.dumps(request_id).encode(), key)


def test_a_request_that_its_server_cancels_is_found_under_the_hosts_id() -> None:
    host = HostConnection("host")
    for number in range(3):
        note_server_request(host, number, b'"ours/%d"' % number)

    found = [host.find_server_request("server", b"%d" % number) for number in range(3)]

    assert found == [b'"ours/0"', b'"ours/1"', b'"ours/2"']
    assert host.find_server_request("server", b"3") is None
    assert host.find_server_request("another", b"1") is None


def test_what_a_server_asked_is_forgotten_with_it() -> None:
    host = HostConnection("host")
    note_server_request(host, 1, b'"ours/1"')
    assert host.take_server_requests("another") == []
    assert host.take_server_requests("server") == [b'"ours/1"']
    assert not host.server_requests

    note_server_request(host, 1, b'"ours/2"')  # the next server counts from the same number

    assert host.find_server_request("server", b"1") == b'"ours/2"'


def test_an_id_is_cancelled_as_the_server_wrote_it() -> None:
    host = HostConnection("host")
    asked: dict[str, Any] = {"id": 1e2, "method": "sampling/createMessage"}

    host.note_server_request("server", asked, b"1e2", b"100")

    assert host.take_server_requests("server") == [b"1e2"]


def send(requests: OpenRequests, connection: str, line: bytes, *, is_shared: bool = False) -> bytes:
    said = look(line)
    assert isinstance(said, dict)
    key, method = spell(said["id"]), str(said["method"])
    ticket = Ticket(connection, key, method, line, is_noted=False)
    return requests.send(ticket, said, line, is_shared=is_shared)


CALL = b'{"id":1,"method":"tools/call","params":{"_meta":{"progressToken":7}}}\n'


def test_a_request_is_closed_once_and_leaves_nothing_behind() -> None:
    requests = OpenRequests()

    assert send(requests, "host", CALL) == CALL
    ticket = requests.close(b"1")

    assert ticket is not None
    assert (ticket.connection, ticket.method, ticket.line) == ("host", "tools/call", CALL)
    assert requests.close(b"1") is None
    assert not requests.open


def test_equal_ids_and_progress_tokens_of_two_hosts_differ_for_the_server() -> None:
    requests = OpenRequests()
    sent = [json.loads(send(requests, name, CALL, is_shared=True)) for name in ("a", "b")]

    known = [message["id"] for message in sent]
    tokens = [message["params"]["_meta"]["progressToken"] for message in sent]

    assert len({*known, *tokens}) == 2
    for name, message, token in zip("ab", sent, tokens, strict=True):
        assert requests.find(name, b"1") == json.dumps(message["id"]).encode()
        ticket = requests.find_progress({"params": {"progressToken": token}})
        assert ticket is not None
        assert (ticket.connection, ticket.id, ticket.token) == (name, b"1", b"7")
    assert requests.has_renamed
    for message in sent:
        requests.close(json.dumps(message["id"]).encode())
    assert not requests.has_renamed
    assert requests.find_progress({"params": {"progressToken": tokens[0]}}) is None


def test_what_was_not_read_is_taken_back_as_the_host_wrote_it() -> None:
    requests = OpenRequests()
    batch = b"[%b,%b]\n" % (CALL.strip(), b'{"method":"notifications/cancelled"}')
    sent = send(requests, "a", CALL, is_shared=True)

    assert requests.take_back(look(sent), sent) == [("a", CALL)]
    assert requests.take_back(look(sent), sent) == []  # once
    send(requests, "a", CALL)
    assert requests.take_back(look(batch), batch) == [("a", CALL)]
    assert requests.take_back({"id": 1, "result": {}}, b"") == []  # an answer to the last server
    assert requests.take_back({"method": "notifications/x"}, b"line") == [("", b"line")]


def test_a_stream_has_no_end_to_wait_for() -> None:
    requests = OpenRequests()
    send(requests, "host", b'{"id":1,"method":"subscriptions/listen"}\n')
    send(requests, "host", b'{"id":2,"method":"ping"}\n')

    assert [ticket.method for ticket in requests.take_unfinished()] == ["ping"]
    assert requests.list_unfinished() == []
    assert list(requests.open) == [b"1"]


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

    assert hash_page("tools/list", pages[0]) != hash_page("tools/list", pages[1])


@pytest.mark.parametrize("cursor", ["null", '""'])
def test_a_last_page_may_say_so(cursor: str) -> None:
    plain = b'{"id":1,"result":{"tools":[]}}'
    spelled = f'{{"id":1,"result":{{"tools":[],"nextCursor":{cursor}}}}}'.encode()

    assert hash_page("tools/list", plain) == hash_page("tools/list", spelled)


def test_the_deepest_schema_has_a_hash() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000

    assert hash_page("tools/list", b'{"id":1,"result":{"tools":' + deep + b"}}\n")

"""Lines on a server's stdout that are not messages."""

from __future__ import annotations

import itertools
import json

import pytest
from broker_playbooks import Playbook, open_playbook
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_launch.broker import commands

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
messages = st.dictionaries(st.text(max_size=5), json_values, max_size=4).map(
    lambda value: json.dumps({"method": "notifications/x", **value}).encode()
)
# What people print: never the beginning of an object.
noise = st.binary(max_size=40).filter(lambda line: b"\n" not in line and b"{" not in line)
lines = st.lists(
    st.tuples(st.booleans(), st.sampled_from([b"\n", b"\r\n"])).flatmap(
        lambda kind: st.tuples(
            st.just(kind[0]), (messages if kind[0] else noise).map(lambda line: line + kind[1])
        )
    ),
    max_size=8,
)


def sort(playbook: Playbook, chunks: list[bytes]) -> tuple[bytes, bytes]:
    """Return what the host gets of a server's stdout, and what does not reach it."""
    for chunk in chunks:
        playbook.broker.server_said("server", chunk)
    done = playbook.broker.take_commands()
    passed = b"".join(one.data for one in done if isinstance(one, commands.SendToHost))
    return passed, b"".join(one.line for one in done if isinstance(one, commands.Divert))


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = sorted({0, len(data), *(one for one in cuts if one < len(data))})
    return [data[a:b] for a, b in itertools.pairwise(bounds)]


@settings(max_examples=200)
@given(lines=lines, cuts=st.lists(st.integers(0, 400), max_size=10))
def test_messages_pass_and_noise_does_not_however_it_is_cut(
    lines: list[tuple[bool, bytes]], cuts: list[int]
) -> None:
    data = b"".join(line for _, line in lines)

    passed, diverted = sort(open_playbook(), cut(data, cuts))

    assert passed == b"".join(line for is_message, line in lines if is_message)
    assert diverted == b"".join(line for is_message, line in lines if not is_message)


@settings(max_examples=100)
@given(
    size=st.integers(16_000, 17_000),
    cuts=st.lists(st.integers(0, 17_000), max_size=6),
    is_message=st.booleans(),
)
def test_a_long_line_is_a_message_or_not_however_it_is_cut(
    size: int,
    cuts: list[int],
    is_message: bool,  # hypothesis names it
) -> None:
    line = (b'{"result":"' if is_message else b"log: x ") + b"y" * size + b'"}\n'

    assert sort(open_playbook(), cut(line, cuts)) == ((line, b"") if is_message else (b"", line))


@pytest.mark.parametrize(
    "line",
    [
        b"Server started on stdio\n",
        b"[INFO] ready\n",
        b"\x1b[32mready\x1b[0m\n",
        b"{not json}\n",
        b"{\n",
        b'"text"\n',
        b"42\n",
        b"true\n",
        b"\n",
        b'{"a":1} trailing\n',
    ],
)
def test_noise(line: bytes) -> None:
    assert sort(open_playbook(), [line]) == (b"", line)


def test_noise_glued_to_a_message_is_cut_off() -> None:
    message = b'{"jsonrpc":"2.0","method":"notifications/x"}\n'

    assert sort(open_playbook(), [b"loading... " + message]) == (message, b"loading... \n")

"""Lines on a server's stdout that are not messages."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_launch.protocol.framing import StdoutGuard

if TYPE_CHECKING:
    from collections.abc import Callable


def make_guard(
    diverted: list[bytes] | None = None,
    note_message: Callable[[bytes], bytes] = bytes,
) -> StdoutGuard:
    """Return a guard that diverts noise into a list."""
    noise = [] if diverted is None else diverted

    def divert(_owner: None, line: bytes) -> None:
        noise.append(line)

    def note(_owner: None, line: bytes, _answered: bytes = b"") -> bytes:
        return note_message(line)

    def note_long(_owner: None, _head: bytes, _tail: bytes, _length: int) -> None:
        """Long lines are not looked at here."""

    return StdoutGuard(None, divert, note, note_long)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


messages = st.dictionaries(st.text(max_size=5), json_values, max_size=4).map(
    lambda value: json.dumps(value).encode()
)


# What people print: never the beginning of an object.
noise = st.binary(max_size=40).filter(
    lambda line: (
        b"\n" not in line and not line.lstrip().startswith((b"{", b"[")) and b"{" not in line
    )
)


endings = st.sampled_from([b"\n", b"\r\n"])


@st.composite
def outputs(draw: st.DrawFn) -> tuple[list[tuple[bool, bytes]], list[bytes]]:
    """Return lines, each marked as message or not, and the same bytes in chunks."""
    lines = [
        (is_message, draw(messages if is_message else noise) + draw(endings))
        for is_message in draw(st.lists(st.booleans(), max_size=8))
    ]
    data = b"".join(line for _, line in lines)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=10)))
    starts = [0, *cuts]
    return lines, [data[a:b] for a, b in zip(starts, [*cuts, len(data)], strict=True)]


@settings(max_examples=500)
@given(output=outputs())
def test_messages_pass_and_noise_does_not_however_it_is_cut(
    output: tuple[list[tuple[bool, bytes]], list[bytes]],
) -> None:
    lines, chunks = output
    diverted: list[bytes] = []
    guard = make_guard(diverted)

    passed = b"".join(guard.feed(chunk) for chunk in chunks if chunk) + guard.close()

    assert passed == b"".join(line for is_message, line in lines if is_message)
    assert b"".join(diverted) == b"".join(line for is_message, line in lines if not is_message)


@settings(max_examples=100)
@given(
    size=st.integers(16_000, 17_000),
    cuts=st.lists(st.integers(0, 17_000), max_size=6),
    is_message=st.booleans(),
)
def test_a_line_around_the_limit_is_whole_on_one_side(
    size: int,
    cuts: list[int],
    is_message: bool,  # hypothesis names it
) -> None:
    line = (b'{"x":"' if is_message else b"log: x ") + b"y" * size + b'"}\n'
    bounds = sorted({0, len(line), *(cut for cut in cuts if cut < len(line))})
    diverted: list[bytes] = []
    guard = make_guard(diverted)

    passed = b"".join(guard.feed(line[a:b]) for a, b in itertools.pairwise(bounds))

    assert (passed, b"".join(diverted)) == ((line, b"") if is_message else (b"", line))


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
    diverted: list[bytes] = []
    guard = make_guard(diverted)

    assert guard.feed(line) == b""
    assert diverted == [line]
    assert guard.noise_count == 1


def test_noise_glued_to_a_message_is_cut_off() -> None:
    diverted: list[bytes] = []
    guard = make_guard(diverted)

    assert guard.feed(b'loading... {"jsonrpc":"2.0","id":1,"result":{}}\n') == (
        b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    )
    assert diverted == [b"loading... \n"]


def test_a_long_line_that_was_cut_off_cannot_be_taken_for_an_answer() -> None:
    guard = make_guard()
    line = b'{"jsonrpc":"2.0","id":1,"result":{"text":"' + b"x" * 20_000 + b'"}}'

    passed = guard.feed(line[:18_000]) + guard.feed(line[18_000:]) + guard.close()

    assert passed == line + b" [cut off]"


def test_the_rest_of_a_line_that_was_cut_is_dropped() -> None:
    guard = make_guard()
    long = b'{"jsonrpc":"2.0","id":1,"result":"' + b"x" * 20_000

    assert guard.feed(long) == long
    assert guard.cut() == b" [cut off]\n"
    assert guard.feed(b'xx"}\n{"next":1}\n') == b'{"next":1}\n'

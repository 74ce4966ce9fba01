"""What Linux shows of processes besides the table: their threads, jobs and descriptors."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from mcp_launch.system import linux

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# No Linux has so many processes.
NOBODY = 1 << 30

ME = os.getpid()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_a_descriptor_shows_what_it_leads_to_and_how_it_is_open(pipe: tuple[int, int]) -> None:
    name = f"pipe:[{os.fstat(pipe[0]).st_ino}]"

    assert [linux.read_link(ME, fd) for fd in pipe] == [name, name]
    assert [linux.read_access_mode(ME, fd) for fd in pipe] == [os.O_RDONLY, os.O_WRONLY]
    assert (str(pipe[0]), name) in linux.list_links(ME)
    assert linux.shows_descriptors()
    share = linux.measure_share(ME)
    assert share is None or share > 0


def test_a_descriptor_can_be_opened_once_more(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"x")

    ours = linux.reopen("self", pipe[1], os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert os.read(ours, 2) == b"x"
        assert not os.get_inheritable(ours)
    finally:
        os.close(ours)


def test_nothing_is_known_of_a_process_that_is_not_there() -> None:
    assert linux.look(NOBODY) is None
    assert not linux.is_running(NOBODY)
    assert linux.measure_share(NOBODY) is None
    assert linux.list_links(NOBODY) == []
    assert linux.read_link(NOBODY, 0) == ""
    assert linux.read_access_mode(NOBODY, 0) == -1


@pytest.mark.parametrize(
    ("files", "size"),
    [
        ({"smaps_rollup": b"Pss: 9 kB\nSwap: 8 kB\nSwapPss: 4 kB\n"}, 4096),
        ({"smaps_rollup": b"Pss: 9 kB\nSwapPss: 0 kB\n", "status": b"VmSwap: 3 kB\n"}, 0),
        ({"status": b"VmRSS: 9 kB\nVmSwap:\t 3 kB\n"}, 3072),
        ({}, 0),
    ],
    ids=["shared out", "none", "only the whole is known", "ended"],
)
def test_what_is_swapped_out_is_measured(
    files: dict[str, bytes], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test machines have no swap space."""
    monkeypatch.setattr(linux, "_read", lambda path: files.get(path.rpartition("/")[2], b""))

    assert linux.measure_swapped(ME) == size

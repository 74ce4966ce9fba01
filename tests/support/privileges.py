"""Run something without root's privileges, even if the tests are run by root."""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    Result = TypeVar("Result")

_VERSION = 0x20080522  # of the interface, which takes two structures of three numbers


def run_unprivileged(act: Callable[[], Result]) -> Result:
    """Return the result of `act` without privileges.

    Capabilities are per thread, so a thread that drops all of them does not affect ours.
    """
    with ThreadPoolExecutor(1, initializer=_drop_rights) as executor:
        return executor.submit(act).result()


def _drop_rights() -> None:
    if os.geteuid() == 0:
        header = (ctypes.c_uint32 * 2)(_VERSION, 0)
        nothing = (ctypes.c_uint32 * 6)()
        assert ctypes.CDLL(None, use_errno=True).capset(header, nothing) == 0

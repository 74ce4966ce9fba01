"""The launcher, with every message to stderr and to the host replaced."""

from __future__ import annotations

import sys
from typing import Any

from mcp_launch import errors, launch, main, protocol, state
from mcp_launch.runtime import streams

make_refusal = protocol.make_refusal
make_failure = errors.ServerFailed.__init__


def reword(_: object) -> str:
    return "reworded"


def tell(error: errors.LaunchError, _: object) -> int:
    sys.stderr.write("reworded\n")
    return error.exit_code


def reword_refusal(line: bytes, _: str) -> bytes:
    return make_refusal(line, "reworded")


def reword_failure(self: errors.ServerFailed, problem: str, *, fix: str, exit_code: int) -> None:
    assert fix
    make_failure(self, problem, fix="reworded", exit_code=exit_code)


def replace(owner: Any, name: str, value: object) -> None:
    assert hasattr(owner, name)
    setattr(owner, name, value)


replace(state, "printable", reword)
replace(streams, "printable", reword)
replace(launch, "tell", tell)
replace(protocol, "make_refusal", reword_refusal)
replace(errors.ServerFailed, "__init__", reword_failure)

sys.exit(main())

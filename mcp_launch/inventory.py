"""A server that Codex starts for no thread, only to list its tools.

`mcpServerStatus/list`, behind the MCP page of Codex's IDE extension, starts every server in
CODEX_HOME, asks for its tools, and ends it. That is no session's place, but to refuse it
would show every server as broken there. What tells such a start from a thread whose
project is CODEX_HOME is the host's first message: a thread's `initialize` declares
experimental capabilities (Codex 0.154 and later), this one declares none. The server is
then started in an empty directory of ours, where it can do no harm.
"""

from __future__ import annotations

import os

from mcp_launch import jsontext, state
from mcp_launch.attending import CHUNK, wait_for_input
from mcp_launch.hosts.host import Found
from mcp_launch.opening import Opening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.context import Context
    from mcp_launch.errors import PlaceRefused

# How long to wait for the host's first message; Codex sends it at once.
_FIRST_MESSAGE_MS = 3000


def accept(refused: PlaceRefused, context: Context, environ: Mapping[str, str]) -> bytes:
    """Move the context to an empty directory; return what was read of the host's words.

    Raises:
        PlaceRefused: It is a session after all; what it asked is noted in the error.

    """
    said = _read_first_line()
    if not _is_threadless(said):
        opening = Opening()
        opening.leave_to(refused, opening.hear_lines(said))
        raise refused
    directory = f"{state.find_directory(environ)}/nowhere"
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError:
        raise refused from None
    context.move(Found(directory, "Codex lists the server's tools, for no thread"))
    return said


def _read_first_line() -> bytes:
    said = b""
    while b"\n" not in said and wait_for_input(_FIRST_MESSAGE_MS):
        data = os.read(0, CHUNK)
        if not data:
            break
        said += data
    return said


def _is_threadless(said: bytes) -> bool:
    try:
        first = jsontext.parse(said.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    parameters = first.get("params") if isinstance(first, dict) else None
    capabilities = parameters.get("capabilities") if isinstance(parameters, dict) else None
    return isinstance(capabilities, dict) and "experimental" not in capabilities

"""Variables that differ between two processes of the same host, whatever server they start."""

from __future__ import annotations

import os

from mcp_launch.hosts import IDENTITY_VARIABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Variables that a host sets to another value for each of its processes or windows.
_PROCESS_VARIABLES = (
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SSE_PORT",
    "QWEN_CODE_MESSAGING_SOCKET",
    "QWEN_CODE_MESSAGING_TOKEN",
)

# Parts of directories on PATH that a host makes for each of its processes, or fnm for each shell.
_PROCESS_DIRECTORIES = ("/codex-arg0", "/fnm_multishells/")


def drop_private_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what differs between two processes of the same host."""
    private = {name for names in IDENTITY_VARIABLES.values() for name in names}
    private.update(_PROCESS_VARIABLES)
    kept = {name: value for name, value in environ.items() if name not in private}
    if "PATH" in kept:
        kept["PATH"] = os.pathsep.join(
            one
            for one in kept["PATH"].split(os.pathsep)
            if not any(part in one for part in _PROCESS_DIRECTORIES)
        )
    return kept

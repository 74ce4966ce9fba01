"""Variables that differ between two processes of the same host, whatever server they start."""

from __future__ import annotations

import os

from mcp_launch.hosts import IDENTITY_VARIABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Variables that a host sets to another value for each of its processes or windows.
_PROCESS_VARIABLES = (
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SSE_PORT",
    "QWEN_CODE_MESSAGING_SOCKET",
    "QWEN_CODE_MESSAGING_TOKEN",
)

# A shorter id may occur in any text.
_ID_LENGTH = 16

# Parts of directories on PATH that a host makes for each of its processes, or fnm for each shell.
_PROCESS_DIRECTORIES = ("/codex-arg0", "/fnm_multishells/")

# Variables that say how a process of a host was started: in a terminal, by an editor, for one turn.
_START_VARIABLES = ("CLAUDE_CODE_ENTRYPOINT",)

# A directory on PATH with programs that Codex brings; its daemon has another copy than its command.
_BUNDLED = "/codex-path"


def drop_private_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what differs between two processes of the same host.

    A variable that contains the id of the session differs, too: hosts add such variables from one
    release to the next.
    """
    private = {name for names in IDENTITY_VARIABLES.values() for name in names}
    private.update(_PROCESS_VARIABLES)
    given = [environ[name] for name in private if name.endswith("_ID") and name in environ]
    ids = [value for value in given if len(value) >= _ID_LENGTH]
    kept = {
        name: value
        for name, value in environ.items()
        if name not in private and not any(one in value for one in ids)
    }
    return _filter_path(kept, lambda one: not any(part in one for part in _PROCESS_DIRECTORIES))


def drop_start_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what says how a process of a host was started."""
    return {name: value for name, value in environ.items() if name not in _START_VARIABLES}


def drop_bundled_directories(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the directories on PATH that a host brings with it."""
    return _filter_path(environ, lambda one: not one.endswith(_BUNDLED))


def _filter_path(environ: Mapping[str, str], is_kept: Callable[[str], bool]) -> dict[str, str]:
    kept = dict(environ)
    if "PATH" in kept:
        kept["PATH"] = os.pathsep.join(filter(is_kept, kept["PATH"].split(os.pathsep)))
    return kept

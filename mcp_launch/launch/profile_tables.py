"""Read the user's file of profiles, ~/.config/mcp-launch/config.toml.

It names commands to run, so nobody else may be able to write to it. Reading TOML would take as
long as the rest of a launch; what was read is kept in our state directory, with a digest of the
file. The digest is compared, not the time of the last change: some file systems store whole
seconds.
"""

from __future__ import annotations

import os
from stat import S_ISREG

from mcp_launch import state
from mcp_launch.errors import ProfileRefused
from mcp_launch.protocol import json_text
from mcp_launch.values import Variable, find_home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# The table that applies to every server.
DEFAULTS = "[defaults]"

# What was read from the file, in our state directory.
KEPT = "config.json"

# The format of what is kept; another version's is not read.
_VERSION = b"4\n"

# No real file is larger.
_TOO_LARGE = 256 << 10


class Table:
    """What one table of the file sets."""

    __slots__ = ("command", "literals", "options", "policies", "variables")

    def __init__(self, facts: dict[str, Any]) -> None:
        self.command: list[str] = facts["command"]
        self.options: dict[str, list[str] | None] = facts["options"]
        self.literals: dict[str, str] = facts["literals"]
        self.policies: dict[str, Any] = facts["policies"]
        self.variables = {name: Variable(*one) for name, one in facts["variables"].items()}


class UserFile:
    """The user's file; a table that is invalid stops only its own server."""

    __slots__ = ("defaults", "exists", "path", "refused", "servers")

    def __init__(self, path: str, content: dict[str, Any]) -> None:
        self.path = path
        self.exists = bool(content)
        defaults = content.get("defaults")
        self.defaults = Table(defaults) if defaults else None
        self.servers = {name: Table(one) for name, one in content.get("servers", {}).items()}
        self.refused = {
            name: ProfileRefused(problem, fix=fix, path=path, line=line, column=column)
            for name, (problem, fix, line, column) in content.get("refused", {}).items()
        }

    def list_names(self) -> list[str]:
        """Return the servers that have a table, valid or not."""
        return [*self.servers, *self.refused]

    def find_tables(self, server: str) -> dict[str, Table]:
        """Return the tables that apply to a server, by their names; the last takes precedence.

        Raises:
            ProfileRefused: The server's own is invalid.

        """
        if server in self.refused:
            raise self.refused[server]
        tables = {DEFAULTS: self.defaults, name_table(server): self.servers.get(server)}
        return {name: table for name, table in tables.items() if table}


def name_table(server: str) -> str:
    """Return the name of one server's table."""
    return f"[servers.{server}]"


def locate(environ: Mapping[str, str]) -> str:
    """Return the path of the file; XDG_* is ignored, as Codex does not pass it on."""
    return f"{find_home_directory(environ)}/.config/mcp-launch/config.toml"


def read(environ: Mapping[str, str]) -> UserFile:
    """Return what the file says; nothing if there is none.

    Raises:
        ProfileRefused: It is invalid as a whole, or others can write to it.

    """
    path = locate(environ)
    text = read_text(path)
    if text is None:
        return UserFile(path, {})
    digest = state.digest(_VERSION + path.encode("utf-8", "surrogateescape") + b"\n" + text)
    place = f"{state.find_directory(environ)}/{KEPT}"
    kept = _read_kept(place)
    if kept.get("digest") == digest:
        return UserFile(path, kept["content"])
    import json

    from mcp_launch.launch import profile_file

    content = profile_file.parse(text, path)
    try:
        # Fails as long as there is no state directory. A launch makes one, and no other command
        # leaves anything behind.
        state.write_whole(place, json.dumps({"digest": digest, "content": content}).encode())
    except OSError:
        pass  # the next launch reads the file itself, too
    return UserFile(path, content)


def _read_kept(place: str) -> dict[str, Any]:
    # A user who could write it could have this user run any command.
    content = state.read(place)
    try:
        kept: Any = json_text.parse(content) if content else {}
    except (ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def read_text(path: str) -> bytes | None:
    """Return the content of the file; None if there is none.

    Raises:
        ProfileRefused: It cannot be read, or another user could have this one run commands.

    """
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # it may be a pipe
        try:
            status = os.fstat(fd)
            if not S_ISREG(status.st_mode) or status.st_size > _TOO_LARGE:
                raise ProfileRefused(
                    f"{path} is not a regular file, or is larger than {_TOO_LARGE >> 10} KB",
                    fix="replace it with a smaller regular file, or remove it",
                )
            _refuse_if_others_can_write(path, status)
            with open(fd, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(fd)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ProfileRefused(
            f"{path} cannot be read: {error.strerror}", fix=f"run: chmod u+r {_quote(path)}"
        ) from None


def _refuse_if_others_can_write(path: str, status: os.stat_result) -> None:
    if not hasattr(os, "geteuid"):
        return  # Windows, where nothing is launched
    if status.st_uid not in {0, os.geteuid()}:
        raise ProfileRefused(f"{path} belongs to another user", fix="replace it with your own copy")
    if status.st_mode & state.OTHERS_CAN_WRITE:
        raise ProfileRefused(
            f"{path} can be written by other users", fix=f"run: chmod go-w {_quote(path)}"
        )


def _quote(path: str) -> str:
    import shlex  # only for a message

    return shlex.quote(path)

"""Which files speak for a server, and whether they may.

Only when a file has changed since its record was made is the file itself read.
"""

from __future__ import annotations

import os

from mcp_launch import records, trace
from mcp_launch.context import find_project_root
from mcp_launch.errors import ProfileRefused
from mcp_launch.hosts.host import Found, find_home_directory
from mcp_launch.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

USER_FILE = ".config/mcp-launch/config.toml"
PROJECT_FILE = ".mcp-launch.toml"


def find(
    server: str, environ: Mapping[str, str], place: str, *, is_launch: bool = True
) -> list[Record]:
    """Return what the user's file and the project's say, the more important last.

    Only a launch keeps records of files; who merely looks leaves nothing behind.
    """
    found = [
        look(server, environ, path, is_projects=at > 0, is_launch=is_launch)
        for at, path in enumerate(list_files(environ, place))
    ]
    return [record for record in found if record]


def list_known(environ: Mapping[str, str], place: str) -> list[str]:
    """Return the servers that any file has, as far as files were read."""
    files = map(os.path.realpath, list_files(environ, place))
    kept = [records.read(path, environ) for path in files]
    return [name for record in kept if record for name in record["servers"]]


def list_files(environ: Mapping[str, str], place: str) -> list[str]:
    """Return where the user's profiles would be, and behind it the project's."""
    root = find_project_root(place)
    own = [f"{root.value.rstrip('/')}/{PROJECT_FILE}"] if isinstance(root, Found) else []
    return [locate_user_file(environ), *own]


def locate_user_file(environ: Mapping[str, str]) -> str:
    """Return the path of the user's profiles; not below XDG_*, which Codex does not pass on."""
    return f"{find_home_directory(environ)}/{USER_FILE}"


def look(
    server: str, environ: Mapping[str, str], path: str, *, is_projects: bool, is_launch: bool
) -> Record | None:
    """Return what one file says.

    Raises:
        ProfileRefused: It makes no sense, or may not be used.

    """
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None  # there is none
    except OSError as error:
        raise ProfileRefused(
            f"{path} cannot be looked at: {error.strerror}", fix="let yourself read it"
        ) from None
    if not is_projects:
        refuse_if_others_can_write(path, status)
    path = os.path.realpath(path)
    kept = records.read(path, environ)
    if not kept or kept["stamp"] != records.make_stamp(status):
        from mcp_launch import recording

        try:
            if is_launch:
                kept = recording.keep(path, environ, kept, is_projects=is_projects)
            else:
                kept = recording.read(path, kept, is_projects=is_projects)
        except ProfileRefused as refused:
            if not is_projects or (kept and kept["trusted"]):
                raise
            trace.note(f"passes over {refused.problem}")  # nobody trusts it anyway
            return None
    told = kept["servers"].get(server)
    if told is None:
        return None
    if is_projects and not kept["trusted"]:
        raise ProfileRefused(
            f"{path} sets up the server {server}, but you have not said that you trust it"
            + (" since it was changed" if kept["was_trusted"] else ""),
            fix=f"read it, then run: mcp-launch trust {quote(path)}",
        )
    return Record(told)


def refuse_if_others_can_write(path: str, status: os.stat_result) -> None:
    """Refuse a file through which somebody else could run commands as this user."""
    if status.st_uid not in {0, os.geteuid()}:
        raise ProfileRefused(f"{path} belongs to another user", fix="replace it by one of your own")
    if status.st_mode & records.OTHERS_CAN_WRITE:
        raise ProfileRefused(
            f"{path} can be written by other users", fix=f"run: chmod go-w {quote(path)}"
        )


def quote(path: str) -> str:
    """Return a path as a shell takes it."""
    import shlex

    return shlex.quote(path)

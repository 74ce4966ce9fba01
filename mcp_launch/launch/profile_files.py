"""Which files speak for a server, and whether they may.

Only when a file has changed since its record was made is it parsed. Where there
is no file at all, which is most often so, not even the means to read records are loaded.
"""

from __future__ import annotations

import os

from mcp_launch.errors import ProfileRefused, ProfileUntrusted
from mcp_launch.launch.context import find_project_root, is_inside
from mcp_launch.values import Found, find_home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcp_launch.state.profile_cache import Record

USER_FILE = ".config/mcp-launch/config.toml"
PROJECT_FILE = ".mcp-launch.toml"

# The table of the user's file that speaks of every server.
DEFAULTS = "[defaults]"


def look_at_users(
    server: str, environ: Mapping[str, str], *, is_launch: bool = True
) -> dict[str, Record]:
    """Return what the user's file says: of every server, then of this one, by its tables.

    Only a launch keeps records of files; who merely looks leaves nothing behind.

    Raises:
        ProfileRefused: It makes no sense, or others can write it.

    """
    path = locate_user_file(environ)
    status = _look(path)
    if status is None:
        return {}
    refuse_if_others_can_write(path, status)
    kept = _read(path, environ, is_projects=False, is_launch=is_launch)
    from mcp_launch.state.profile_cache import Record

    told = {DEFAULTS: kept["defaults"], name_table(server): kept["servers"].get(server)}
    return {table: Record(one) for table, one in told.items() if one}


def look_at_projects(
    server: str, environ: Mapping[str, str], place: str, *, is_launch: bool = True
) -> Record | None:
    """Return what the file of the project in which a session works says of a server.

    Raises:
        ProfileUntrusted: It may not be used, and never was.
        ProfileRefused: It was used, and now makes no sense or is not trusted any more.

    """
    path = locate_project_file(place)
    if not path or not os.path.lexists(path):
        return None
    from mcp_launch.state import profile_cache

    before = profile_cache.read(path, environ)
    was_trusted = bool(before and (before["trusted"] or before["was_trusted"]))
    refusal = ProfileRefused if was_trusted else ProfileUntrusted
    try:
        refuse_foreign(path, place)
        if _look(path) is None:
            return None  # removed just now, or a link to nothing
        kept = _read(path, environ, is_projects=True, is_launch=is_launch)
    except ProfileRefused as refused:
        raise refusal(
            refused.without_place,
            fix=refused.fix,
            path=refused.path,
            line=refused.line,
            column=refused.column,
        ) from None
    told = kept["servers"].get(server)
    if told and not kept["trusted"]:
        since = " since it was changed" if kept["was_trusted"] else ""
        raise refusal(
            f"{path} sets up the server {server}, but you have not said that you trust it{since}",
            fix=f"read it, then run: mcp-launch trust {quote(path)}",
        )
    return profile_cache.Record(told) if told else None


def list_known(environ: Mapping[str, str], place: str) -> list[str]:
    """Return the servers that any file has, as far as files were read."""
    from mcp_launch.state import profile_cache

    files = (locate_user_file(environ), locate_project_file(place))
    kept = [profile_cache.read(path, environ) for path in files if path]
    return [name for record in kept if record for name in record["servers"]]


def name_table(server: str) -> str:
    """Return the table that speaks of one server."""
    return f"[servers.{server}]"


def locate_user_file(environ: Mapping[str, str]) -> str:
    """Return the path of the user's profiles; not below XDG_*, which Codex does not pass on."""
    return f"{find_home_directory(environ)}/{USER_FILE}"


def locate_project_file(place: str) -> str:
    """Return where the profiles of a session's project would be; nothing outside of projects.

    By the real path of the project: trust belongs to the directory, whatever leads to it.
    """
    root = find_project_root(place)
    if not isinstance(root, Found):
        return ""
    return os.path.join(os.path.realpath(root.value), PROJECT_FILE)


def refuse_foreign(path: str, place: str = "") -> None:
    """Refuse a project's file that is not the project's own, or not this session's.

    What a file says is run where the session works: words that are harmless in one project
    (`./tools/server`, `npm run mcp`) may run anything in another. So neither may a link bring
    in another project's file, nor one lead the session out of the project.

    Raises:
        ProfileRefused: It is a link out of the project, or the session is not in there.

    """
    root = os.path.dirname(path)
    if os.path.islink(path) and not is_inside(path, [root]):
        raise ProfileRefused(
            f"{path} is a link to {os.path.realpath(path)}, which is outside of the project",
            fix="replace the link by a file of the project's own",
        )
    if place and not is_inside(place, [root]):
        raise ProfileRefused(
            f"{path} is not used in {os.path.realpath(place)}, where a link led the session: "
            "that is outside of the project",
            fix="start the session in the project itself",
        )


def refuse_if_others_can_write(path: str, status: os.stat_result) -> None:
    """Refuse a file through which somebody else could run commands as this user."""
    from mcp_launch.state import OTHERS_CAN_WRITE

    if not hasattr(os, "geteuid"):
        return  # Windows, where nothing is launched
    if status.st_uid not in {0, os.geteuid()}:
        raise ProfileRefused(f"{path} belongs to another user", fix="replace it by one of your own")
    if status.st_mode & OTHERS_CAN_WRITE:
        raise ProfileRefused(
            f"{path} can be written by other users", fix=f"run: chmod go-w {quote(path)}"
        )


def _look(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None  # there is none
    except OSError as error:
        raise ProfileRefused(
            f"{path} cannot be read: {error.strerror}", fix=f"run: chmod u+r {quote(path)}"
        ) from None


def _read(
    path: str, environ: Mapping[str, str], *, is_projects: bool, is_launch: bool
) -> dict[str, Any]:
    """Return the record of a file as it is now."""
    from mcp_launch.state import profile_cache

    kept = profile_cache.read(path, environ)
    if kept and kept["digest"] == profile_cache.digest(profile_cache.read_file(path)):
        return kept
    from mcp_launch.launch import profile_reader

    if is_launch:
        return profile_reader.keep(path, environ, kept, is_projects=is_projects)
    return profile_reader.read(path, kept, is_projects=is_projects)


def quote(path: str) -> str:
    """Return a path as a shell takes it."""
    import shlex

    return shlex.quote(path)

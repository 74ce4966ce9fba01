"""The server's directory: which one it is, when it is refused, and what is noted of it.

A host that was started in the home directory or in `/` has its servers there, as it had
without us. Hardly any session means such a directory, so it is noted; it is refused only
where the host's own record says that the session works elsewhere, and with `--strict`.

| `--cwd` | the directory | a home or `/` |
| --- | --- | --- |
| `session` | the session's | noted; refused if the host's record names another, or `--strict` |
| `project_root` | the root of the project around it | the same |
| `keep`, DIR | the user's own choice | accepted |

A directory that does not exist is refused if the user named it, or with `--strict`. The host's
own word for a directory that is gone (a worktree that was removed) is not worth a server that
worked without us: it starts where the host started us, even if that has been deleted, too.
"""

from __future__ import annotations

import os

from mcp_launch.errors import PlaceRefused, suggest
from mcp_launch.values import Found, Missing, expand_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.launch.context import Context

# What `--cwd` takes besides a directory.
PLACES = ("session", "project_root", "keep")

# Those of them that leave it to the host where that is.
_FOUND = ("session", "project_root")


def decide_cwd(
    wanted: str,
    context: Context,
    is_directory: Callable[[str], bool] = os.path.isdir,
    *,
    origin: str = "--cwd",
    is_strict: bool = False,
) -> Found:
    """Return the server's directory; `origin` is where a directory was named.

    Raises:
        PlaceRefused: It does not exist, or is not the session's.

    """
    if wanted == "keep":
        cwd = Found(context.inherited_cwd.value, "inherited, as --cwd keep asks")
    elif wanted == "session":
        cwd = context.place
    elif wanted == "project_root":
        cwd = _require_root(context)
    else:
        cwd = Found(_expand(wanted, context), origin)
    if cwd.value and note_home(wanted, cwd, context):
        _judge_home(cwd, context, is_strict=is_strict)
    if cwd.value and is_directory(cwd.value):
        return cwd
    if wanted in {"session", "keep"} and not is_strict:
        return _stay(cwd, context, is_directory)
    raise _refuse_missing(wanted, cwd)


def _stay(cwd: Found, context: Context, is_directory: Callable[[str], bool]) -> Found:
    """Return where we were started, by an empty name if that has been deleted."""
    inherited = context.inherited_cwd.value
    origin = "inherited"
    if cwd.value and cwd.value != inherited:
        origin += f"; {cwd.value} ({cwd.origin}) does not exist"
    return Found(inherited if inherited and is_directory(inherited) else "", origin)


def _refuse_missing(wanted: str, cwd: Found) -> PlaceRefused:
    if not cwd.value:
        return PlaceRefused(
            "the directory in which the host started mcp-launch was deleted",
            fix="restart the host in a directory that exists, or name one: --cwd DIR",
        )
    meant = "" if wanted in PLACES else suggest(wanted, PLACES)
    return PlaceRefused(
        f"the server's directory {cwd.value} ({cwd.origin}) "
        + ("is a file" if os.path.exists(cwd.value) else "does not exist"),
        fix=f"{meant}create it, or name another directory: --cwd DIR",
    )


def note_home(wanted: str, cwd: Found, context: Context) -> str:
    """Return which home the server's directory is, unless the user chose it; else nothing."""
    if not cwd.value:
        return "a deleted directory"
    return context.name_home(cwd.value) if wanted in _FOUND else ""


def _judge_home(cwd: Found, context: Context, *, is_strict: bool) -> None:
    home, elsewhere = context.name_home(cwd.value), context.contradiction
    if elsewhere is not None:
        raise PlaceRefused(
            f"{context.host_title} gave the server {cwd.value} ({cwd.origin}), {home}, but the "
            f"session works in {elsewhere.value} ({elsewhere.origin})",
            fix=f"name the directory: --cwd {elsewhere.value}, or --cwd keep for {cwd.value}",
        )
    if is_strict:
        raise PlaceRefused(
            f"{context.host_title} gave the server {cwd.value} ({cwd.origin}): {home} is not a "
            "project (--strict)",
            fix="start the host in a project, leave out --strict, or name the directory: "
            f"--cwd {cwd.value}",
        )


def _require_root(context: Context) -> Found:
    root = context.project_root
    if isinstance(root, Missing):
        raise PlaceRefused(
            f"there is no project root: {'; '.join(root.searched)}",
            fix="use --cwd session, or put an empty .mcp-launch.toml at the project's root",
        )
    return Found(root.value, f"project root: {root.origin}")


def _expand(wanted: str, context: Context) -> str:
    directory = expand_home(wanted, context.home)
    return os.path.normpath(os.path.join(context.place.value, directory))

"""Find out whether Git tracks a file, so that others who clone the repository get it too.

Git is not run: it would run commands that the repository's own configuration names, and a
repository may have come in an archive from anyone. We read the index ourselves.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.config_files import git_index
from mcp_launch.config_files.git_index import IndexUnreadable
from mcp_launch.values import walk_upward

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.git_index import Answer

# No repository's configuration is this large; the file is something else.
_TOO_LARGE = 1 << 20


def is_tracked(path: str) -> bool:
    """Return whether Git tracks a file, or may: for callers that write the file.

    True also where it is unknown: the index is damaged, or lists a whole directory by its name
    alone. Callers that report the fact use `judge`.
    """
    return judge(path) != "no"


def judge(path: str) -> Answer:
    """Return whether Git tracks a file; of a link, whether it tracks the target."""
    path = os.path.realpath(path)
    try:
        found = _find_repository(os.path.dirname(path))
        if found is None:
            return "no"
        top, git_directory = found
        common = _find_common(git_directory)
        settings = _read_settings(git_directory, common)
        if "core.worktree" in settings and common == git_directory:
            top = os.path.realpath(os.path.join(git_directory, settings["core.worktree"]))
        if os.path.commonpath([top, path]) != top:
            return "no"  # the work tree is elsewhere
        name = os.fsencode(os.path.relpath(path, top).replace(os.sep, "/"))
        hash_format = settings.get("extensions.objectformat", "sha1")
        return git_index.look_up(git_directory, hash_format, name)
    except (IndexUnreadable, ValueError):
        return "unknown"


def _find_repository(directory: str) -> tuple[str, str] | None:
    """Return the nearest enclosing work tree, and its Git directory."""
    for top in walk_upward(directory):
        inner = os.path.join(top, ".git")
        if os.path.isfile(inner):  # of a worktree or a submodule
            return top, _follow(inner, top)
        if _is_git_directory(inner):
            return top, inner
    return None


def _is_git_directory(directory: str) -> bool:
    """Return whether Git would take a directory called `.git` for a repository."""
    try:
        common = _find_common(directory)
    except IndexUnreadable:
        return os.path.isdir(directory)
    return os.path.lexists(os.path.join(directory, "HEAD")) and all(
        os.path.isdir(os.path.join(common, name)) for name in ("objects", "refs")
    )


def _follow(file: str, directory: str) -> str:
    text = _read_text(file)
    word, _, target = text.partition(":")
    if word != "gitdir" or not target.strip():
        raise IndexUnreadable(f"{file} does not name a Git directory")
    found = os.path.join(directory, target.strip())
    if not os.path.isdir(found):
        raise IndexUnreadable(f"{found} does not exist")
    return found


def _find_common(git_directory: str) -> str:
    """Return the Git directory that a worktree shares with others."""
    path = os.path.join(git_directory, "commondir")
    if not os.path.isfile(path):
        return git_directory
    return os.path.join(git_directory, _read_text(path).strip())


def _read_settings(git_directory: str, common: str) -> dict[str, str]:
    """Return the repository's settings by `section.key`, from the two files that describe it."""
    settings: dict[str, str] = {}
    for path in (os.path.join(common, "config"), os.path.join(git_directory, "config.worktree")):
        if os.path.exists(path):
            settings |= dict(_list_settings(_read_text(path)))
    return settings


def _list_settings(text: str) -> Iterator[tuple[str, str]]:
    """Return the settings of a Git configuration that are on one line each.

    A setting may follow its section's header on the same line. Quotes and escapes in values
    are handled, since a path may need them.
    """
    section = ""
    for line in text.splitlines():
        rest = line.strip()
        if rest.startswith("["):
            heading, _, rest = rest[1:].partition("]")
            section = heading.strip().lower()
            rest = rest.strip()
        key, equals, value = rest.partition("=")
        if rest and rest[0] not in "#;":
            yield f"{section}.{key.strip().lower()}", _unquote(value.strip()) if equals else "true"


def _unquote(value: str) -> str:
    plain = ""
    is_quoted = False
    characters = iter(value)
    for one in characters:
        if one == "\\":
            plain += next(characters, "")
        elif one == '"':
            is_quoted = not is_quoted
        elif one in "#;" and not is_quoted:
            break
        else:
            plain += one
    return plain.strip()


def _read_text(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(fd, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(_TOO_LARGE)
    except OSError as error:
        raise IndexUnreadable(f"{path}: {error.strerror}") from None
    if len(text) == _TOO_LARGE:
        raise IndexUnreadable(f"{path} is too large")
    return text

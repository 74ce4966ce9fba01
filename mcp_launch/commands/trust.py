"""`mcp-launch trust`: allow a project's profile file to be used, as it is now."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from mcp_launch.errors import ProfileRefused, UsageError
from mcp_launch.launch import profile_reader
from mcp_launch.launch.context import find_current_project
from mcp_launch.launch.profile import PROJECT_FILE, refuse_foreign
from mcp_launch.state import profile_cache

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def locate(wanted: str) -> str:
    """Return the profile file for a file, a directory, or "" for the current project.

    Raises:
        UsageError: There is no such file.
        ProfileRefused: The file does not belong to the project.

    """
    path = wanted or find_current_project(os.environ)
    if os.path.isdir(path):
        path = os.path.join(path, PROJECT_FILE)
    if not os.path.isfile(path) or os.path.basename(path) != PROJECT_FILE:
        raise UsageError(
            f"there is no {PROJECT_FILE} at {path}",
            fix=f"name the file: mcp-launch trust DIRECTORY/{PROJECT_FILE}",
        )
    # Trust belongs to the project's directory, whatever path leads there.
    path = os.path.join(os.path.realpath(os.path.dirname(path)), PROJECT_FILE)
    refuse_foreign(path)
    return path


def locate_kept(wanted: str) -> str:
    """Return the profile file for a file, a directory, or ""; it may no longer exist."""
    path = wanted or find_current_project(os.environ)
    if os.path.basename(path) != PROJECT_FILE:
        path = os.path.join(path, PROJECT_FILE)
    return os.path.join(os.path.realpath(os.path.dirname(path)), PROJECT_FILE)


def forget(path: str, environ: Mapping[str, str]) -> bool:
    """Stop trusting a file, even if it is gone; return False if it was not trusted.

    Raises:
        ProfileRefused: The decision cannot be stored.

    """
    record = profile_cache.read(path, environ)
    if record is None or not (record["trusted"] or record["was_trusted"]):
        return False
    decide(record, environ, is_trusted=False)
    return True


def read(path: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return a file's profiles, and whether it is trusted."""
    return profile_reader.keep(path, environ, profile_cache.read(path, environ), is_projects=True)


def describe(record: dict[str, Any]) -> Iterator[str]:
    """Return lines about everything that a file would do."""
    for name, profile in record["servers"].items():
        yield f"{name}: {shlex.join(profile['command']) or '(no command of its own)'}"
        for option, texts in profile["options"].items():
            yield f"  {' '.join([option, *texts]) if texts is not None else f'no {option}'}"
        for variable, text in profile["literals"].items():
            yield f"  {variable}={text}"
        for variable, (source, sought, default, _) in profile["variables"].items():
            yield (
                f"  {variable} from {source}"
                + (f" ({sought})" if sought != variable else "")
                + (f", or {default!r}" if default is not None else "")
            )


def decide(record: dict[str, Any], environ: Mapping[str, str], *, is_trusted: bool) -> None:
    """Store whether a file is trusted.

    Raises:
        ProfileRefused: The decision cannot be stored.

    """
    if not profile_reader.write(record | {"trusted": is_trusted, "was_trusted": False}, environ):
        directory = os.path.dirname(profile_cache.name_record(record["path"], environ))
        raise ProfileRefused(
            f"{directory} is not writable", fix="free disk space, or fix its permissions"
        )

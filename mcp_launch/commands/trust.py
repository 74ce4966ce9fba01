"""Say that a project's profiles may be used: for this file, as it is now."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from mcp_launch.errors import ProfileRefused, UsageError
from mcp_launch.launch import profile_reader
from mcp_launch.launch.context import find_project
from mcp_launch.launch.profile import PROJECT_FILE, refuse_foreign
from mcp_launch.state import profile_cache

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def locate(wanted: str) -> str:
    """Return the file that a person means by a file, a directory, or nothing.

    Raises:
        UsageError: There is none.
        ProfileRefused: It is not the project's own.

    """
    path = wanted or find_project(os.environ)
    if os.path.isdir(path):
        path = os.path.join(path, PROJECT_FILE)
    if not os.path.isfile(path) or os.path.basename(path) != PROJECT_FILE:
        raise UsageError(
            f"there is no {PROJECT_FILE} at {path}",
            fix=f"name the file: mcp-launch trust DIRECTORY/{PROJECT_FILE}",
        )
    # Trust belongs to the project's directory, whatever leads to it.
    path = os.path.join(os.path.realpath(os.path.dirname(path)), PROJECT_FILE)
    refuse_foreign(path)
    return path


def locate_kept(wanted: str) -> str:
    """Return the file that a person means, which need not be there any more."""
    path = wanted or find_project(os.environ)
    if os.path.basename(path) != PROJECT_FILE:
        path = os.path.join(path, PROJECT_FILE)
    return os.path.join(os.path.realpath(os.path.dirname(path)), PROJECT_FILE)


def forget(path: str, environ: Mapping[str, str]) -> bool:
    """Take trust back, whatever has become of the file; False if there was none.

    Raises:
        ProfileRefused: It cannot be noted.

    """
    record = profile_cache.read(path, environ)
    if record is None or not (record["trusted"] or record["was_trusted"]):
        return False
    decide(record, environ, is_trusted=False)
    return True


def read(path: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what a file says, and whether it is trusted."""
    return profile_reader.keep(path, environ, profile_cache.read(path, environ), is_projects=True)


def describe(record: dict[str, Any]) -> Iterator[str]:
    """Tell all that a file would do."""
    for name, told in record["servers"].items():
        yield f"{name}: {shlex.join(told['command']) or '(no command of its own)'}"
        for option, texts in told["options"].items():
            yield f"  {' '.join([option, *texts]) if texts is not None else f'no {option}'}"
        for variable, text in told["literals"].items():
            yield f"  {variable}={text}"
        for variable, (source, sought, default, _) in told["variables"].items():
            yield (
                f"  {variable} from {source}"
                + (f" ({sought})" if sought != variable else "")
                + (f", or {default!r}" if default is not None else "")
            )


def decide(record: dict[str, Any], environ: Mapping[str, str], *, is_trusted: bool) -> None:
    """Note whether a file is trusted.

    Raises:
        ProfileRefused: It cannot be noted.

    """
    if not profile_reader.write(record | {"trusted": is_trusted, "was_trusted": False}, environ):
        directory = os.path.dirname(profile_cache.name_record(record["path"], environ))
        raise ProfileRefused(
            f"{directory} is not writable", fix="free disk space, or fix its permissions"
        )

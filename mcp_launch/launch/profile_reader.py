"""Parse a profile file and keep a record of it, which a launch can read quickly.

Only here is TOML parsed on the launch path: for a file that is new or has changed.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from mcp_launch import state
from mcp_launch.launch import profile_file
from mcp_launch.state import profile_cache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.errors import ProfileRefused


def keep(
    path: str, environ: Mapping[str, str], before: dict[str, Any] | None, *, is_projects: bool
) -> dict[str, Any]:
    """Parse a file, keep a record of it, and return the record."""
    record = read(path, before, is_projects=is_projects)
    write(record, environ)
    return record


def read(path: str, before: dict[str, Any] | None, *, is_projects: bool) -> dict[str, Any]:
    """Parse a file and return its record; trust ends when the content changes."""
    content = profile_cache.read_file(path)
    digest = profile_cache.digest(content)
    was_trusted = bool(before and before["trusted"])
    # A project's file is trusted, or not, as a whole.
    refused: dict[str, ProfileRefused] | None = None if is_projects else {}
    parsed = profile_file.parse(content, path, is_projects=is_projects, refused=refused)
    if refused:
        parsed["refused"] = {
            name: [one.without_place, one.fix, one.line, one.column]
            for name, one in refused.items()
        }
    return {
        "version": profile_cache.VERSION,
        "path": path,
        "digest": digest,
        "trusted": was_trusted and before is not None and before["digest"] == digest,
        "was_trusted": was_trusted or bool(before and before["was_trusted"]),
        **parsed,
    }


def write(record: dict[str, Any], environ: Mapping[str, str]) -> bool:
    """Write a record; return False if that fails, which a launch can live with."""
    name = profile_cache.name_record(record["path"], environ)
    try:
        state.make_private(os.path.dirname(name))
        state.write_whole(name, json.dumps(record).encode())
    except OSError:
        return False  # the disk is full, or the home is not writable
    return True

"""Which files we wrapped, wherever they are: that is how `unwrap --all` finds them again.

One JSON file in our state directory. A file is entered before it is written and taken out
when nothing of ours is in it any more, so that a crash leaves an entry too many rather than
one too few; whoever reads an entry looks at the file itself. What another version added to
an entry is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
import time
from typing import TYPE_CHECKING, Any, cast

from mcp_launch.config_files.host_config import File

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.host_config import HostConfig
    from mcp_launch.documents.document import Kind

NAME = "wrapped.json"
# What could not be understood is kept under this name when a new one is begun.
UNREADABLE = f"{NAME}.unreadable"

_VERSION = 1
_KINDS = ("toml", "json", "yaml")
_OTHERS_CAN_WRITE = 0o022


def list_files(directory: str) -> Iterator[tuple[str, File]]:
    """Return every recorded file, with the name of its host."""
    for path, entry in _read(directory)["files"].items():
        file = _make_file(path, entry)
        if file is not None:
            yield str(entry.get("host")), file


def note(directory: str, host: HostConfig, file: File) -> None:
    """Record that a file is wrapped.

    Raises:
        OSError: It cannot be recorded.

    """
    registry = _read(directory)
    path = os.path.realpath(file.path)
    before = registry["files"].get(path)
    entry = before if isinstance(before, dict) else {"since": time.time()}
    told = {
        "host": host.name,
        "path": file.path,
        "scope": file.scope,
        "kind": file.kind,
        "servers": [list(servers) for servers in file.servers],
        "lock": file.lock,
    }
    if entry.items() >= told.items():
        return
    registry["files"][path] = entry | told
    _write(directory, registry)


def forget(directory: str, path: str) -> None:
    """Record that nothing of ours is in a file any more.

    Raises:
        OSError: It cannot be recorded.

    """
    registry = _read(directory)
    if registry["files"].pop(os.path.realpath(path), None) is not None:
        _write(directory, registry)


def list_gone(directory: str) -> list[str]:
    """Return the recorded files that do not exist any more, or not where they were."""
    return [path for path in _read(directory)["files"] if is_gone(path)]


def is_gone(path: str) -> bool:
    """Tell whether a file is not there; not if that cannot be seen."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass  # a directory above it is closed to us: it may well be there
    return False


def forget_gone(directory: str, *, is_everywhere: bool = False) -> list[str]:
    """Forget the files that were removed, and return them.

    Without `is_everywhere` only those whose directory is still there: a project that is gone
    as a whole may be on a disk that is not mounted.

    Raises:
        OSError: It cannot be recorded.

    """
    registry = _read(directory)
    gone = [
        path
        for path in registry["files"]
        if is_gone(path) and (is_everywhere or os.path.isdir(os.path.dirname(path)))
    ]
    for path in gone:
        del registry["files"][path]
    if gone:
        _write(directory, registry)
    return gone


def _read(directory: str) -> dict[str, Any]:
    """Return the whole registry; an empty one where there is none that can be believed."""
    name = os.path.join(directory, NAME)
    empty: dict[str, Any] = {"version": _VERSION, "files": {}}
    try:
        with open(name, "rb", opener=_open_no_link) as file:
            places = (os.fstat(file.fileno()), os.stat(directory))
            told = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return empty
    # Whoever else can write it could name any file for us to change.
    is_ours = stat.S_ISREG(places[0].st_mode) and all(map(_is_own, places))
    if not is_ours or not isinstance(told, dict) or not isinstance(told.get("files"), dict):
        return empty
    return told


def _is_own(status: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return True  # Windows
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_CAN_WRITE


def _open_no_link(path: str, flags: int) -> int:
    # Without O_NONBLOCK a pipe in its place would be waited for.
    more = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags | more)


def _make_file(path: str, entry: object) -> File | None:
    """Return a file as it was recorded; None where that makes no sense."""
    if not isinstance(entry, dict) or not os.path.isabs(path):
        return None
    servers, kind = entry.get("servers"), entry.get("kind")
    texts = [entry.get(key) for key in ("path", "scope", "lock")]
    is_plain = all(isinstance(text, str) for text in texts) and kind in _KINDS
    if not is_plain or not isinstance(servers, list):
        return None
    if not all(isinstance(steps, list) and all(map(_is_step, steps)) for steps in servers):
        return None
    named, scope, lock = map(str, texts)
    # A link that points elsewhere by now is another file.
    shown = named if os.path.realpath(named) == path else path
    tables = tuple(tuple(steps) for steps in servers)
    return File(shown, scope, cast("Kind", kind), tables, lock=lock)


def _is_step(step: object) -> bool:
    return isinstance(step, str)


def _write(directory: str, registry: dict[str, Any]) -> None:
    name = os.path.join(directory, NAME)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    _keep_unreadable(name)
    draft = f"{name}.draft-{secrets.token_hex(16)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        with open(os.open(draft, flags, 0o600), "w", encoding="utf-8") as file:
            json.dump(registry, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def _keep_unreadable(name: str) -> None:
    """Move a registry away that somebody damaged: it may still tell a person what was wrapped."""
    try:
        with open(name, "rb", opener=_open_no_link) as file:
            json.loads(file.read())
    except (ValueError, RecursionError):
        os.replace(name, f"{os.path.dirname(name)}/{UNREADABLE}")
    except OSError:
        pass  # there is none, or it is not ours to read: it is replaced

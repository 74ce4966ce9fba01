"""Which files we wrapped, wherever they are: that is how `unwrap --all` finds them again.

One JSON file in our state directory. A file is entered before it is written and taken out
when nothing of ours is in it any more, so that a crash leaves an entry too many rather than
one too few; whoever reads an entry looks at the file itself. What another version added to
an entry is kept. A record that somebody else may have written is not believed, and not taken
for an empty one either: nothing is written over it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import stat
import time
from typing import TYPE_CHECKING, Any, cast

from mcp_launch import state
from mcp_launch.config_files.host_config import File
from mcp_launch.errors import FileRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.host_config import HostConfig
    from mcp_launch.documents.document import Kind

NAME = "wrapped.json"
# What could not be understood is kept under this name when a new one is begun.
UNREADABLE = f"{NAME}.unreadable"

_VERSION = 1
# In the entry of a file that is gone: do not name it, unless it comes back.
_FORGOTTEN = "forgotten"

_KINDS = ("toml", "json", "yaml")


class _Damaged(FileRefused):
    """The record is ours, and cannot be understood."""


def list_files(directory: str) -> Iterator[tuple[str, File]]:
    """Return every recorded file, with the name of its host.

    None if the record is not to be believed; `list_doubts` says so.
    """
    for path, entry in _list_entries(directory).items():
        file = _make_file(path, entry)
        if file is not None and not (_is_forgotten(entry) and is_gone(path)):
            yield str(entry.get("host")), file


def list_doubts(directory: str) -> list[FileRefused]:
    """Return why it is not known what was wrapped: records that are damaged, or not believed."""
    doubts = []
    try:
        _read(directory)
    except FileRefused as refused:
        doubts.append(refused)
    aside = os.path.join(directory, UNREADABLE)
    if os.path.lexists(aside):
        doubts.append(_tell_damage(aside))
    return doubts


def check(directory: str) -> None:
    """See that something can be recorded.

    Raises:
        FileRefused: There is a record that others may have written.

    """
    with contextlib.suppress(_Damaged):  # which is set aside
        _read(directory)


def note(directory: str, host: HostConfig, file: File) -> None:
    """Record that a file is wrapped.

    Raises:
        FileRefused: There is a record that others may have written.
        OSError: It cannot be recorded.

    """
    state.make_directory(directory)
    try:
        registry = _read(directory)
    except _Damaged:
        # It may still show a person what was wrapped.
        os.replace(os.path.join(directory, NAME), os.path.join(directory, UNREADABLE))
        registry = _make_empty()
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
    is_back = entry.pop(_FORGOTTEN, None) is not None
    if entry.items() >= told.items() and not is_back:
        return
    registry["files"][path] = entry | told
    _write(directory, registry)


def forget(directory: str, path: str) -> None:
    """Record that nothing of ours is in a file any more.

    Raises:
        FileRefused: The record is damaged, or others may have written it.
        OSError: It cannot be recorded.

    """
    registry = _read(directory)
    if registry["files"].pop(os.path.realpath(path), None) is not None:
        _write(directory, registry)


def list_gone(directory: str) -> list[str]:
    """Return the recorded files that do not exist any more, or not where they were."""
    return [
        path
        for path, entry in _list_entries(directory).items()
        if is_gone(path) and not _is_forgotten(entry)
    ]


def list_forgotten(directory: str) -> list[str]:
    """Return the files that are gone and are not named any more."""
    return [
        path
        for path, entry in _list_entries(directory).items()
        if is_gone(path) and _is_forgotten(entry)
    ]


def is_gone(path: str) -> bool:
    """Tell whether a file is not there; not if that cannot be seen."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass  # a directory above it is closed to us: it may well be there
    return False


def forget_gone(directory: str, told: list[str]) -> list[str]:
    """Stop naming files that are gone, of which the user was told; return them.

    What is on record stays there: a file may come back, with another branch or with the disk
    that it is on, and is found again.

    Raises:
        FileRefused: The record is damaged, or others may have written it.
        OSError: It cannot be recorded.

    """
    registry = _read(directory)
    entries = registry["files"]
    gone = [path for path in told if isinstance(entries.get(path), dict) and is_gone(path)]
    for path in gone:
        entries[path][_FORGOTTEN] = True
    if gone:
        _write(directory, registry)
    return gone


def _is_forgotten(entry: object) -> bool:
    return isinstance(entry, dict) and bool(entry.get(_FORGOTTEN))


def _list_entries(directory: str) -> dict[str, Any]:
    """Return what is recorded, by path; nothing where that is not to be believed."""
    try:
        entries: dict[str, Any] = _read(directory)["files"]
    except FileRefused:
        return {}
    return entries


def _make_empty() -> dict[str, Any]:
    return {"version": _VERSION, "files": {}}


def _read(directory: str) -> dict[str, Any]:
    """Return the whole registry; an empty one where there is none.

    Raises:
        FileRefused: It is damaged, or others may have written it.

    """
    name = os.path.join(directory, NAME)
    try:
        with open(name, "rb", opener=_open_no_link) as file:
            _refuse_foreign(name, os.fstat(file.fileno()), os.stat(directory))
            told = json.loads(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return _make_empty()
    except OSError as error:
        raise FileRefused(
            f"{name}, the record of what was wrapped, cannot be read: {error.strerror}",
            fix=f"look at it, and move it away if it is not yours: {name}",
        ) from None
    except (ValueError, RecursionError):
        raise _tell_damage(name) from None
    if not isinstance(told, dict) or not isinstance(told.get("files"), dict):
        raise _tell_damage(name)
    return told


def _refuse_foreign(name: str, status: os.stat_result, above: os.stat_result) -> None:
    """Refuse what others can write: they could name any file for us to change."""
    directory = os.path.dirname(name)
    problem = f"{name}, the record of what was wrapped, is not believed: "
    if not stat.S_ISREG(status.st_mode):
        raise FileRefused(f"{problem}it is not a regular file", fix=f"move {name} away")
    for path, one in ((directory, above), (name, status)):
        if not state.is_own(one):
            raise FileRefused(
                f"{problem}other users can write {path}",
                fix=f"if it is yours, run: chmod go-w {shlex.quote(path)}; if not, move it away",
            )


def _tell_damage(name: str) -> _Damaged:
    return _Damaged(
        f"{name}, the record of what was wrapped, is damaged: wrapped files may be missing from it",
        fix=f"unwrap the files that it names (mcp-launch unwrap --file FILE), then remove {name}",
    )


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
    text = json.dumps(registry, indent=2)
    state.write_whole(os.path.join(directory, NAME), text.encode(), is_lasting=True)

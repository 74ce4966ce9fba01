"""The record of the files that we wrapped, wherever they are, so `unwrap --all` finds them.

One JSON file in our state directory. A file is added before it is written and removed once it
has no wrapped entries, so a crash leaves an entry too many rather than one too few; readers
of an entry check the file itself. Keys that another version added to an entry are kept. A
record that other users may have written is not trusted, but not treated as empty either: it
is never overwritten.
"""

from __future__ import annotations

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

_VERSION = 1

_KINDS = ("toml", "json", "yaml")


def list_files(directory: str) -> Iterator[tuple[str, File]]:
    """Return every recorded file, with the name of its host.

    Empty if the record is not trusted; `check` says why.
    """
    for path, entry in _list_entries(directory).items():
        file = _make_file(path, entry)
        if file is not None:
            yield str(entry.get("host")), file


def check(directory: str) -> None:
    """Check that the record can be read, or that there is none.

    Raises:
        FileRefused: It is damaged, or other users may have written it.

    """
    _read(directory)


def note(directory: str, host: HostConfig, file: File) -> None:
    """Record that a file is wrapped.

    Raises:
        FileRefused: The record is damaged, or other users may have written it.
        OSError: The record cannot be written.

    """
    state.make_directory(directory)
    registry = _read(directory)
    path = os.path.realpath(file.path)
    before = registry["files"].get(path)
    entry = before if isinstance(before, dict) else {"since": time.time()}
    facts = {
        "host": host.name,
        "path": file.path,
        "scope": file.scope,
        "kind": file.kind,
        "servers": [list(servers) for servers in file.servers],
        "lock": file.lock,
        "has_lists": file.has_lists,
    }
    if entry.items() >= facts.items():
        return
    registry["files"][path] = entry | facts
    _write(directory, registry)


def forget(directory: str, path: str) -> None:
    """Record that a file has no wrapped entries any more.

    Raises:
        FileRefused: The record is damaged, or other users may have written it.
        OSError: The record cannot be written.

    """
    registry = _read(directory)
    if registry["files"].pop(os.path.realpath(path), None) is not None:
        _write(directory, registry)


def list_gone(directory: str) -> list[str]:
    """Return the recorded files that are no longer at their paths."""
    return [path for path in _list_entries(directory) if is_gone(path)]


def is_gone(path: str) -> bool:
    """Return whether a file provably does not exist."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass  # we may not enter a directory above it: the file may exist
    return False


def _list_entries(directory: str) -> dict[str, Any]:
    """Return the recorded entries by path; empty if the record is not trusted."""
    try:
        entries: dict[str, Any] = _read(directory)["files"]
    except FileRefused:
        return {}
    return entries


def _make_empty() -> dict[str, Any]:
    return {"version": _VERSION, "files": {}}


def _read(directory: str) -> dict[str, Any]:
    """Return the whole record; an empty one if there is no file.

    Raises:
        FileRefused: It is damaged, or other users may have written it.

    """
    name = os.path.join(directory, NAME)
    try:
        with open(name, "rb", opener=_open_no_link) as file:
            _refuse_foreign(name, os.fstat(file.fileno()), os.stat(directory))
            registry = json.loads(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return _make_empty()
    except OSError as error:
        raise FileRefused(
            f"cannot read {name}, the record of wrapped files: {error.strerror}",
            fix=f"make it readable, or move it away if it is not yours: {name}",
        ) from None
    except (ValueError, RecursionError):
        raise _make_damaged(name) from None
    if not isinstance(registry, dict) or not isinstance(registry.get("files"), dict):
        raise _make_damaged(name)
    return registry


def _refuse_foreign(name: str, status: os.stat_result, above: os.stat_result) -> None:
    """Refuse a record that others can write: they could make us change any file."""
    directory = os.path.dirname(name)
    problem = f"{name}, the record of wrapped files, is not trusted: "
    if not stat.S_ISREG(status.st_mode):
        raise FileRefused(f"{problem}it is not a regular file", fix=f"move {name} away")
    for path, one in ((directory, above), (name, status)):
        if not state.is_own(one):
            raise FileRefused(
                f"{problem}other users can write {path}",
                fix=f"if it is yours, run: chmod go-w {shlex.quote(path)}; if not, move it away",
            )


def _make_damaged(name: str) -> FileRefused:
    return FileRefused(
        f"{name}, the record of wrapped files, is damaged: some files may be missing from it",
        fix=f"unwrap the files that it names (mcp-launch unwrap --file FILE), then remove {name}",
    )


def _open_no_link(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a pipe in its place would block.
    more = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags | more)


def _make_file(path: str, entry: object) -> File | None:
    """Return a file as it was recorded; None if the entry is invalid."""
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
    # A link that points elsewhere now is another file.
    shown = named if os.path.realpath(named) == path else path
    tables = tuple(tuple(steps) for steps in servers)
    has_lists = entry.get("has_lists") is True
    return File(shown, scope, cast("Kind", kind), tables, lock=lock, has_lists=has_lists)


def _is_step(step: object) -> bool:
    return isinstance(step, str)


def _write(directory: str, registry: dict[str, Any]) -> None:
    text = json.dumps(registry, indent=2)
    state.write_whole(os.path.join(directory, NAME), text.encode(), is_lasting=True)

"""Look a file up in Git's index, the list of the files that it tracks, without running Git.

Git itself runs what a repository's configuration names (file system monitors, commands that
fetch what a partial clone lacks), and a repository may come from anyone. Reading its index
runs nothing. The index may come from anyone too, so names are compared as they are read and
never collected. The format: https://git-scm.com/docs/index-format.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    Answer = Literal["yes", "no", "unknown"]

# About 2.5 million files; reading more would take too long.
_TOO_LARGE = 256 << 20

# No path that a system can open is longer.
_LONGEST_NAME = 4096

# The length of an object's name in bytes, by the repository's object format.
_HASH_SIZES = {"sha1": 20, "sha256": 32}

_HEADER = struct.Struct(">4sII")
_EXTENSION = struct.Struct(">4sI")

# The offsets of an entry's mode and of its object's name; before and between them are dates,
# device, inode, owner and size.
_MODE_AT = 24
_HASH_AT = 40

_IS_DIRECTORY = 0o040000
_HAS_MORE_FLAGS = 0x40

# Extensions that change the meaning of entries have lower-case names: the base of a split
# index, and the mark of a sparse index, which lists whole directories.
_SPLIT = b"link"
_SPARSE = b"sdir"

_WORD_BITS = 64
_VERSIONS = (2, 3, 4)
_PREFIXED = 4  # from this version on, a name shares a prefix with the one before it


class IndexUnreadable(Exception):
    """The index is damaged, too large, or of an unknown kind."""


class _Part(NamedTuple):
    """What one file of an index says about a name."""

    places: list[int]  # the numbers of its entries
    is_below: bool  # a directory above it is listed instead of its files
    base: bytes  # the hash in the name of the shared index that this file extends; empty: none
    deleted: bytes  # which entries of the shared index are deleted, as a bitmap


def look_up(git_directory: str, hash_format: str, name: bytes) -> Answer:
    """Return whether an index lists a file, by its path from the top of the work tree.

    Unknown below a directory that a sparse index lists by its name alone: its files are in
    the repository's objects, which may not even be on this machine.

    Raises:
        IndexUnreadable: The index cannot be read.

    """
    size = _HASH_SIZES.get(hash_format)
    if size is None:
        raise IndexUnreadable(f"the object format {hash_format} is unknown")
    content = _read_file(os.path.join(git_directory, "index"))
    if content is None:
        return "no"  # nothing was ever added
    part = _search(content, size, name)
    is_listed, is_below = bool(part.places), part.is_below
    if part.base and not is_listed:
        shared = _read_file(os.path.join(git_directory, f"sharedindex.{part.base.hex()}"))
        if shared is None:
            raise IndexUnreadable("its shared part is missing")
        below = _search(shared, size, name)
        is_listed = any(not _is_set(part.deleted, place) for place in below.places)
        is_below = is_below or below.is_below
    if is_listed:
        return "yes"
    return "unknown" if is_below else "no"


def _read_file(path: str) -> bytes | None:
    """Return a file's content, or None if there is no file; never block on a pipe or a device."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _TOO_LARGE:
                raise IndexUnreadable(f"{path} is not a regular file, or is too large")
            return file.read(_TOO_LARGE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IndexUnreadable(f"{path}: {error.strerror}") from None


def _search(content: bytes, size: int, wanted: bytes) -> _Part:
    try:
        _verify(content, size)
        signature, version, count = _HEADER.unpack_from(content)
        if signature != b"DIRC" or version not in _VERSIONS:
            raise IndexUnreadable("its version is unknown")
        places, is_below, end = [], False, _HEADER.size
        entries = _list_entries(content, version, count, size)
        for place, (name, is_directory, after) in enumerate(entries):
            end = after
            if name == wanted:
                places.append(place)
            elif is_directory and wanted.startswith(name):
                is_below = True
        base, deleted = _find_base(content, end, size)
    except (struct.error, IndexError, ValueError):
        raise IndexUnreadable("it is damaged") from None
    return _Part(places, is_below, base, deleted)


def _verify(content: bytes, size: int) -> None:
    """Check that the index is complete: it ends with its hash, or with zeros (index.skipHash)."""
    if len(content) < _HEADER.size + size:
        raise IndexUnreadable("it is too short")
    body, end = memoryview(content)[:-size], content[-size:]
    make = hashlib.sha1 if size == _HASH_SIZES["sha1"] else hashlib.sha256
    if any(end) and make(body, usedforsecurity=False).digest() != end:
        raise IndexUnreadable("it is damaged")


def _list_entries(
    content: bytes, version: int, count: int, size: int
) -> Iterator[tuple[bytes, bool, int]]:
    """Return each entry's name, whether it is a directory, and where the entry ends."""
    at, name = _HEADER.size, b""
    limit = len(content) - size
    for _ in range(count):
        mode = int.from_bytes(content[at + _MODE_AT : at + _MODE_AT + 4], "big")
        begin = at + _HASH_AT + size
        begin += 4 if content[begin] & _HAS_MORE_FLAGS else 2
        kept = b""
        if version >= _PREFIXED:
            cut, begin = _read_number(content, begin)
            kept = name[: len(name) - cut] if cut < len(name) else b""
        end = content.index(b"\0", begin, limit)
        name = kept + content[begin:end]
        if len(name) > _LONGEST_NAME:
            raise IndexUnreadable("a name in it is too long")
        # Before version 4, entries are padded with zeros, at least one, to eight bytes.
        at = end + 1 if version >= _PREFIXED else at + ((end - at + 8) & ~7)
        yield name, mode == _IS_DIRECTORY, at


def _read_number(content: bytes, at: int) -> tuple[int, int]:
    """Return a variable-length number, and where it ends."""
    byte = content[at]
    number = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = content[at]
        number = (number + 1 << 7) | (byte & 0x7F)
        if number > _TOO_LARGE:
            raise IndexUnreadable("it is damaged")
    return number, at + 1


def _find_base(content: bytes, at: int, size: int) -> tuple[bytes, bytes]:
    """Return the hash of the shared index that this file extends, and its deleted entries."""
    base = deleted = b""
    limit = len(content) - size
    while at < limit:
        signature, length = _EXTENSION.unpack_from(content, at)
        at += _EXTENSION.size
        if at + length > limit:
            raise IndexUnreadable("it is damaged")
        if signature == _SPLIT:
            base, deleted = content[at : at + size], content[at + size : at + length]
        elif signature != _SPARSE and signature[:1].islower():
            raise IndexUnreadable("it needs an unknown extension")
        at += length
    return (base, deleted) if any(base) else (b"", b"")


def _is_set(bitmap: bytes, wanted: int) -> bool:
    """Return whether a bit is set in the first bitmap of these bytes (EWAH, 64-bit words).

    A marker word (a bit, how many words it repeats, how many literal words follow) precedes
    the literal words; see Git's ewah/ewok.h.
    """
    if not bitmap:
        return False
    try:
        _, count = struct.unpack_from(">II", bitmap)
        words = struct.unpack_from(f">{count}Q", bitmap, 8)
    except struct.error:
        raise IndexUnreadable("it is damaged") from None
    place, bit = divmod(wanted, _WORD_BITS)
    at = 0
    while at < len(words):
        run, plain = words[at] >> 1 & 0xFFFFFFFF, words[at] >> 33
        if place < run:
            return bool(words[at] & 1)
        place -= run
        if place < plain:
            return bool(words[at + 1 + place] >> bit & 1) if at + 1 + place < len(words) else False
        place -= plain
        at += 1 + plain
    return False

"""Look a file up in Git's index, the list of the files that it tracks, without running Git.

Git itself runs what a repository's configuration names (file system monitors, commands that
fetch what a partial clone lacks), and a repository may come from anybody. Reading its index
runs nothing. The index may come from anybody too, so that names are compared as they are
read and never collected. The format: https://git-scm.com/docs/index-format.
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

# Some 2.5 million files; nobody wants to wait for more.
_TOO_LARGE = 256 << 20

# No path that a system can open is longer.
_LONGEST_NAME = 4096

# Bytes of an object's name, by the repository's object format.
_HASH_SIZES = {"sha1": 20, "sha256": 32}

_HEADER = struct.Struct(">4sII")
_EXTENSION = struct.Struct(">4sI")

# Where an entry's mode is, and where its object's name: dates, device, inode, owner, size.
_MODE_AT = 24
_HASH_AT = 40

_IS_DIRECTORY = 0o040000
_HAS_MORE_FLAGS = 0x40

# Extensions that change what the entries mean have names in small letters: the base of a
# split index, and the note that whole directories stand in a sparse one.
_SPLIT = b"link"
_SPARSE = b"sdir"

_WORD_BITS = 64
_VERSIONS = (2, 3, 4)
_PREFIXED = 4  # from this version on a name begins as the one before it


class IndexUnreadable(Exception):
    """The index is damaged, too large, or of a kind that is not known here."""


class _Part(NamedTuple):
    """What one file of an index says of a name."""

    places: list[int]  # which entries have it
    is_below: bool  # a directory above it stands for all of its files
    base: bytes  # the hash that names the file on which this one builds; empty: none
    deleted: bytes  # which entries of that do not count, a bitmap


def look_up(git_directory: str, hash_format: str, name: bytes) -> Answer:
    """Tell whether an index lists a file, by its path from the top of the work tree.

    Unknown below a directory that a sparse index lists by its name alone: its files are in
    the repository's objects, which may not even be here.

    Raises:
        IndexUnreadable: It cannot be told.

    """
    size = _HASH_SIZES.get(hash_format)
    if size is None:
        raise IndexUnreadable(f"the object format {hash_format} is not known")
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
    """Return a file's content, None without one; what lies in a repository may be anything."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _TOO_LARGE:
                raise IndexUnreadable(f"{path} is not a file, or too large")
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
            raise IndexUnreadable("its version is not known")
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
    """See that all of it is there: it ends with its own hash, or with zeros (index.skipHash)."""
    if len(content) < _HEADER.size + size:
        raise IndexUnreadable("it is too short")
    body, end = memoryview(content)[:-size], content[-size:]
    make = hashlib.sha1 if size == _HASH_SIZES["sha1"] else hashlib.sha256
    if any(end) and make(body, usedforsecurity=False).digest() != end:
        raise IndexUnreadable("it is damaged")


def _list_entries(
    content: bytes, version: int, count: int, size: int
) -> Iterator[tuple[bytes, bool, int]]:
    """Return each entry's name, whether it stands for a directory, and where it ends."""
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
        # Before version 4, entries are filled up with zeros, at least one, to eight bytes.
        at = end + 1 if version >= _PREFIXED else at + ((end - at + 8) & ~7)
        yield name, mode == _IS_DIRECTORY, at


def _read_number(content: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends."""
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
    """Return the hash of the file on which this one builds, and which entries of it are gone."""
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
            raise IndexUnreadable("it needs something that is not known here")
        at += length
    return (base, deleted) if any(base) else (b"", b"")


def _is_set(bitmap: bytes, wanted: int) -> bool:
    """Tell whether a bit is set in the first bitmap of these bytes (EWAH, 64-bit words).

    A word that counts (a bit, for how many words it stands, how many plain words follow)
    goes before plain words; see Git's ewah/ewok.h.
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

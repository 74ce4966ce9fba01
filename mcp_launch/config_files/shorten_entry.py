"""Shorten a wrapped entry to `mcp-launch run --server NAME`: its command is in a profile then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.config_files import planned_changes, wrap
from mcp_launch.documents.document import Document
from mcp_launch.errors import FileRefused

if TYPE_CHECKING:
    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.documents.positions import Path


def shorten(host: HostConfig, file: File, entry: Path, name: str, text: str) -> str:
    """Return a file's text with one entry shortened; only the words of its command change.

    Raises:
        FileRefused: The entry has changed, or is written in a way that cannot be changed safely.

    """
    try:
        after = _shorten(host, file, entry, name, text)
    except planned_changes.STRANGE:
        after = ""
    if not after:
        raise FileRefused(
            f"{file.path} was not changed: the entry of {name} is written in a way that "
            "cannot be changed safely",
            fix=f"write its command by hand: mcp-launch run --server {name}",
        )
    return after


def _shorten(host: HostConfig, file: File, entry: Path, name: str, text: str) -> str:
    before = Document(file.kind, text, file.path)
    shape = planned_changes.find_shape(before, host, entry)
    if shape is None or not wrap.is_wrapped(before, entry, shape):
        return ""
    words = wrap.list_words(before, entry, shape)
    wanted = [words[0], "run", "--server", name]
    lists, first = (entry + shape.command, 0) if shape.is_one_list else (entry + shape.args, 1)
    spots = [before.spots[(*lists, at)].value for at in range(len(words) - first)]
    kept = len(wanted) - first
    if len(spots) < kept:
        return ""  # without --server and with a single word: `wrap` names it first
    edits = [
        (*spot, before.spell(word))
        for spot, word, old in zip(spots, wanted[first:], words[first:], strict=False)
        if word != old
    ]
    if len(spots) > kept:
        edits.append((spots[kept - 1][1], spots[-1][1], ""))
    after = Document(file.kind, before.apply(edits), file.path)
    paths = [entry + shape.command, entry + shape.args]
    is_rest_same = before.copy_without(paths) == after.copy_without(paths)
    is_right = wrap.list_words(after, entry, shape) == wanted
    return after.text if is_right and is_rest_same else ""

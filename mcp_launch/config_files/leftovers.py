"""Find out whether a file still has wrapped entries; while it does, we keep its copy and record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.config_files import planned_changes, wrap
from mcp_launch.config_files.host_config import list_entries
from mcp_launch.documents.document import read_document
from mcp_launch.errors import FileRefused

if TYPE_CHECKING:
    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.documents.document import Document
    from mcp_launch.documents.positions import Path


def holds_ours(host: HostConfig, file: File, text: str) -> bool:
    """Return whether a file's text has a wrapped entry that can be unwrapped.

    An entry whose command is in a profile does not count: `unwrap` skips it, so nothing is kept.
    """
    try:
        return _holds_ours(host, file, text)
    except planned_changes.STRANGE:
        return False


def _holds_ours(host: HostConfig, file: File, text: str) -> bool:
    document = read_document(file.kind, text, file.path)
    return any(_is_ours(document, host, path) for path in list_entries(document, file))


def _is_ours(document: Document, host: HostConfig, path: Path) -> bool:
    shape = planned_changes.find_shape(document, host, path)
    if shape is None or not wrap.is_wrapped(document, path, shape):
        return False
    try:
        return bool(wrap.unwrap(document, path, shape))
    except planned_changes.STRANGE:
        return True  # it cannot be unwrapped, but it is wrapped


def is_wrapped_now(host: HostConfig, file: File) -> bool:
    """Return whether a file has wrapped entries now; False if it cannot be read."""
    try:
        return holds_ours(host, file, planned_changes.read_file(file.path))
    except FileRefused:
        return False


def is_free_now(host: HostConfig, file: File) -> bool:
    """Return whether a file provably has no wrapped entries now."""
    try:
        return not _holds_ours(host, file, planned_changes.read_file(file.path))
    except planned_changes.STRANGE:
        return False  # it is gone, or is just being edited

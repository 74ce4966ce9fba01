"""Titles of Claude Code's sessions: the user's, its own, or the first prompt."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.config_files.session_records import (
    SeenHost,
    SessionRecords,
    pick_texts,
    read_first,
    read_last,
    read_object,
)
from mcp_launch.values import find_home_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

# The records of a transcript that hold a title, and where: what the user chose comes first. Each
# is repeated from time to time, and the last one counts.
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}

# How many projects are searched for a transcript.
_MOST_PROJECTS = 5000


class ClaudeSessions(SessionRecords):
    """What Claude Code (checked with 2.1.325) keeps below `~/.claude`."""

    def read_title(self, host: SeenHost, session: str, thread: str) -> str:
        """Return a session's title from the record of its process, or from its transcript."""
        del thread  # it has none
        if not session or os.sep in session:
            return ""
        home = host.environ.get("CLAUDE_CONFIG_DIR")
        home = home or f"{find_home_directory(host.environ)}/.claude"
        record = read_object(f"{home}/sessions/{host.pid}.json")
        # Other names are made up from the directory's.
        if (record.get("sessionId"), record.get("nameSource")) == (session, "user"):
            return pick_texts(record.get("name"))
        for transcript in _find_transcripts(home, session):
            return _read_title(transcript)
        return ""


def _find_transcripts(home: str, session: str) -> Iterator[str]:
    """Return where a session's transcript is; a session may have moved to another project."""
    try:
        with os.scandir(f"{home}/projects") as projects:
            for _, project in zip(range(_MOST_PROJECTS), projects, strict=False):
                path = f"{project.path}/{session}.jsonl"
                if os.path.isfile(path):
                    yield path
    except OSError:
        return  # nothing was asked yet, or it keeps no transcripts


def _read_title(transcript: str) -> str:
    found: dict[str, str] = {}
    for record in read_last(transcript):
        kind = record.get("type")
        title = record.get(_TITLES.get(str(kind), ""))
        if isinstance(title, str) and title:
            found.setdefault(str(kind), title)
    chosen = (found[kind] for kind in _TITLES if kind in found)
    return next(chosen, "") or next(_list_prompts(transcript), "")


def _list_prompts(transcript: str) -> Iterator[str]:
    for record in read_first(transcript):
        message = record.get("message")
        if record.get("type") != "user" or record.get("isMeta") or not isinstance(message, dict):
            continue
        text = pick_texts(message.get("content")).strip()
        if text and not text.startswith("<"):  # a command, or a reminder that it adds itself
            yield text


SESSIONS = ClaudeSessions()

"""Titles of Codex's threads, and what its background processes are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_launch.config_files.session_records import (
    SeenHost,
    SessionRecords,
    pick_texts,
    read_first,
    read_last,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCKS = "/thread-writer-locks/"


class CodexSessions(SessionRecords):
    """What Codex (checked with 0.169.0) keeps in CODEX_HOME."""

    def read_title(self, host: SeenHost, session: str, thread: str) -> str:
        """Return the name that the user gave a thread, or its first prompt."""
        name = thread or session
        if not name:
            return ""
        for home in _list_homes(host.open_files):
            for record in read_last(f"{home}/session_index.jsonl"):
                if record.get("id") == name:
                    return pick_texts(record.get("thread_name"))
        ending = f"-{name}.jsonl"
        rollouts = [path for path in host.open_files if path.endswith(ending)]
        return next((text for path in rollouts for text in _list_prompts(path)), "")

    def name_role(self, argv: list[str]) -> str:
        """Return whether a process is the daemon behind its terminals, or another app server."""
        if "app-server" not in argv:
            return ""
        return "daemon" if _listens(argv) else "app server"


def _listens(argv: list[str]) -> bool:
    """Return whether a process serves terminals through a Unix socket."""
    return any(word.startswith("unix:") for word in argv)


def _list_homes(open_files: list[str]) -> set[str]:
    """Return CODEX_HOME: where a process has the locks of its threads."""
    return {path.partition(_LOCKS)[0] for path in open_files if _LOCKS in path}


def _list_prompts(rollout: str) -> Iterator[str]:
    for record in read_first(rollout):
        payload = record.get("payload")
        if record.get("type") == "event_msg" and isinstance(payload, dict):
            text = _find_prompt(payload).strip()
            if text:
                yield text


def _find_prompt(event: dict[str, Any]) -> str:
    """Return the prompt in an event; what Codex adds itself is not in events."""
    if event.get("type") == "user_message":  # in older releases
        return pick_texts(event.get("message"))
    item = event.get("item")
    if isinstance(item, dict) and item.get("type") == "UserMessage":
        return pick_texts(item.get("content"))
    return ""


SESSIONS = CodexSessions()

"""Gemini CLI: no request names its session, and an editor's agent starts servers where it runs.

An editor starts one `gemini --acp` for all its projects. Each session has servers of its own, all
of them in the directory of the agent, but the roots that they are told are the session's.
"""

from __future__ import annotations

from mcp_launch.hosts import HostIdentity


class Gemini(HostIdentity):
    """What Gemini CLI reveals of its sessions."""

    agent_words = ("--acp", "--experimental-acp")
    answers_roots = True
    swallows_errors = True

    def __init__(self) -> None:
        super().__init__("gemini", "Gemini CLI", "one session at a time")


HOST = Gemini()

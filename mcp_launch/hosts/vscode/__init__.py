"""VS Code: one server serves all chats of a window; each call names its conversation."""

from __future__ import annotations

from mcp_launch.hosts import HostIdentity


class VsCode(HostIdentity):
    """How VS Code identifies conversations."""

    told_later = ("session",)

    def __init__(self) -> None:
        super().__init__("vscode", "VS Code", "many sessions")


HOST = VsCode()

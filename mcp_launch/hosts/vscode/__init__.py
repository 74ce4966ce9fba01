"""VS Code: one server serves all chats of a window; each call names its conversation."""

from __future__ import annotations

from mcp_launch.hosts import Callers, HostIdentity, pick_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts import Caller, Sighting
    from mcp_launch.protocol.json_text import Json


class _VSCodeCallers(Callers):
    identifying = ("vscode.conversationId",)
    origins = ('the call\'s _meta["vscode.conversationId"]', "", "")

    def read(self, meta: dict[str, Json]) -> Caller | None:
        session = pick_text(meta, "vscode.conversationId")
        return (session, None, None) if session else None


class VsCode(HostIdentity):
    """How VS Code identifies conversations."""

    told_later = ("session",)

    def __init__(self) -> None:
        super().__init__("vscode", "VS Code", "many sessions")

    def follow_callers(self, sighting: Sighting) -> Callers:  # noqa: ARG002  # each call has it
        """Return a reader of the conversation in each call."""
        return _VSCodeCallers()


HOST = VsCode()

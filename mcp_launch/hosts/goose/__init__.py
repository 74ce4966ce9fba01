"""Goose: the session's id is in the environment, and on every request."""

from __future__ import annotations

from mcp_launch.hosts import HostIdentity, Identity
from mcp_launch.values import Found, Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts import Sighting


class Goose(HostIdentity):
    """How Goose identifies sessions."""

    told_later = ("session",)
    session_variable = "AGENT_SESSION_ID"

    def __init__(self) -> None:
        super().__init__("goose", "Goose", "many sessions")

    def identify(self, sighting: Sighting) -> Identity:
        """Return the session id that Goose puts into a server's environment."""
        session = sighting.environ.get("AGENT_SESSION_ID")
        if not session:
            return self._identify_by(Missing(["AGENT_SESSION_ID is not set"]))
        return self._identify_by(Found(session, "AGENT_SESSION_ID as Goose set it at the start"))


HOST = Goose()

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
            return Identity(Missing(["AGENT_SESSION_ID is not set"]), self._no_thread())
        found = Found(session, "AGENT_SESSION_ID as Goose set it at the start")
        return Identity(found, self._no_thread(), "tentative", found.origin)

    def default_variables(
        self,
        session: Found | Missing,
        thread: Found | Missing,  # noqa: ARG002  # it has none
    ) -> dict[str, Found]:
        """Return the session of the call for which a server was started again."""
        return {"AGENT_SESSION_ID": session} if isinstance(session, Found) else {}


HOST = Goose()

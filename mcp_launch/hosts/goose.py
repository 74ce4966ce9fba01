"""Goose: the session's id is in the environment, and on every request."""

from __future__ import annotations

from mcp_launch.hosts.host import Found, Host, Identity, Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts.host import Sighting


class Goose(Host):
    """The facts."""

    def __init__(self) -> None:
        super().__init__("goose", "Goose", "many sessions")

    def identify(self, sighting: Sighting) -> Identity:
        """Take the id that Goose puts into a server's environment."""
        session = sighting.environ.get("AGENT_SESSION_ID")
        if not session:
            return Identity(Missing(["AGENT_SESSION_ID is not set"]), self._no_thread())
        found = Found(session, "AGENT_SESSION_ID as Goose set it at the start")
        return Identity(found, self._no_thread(), "tentative", found.origin)


HOST = Goose()

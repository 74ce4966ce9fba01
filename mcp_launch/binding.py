"""The identity a running server was started for, and how sure that is.

`unbound`: nothing was found. `tentative`: the best evidence at the start. `confirmed`:
a call said so. Pure: the judgement over single calls belongs here.
"""

from __future__ import annotations

from mcp_launch.hosts.host import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.hosts.host import Identity, State


class Binding:
    """Whom the server serves, with the evidence."""

    __slots__ = ("evidence", "session", "state", "thread")

    def __init__(
        self, state: State, session: str | None, thread: str | None, evidence: str
    ) -> None:
        self.state = state
        self.session = session
        self.thread = thread
        self.evidence = evidence


def bind_at_start(identity: Identity) -> Binding:
    """Return the binding that the evidence at the start allows."""
    session, thread = identity.session, identity.thread
    return Binding(
        identity.state,
        session.value if isinstance(session, Found) else None,
        thread.value if isinstance(thread, Found) else None,
        identity.evidence,
    )

"""The identity a running server serves, and what to do with a call of another identity.

`unbound`: nothing was found. `tentative`: the best evidence at the start. `confirmed`:
a call named it. These functions are pure, and tested as a table.
"""

from __future__ import annotations

from mcp_launch.values import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from mcp_launch.hosts import Caller, Carries, Identity, State
    from mcp_launch.launch.plan import IdentityInEnvironment

    # What to do with a request: give it to the server, to a fresh server, or to none.
    Action = Literal["deliver", "restart", "refuse"]


class Binding:
    """The session and thread a server serves, with the evidence."""

    __slots__ = ("evidence", "session", "state", "thread")

    def __init__(
        self, state: State, session: str | None, thread: str | None, evidence: str
    ) -> None:
        self.state = state
        self.session = session
        self.thread = thread
        self.evidence = evidence

    def __str__(self) -> str:
        """Return the thread or session in words."""
        if self.thread:
            return f"thread {self.thread}"
        return f"session {self.session}" if self.session else "an unknown session"


def bind_at_start(identity: Identity) -> Binding:
    """Return the binding that the evidence at the start allows."""
    session, thread = identity.session, identity.thread
    return Binding(
        identity.state,
        session.value if isinstance(session, Found) else None,
        thread.value if isinstance(thread, Found) else None,
        identity.evidence,
    )


def bind_by_call(bound: Binding, caller: Caller, evidence: str) -> Binding:
    """Return the binding a call names; the same thread keeps its session if none is named."""
    session, thread, _ = caller
    if session is None and thread == bound.thread:
        session = bound.session
    return Binding("confirmed", session, thread, evidence)


def judge(  # noqa: PLR0913  # the columns of the table
    bound: Binding,
    claimed: Binding,
    *,
    carries: Carries,
    held: IdentityInEnvironment,
    is_fresh: bool,
    on_change: str,
) -> Action:
    """Return what to do with a request whose identity may differ from the server's.

    | binding | a connection carries | the environment holds it wrongly | action |
    | --- | --- | --- | --- |
    | not confirmed, no call delivered yet (`is_fresh`) | any | no | deliver |
    | same | any | yes | restart: no server starts its work under a wrong identity |
    | confirmed by calls to the server before it, `is_fresh` | not one thread | yes | likewise |
    | confirmed, another thread | one thread | any | refuse: it was misdelivered |
    | another session | any other | no, or only in default variables | deliver |
    | same | same | in a variable that was asked for | restart |

    `on_change` overrides every row in which the binding is confirmed.
    """
    wrong = held.find_wrong(claimed.session, claimed.thread)
    is_settled = bound.state == "confirmed" and (carries == "one thread" or bool(on_change))
    if is_fresh and not is_settled:
        return "restart" if wrong else "deliver"
    default: Action = "restart" if wrong == "requested" else "deliver"
    if bound.state != "confirmed" or _is_same(bound, claimed, carries):
        return default
    if on_change:
        return _ACTIONS[on_change]
    return "refuse" if carries == "one thread" else default


def judge_place(*, is_elsewhere: bool, on_change: str) -> Action:
    """Return what to do with a request whose session may work in another directory."""
    return _ACTIONS[on_change or "follow"] if is_elsewhere else "deliver"


_ACTIONS: dict[str, Action] = {"follow": "deliver", "restart": "restart", "refuse": "refuse"}


def _is_same(bound: Binding, claimed: Binding, carries: Carries) -> bool:
    if carries == "one thread":
        return claimed.thread == bound.thread
    return claimed.session == bound.session

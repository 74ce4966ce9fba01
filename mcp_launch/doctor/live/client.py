"""Talk to one server as its host would, through the launcher, and note what comes of it.

Claude Code asks `server/discover` first, and says `initialize` where that is not known; Codex
says `initialize` and nothing else.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import __version__, protocol
from mcp_launch.doctor.live.wire import Wire
from mcp_launch.state import outcome
from mcp_launch.state.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.doctor.live.prepare import Start, Ward
    from mcp_launch.protocol.json_text import Json, Message

    Clean = Callable[[str], str]

DISCOVER = "server/discover"
INITIALIZE = "initialize"

# How long Claude Code waits for an answer to `server/discover` (2.1.325, measured).
DISCOVER_GRACE = 3.0

# From the start to the list of tools: Claude Code and Codex give up after as long.
ANSWER_LIMIT = 30.0

# The same for one that was silent before: it only was not if it is ready by now.
SECOND_LIMIT = 10.0

# How long a server may still ask something before its input ends: one that waits for an answer
# then would seem to go on by itself. Some wait a moment before they ask (server-everything 0.35 s).
SETTLING = 1.0

# No server has more pages of tools, but one that goes in circles has.
_PAGES = 100

# What a host of either kind offers in `initialize`: Claude Code, and Codex.
_OFFERED: dict[str, Message] = {
    DISCOVER: {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}},
    INITIALIZE: {"protocolVersion": "2025-06-18", "capabilities": {}},
}

# What an answer to `initialize` must hold.
_DEMANDED = (
    ["protocolVersion"],
    ["capabilities"],
    ["serverInfo", "name"],
    ["serverInfo", "version"],
)

# What to do about a server that does not do its part.
_BY_ITSELF = "run the command by itself in the server's directory to see what it lacks"

_ABOUT: Message = {"name": "mcp-launch", "title": "mcp-launch doctor", "version": __version__}
_META: Message = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": _ABOUT,
    "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
}


class TalkFailure(NamedTuple):
    """Why there is no list of tools."""

    code: str
    message: str  # the rest of a sentence that begins with the server's name
    fix: str
    is_silence: bool = False


@dataclass
class Talk:
    """What came of one conversation."""

    failure: TalkFailure | None = None
    seconds: float = 0.0  # from the start to the list of tools
    version: str = ""  # of the protocol, as `initialize` was answered
    missing: str = ""  # what that answer lacks
    is_mute: bool = False  # it does not answer what it does not know
    tools: list[str] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)


class _Failed(Exception):
    def __init__(self, failure: TalkFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def converse(start: Start, first: str, ward: Ward, *, clean: Clean, limit: float) -> Talk:
    """Start a server, greet it as a host that begins with `first`, and let it end.

    What it says on stderr is kept as `clean` returns it.
    """
    try:
        launch = ward.start(start)
    except (OSError, ValueError) as error:
        return Talk(TalkFailure("ML301", f"cannot be started: {error}", "correct its entry"))
    if launch is None:
        return Talk()  # nobody waits for it any more
    wire = Wire(launch.process, start.project, clean)
    talk = Talk()
    try:
        _Host(wire, talk, limit, launch.outcome).meet(first)
        talk.seconds = time.monotonic() - wire.since
        wire.listen_for(SETTLING)
    except _Failed as failed:
        talk.failure = failed.failure
    finally:
        wire.close()
        ward.discharge(launch.process)
    talk.outcome = outcome.read(launch.outcome)
    return talk


class _Host:
    """The part of a host, up to the list of tools."""

    def __init__(self, wire: Wire, talk: Talk, limit: float, path: str) -> None:
        self._wire = wire
        self._path = path  # of the launch's outcome
        self._talk = talk
        self._meta: Message = {}  # on each request, in the new era
        self._limit = limit
        self._until = wire.since + limit
        self._count = 0

    def meet(self, first: str) -> None:
        about = self._discover() if first == DISCOVER else None
        if about is None:
            about = self._initialize(_OFFERED[first])
        if protocol.get_member(about, "capabilities", "tools") is not None:
            self._list_tools()
        self._talk.is_mute = first == DISCOVER and DISCOVER not in self._wire.answers

    def _discover(self) -> Json:
        until = time.monotonic() + DISCOVER_GRACE
        answer = self._wire.ask(DISCOVER, DISCOVER, {"_meta": _META}, until)
        return self._take_up_discovery(answer)

    def _take_up_discovery(self, answer: Message | None) -> Json:
        if not answer or "result" not in answer:
            return None
        self._meta = {"_meta": _META}
        return answer["result"]

    def _initialize(self, offered: Message) -> Json:
        try:
            about = self._ask(INITIALIZE, offered | {"clientInfo": _ABOUT})
        except _Failed:
            # Perhaps it was only slow to say that it knows the other way.
            late = self._take_up_discovery(self._wire.answers.get(DISCOVER))
            if late is None:
                raise
            return late
        missing = [path for path in _DEMANDED if protocol.get_member(about, *path) is None]
        self._talk.missing = ".".join(missing[0]) if missing else ""
        self._talk.version = str(protocol.get_member(about, "protocolVersion"))
        self._wire.write(protocol.make_notification("notifications/initialized"))
        return about

    def _list_tools(self) -> None:
        cursor: Message = {}
        for _ in range(_PAGES):
            page = self._ask("tools/list", self._meta | cursor)
            tools = protocol.get_member(page, "tools")
            for tool in tools if isinstance(tools, list) else []:
                self._talk.tools.append(str(protocol.get_member(tool, "name")))
            following = protocol.get_member(page, "nextCursor")
            if not following:
                return
            cursor = {"cursor": following}

    def _ask(self, method: str, params: Message) -> Json:
        self._count += 1
        answer = self._wire.ask(f"{method} {self._count}", method, params, self._until)
        if answer is None:
            has_ended = self._wire.has_ended
            raise _Failed(self._tell_end(method) if has_ended else self._tell_silence(method))
        if "error" in answer:
            raise _Failed(self._explain_refusal(method, answer["error"]))
        return answer.get("result")

    def _explain_refusal(self, method: str, error: Json) -> TalkFailure:
        """Find out who refuses: the server, or the launcher in place of one that is gone."""
        if protocol.get_member(error, "code") == protocol.NOT_SERVED:
            self._wire.close()  # the launcher writes the outcome when it ends
            known = outcome.read(self._path)
            if known.failure and method == INITIALIZE:
                # A launch's log is deleted with its home, so the fix must not point there.
                fix = _BY_ITSELF if known.failure.is_servers else known.failure.fix
                return TalkFailure("ML301", f"does not start: {known.failure.problem}", fix)
            if known.failure or method in known.unanswered:
                return self._tell_end(method)
        text = protocol.get_member(error, "message")
        return TalkFailure("ML302", f"refuses `{method}`: {text}", _BY_ITSELF)

    def _tell_end(self, method: str) -> TalkFailure:
        code = self._wire.close()
        how = f"was ended by signal {code - 128}" if code > 128 else f"ended with exit code {code}"  # noqa: PLR2004
        words = self._wire.last_words
        said = f"; its last words: {' / '.join(words)}" if words else ""
        return TalkFailure("ML301", f"{how} over `{method}`{said}", _BY_ITSELF)

    def _tell_silence(self, method: str) -> TalkFailure:
        problem = f"did not answer `{method}` within {self._limit:g} s"
        return TalkFailure("ML302", problem, _BY_ITSELF, is_silence=True)

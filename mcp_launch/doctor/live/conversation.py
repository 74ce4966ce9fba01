"""Talk to one server as its host would, through the launcher, and record the result.

Claude Code sends `server/discover` first, and `initialize` to servers that do not know it; Codex
sends only `initialize`. Text from stderr is only quoted, never interpreted: the facts are in
`state.outcome`.
"""

from __future__ import annotations

import os
import selectors
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import __version__, protocol
from mcp_launch.errors import name_reason
from mcp_launch.protocol.message import ANSWER, REQUEST, read
from mcp_launch.state import outcome
from mcp_launch.state.outcome import Outcome

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import IO

    from mcp_launch.doctor.live.prepare import LaunchPool, Start
    from mcp_launch.protocol.json_text import Json, Object
    from mcp_launch.protocol.message import Message

    Clean = Callable[[str], str]

DISCOVER = "server/discover"
INITIALIZE = "initialize"

# How long, in seconds, Claude Code waits for an answer to `server/discover` (2.1.325, measured).
DISCOVER_GRACE = 3.0

# From the start to the list of tools: Claude Code and Codex give up after this long.
ANSWER_LIMIT = 30.0

# The same for a server that was silent before; by now its download should be done.
SECOND_LIMIT = 10.0

# How long a server may still send requests before its input ends: one that waits for an answer
# would seem to ignore the end. Some wait a moment before they ask (server-everything 0.35 s).
SETTLING = 1.0

# More pages of tools than any server has, unless its cursors go in circles.
_PAGES = 100

# The version that Claude Code and Codex send with `initialize`, by the host's first request.
_VERSIONS: dict[str, Json] = {DISCOVER: "2025-11-25", INITIALIZE: "2025-06-18"}

# How hosts spell their capabilities (Claude Code 2.1.325, Codex 0.166, VS Code 1.139.1).
_CAPABILITIES: Object = {
    "roots": {"listChanged": True},
    "elicitation": {"form": {}, "url": {}},
    "sampling": {},
    "tasks": {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
    "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}},
}

# The members that an answer to `initialize` must have.
_DEMANDED = (
    ["protocolVersion"],
    ["capabilities"],
    ["serverInfo", "name"],
    ["serverInfo", "version"],
)

# What to do about a server that fails.
_BY_ITSELF = "run the command by itself in the server's directory to see what it lacks"

_ABOUT: Object = {"name": "mcp-launch", "title": "mcp-launch doctor", "version": __version__}

# A launcher whose input has ended is gone well before this, whatever its server does.
END_LIMIT = 10.0

# The longest line that is read; Claude Code's limit is the same.
_LINE_LIMIT = 16 << 20

# How long a terminated launcher may take to end its server and write the outcome.
_TERMINATED_LIMIT = 2.0

# How many of the last lines on stderr are kept, and how much of each is shown. Secrets are
# searched for in a longer part.
_LAST_LINES = 5
WIDTH = 300
_SEARCHED = 10 * WIDTH

# npm announces its own updates after whatever went wrong, in five lines.
_NOTICE = "npm notice"


class Opening(NamedTuple):
    """How a host opens a connection. A server may have tools only for some capabilities."""

    method: str
    capabilities: tuple[str, ...] = ()

    def offer(self) -> Object:
        """Return the capabilities as a host writes them."""
        return {name: _CAPABILITIES[name] for name in self.capabilities}


class TalkFailure(NamedTuple):
    """Why there is no list of tools."""

    code: str
    message: str  # the rest of a sentence that begins with the server's name
    fix: str
    is_silence: bool = False
    lines: tuple[str, ...] = ()  # the last ones on stderr


@dataclass
class Talk:
    """The result of one conversation with a server."""

    failure: TalkFailure | None = None
    seconds: float = 0.0  # from the start to the list of tools
    version: str = ""  # of the protocol, from the answer to `initialize`
    missing: str = ""  # the member that this answer lacks
    is_mute: bool = False  # it does not answer unknown requests
    tools: list[str] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)


class _Failed(Exception):
    def __init__(self, failure: TalkFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def converse(
    start: Start, opening: Opening, launches: LaunchPool, *, clean: Clean, limit: float
) -> Talk:
    """Start a server, talk to it as a host with this opening, and return the result.

    Lines from its stderr are kept as `clean` returns them.
    """
    try:
        launch = launches.start(start)
    except OSError as error:
        why = f"cannot be started: {name_reason(error)}"
        return Talk(TalkFailure("ML301", why, "correct its entry"))
    except ValueError:
        why = "cannot be started: its command or a variable holds a NUL"
        return Talk(TalkFailure("ML301", why, "correct its entry"))
    if launch is None:
        return Talk()  # the doctor is stopping
    wire = _Wire(launch.process, start.project, clean)
    talk = Talk()
    try:
        _Host(wire, talk, limit, launch.outcome).talk(opening)
        talk.seconds = time.monotonic() - wire.since
        wire.listen_for(SETTLING)
    except _Failed as failed:
        talk.failure = failed.failure
    finally:
        wire.close()
        launches.forget(launch.process)
    talk.outcome = outcome.read(launch.outcome)
    return talk


class _Host:
    """Plays the host, up to the list of tools."""

    def __init__(self, wire: _Wire, talk: Talk, limit: float, path: str) -> None:
        self._wire = wire
        self._path = path  # of the launch's outcome
        self._talk = talk
        self._meta: Object = {}  # on each request, in the new era
        self._limit = limit
        self._until = wire.since + limit
        self._count = 0

    def talk(self, opening: Opening) -> None:
        is_newer = opening.method == DISCOVER
        about = self._discover(opening) if is_newer else None
        if about is None:
            about = self._initialize(opening)
        if protocol.get_member(about, "capabilities", "tools") is not None:
            self._list_tools()
        self._talk.is_mute = is_newer and DISCOVER not in self._wire.answers

    def _discover(self, opening: Opening) -> Json:
        until = time.monotonic() + DISCOVER_GRACE
        answer = self._wire.ask(DISCOVER, DISCOVER, _make_meta(opening), until)
        return self._accept_discovery(answer, opening)

    def _accept_discovery(self, answer: Object | None, opening: Opening) -> Json:
        if not answer or "result" not in answer:
            return None
        self._meta = _make_meta(opening)
        return answer["result"]

    def _initialize(self, opening: Opening) -> Json:
        try:
            about = self._ask(
                INITIALIZE,
                {
                    "protocolVersion": _VERSIONS[opening.method],
                    "capabilities": opening.offer(),
                    "clientInfo": _ABOUT,
                },
            )
        except _Failed:
            # Perhaps its answer to `server/discover` was only late.
            late = self._accept_discovery(self._wire.answers.get(DISCOVER), opening)
            if late is None:
                raise
            return late
        missing = [path for path in _DEMANDED if protocol.get_member(about, *path) is None]
        self._talk.missing = ".".join(missing[0]) if missing else ""
        self._talk.version = str(protocol.get_member(about, "protocolVersion"))
        self._wire.write(protocol.make_notification("notifications/initialized"))
        return about

    def _list_tools(self) -> None:
        cursor: Object = {}
        for _ in range(_PAGES):
            page = self._ask("tools/list", self._meta | cursor)
            tools = protocol.get_member(page, "tools")
            for tool in tools if isinstance(tools, list) else []:
                self._talk.tools.append(str(protocol.get_member(tool, "name")))
            following = protocol.get_member(page, "nextCursor")
            if not following:
                return
            cursor = {"cursor": following}

    def _ask(self, method: str, params: Object) -> Json:
        self._count += 1
        answer = self._wire.ask(f"{method} {self._count}", method, params, self._until)
        if answer is None:
            has_ended = self._wire.has_ended
            raise _Failed(self._report_end(method) if has_ended else self._report_silence(method))
        if "error" in answer:
            raise _Failed(self._explain_refusal(method, answer["error"]))
        return answer.get("result")

    def _explain_refusal(self, method: str, error: Json) -> TalkFailure:
        """Return who refused: the server, or the launcher because the server is gone."""
        if protocol.get_member(error, "code") == protocol.NOT_SERVED:
            self._wire.close()  # the launcher writes the outcome when it ends
            known = outcome.read(self._path)
            if known.failure and method == INITIALIZE:
                if known.failure.is_servers:
                    # A launch's log is deleted with its home, so the fix must not point there.
                    lines = [self._wire.quote(line) for line in known.failure.lines]
                    how = _tell_end(known.failure.exit_code)
                    return _report(f"does not start: it {how} before it answered", lines)
                problem = f"does not start: {known.failure.problem}"
                return TalkFailure("ML301", problem, known.failure.fix)
            if known.failure or method in known.unanswered:
                return self._report_end(method)
        text = protocol.get_member(error, "message")
        return TalkFailure("ML302", f"refuses `{method}`: {text}", _BY_ITSELF)

    def _report_end(self, method: str) -> TalkFailure:
        code = self._wire.close()
        return _report(f"{_tell_end(code)} on `{method}`", self._wire.last_lines)

    def _report_silence(self, method: str) -> TalkFailure:
        problem = f"did not answer `{method}` within {self._limit:g} s"
        return TalkFailure("ML302", problem, _BY_ITSELF, is_silence=True)


def _tell_end(code: int) -> str:
    return f"was killed by signal {code - 128}" if code > 128 else f"ended with exit code {code}"  # noqa: PLR2004


def _report(problem: str, lines: list[str]) -> TalkFailure:
    """Return the failure of a server that ended, with its last lines on stderr."""
    return TalkFailure("ML301", problem, _BY_ITSELF, lines=tuple(lines))


def _make_meta(opening: Opening) -> Object:
    """Return what a request of the new era carries."""
    return {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": _ABOUT,
            "io.modelcontextprotocol/clientCapabilities": opening.offer(),
        }
    }


class _Wire:
    """One launch, and the host's side of the conversation with its server."""

    def __init__(
        self, process: subprocess.Popen[bytes], project: str, clean: Callable[[str], str]
    ) -> None:
        self.since = time.monotonic()
        self.last_lines: list[str] = []  # on stderr
        self.answers: dict[str, Object] = {}
        self.has_ended = False
        self._process = process
        self._project = project
        self._clean = clean
        self._selector = selectors.DefaultSelector()
        for stream, handle in (
            (process.stdout, self._on_stdout),
            (process.stderr, self._on_stderr),
        ):
            if stream is not None:
                self._selector.register(stream, selectors.EVENT_READ, _WireReader(stream, handle))

    def ask(self, request_id: str, method: str, params: Object, until: float) -> Object | None:
        """Return the answer to a request; None if there is none in time or the launch has ended."""
        request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        self.write(protocol.encode(request))
        while request_id not in self.answers and not self.has_ended and self._listen(until):
            pass
        return self.answers.get(request_id)

    def listen_for(self, seconds: float) -> None:
        """Read further messages for a while, and answer the server's requests."""
        until = time.monotonic() + seconds
        while not self.has_ended and self._listen(until):
            pass

    def write(self, line: bytes) -> None:
        """Write a message, unless the input is closed."""
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            return
        try:
            stdin.write(line)
        except BrokenPipeError:
            pass  # the launch has ended; its stdout says so, too

    def close(self) -> int:
        """Close the input, wait until the launch has ended, and return the exit code."""
        if self._process.stdin:
            self._process.stdin.close()
        if not self._drain(END_LIMIT):
            self._process.terminate()
            if not self._drain(_TERMINATED_LIMIT):
                self._process.kill()  # a killed launcher leaves nothing behind either
        self._selector.close()
        for stream in filter(None, (self._process.stdout, self._process.stderr)):
            stream.close()
        return self._process.wait()

    def _drain(self, seconds: float) -> bool:
        """Read both streams to their end; return False if that takes too long."""
        until = time.monotonic() + seconds
        while self._selector.get_map() and self._listen(until):
            pass
        return not self._selector.get_map()

    def _listen(self, until: float) -> bool:
        """Read what comes next; return False when the time is up."""
        left = until - time.monotonic()
        for key, _ in self._selector.select(max(0.0, left)):
            if not key.data.read():
                self._selector.unregister(key.fileobj)
                self.has_ended |= key.fileobj is self._process.stdout
        return left > 0

    def _on_stdout(self, line: bytes) -> None:
        message = read(line)
        if message.kind == REQUEST:
            self._answer(message)
        elif message.kind == ANSWER:
            said = message.parse()
            self.answers[str(said["id"])] = said

    def _answer(self, request: Message) -> None:
        """Answer as a host would: a server may wait for it."""
        results: dict[str, Object] = {
            "ping": {},
            "elicitation/create": {"action": "cancel"},
            "roots/list": {"roots": [{"uri": Path(self._project).absolute().as_uri()}]},
        }
        result = results.get(request.method)
        if result is None:
            text = "the doctor does not support this request"
            self.write(protocol.make_error(request.id, protocol.METHOD_NOT_FOUND, text))
        else:
            self.write(protocol.make_result(request.id, result))

    def _on_stderr(self, line: bytes) -> None:
        text = line.decode(errors="replace").strip()
        if text and not text.startswith(_NOTICE):
            self.last_lines = [*self.last_lines, self.quote(text)][-_LAST_LINES:]

    def quote(self, line: str) -> str:
        """Return a line of the server's output, safe to show."""
        # In this order: half a secret would not be recognised.
        return self._clean(line[:_SEARCHED])[:WIDTH]


class _WireReader:
    """Splits what comes through a pipe into lines."""

    def __init__(self, stream: IO[bytes], handle: Callable[[bytes], None]) -> None:
        self._fd = stream.fileno()
        self._handle = handle
        self._rest = b""

    def read(self) -> bool:
        """Read what there is; return False at the end, or if a line is too long."""
        data = os.read(self._fd, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._handle(line)
        if not data and self._rest:
            self._handle(self._rest)
        return bool(data) and len(self._rest) <= _LINE_LIMIT

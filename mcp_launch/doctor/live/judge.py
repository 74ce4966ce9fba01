"""Judge how a host would get along with a server, from what the server did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_launch.doctor.check import CHECKS, Finding, check
from mcp_launch.doctor.live.conversation import DISCOVER, DISCOVER_GRACE, INITIALIZE, WIDTH, Opening
from mcp_launch.errors import printable
from mcp_launch.machine import units
from mcp_launch.machine.wrap_warnings import tell_how

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.host_quirks import Wait
    from mcp_launch.doctor.live.conversation import Talk
    from mcp_launch.doctor.live.prepare import Start
    from mcp_launch.machine.survey import Item
    from mcp_launch.masking import Scrubber


@dataclass
class ProbedServer:
    """A server that was started, the entries that start it, and the conversations with it."""

    start: Start
    scrubber: Scrubber
    items: list[Item] = field(default_factory=list)
    talks: dict[Opening, Talk] = field(default_factory=dict)

    def list_openings(self) -> list[Opening]:
        """Return how its hosts open a connection."""
        return sorted({choose_opening(item) for item in self.items})

    def find_talk(self, item: Item) -> Talk:
        """Return the conversation that a host would have: its own, or the one that works."""
        own = self.talks[choose_opening(item)]
        others = [talk for talk in self.talks.values() if not talk.failure]
        return others[0] if own.failure and others else own

    def find_wait(self, item: Item) -> Wait | None:
        """Return the longest wait of a host that the server exceeds; None if it exceeds none."""
        talk = self.find_talk(item)
        waits = item.host.quirks.list_waits(item.entry, dict(self.start.environ))
        return next((wait for wait in waits if talk.seconds > wait.seconds), None)

    def deserves_another_look(self) -> bool:
        """Return whether to start it again: it works, but was slow."""
        works = any(not talk.failure for talk in self.talks.values())
        return works and (self.was_silent or any(map(self.find_wait, self.items)))

    @property
    def was_silent(self) -> bool:
        """Return whether it left a first request unanswered."""
        return any(talk.failure and talk.failure.is_silence for talk in self.talks.values())

    @property
    def label(self) -> str:
        """Return its hosts and its names in them, to show progress."""
        hosts: dict[str, list[str]] = {}
        for item in self.items:
            titles = hosts.setdefault(item.name, [])
            titles += [item.host.title] if item.host.title not in titles else []
        return self.clean("; ".join(f"{', '.join(of)}: {name}" for name, of in hosts.items()))

    def describe(self) -> str:
        """Return a few words about its state, to show progress."""
        talk = self.find_talk(self.items[0])
        if talk.failure:
            return "does not start" if talk.failure.code == "ML301" else "does not answer"
        return f"ready in {talk.seconds:.1f} s, {units.count(len(talk.tools), 'tool')}"

    def clean(self, text: str) -> str:
        """Return a server's output, safe to show."""
        return printable(self.scrubber.clean(text))


def choose_opening(item: Item) -> Opening:
    """Return how a host begins: with the newer request, unless it is known to be the other."""
    greeting = item.host.quirks.greeting
    is_newer = greeting.newer_variable in item.variables
    is_older = greeting.begins_with == INITIALIZE and not is_newer
    return Opening(INITIALIZE if is_older else DISCOVER, greeting.capabilities)


def judge(servers: list[ProbedServer]) -> list[Finding]:
    """Return what is wrong with the servers, for each of their hosts."""
    checks = [CHECKS[code] for code in sorted(CHECKS) if CHECKS[code].kind == "live"]
    return [
        finding
        for server in servers
        for item in server.items
        for one in checks
        for finding in one.find(server, item)
    ]


@check("ML301", "error", "the server does not start", "live")
def check_start(server: ProbedServer, item: Item) -> Iterator[Finding]:
    """The server was started as its host would, and ended before it had listed its tools.

    Or it could not be started at all. Its host will not get any tools from it, and most hosts show
    only that the connection was closed. The message quotes the exit code or signal, the request on
    which it ended and the last lines of its stderr, which usually say why: a module is missing, a
    key or a database address is not set, a port is taken, the package could not be downloaded. It
    may also need something that only an interactive login shell sets.

    Run the server's command by itself, in its directory, and wait for an error; a healthy server
    just waits for input. `mcp-launch env docs` shows what it gets when a host starts it, and
    `mcp-launch logs docs` what it wrote earlier. If another error about the same entry names the
    cause, such as ML201 or ML205, this one is not repeated.
    """
    yield from _report_failure(server, item, "ML301")


@check("ML302", "error", "the server does not answer", "live")
def check_answers(server: ProbedServer, item: Item) -> Iterator[Finding]:
    """The server runs, but did not answer `initialize` or `tools/list`, or answered with an error.

    It has 30 seconds; Codex and Claude Code give up at the same limit, and the session continues
    without the server's tools. It waits for a database, a login in a browser or a lock; it
    downloads itself at every start; or it waits for input in another form, as a server for HTTP
    never reads its stdin. A server that was silent is started a second time and gets ten more
    seconds, since the first time it may have been downloading.

    Start it by itself and look at what it prints. If its package is downloaded each time, install
    it. Check that its arguments select stdio, often `--stdio` or `--transport stdio`.
    """
    yield from _report_failure(server, item, "ML302")


def _report_failure(server: ProbedServer, item: Item, code: str) -> Iterator[Finding]:
    failure = server.find_talk(item).failure
    if failure and failure.code == code:
        ending = "; its last lines on stderr:" if failure.lines else ""
        message = server.clean(f"'{item.name}' {failure.message}{ending}")
        fix = server.clean(failure.fix)
        yield Finding(code, item.point(), message, fix, details=failure.lines)


@check("ML309", "error", "the server and its host speak different protocols", "live")
def check_protocol(server: ProbedServer, item: Item) -> Iterator[Finding]:
    """The server starts and talks, but not in a way that this host accepts.

    It does not know the host's first request, its answer lacks something, or it uses a protocol
    version that the host does not know. The host refuses the connection, although the server may
    work in another host. Claude Code begins with `server/discover` (MCP 2026-07-28) and falls back
    to `initialize`; Codex begins with `initialize`. Both demand `protocolVersion`, `capabilities`
    and `serverInfo` with a name and a version. A server that merely exits on `server/discover` is
    not reported: it is started again and gets `initialize`.

    Use another release of the server, usually a newer one, and pin it. If the server is yours, use
    a current SDK, which handles both. For a server that ends on the first request, do not set
    `--restart off`.
    """
    mismatch = None if server.find_talk(item).failure else _find_mismatch(server, item)
    if mismatch:
        problem, fix = mismatch
        yield Finding("ML309", item.point(), server.clean(problem), fix)


def _works(server: ProbedServer, item: Item) -> bool:
    """Return whether a host would get the server's tools, sooner or later."""
    return not server.find_talk(item).failure and not _find_mismatch(server, item)


def _find_mismatch(server: ProbedServer, item: Item) -> tuple[str, str] | None:
    """Return why a host and a server cannot talk to each other, and the fix."""
    own = server.talks[choose_opening(item)]
    newer = "use another release of the server"
    title, greeting = item.host.title, item.host.quirks.greeting
    if own.failure and greeting.begins_with == INITIALIZE:
        problem = (
            f"'{item.name}' knows only `server/discover`, but {title} begins with `initialize`"
        )
        return problem, f"{newer}, one that answers `initialize` as well"
    is_given_up = greeting.begins_with == DISCOVER and not _is_started_again(item, own)
    if own.failure and is_given_up:
        problem = f"'{item.name}' cannot handle `server/discover`, {title}'s first request"
        return f"{problem}: it {own.failure.message}", newer
    talk = server.find_talk(item)
    if talk.missing and greeting.refuses_incomplete:
        problem = f"the answer of '{item.name}' to `initialize` has no {talk.missing}"
        return f"{problem}, and {title} refuses it", newer
    if talk.version and greeting.versions and talk.version not in greeting.versions:
        problem = f"'{item.name}' uses protocol version {talk.version}"
        return f"{problem}, which {title} does not know", newer
    return None


def _is_started_again(item: Item, talk: Talk) -> bool:
    """Return whether a server that ends on `server/discover` is started again.

    Claude Code starts it again, and so does the launcher before that, unless `--restart off`.
    """
    has_ended = bool(talk.failure and talk.failure.code == "ML301")
    return has_ended and item.options.get("--restart") != ["off"]


@check("ML303", "warning", "the server is too slow for its host", "live")
def check_speed(server: ProbedServer, item: Item) -> Iterator[Finding]:
    """The server works, but it takes longer to list its tools than the host waits.

    Codex waits one second, then asks the model without these tools; they come in a later turn.
    `claude -p` waits two seconds. Both give up after 30 seconds. Runners such as `npx` look for
    updates or download at each start, and large servers take seconds to load. A server that does
    not answer `server/discover`, Claude Code's first request, costs three seconds more. In real
    sessions a wrapped server that started once before is answered for from memory, so only its
    first start is slow; you can ignore the code for it.

    * Wrap the entry: `mcp-launch wrap docs`.
    * Install the package instead of downloading it (`npm install -g`, `uv tool install`).
    * Codex: `required = true` makes it wait, but then Codex does not start if the server fails;
      `startup_timeout_sec` raises the limit.
    * Claude Code: start it with a larger `CLAUDE_CODE_MCP_STARTUP_WAIT_MS` or `MCP_TIMEOUT`.
    """
    wait = server.find_wait(item)
    if wait is None or not _works(server, item):
        return
    talk = server.find_talk(item)
    took = f"'{item.name}' takes {talk.seconds:.1f} s to list its tools"
    if talk.is_mute:
        took += f", {DISCOVER_GRACE:g} s of them because it does not answer `server/discover`"
    yield Finding("ML303", item.point(), f"{took}; {wait.consequence}", wait.fix)


@check("ML307", "warning", "the server, or what it started, outlives its input", "live")
def check_end(server: ProbedServer, item: Item) -> Iterator[Finding]:
    """The server keeps running after its stdin was closed, or leaves processes behind when it ends.

    For a stdio server, the end of its input is the signal to exit. A host that exits normally also
    sends a signal to its direct child; one that crashes or is killed sends nothing. A server that
    ignores the end runs on for days, and what it has started (browsers, language servers,
    databases) stays, since hosts only know their direct child: after a week there may be hundreds
    of processes that hold memory, ports and locks. The server has a timer or a socket that keeps it
    alive, or `npx`, `uvx` or a shell script gets the signal and the real server is one level
    further down.

    Wrap the entry (`mcp-launch wrap docs`): mcp-launch gives the server two seconds after the end
    of input, then ends it and everything below it. `mcp-launch reap` ends what earlier sessions
    have left. If a process is meant to stay, such as a shared daemon, do not wrap the server;
    ignore the code for it. Wrapped entries are not reported.
    """
    if item.is_wrapped or not _works(server, item):
        return
    ended, wrap = server.find_talk(item).outcome, f"let mcp-launch end it: {tell_how(item)}"
    if ended.outlasted_input:
        message = f"'{item.name}' keeps running after its input ends, so it outlives"
        yield Finding("ML307", item.point(), f"{message} {item.host.title}", wrap)
    if count := ended.left_behind:
        those = "a process" if count == 1 else f"{count} processes"
        message = f"'{item.name}' leaves {those} behind when it ends"
        yield Finding("ML307", item.point(), message, wrap)


@check("ML304", "warning", "the server prints lines that are not messages", "live")
def check_noise(server: ProbedServer, item: Item) -> Iterator[Finding]:
    """The server prints to stdout what is no message: a banner, a log line, a progress bar.

    stdout is the connection. Some hosts ignore such a line, others drop the connection or lose the
    message next to it, and the failure looks random. A `print` or `console.log` was left in the
    code, a library greets its users, or a package runner says what it installs.

    Make the server log to stderr. If it is not yours, let mcp-launch move these lines there; it
    does so for every wrapped entry (`mcp-launch wrap docs`), and `mcp-launch logs docs` shows them.
    For a wrapped entry this appears only with `--direct`, which turns that off: leave the option
    out.
    """
    count = server.find_talk(item).outcome.noise
    if (
        not count
        or not _works(server, item)
        or (item.is_wrapped and "--direct" not in item.options)
    ):
        return  # the launcher moves these lines to stderr
    those = "a line that is not a message" if count == 1 else f"{count} lines that are not messages"
    first = server.clean(server.find_talk(item).outcome.first_noise[0])[:WIDTH]
    way = "leave out --direct" if item.is_wrapped else tell_how(item)
    yield Finding(
        "ML304",
        item.point(),
        server.clean(f"'{item.name}' prints {those} to stdout: {first}"),
        f"make it log to stderr, or let mcp-launch move them there: {way}",
    )

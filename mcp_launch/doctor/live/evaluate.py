"""Judge how a host would get along with a server, from what the server did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.doctor.live.client import DISCOVER, DISCOVER_GRACE, INITIALIZE, Opening
from mcp_launch.doctor.live.wire import WIDTH
from mcp_launch.errors import printable
from mcp_launch.machine.wrap_hint import tell_how

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.host_quirks import Wait
    from mcp_launch.doctor.live.client import Talk
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
        waits = item.host.quirks.limits.list_waits(item.entry, dict(self.start.environ))
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
        count = len(talk.tools)
        return f"ready in {talk.seconds:.1f} s, {count} tool{'s' if count != 1 else ''}"

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
    found = [one for server in servers for item in server.items for one in _look(server, item)]
    return found + list(_count_tools(servers))


def _look(server: ProbedServer, item: Item) -> Iterator[Finding]:
    talk = server.find_talk(item)
    mismatch = _find_mismatch(server, item)
    if talk.failure:
        fix, lines = server.clean(talk.failure.fix), talk.failure.lines
        ending = "; its last lines on stderr:" if lines else ""
        message = server.clean(f"'{item.name}' {talk.failure.message}{ending}")
        yield Finding(talk.failure.code, item.point(), message, fix, details=lines)
    elif mismatch:
        problem, fix = mismatch
        yield Finding("ML309", item.point(), server.clean(problem), fix)
    else:
        yield from _check_speed(server, item)
        yield from _check_names(server, item, talk)
        if not item.is_wrapped:
            yield from _check_end(item, talk)
        yield from _check_noise(server, item, talk)


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


def _check_speed(server: ProbedServer, item: Item) -> Iterator[Finding]:
    wait = server.find_wait(item)
    if wait is None:
        return
    talk = server.find_talk(item)
    took = f"'{item.name}' takes {talk.seconds:.1f} s to list its tools"
    if talk.is_mute:
        took += f", {DISCOVER_GRACE:g} s of them because it does not answer `server/discover`"
    yield Finding("ML303", item.point(), f"{took}; {wait.consequence}", wait.fix)


def _check_names(server: ProbedServer, item: Item, talk: Talk) -> Iterator[Finding]:
    length = item.host.quirks.limits.tool_name
    if length is None:
        return
    before = length.before.format(item.name)
    names = [before + tool for tool in talk.tools if len(before + tool) > length.limit]
    if names:
        longest = max(names, key=len)
        count = f"{len(names)} tool{'' if len(names) == 1 else 's'}"
        yield Finding(
            "ML306",
            item.point(),
            f"{item.host.title} leaves out {count} of '{item.name}': with the server's "
            f"name, names have more than {length.limit} characters "
            f"({server.clean(longest)}: {len(longest)})",
            "give the server a shorter name in the entry",
        )


def _check_end(item: Item, talk: Talk) -> Iterator[Finding]:
    """Report what the launcher would take care of if the entry were wrapped."""
    wrap = f"let mcp-launch end it: {tell_how(item)}"
    if talk.outcome.outlasted_input:
        yield Finding(
            "ML307",
            item.point(),
            f"'{item.name}' keeps running after its input ends, so it outlives {item.host.title}",
            wrap,
        )
    count = talk.outcome.left_behind
    if count:
        those = "a process" if count == 1 else f"{count} processes"
        yield Finding(
            "ML308", item.point(), f"'{item.name}' leaves {those} behind when it ends", wrap
        )


def _check_noise(server: ProbedServer, item: Item, talk: Talk) -> Iterator[Finding]:
    count = talk.outcome.noise
    if not count or (item.is_wrapped and "--direct" not in item.options):
        return  # the launcher moves these lines to stderr
    those = "a line that is not a message" if count == 1 else f"{count} lines that are not messages"
    first = server.clean(talk.outcome.first_noise[0])[:WIDTH]
    way = "leave out --direct" if item.is_wrapped else tell_how(item)
    yield Finding(
        "ML304",
        item.point(),
        server.clean(f"'{item.name}' prints {those} to stdout: {first}"),
        f"make it log to stderr, or let mcp-launch move them there: {way}",
    )


def _count_tools(servers: list[ProbedServer]) -> Iterator[Finding]:
    """Check the number of tools of all servers of a host: its model gets them together."""
    found = {item.host.name: item.host for server in servers for item in server.items}
    for name in sorted(found):
        count = found[name].quirks.limits.tools
        if count is None:
            continue
        sizes = {
            item.name: (len(server.find_talk(item).tools), item)
            for server in servers
            for item in server.items
            if item.host.name == name
        }
        ranked = sorted(sizes.values(), key=lambda one: -one[0])
        total = sum(size for size, _ in ranked)
        if total > count.limit:
            largest = ranked[0][1]
            most = ", ".join(f"{item.name} {size}" for size, item in ranked[:3])
            yield Finding(
                "ML305",
                largest.point(),
                f"the servers have {total} tools in total ({most}), and {count.consequence}",
                f"disable the tools that you do not need, in {largest.host.title} or in the server",
            )

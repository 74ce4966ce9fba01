"""What a host would make of a server, by what the server did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.doctor.live.client import DISCOVER, DISCOVER_GRACE, INITIALIZE
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
class Patient:
    """A server, whose it is, and what came of each way to greet it."""

    start: Start
    scrubber: Scrubber
    items: list[Item] = field(default_factory=list)
    talks: dict[str, Talk] = field(default_factory=dict)

    def list_greetings(self) -> list[str]:
        """Return what the hosts begin with."""
        return sorted({choose_greeting(item) for item in self.items})

    def find_talk(self, item: Item) -> Talk:
        """Return the conversation that a host would have: of two ways, the one that works."""
        own = self.talks[choose_greeting(item)]
        others = [talk for talk in self.talks.values() if not talk.failure]
        return others[0] if own.failure and others else own

    def find_wait(self, item: Item) -> Wait | None:
        """Return what a host does before the server is ready."""
        talk = self.find_talk(item)
        waits = item.host.quirks.limits.list_waits(item.entry, dict(self.start.environ))
        return next((wait for wait in waits if talk.seconds > wait.seconds), None)

    def deserves_another_look(self) -> bool:
        """Tell whether another start would say more: of one that works, but not at once."""
        works = any(not talk.failure for talk in self.talks.values())
        return works and (self.was_silent or any(map(self.find_wait, self.items)))

    @property
    def was_silent(self) -> bool:
        """Tell whether it did not answer when it was greeted in one way or the other."""
        return any(talk.failure and talk.failure.is_silence for talk in self.talks.values())

    def describe(self) -> str:
        """Return how it is, for who waits."""
        names = ", ".join(dict.fromkeys(item.name for item in self.items))
        talk = self.find_talk(self.items[0])
        if talk.failure:
            told = "does not start" if talk.failure.code == "ML301" else "does not answer"
            return f"{names}: {told}"
        count = len(talk.tools)
        return f"{names}: ready in {talk.seconds:.1f} s, {count} tool{'s' if count != 1 else ''}"

    def clean(self, text: str) -> str:
        """Return what a server said, fit to be shown."""
        return printable(self.scrubber.clean(text))


def choose_greeting(item: Item) -> str:
    """Return what a host begins with: the newer way, as far as nothing else is known."""
    greeting = item.host.quirks.greeting
    is_told = greeting.newer_variable in item.variables
    return INITIALIZE if greeting.begins_with == INITIALIZE and not is_told else DISCOVER


def judge(patients: list[Patient]) -> list[Finding]:
    """Return what is wrong, for each host what concerns it."""
    found = [one for patient in patients for item in patient.items for one in _look(patient, item)]
    return found + list(_count_tools(patients))


def _look(patient: Patient, item: Item) -> Iterator[Finding]:
    talk = patient.find_talk(item)
    strangeness = _find_strangeness(patient, item)
    if talk.failure:
        told = patient.clean(f"{item.name} {talk.failure.message}")
        yield Finding(talk.failure.code, item.point(), told, patient.clean(talk.failure.fix))
    elif strangeness:
        problem, fix = strangeness
        yield Finding("ML309", item.point(), patient.clean(problem), fix)
    else:
        yield from _check_speed(patient, item)
        yield from _check_names(patient, item, talk)
        if not item.is_wrapped:
            yield from _check_manners(item, talk)
        yield from _check_noise(patient, item, talk)


def _find_strangeness(patient: Patient, item: Item) -> tuple[str, str] | None:
    """Return why a host and a server do not understand one another, and what to do about it."""
    own = patient.talks[choose_greeting(item)]
    newer = "use another release of the server"
    title, greeting = item.host.title, item.host.quirks.greeting
    if own.failure and greeting.begins_with == INITIALIZE:
        problem = f"{item.name} knows `server/discover` only, and {title} begins with `initialize`"
        return problem, f"{newer}, one that answers `initialize` as well"
    is_given_up = greeting.begins_with == DISCOVER and not _is_started_again(item, own)
    if own.failure and is_given_up:
        problem = f"{item.name} cannot handle `server/discover`, {title}'s first request"
        return f"{problem}: it {own.failure.message}", newer
    talk = patient.find_talk(item)
    if talk.missing and greeting.refuses_incomplete:
        problem = f"{item.name}'s answer to `initialize` has no {talk.missing}"
        return f"{problem}, and {title} refuses it", newer
    if talk.version and greeting.versions and talk.version not in greeting.versions:
        problem = f"{item.name} speaks the protocol of {talk.version}"
        return f"{problem}, which {title} does not know", newer
    return None


def _is_started_again(item: Item, talk: Talk) -> bool:
    """Tell whether a server that ends over `server/discover` gets another chance.

    Claude Code starts it again, and so does the launcher before it, unless it was told not to.
    """
    has_ended = bool(talk.failure and talk.failure.code == "ML301")
    return has_ended and item.options.get("--restart") != ["off"]


def _check_speed(patient: Patient, item: Item) -> Iterator[Finding]:
    wait = patient.find_wait(item)
    if wait is None:
        return
    talk = patient.find_talk(item)
    took = f"{item.name} takes {talk.seconds:.1f} s to tell its tools"
    if talk.is_mute:
        took += f", {DISCOVER_GRACE:g} s of them because it does not answer `server/discover`"
    yield Finding("ML303", item.point(), f"{took}; {wait.consequence}", wait.fix)


def _check_names(patient: Patient, item: Item, talk: Talk) -> Iterator[Finding]:
    length = item.host.quirks.limits.tool_name
    if length is None:
        return
    before = length.before.format(item.name)
    names = [before + tool for tool in talk.tools if len(before + tool) > length.limit]
    if names:
        longest = max(names, key=len)
        yield Finding(
            "ML306",
            item.point(),
            f"{item.host.title} leaves out {len(names)} of {item.name}'s tools: with the server's "
            f"name, theirs have more than {length.limit} characters "
            f"({patient.clean(longest)}: {len(longest)})",
            "give the server a shorter name in the entry",
        )


def _check_manners(item: Item, talk: Talk) -> Iterator[Finding]:
    """Tell what the launcher would put right, were it there."""
    wrap = f"have the launcher end it: {tell_how(item)}"
    if talk.outcome.outlasted_input:
        yield Finding(
            "ML307",
            item.point(),
            f"{item.name} goes on after the end of its input, and so when {item.host.title} dies",
            wrap,
        )
    count = talk.outcome.left_behind
    if count:
        those = "a process" if count == 1 else f"{count} processes"
        yield Finding(
            "ML308", item.point(), f"{item.name} leaves {those} behind when it ends", wrap
        )


def _check_noise(patient: Patient, item: Item, talk: Talk) -> Iterator[Finding]:
    count = talk.outcome.noise
    if not count or (item.is_wrapped and not {"--direct", "--stdout"} & set(item.options)):
        return  # or the launcher moves it to stderr
    those = "a line that is not a message" if count == 1 else f"{count} lines that are not messages"
    first = patient.clean(talk.outcome.first_noise[0])[:WIDTH]
    way = "leave out --direct and --stdout" if item.is_wrapped else tell_how(item)
    yield Finding(
        "ML304",
        item.point(),
        patient.clean(f"{item.name} prints {those} to stdout: {first}"),
        f"have it log to stderr, or the launcher move it there: {way}",
    )


def _count_tools(patients: list[Patient]) -> Iterator[Finding]:
    """Look at the tools of all servers of a host: its model gets them together."""
    found = {item.host.name: item.host for patient in patients for item in patient.items}
    for name in sorted(found):
        count = found[name].quirks.limits.tools
        if count is None:
            continue
        sizes = {
            item.name: (len(patient.find_talk(item).tools), item)
            for patient in patients
            for item in patient.items
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
                f"the servers have {total} tools together ({most}), and {count.consequence}",
                f"switch off what you do not need, in {largest.host.title} or in the server",
            )

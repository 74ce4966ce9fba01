"""`mcp-launch logs`: what servers wrote to stderr and what launches decided, in order."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError, printable, suggest
from mcp_launch.machine.survey import open_survey
from mcp_launch.state import launch_log, leases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

# How often to look for new lines, in seconds.
_INTERVAL = 0.2

# How much of a launch's id is shown: enough to distinguish launches that run at the same time.
_ID_SHOWN = 6

_STYLES = {"i": "bold", "e": "", "n": "yellow", "t": "dim"}


class Line(NamedTuple):
    """One line of a log."""

    moment: float
    kind: str
    text: str


class Wanted(NamedTuple):
    """Which lines to show."""

    server: str = ""
    session: str = ""  # a session or a thread, or a part of its id


class Reader:
    """Reads one launch's log, and later the lines added to it."""

    def __init__(self, path: str, count: int | None, entries: Mapping[str, list[str]]) -> None:
        self.launch = os.path.basename(path).partition(".")[0]
        self.facts: dict[str, object] = {}
        self._path = path
        self._entries = entries  # the names in the hosts' files, by command
        self._mark = b""  # the first line of the file that was read last, which identifies it
        self._offset = 0
        self._identity = ""  # all text that may name its session or thread
        self._introduction: Line | None = None
        self._lines: deque[Line] = deque(maxlen=count)  # limited to `count` on the first read

    def read(self) -> None:
        """Read the new lines; after a rotation, first the rest of the previous file."""
        try:
            with open(self._path, "rb") as file:
                mark = file.readline()
                if mark != self._mark:
                    self._read_before(mark)
                    self._mark, self._offset = mark, 0
                file.seek(self._offset)
                self._take(file.read())
        except OSError:
            return  # removed just now: it was old

    def _read_before(self, mark: bytes) -> None:
        try:
            with open(self._path + launch_log.BEFORE, "rb") as file:
                before = file.readline()
                if before == mark:
                    return  # it is being rotated right now
                file.seek(self._offset if before == self._mark else 0)
                self._take(file.read())
        except OSError:
            pass  # there is none

    def _take(self, data: bytes) -> None:
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for raw in whole.decode(errors="replace").split("\n") if newline else []:
            moment, _, rest = raw.partition(" ")
            kind, _, text = rest.partition(" ")
            try:
                line = Line(float(moment), kind, text)
            except ValueError:
                continue  # not ours
            if kind == "i":
                self._take_facts(line)
            else:
                self._lines.append(line)
            if kind in "it":
                self._identity += text

    def _take_facts(self, line: Line) -> None:
        try:
            facts = json.loads(line.text)
        except ValueError:
            return
        if isinstance(facts, dict) and not self.facts:
            self.facts = facts
            self._introduction = line._replace(text=_introduce(facts))

    @property
    def names(self) -> list[str]:
        """Return the server's names: those in the hosts' files, and the one given to the launch."""
        given = str(self.facts.get("server"))
        names = self._entries.get(str(self.facts.get("mark")), [])
        return [given] if given in names else [*names, given]

    def is_wanted(self, wanted: Wanted) -> bool:
        """Return whether to show this log."""
        return wanted.server in {"", *self.names} and wanted.session in self._identity

    def take_lines(self) -> list[Line]:
        """Return the lines that were not returned before."""
        lines, self._lines = list(self._lines), deque()
        first, self._introduction = self._introduction, None
        if first is None:
            return lines
        # The log is opened only while the server starts, so decisions are older than it.
        return [first._replace(moment=min(line.moment for line in (first, *lines))), *lines]


def run(wanted: Wanted, environ: Mapping[str, str], *, count: int, is_following: bool) -> int:
    """Show the last lines, and with `is_following` all new ones, until ^C."""
    console = Screen(soft_wrap=not sys.stdout.isatty())
    directory = launch_log.find_directory(environ)
    entries = _list_entries(environ)
    readers: dict[str, Reader] = {}
    _look(directory, readers, count, entries)
    if not is_following:
        _check(wanted, readers, directory)
    shown = list(_take(readers, wanted))
    for reader, line in shown[-count:]:
        _show(console, reader, line)
    try:
        while is_following:
            time.sleep(_INTERVAL)
            _look(directory, readers, None, entries)
            for reader, line in _take(readers, wanted):
                _show(console, reader, line)
    except KeyboardInterrupt:
        pass  # the normal way to quit
    return 0


def _list_entries(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names in the hosts' files, by the mark of their commands."""
    found: dict[str, list[str]] = {}
    for one in open_survey(environ).configured:
        names = found.setdefault(leases.mark_command(list(one.words)), [])
        names += [one.name] if one.name not in names else []
    return found


def _look(
    directory: str,
    readers: dict[str, Reader],
    count: int | None,
    entries: Mapping[str, list[str]],
) -> None:
    try:
        names = os.listdir(directory)
    except OSError:
        return  # nothing was launched yet
    for name in names:
        if name.endswith(launch_log.ENDING):
            reader = Reader(f"{directory}/{name}", count, entries)
            readers.setdefault(name, reader).read()


def _check(wanted: Wanted, readers: dict[str, Reader], directory: str) -> None:
    if any(reader.is_wanted(wanted) for reader in readers.values()):
        return
    servers = sorted({name for reader in readers.values() for name in reader.names})
    if not servers:
        raise UsageError(
            f"there is no log in {directory}",
            fix="start a server through mcp-launch (mcp-launch wrap), then look again",
        )
    if wanted.server and wanted.server not in servers:
        raise UsageError(
            f"there is no log of the server {printable(wanted.server)}",
            fix=f"{suggest(wanted.server, servers)}there are logs of {', '.join(servers)}",
        )
    raise UsageError(
        f"no log mentions session {printable(wanted.session)}",
        fix="mcp-launch ps shows the sessions there are",
    )


def _take(readers: dict[str, Reader], wanted: Wanted) -> Iterator[tuple[Reader, Line]]:
    """Return the new lines of all wanted logs, in order of time."""
    new = [
        (reader, line)
        for reader in readers.values()
        if reader.is_wanted(wanted)
        for line in reader.take_lines()
    ]
    yield from sorted(new, key=lambda one: one[1].moment)


def _introduce(facts: dict[str, object]) -> str:
    words = [f"launch {facts.get('launch')}"]
    words += [f"{name} {facts[name]}" for name in ("host", "session", "thread") if facts.get(name)]
    return f"{', '.join(words)} in {facts.get('cwd')}"


def _show(console: Console, reader: Reader, line: Line) -> None:
    clock = time.strftime("%m-%d %H:%M:%S", time.localtime(line.moment))
    label = f"{reader.names[0]} {reader.launch[-_ID_SHOWN:]}"
    shown = Text(f"{clock} ", "dim")
    shown.append(printable(label), "cyan")
    text = printable(line.text.rstrip("\r").expandtabs())
    shown.append(f" {'stdout: ' if line.kind == 'n' else ''}{text}", _STYLES.get(line.kind, ""))
    console.print(shown)

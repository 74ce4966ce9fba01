"""`mcp-launch logs`: what servers wrote to stderr and what happened to them, in order."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from mcp_launch import hosts
from mcp_launch.commands.app import Follow, Json, Lines, Session, Since, app, name_servers
from mcp_launch.commands.output import cut_id, print_json_line, print_row
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError, printable, suggest
from mcp_launch.machine.launch_logs import Line, LogReader
from mcp_launch.machine.units import read_moment, tell_clock
from mcp_launch.state import launch_log, leases
from mcp_launch.values import shorten_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_launch.machine.survey import Survey

VERSION = 1

# How often to look for new lines, in seconds.
_INTERVAL = 0.2

# How many lines are shown, if neither a number nor a time is given.
_COUNT = 200

# How much of a launch's id is shown: enough to distinguish launches that run at the same time.
_ID_SHOWN = 6

_STYLES = {
    "stderr": "",
    "stdout": "yellow",
    "failure": "bold red",
    "start": "bold",
    "end": "bold",
    "restart": "bold",
    "rest": "cyan",
    "refusal": "yellow",
    "decision": "dim",
}
_WIDEST = max(map(len, _STYLES))

# A failure quotes the end of the server's stderr for the host, and names this command as its fix.
_QUOTE = "; the end of its stderr: "
_FIX = " \N{EM DASH} fix: "
_SEE_LOGS = "see its output and how it was started: mcp-launch logs "

# With these lines a launch is introduced: for which host and session it runs, and where.
_FIRST = {"start", "rest"}


@app.command("logs")
def show_logs(  # noqa: PLR0913  # one for each option
    server: Annotated[
        str,
        name_servers("A server; default: all."),
    ] = "",
    *,
    session: Session = "",
    since: Since = "",
    failed: Annotated[bool, typer.Option("--failed", help="Only what went wrong.")] = False,
    lines: Lines = None,
    follow: Follow = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Also show each decision of a launch, and all times."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what servers wrote to stderr, what failed, and when they started and ended.

    One line each: a time, the server and its launch, a kind and a text. Kinds are stderr, stdout
    (lines that are not messages), failure, start, end, restart, rest, refusal and, with -v,
    decision. With --json, each line is a JSON object.

    \b
    Examples:
      mcp-launch logs files -f               follow one server
      mcp-launch logs --failed --since 1h    what went wrong in the last hour
      mcp-launch logs files -v               why it got its directory
    """  # noqa: D301  # keeps the line breaks of what follows
    after = read_moment(since, time.time()) if since else 0.0
    count = lines or (None if since else _COUNT)
    count = count and min(count, sys.maxsize)  # a deque takes no more
    show = _show_json if as_json else _make_printer(is_exact=verbose)

    def is_wanted(line: Line) -> bool:
        is_kind = line.kind == "failure" if failed else verbose or line.kind != "decision"
        return is_kind and line.moment >= after

    # As in `ps`, ids and paths are short on a terminal, unless more was asked for.
    is_short = sys.stdout.isatty() and not verbose
    logs = _Logs(server, session, is_wanted, is_introduced=not as_json, is_short=is_short)
    logs.look(count)
    if not follow:
        logs.check()
    shown = list(logs.take())
    for reader, line in shown[-count:] if count else shown:
        show(reader, line)
    if not (shown or follow or as_json):
        what = "failures" if failed else "lines to show"
        when = f" since {since}" if since else ""
        hint = "" if verbose or failed else "; -v shows decisions, too"
        Screen().print(Text(printable(f"There are no {what}{when}{hint}.")))
    try:
        while follow:
            time.sleep(_INTERVAL)
            logs.look(None)
            for reader, line in logs.take():
                show(reader, line)
    except KeyboardInterrupt:
        pass  # the normal way to quit


class _Logs:
    """The logs of all launches, as far as they are wanted."""

    def __init__(
        self,
        server: str,
        session: str,
        is_wanted: Callable[[Line], bool],
        *,
        is_introduced: bool,
        is_short: bool,
    ) -> None:
        from mcp_launch.machine.survey import open_survey

        self._server, self._session = server, session
        self._is_wanted = is_wanted
        self._is_introduced = is_introduced
        self._directory = launch_log.find_directory(os.environ)
        survey = open_survey(os.environ)
        self._is_short = is_short
        self._home = survey.site.home if self._is_short else ""
        self._entries = _list_entries(survey)
        self._readers: dict[str, LogReader] = {}
        self._introduced: set[str] = set()

    def look(self, count: int | None) -> None:
        """Read what is new."""
        try:
            names = os.listdir(self._directory)
        except OSError:
            return  # nothing was launched yet
        for name in names:
            if name.endswith(launch_log.ENDING):
                path = f"{self._directory}/{name}"
                reader = LogReader(path, self._entries, is_shown=self._is_wanted, count=count)
                self._readers.setdefault(name, reader).read()

    def take(self) -> Iterator[tuple[LogReader, Line]]:
        """Return the new lines of all wanted logs, in order of time."""
        new = [
            (reader, line)
            for reader in self._readers.values()
            if reader.is_of(self._server, self._session)
            for line in self._introduce(reader, reader.take_lines())
        ]
        yield from sorted(new, key=lambda one: one[1].moment)

    def _introduce(self, reader: LogReader, lines: list[Line]) -> list[Line]:
        """Return the lines of a launch; once, with its host, session and directory."""
        if not self._is_introduced or reader.launch in self._introduced:
            return lines
        introduction = self._describe_launch(reader.facts)
        lines = [self._name_failed(line, reader.facts) for line in lines]
        for at, line in enumerate(lines):
            if line.kind in _FIRST:
                self._introduced.add(reader.launch)
                lines[at] = line._replace(text=f"{line.text}, {introduction}")
                break
        return lines

    def _name_failed(self, line: Line, facts: dict[str, object]) -> Line:
        """Return the failure of a launch with its host and directory: no start is above it."""
        before, failed, reason = line.text.partition(" failed: ")
        host, place = _name_host(facts), shorten_home(str(facts.get("cwd")), self._home)
        if line.kind != "failure" or before != "the launch" or not host:
            return line
        return line._replace(text=f"{before} for {host} in {place}{failed}{reason}")

    def _describe_launch(self, facts: dict[str, object]) -> str:
        """Return for which host and session a launch runs, and where."""
        words = []
        if host := _name_host(facts):
            words.append(f"for {host}")
        for name in ("thread", "session"):
            if facts.get(name):
                words.append(f"{name} {self._cut_id(str(facts[name]))}")
                break
        place = shorten_home(str(facts.get("cwd")), self._home)
        return f"{', '.join([*words, 'in'])} {place}".removeprefix(", ")

    def _cut_id(self, name: str) -> str:
        if not self._is_short:
            return name
        facts = [reader.facts for reader in self._readers.values()]
        return cut_id(name, {str(one.get("thread") or one.get("session")) for one in facts})

    def check(self) -> None:
        """Check that there is a log to show.

        Raises:
            UsageError: There is none.

        """
        readers = self._readers.values()
        if any(reader.is_of(self._server, self._session) for reader in readers):
            return
        servers = sorted({name for reader in readers for name in reader.names})
        if not servers:
            raise UsageError(
                f"there is no log in {self._directory}",
                fix="start a server through mcp-launch (mcp-launch wrap), then look again",
            )
        if self._server and self._server not in servers:
            raise UsageError(
                f"there is no log of the server {printable(self._server)}",
                fix=f"{suggest(self._server, servers)}there are logs of {', '.join(servers)}",
            )
        raise UsageError(
            f"no log mentions session {printable(self._session)}",
            fix="mcp-launch ps shows the sessions there are",
        )


def _list_entries(survey: Survey) -> dict[str, list[str]]:
    """Return the names in the hosts' files, and the programs, by the marks of their commands."""
    found: dict[str, list[str]] = {}
    for one in survey.configured:
        mark = leases.mark_command(list(one.words))
        names = found.setdefault(mark, [])
        names += [one.name] if one.name not in names else []
        found[f"programs of {mark}"] = [os.path.basename(one.words[0])]
    return found


def _name_host(facts: dict[str, object]) -> object:
    host = facts.get("host")
    return None if host == hosts.UNKNOWN.name else host


def _show_json(reader: LogReader, line: Line) -> None:
    facts = reader.facts
    print_json_line(
        {
            "version": VERSION,
            "time": line.moment,
            "server": reader.names[0],
            "host": _name_host(facts),
            "session": facts.get("session"),
            "thread": facts.get("thread"),
            "launch": reader.launch,
            "kind": line.kind,
            "text": line.text,
        }
    )


def _make_printer(*, is_exact: bool) -> Callable[[LogReader, Line], None]:
    is_terminal = sys.stdout.isatty()
    console = Screen(soft_wrap=not is_terminal)
    last: dict[str, str] = {}  # the kind of each launch's last line

    def show(reader: LogReader, line: Line) -> None:
        clock = tell_clock(line.moment, is_short=is_terminal, is_exact=is_exact)
        shown = Text.assemble((clock, "dim"), " ")
        label = f"{reader.names[0]} {reader.launch[-_ID_SHOWN:]}"
        shown.append(f"{printable(label)} ", "cyan")
        style = _STYLES[line.kind]
        shown.append(f"{line.kind:{_WIDEST}} ", style)
        # The kind says it already.
        said = line.text.removeprefix({"start": "started: ", "end": "ended: "}.get(line.kind, ""))
        if line.kind == "failure" and last.get(reader.launch) == "stderr":
            said = _leave_out_quote(said)
        last[reader.launch] = line.kind
        if console.options.ascii_only:
            said = said.replace("\N{EM DASH}", "-")
        text = Text(printable(said.expandtabs()), style)
        print_row(console, shown, text)

    return show


def _leave_out_quote(failure: str) -> str:
    """Return a failure without the end of stderr, which is shown above it, and without our name."""
    problem, dash, fix = failure.rpartition(_FIX)
    if not dash:
        problem, fix = failure, ""
    problem = problem.partition(_QUOTE)[0]
    return problem if not fix or fix.startswith(_SEE_LOGS) else f"{problem}{_FIX}{fix}"

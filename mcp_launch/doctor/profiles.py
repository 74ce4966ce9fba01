"""Checks of the user's own file: profiles that cannot be used, or that have no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch.doctor.check import Finding, check
from mcp_launch.doctor.filter import CodeRule, read_rule
from mcp_launch.documents import toml
from mcp_launch.documents.positions import Unreadable, locate_path
from mcp_launch.errors import (
    ProfileRefused,
    UsageError,
    printable,
    suggest,
)
from mcp_launch.launch import profile_file, profile_tables
from mcp_launch.launch.profile_file import GLOBS
from mcp_launch.machine.survey import Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_launch.documents.positions import Path, Spot
    from mcp_launch.machine.remembered_tools import RememberedTools
    from mcp_launch.machine.survey import Survey


class _ProfileFile(NamedTuple):
    """The user's file, with the places of everything in it."""

    path: str
    text: str
    spots: dict[Path, Spot]
    servers: dict[str, dict[str, Any]]
    refused: dict[str, ProfileRefused]  # the errors in the tables of single servers

    def point(self, server: str, where: Path) -> Subject:
        """Return the place of a key, or of what it is in."""
        line, column = locate_path(self.text, self.spots, where)
        return Subject(server=server, file=self.path, line=line, column=column)


def _read(survey: Survey) -> _ProfileFile | None:
    """Return the user's file; None if there is none.

    Raises:
        ProfileRefused: It cannot be used.

    """
    path = profile_tables.locate(survey.environ)
    content = profile_tables.read_text(path)
    if content is None:
        return None
    parsed = profile_file.parse(content, path)
    refused = profile_tables.UserFile(path, parsed).refused
    text = content.decode()
    spots = {spot.path: spot for spot in toml.read(text)[1]}
    return _ProfileFile(path, text, spots, parsed["servers"], refused)


def _read_valid(survey: Survey) -> _ProfileFile | None:
    """Return the user's file; None if launches do not use it, which ML013 reports."""
    try:
        return _read(survey)
    except ProfileRefused:
        return None


@check("ML013", "error", "the user's own file cannot be used")
def check_user_file(survey: Survey) -> Iterator[Finding]:
    """There is a mistake in `~/.config/mcp-launch/config.toml`, or others can write to it.

    A profile may say what a server must not get, so mcp-launch does not guess. While the whole file
    is invalid, no wrapped server starts, in any host; a mistake in one server's table stops that
    server. What is wrong in `[doctor] ignore` stops no server, but is left out, so the findings
    that it should hide are reported.

    Go to the line in the finding; its fix suggests the closest valid key or value. For a file that
    others can write: `chmod go-w ~/.config/mcp-launch/config.toml`. Then check what a server gets
    with `mcp-launch env docs`.

        [defaults]
        pass_env = "safe"

        [doctor]
        ignore = ["ML117", "ML206:docs"]    # a code, a level, or one for a server or a host
    """
    try:
        file = _read(survey)
        found = file.refused if file else {}
    except ProfileRefused as refused:
        found = {"": refused}
    for server, error in found.items():
        whom = f"{server} does not start" if server else "no wrapped server starts"
        path = profile_tables.locate(survey.environ)
        yield Finding(
            "ML013",
            Subject(file=path, line=error.line, column=error.column),
            f"{error.without_place}; until this is fixed, {whom}",
            error.fix,
        )
    for rule in _walk_ignored(survey):
        if isinstance(rule, Finding):
            yield rule


def read_ignored(survey: Survey) -> tuple[CodeRule, ...]:
    """Return the rules of `[doctor] ignore`; what is invalid in it is left out (see ML013)."""
    return tuple(rule for rule in _walk_ignored(survey) if isinstance(rule, CodeRule))


def _walk_ignored(survey: Survey) -> Iterator[CodeRule | Finding]:
    """Yield the rules of the user's list, and what is wrong with it."""
    path = profile_tables.locate(survey.environ)
    table, key = profile_file.OF_DOCTOR, "ignore"
    try:
        text = (profile_tables.read_text(path) or b"").decode()
        document, spots = toml.read(text)
    except (ValueError, ProfileRefused, Unreadable):
        return  # it cannot be used, which is reported
    places = {spot.path: spot for spot in spots}

    def refuse(where: Path, problem: str, fix: str) -> Finding:
        line, column = locate_path(text, places, where)
        return Finding("ML013", Subject(file=path, line=line, column=column), problem, fix)

    own = document.get(table, {})
    if not isinstance(own, dict):
        yield refuse((table,), f"`{table}` must be a table", f"write [{table}]")
        return
    for name in own:
        if name != key:
            fix = f"{suggest(name, [key])}the only key is {key}"
            yield refuse((table, name), f"unknown key {name} in [{table}]", fix)
    listed = own.get(key, [])
    if not isinstance(listed, list):
        fix = f'write {key} = ["ML117", "ML206:docs"]'
        yield refuse((table, key), f"{key} must be a list of codes", fix)
        return
    for at, word in enumerate(listed):
        try:
            yield read_rule(word if isinstance(word, str) else str(word), key)
        except UsageError as error:
            yield refuse((table, key, at), error.problem, error.fix)


@check("ML019", "warning", "a profile applies to no server")
def check_names(survey: Survey) -> Iterator[Finding]:
    """`[servers.NAME]` in your file has a name that no server has.

    No entry of any host has it here, none in the wrapped files of other projects, and mcp-launch
    has never started a server of this name. So nothing in the profile has any effect: a policy in
    it hides no tool and checks no argument, although the file looks as if it did. The name is
    misspelled, or the entry was renamed or removed. It is that of `--server` in the entry, which
    `mcp-launch wrap` copies from the entry's own name.

    Give the table the name of the entry, or remove it; `mcp-launch list` shows all entries. To keep
    a profile for a server that is still to come, ignore the code for that server: `ignore =
    ["ML019:docs"]` below `[doctor]`.
    """
    file = _read_valid(survey)
    for name in file.servers if file else ():
        if file and survey.is_unknown(name):
            yield Finding(
                "ML019",
                file.point(name, ("servers", name)),
                f"no entry is named {name}: this profile applies to no server",
                f"{suggest(name, survey.names)}rename the table, or remove it",
            )


# What is said of a pattern that matches nothing.
_EFFECTS = {"allow": "it allows nothing", "deny": "it hides nothing"}

# How many names a fix lists, and how much of each: a server may have any.
_LISTED = 10
_WIDTH = 60


@check("ML018", "warning", "a policy of a profile matches no tool")
def check_policies(survey: Survey) -> Iterator[Finding]:
    """A profile names tools or arguments that its server does not have.

    It is a pattern in `allow` or `deny`, a tool in `tools`, or a name in `arguments`. Such a
    pattern in `deny` hides nothing, and such an argument is not checked, although the file looks as
    if it were. A name is misspelled, capital letters differ, or an update has renamed a tool. What
    matches a tool that mcp-launch remembers from any earlier start is not reported. Of servers that
    were never started, and of `[defaults]`, nothing is said.

    Correct the line in the finding, which lists the names that exist, or remove it. If the server
    was updated and has not run since, `mcp-launch doctor --live` asks it. To keep a pattern for
    tools that may come, ignore the code for that server: `ignore = ["ML018:docs"]`.
    """
    known = survey.remembered
    file = _read_valid(survey) if known else None
    if file is None:
        return
    for name, table in file.servers.items():
        if name in known:
            yield from _PolicyTable(file, name, known[name]).check(table)


class _PolicyTable:
    """The table of a server, and the tools that it has."""

    def __init__(self, file: _ProfileFile, server: str, tools: RememberedTools) -> None:
        self._file = file
        self._where: Path = ("servers", server)
        self._server = server
        self._tools = tools
        self._no_tool = f"no tool of {printable(server)} ({len(tools.names)} remembered)"

    def check(self, table: dict[str, Any]) -> Iterator[Finding]:
        """Find what has no effect; nothing if more tools may exist."""
        if not self._tools.is_whole:
            return
        policies = table["policies"]
        globs = policies["tools"] or {}
        for key in GLOBS:
            yield from self._check_patterns(key, globs)
        yield from self._check_arguments(("arguments",), policies["arguments"] or {}, "*")
        for pattern, arguments in (policies["arguments_of"] or {}).items():
            yield from self._check_tool(pattern, arguments)

    def _check_patterns(self, key: str, globs: dict[str, list[str]]) -> Iterator[Finding]:
        for at, pattern in enumerate(globs.get(key, [])):
            if not self._tools.find(pattern):
                yield self._report_pattern(("tools", key, at), f"`{key}`", pattern, _EFFECTS[key])

    def _check_tool(self, pattern: str, arguments: dict[str, Any]) -> Iterator[Finding]:
        where = ("tools", pattern, "arguments")
        if self._tools.find(pattern):
            yield from self._check_arguments(where, arguments, pattern)
        else:
            effect = "its arguments are not checked"
            yield self._report_pattern(where, "`tools`", pattern, effect)

    def _check_arguments(
        self, where: Path, named: dict[str, Any], pattern: str
    ) -> Iterator[Finding]:
        arguments = self._tools.list_arguments(self._tools.find(pattern))
        if arguments is None:
            return
        matching = "" if pattern == "*" else f" that matches `{printable(pattern)}`"
        for name in (name for name in named if name not in arguments):
            yield Finding(
                "ML018",
                self._file.point(self._server, (*self._where, *where, name)),
                f"{self._no_tool}{matching} has the argument `{printable(name)}`",
                f"{suggest(printable(name), map(printable, arguments))}correct or remove it; "
                f"{_enumerate('arguments', arguments)}",
            )

    def _report_pattern(self, where: Path, place: str, pattern: str, effect: str) -> Finding:
        names = self._tools.names
        return Finding(
            "ML018",
            self._file.point(self._server, (*self._where, *where)),
            f"`{printable(pattern)}` in {place} matches {self._no_tool}, so {effect}",
            f"{suggest(printable(pattern), _list_similar(pattern, names))}correct or remove it; "
            f"{_enumerate('tools', names)}",
        )


def _list_similar(pattern: str, names: Iterable[str]) -> list[str]:
    """Return what may have been meant by a pattern: names, or beginnings of names with a `*`."""
    if pattern.endswith("*"):
        size = len(pattern) - 1  # a letter may be missing, or one too many
        lengths = range(max(1, size - 1), size + 2)
        names = dict.fromkeys(f"{name[:length]}*" for name in names for length in lengths)
    return [printable(name) for name in names]


def _enumerate(what: str, names: list[str]) -> str:
    """Return a sentence part that lists names, as many as can be read."""
    if not names:
        return f"there are no {what}"
    listed = [printable(name)[:_WIDTH] for name in names[:_LISTED]]
    more = [f"and {len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return f"the {what} are {', '.join(listed + more)}"

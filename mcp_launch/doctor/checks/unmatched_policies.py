"""Policies of profiles that have no effect: patterns and arguments that no tool has.

A pattern with a typing error in it hides nothing, and nobody notices. What a server's tools are
is known once it was started (see `machine.remembered_tools`); of other servers nothing is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_launch.doctor import profile_files
from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import printable, suggest
from mcp_launch.launch.profile_policies import GLOBS
from mcp_launch.machine import remembered_tools
from mcp_launch.machine.remembered_tools import RememberedTools

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcp_launch.doctor.profile_files import ProfileFile
    from mcp_launch.documents.positions import Path
    from mcp_launch.machine.survey import Survey

# What is said of a pattern that matches nothing.
_EFFECTS = {"allow": "it allows nothing", "deny": "it hides nothing"}

# How many names a fix lists, and how much of each: a server may have any.
_LISTED = 10
_WIDTH = 60


def check(survey: Survey, *homes: str) -> Iterator[Finding]:
    """Find policies that match no tool (ML018); further state directories are read as well."""
    known = remembered_tools.read([survey.state, *homes])
    file = profile_files.read(survey)
    if file is None or not known:
        return
    for name, table in file.servers.items():
        if name in known:
            yield from _PolicyTable(file, ("servers", name), name, known[name]).judge(table)
    if file.defaults is not None:
        yield from _judge_defaults(file, file.defaults, known)


def _judge_defaults(
    file: ProfileFile, defaults: dict[str, Any], known: dict[str, RememberedTools]
) -> Iterator[Finding]:
    """Find what matches no tool of any server, and servers of which nothing is left."""
    where = ("defaults",)
    everything = RememberedTools().join(known.values())
    yield from _PolicyTable(file, where, "", everything).judge(defaults)
    globs = defaults["policies"]["tools"]
    for name, tools in known.items():
        own = file.servers.get(name)
        is_used = own is None or own["policies"]["tools"] is None
        if name and globs and is_used:
            yield from _PolicyTable(file, where, name, tools).find_nothing_left(globs)


class _PolicyTable:
    """The table of a server, or of all servers, and the tools that it is for."""

    def __init__(self, file: ProfileFile, where: Path, server: str, tools: RememberedTools) -> None:
        self._file = file
        self._where = where
        self._server = server
        self._tools = tools
        whose = printable(server) or "any server"
        self._no_tool = f"no tool of {whose} ({len(tools.names)} remembered)"

    def judge(self, table: dict[str, Any]) -> Iterator[Finding]:
        """Find what has no effect; nothing if more tools may exist."""
        if not self._tools.is_whole:
            return
        policies = table["policies"]
        globs = policies["tools"] or {}
        for key in GLOBS:
            yield from self._judge_patterns(key, globs)
        allowed = globs.get("allow", [])
        # Otherwise that is said of its patterns.
        if self._server and (not allowed or any(map(self._tools.find, allowed))):
            yield from self.find_nothing_left(globs)
        yield from self._judge_pins(("arguments",), policies["arguments"] or {}, "*")
        for pattern, pins in (policies["arguments_of"] or {}).items():
            yield from self._judge_tool(pattern, pins)

    def _judge_patterns(self, key: str, globs: dict[str, list[str]]) -> Iterator[Finding]:
        hides_all = key == "allow" and self._server and self._is_nothing_left(globs)
        effect = "all its tools are hidden" if hides_all else _EFFECTS[key]
        for at, pattern in enumerate(globs.get(key, [])):
            if not self._tools.find(pattern):
                yield self._report_pattern(("tools", key, at), f"`{key}`", pattern, effect)

    def _judge_tool(self, pattern: str, pins: dict[str, Any]) -> Iterator[Finding]:
        where = ("tools", pattern, "arguments")
        if self._tools.find(pattern):
            yield from self._judge_pins(where, pins, pattern)
        else:
            effect = "its arguments are not checked"
            yield self._report_pattern(where, "`tools`", pattern, effect)

    def _judge_pins(self, where: Path, pins: dict[str, Any], pattern: str) -> Iterator[Finding]:
        arguments = self._tools.list_arguments(self._tools.find(pattern))
        if arguments is None:
            return
        matching = "" if pattern == "*" else f" that matches `{printable(pattern)}`"
        for name in (name for name in pins if name not in arguments):
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

    def find_nothing_left(self, globs: dict[str, list[str]]) -> Iterator[Finding]:
        """Find patterns that hide every tool, although some were to be shown."""
        if self._tools.is_whole and self._is_nothing_left(globs):
            yield Finding(
                "ML018",
                self._file.point(self._server, (*self._where, "tools", "allow")),
                f"`allow` and `deny` leave {self._no_tool}, so its host sees none",
                f"allow some of them, or disable the server in its host; "
                f"{_enumerate('tools', self._tools.names)}",
            )

    def _is_nothing_left(self, globs: dict[str, list[str]]) -> bool:
        allowed = {name for one in globs.get("allow", []) for name in self._tools.find(one)}
        denied = {name for one in globs.get("deny", []) for name in self._tools.find(one)}
        return "allow" in globs and allowed <= denied


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

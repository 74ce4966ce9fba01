"""Policies that a profile sets: which tools a host may call, and with which arguments.

Only a launch whose profile has such a policy imports this module. A call is changed by spans:
everything that a policy does not concern stays as the host wrote it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from posixpath import join, normpath

from mcp_launch import protocol
from mcp_launch.broker.routing import NotAdmitted
from mcp_launch.protocol import json_edit, json_text
from mcp_launch.values import Found, expand_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from mcp_launch.broker.request import Request
    from mcp_launch.launch.context import Context
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.protocol.message import Edit, Message

    # Returns the real path of a path as seen from a directory; empty if each process has its own.
    Resolve = Callable[[str, str], str]

    # What is demanded of an argument: `inside` or `value`.
    Pin = Mapping[str, Any]

_NULL = b"null"
_NOT_A_PATH = "must be a path (text)"
_NAMED = ("name", "arguments")  # what a policy reads of a call's parameters

# What every reader takes for the same path: no other machine, no query, nothing that some
# readers remove or take for a slash.
_FILE_URL = r"file:(?://(?:localhost)?)?(/(?:[^\0-\x20\x7f%?#\\]|%(?!00|2f|5c)[0-9a-f]{2})*)"
_REMOVED_FROM_URLS = str.maketrans("", "", "\t\r\n")

# What some readers remove at both ends: control characters, spaces of all kinds, byte order marks.
_TRIMMED = "".join(map(chr, range(33)))
_TRIMMED += "\x7f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
_TRIMMED += "".join(map(chr, range(0x2000, 0x200E)))

_VARIABLE = r"\$(?:(\w+)|\{(\w+)\})"


def make_policies(
    wanted: dict[str, Any], server: str, home: str, resolve: Resolve
) -> tuple[ToolPolicy, PinnedArguments | None]:
    """Return the policies of a profile.

    The first decides which tools there are, and refuses messages that others would misread. The
    second, if there is one, checks and changes arguments.
    """
    pins, of_tools = wanted["arguments"], wanted["arguments_of"]
    pinned = PinnedArguments(server, pins, of_tools, home, resolve)
    return ToolPolicy(wanted["tools"]), pinned if pins or of_tools else None


class ToolPolicy:
    """Hides tools: lists are shortened, calls are refused.

    Refuses every message with two members of one name: a server may read the one that we do not.
    """

    def __init__(self, globs: Mapping[str, list[str]]) -> None:
        self._globs = globs  # patterns to allow (if there are none: all) and to deny

    def allows(self, name: str) -> bool:
        """Return whether the host may know a tool."""
        allowed, denied = self._globs.get("allow", ["*"]), self._globs.get("deny", [])
        return all(
            _matches(one, allowed) and not _matches(one, denied) for one in _list_readings(name)
        )

    def judge(self, message: Message, server: str) -> NotAdmitted | None:
        """Return why a call must not pass; None if it may."""
        if message.method != "tools/call":
            return None
        name = message.params.get("name")
        if not isinstance(name, str):
            return _refuse_unreadable(server)
        repeated = _find_repeated(message.line) or _find_repeated(message.line, "params")
        if repeated is not None:
            return _refuse_repeated(repeated)
        if (doubt := _find_doubtful(message.params, _NAMED)) is not None:
            return _refuse_doubtful(doubt)
        if self.allows(name):
            return None
        return NotAdmitted(
            f"the tool {name} of {server} is hidden by the user's profile",
            "use another tool; only the user can allow this one, with `tools` in the profile",
            is_counted=True,
            recorded="the profile hides this tool",
        )

    def is_doubtful(self, line: bytes) -> bool:
        """Return whether two members of a message have one name, so that readers may differ."""
        return _find_repeated(line) is not None

    def filter(self, line: bytes) -> bytes:
        """Return an answer to `tools/list` without the tools that are hidden."""
        if not self._globs:
            return line
        # Not by way of the parsed answer, which lacks tools that are nested too deeply.
        written = json_edit.list_elements(json_edit.read_raw(line, "result", "tools"))
        shown = [tool for tool in written if self._is_shown(tool)]
        if len(shown) == len(written):
            return line
        kept = b",".join(tool.strip() for tool in shown)
        return json_edit.replace(line, b"[%b]" % kept, "result", "tools")

    def _is_shown(self, tool: bytes) -> bool:
        name = protocol.look_message(tool).get("name")
        return not isinstance(name, str) or self.allows(name)


class PinnedArguments:
    """Sets or checks arguments of calls."""

    def __init__(
        self,
        server: str,
        pins: Mapping[str, Pin],
        tools: Mapping[str, Mapping[str, Pin]],
        home: str,
        resolve: Resolve,
    ) -> None:
        self._server = server
        self._pins = pins  # for all tools
        self._tools = tools  # by patterns of tools
        self._home = home
        self._resolve = resolve

    def review(self, call: Request) -> list[Edit] | NotAdmitted:
        """Return what changes a call's arguments to what they have to be, or why it is refused."""
        params, line = call.message.params, call.message.line
        tool, given = (params.get(name) for name in _NAMED)
        pins = self._find_pins(tool) if isinstance(tool, str) else {}
        if not isinstance(tool, str) or (pins and not isinstance(given, dict | None)):
            return _refuse_unreadable(self._server)
        arguments = given if isinstance(given, dict) else {}
        doubt = _find_doubtful(params, _NAMED) or _find_doubtful(arguments, pins)
        if doubt and pins:
            return _refuse_doubtful(doubt)
        repeated = _find_repeated(line, "params", "arguments") if pins and arguments else None
        if repeated is not None:
            return _refuse_repeated(repeated)
        written = _read_members(line) if arguments else {}
        changed = []
        for name, pin in pins.items():
            value = arguments.get(name)
            if value is None and written.get(name, _NULL).strip() != _NULL:
                value = {}  # nested too deeply to be read
            wanted = self._apply(call, tool, name, pin, value)
            if isinstance(wanted, NotAdmitted):
                return wanted
            is_same = wanted is value and "inside" in pin
            if not is_same and _set_member(written, name, wanted):
                changed.append(name)
        if not changed:
            return []
        call.changed = tuple(changed)
        return [call.message.put_param("arguments", _write_members(written))]

    def _find_pins(self, tool: str) -> dict[str, Pin]:
        pins = dict(self._pins)
        for pattern, more in self._tools.items():
            if any(fnmatchcase(one, pattern) for one in _list_readings(tool)):
                pins.update(more)
        return pins

    def _apply(  # noqa: PLR0911  # one for each reason
        self, call: Request, tool: str, name: str, pin: Pin, value: Json
    ) -> Json | NotAdmitted:
        """Return the value that an argument has to have; None: it is absent, and may be."""
        if "inside" not in pin:
            return pin["value"]  # type: ignore[no-any-return]  # as TOML has it
        served = call.served
        if served is None:
            return self._refuse_path(tool, name, "cannot be checked: no server is known for it")
        context = served.context.at(call.place) if call.place else served.context
        root = self._find_directory(context, pin["inside"])
        if root is None:
            why = "cannot be checked: the session's project is not known"
            return self._refuse_path(tool, name, why)
        if value is None:
            return None
        session = context.place.value
        paths = value if isinstance(value, list) else [value]
        real_root = self._resolve(root, session)
        try:
            environ = served.plan.environ
            meanings = (_list_meanings(path, self._home, environ) for path in paths)
            for meant in (one for several in meanings for one in several):
                # Some servers resolve `..` before they follow links, and some afterwards.
                for spelling in (meant, normpath(join(session, meant))):
                    real = self._resolve(spelling, session)
                    if not real:
                        raise _NotAPath("cannot be checked: it is another place in each process")
                    if not _is_below(real, real_root):
                        return self._refuse_outside(tool, name, real, root)
        except ValueError as problem:
            # Python's own are about a NUL or half a character, which no path has.
            known = isinstance(problem, _NotAPath)
            return self._refuse_path(tool, name, str(problem) if known else _NOT_A_PATH)
        # A server may look for it in a directory that only it knows.
        moved: list[Json] = [self._make_absolute(str(path), session) for path in paths]
        return value if moved == paths else moved if isinstance(value, list) else moved[0]

    def _make_absolute(self, path: str, directory: str) -> str:
        if path == "~" or path.startswith("~/"):
            return expand_home(path, self._home)
        if path.startswith("/") or path[:5].lower() == "file:":
            return path
        return directory if path in {"", "."} else join(directory, path)

    def _find_directory(self, context: Context, name: str) -> str | None:
        """Return a directory of the session, or the one that the profile names."""
        if name == "cwd":
            return context.place.value
        if name != "project_root":
            return expand_home(name, self._home)
        root = context.project_root
        return root.value if isinstance(root, Found) else None

    def _refuse_outside(self, tool: str, name: str, path: str, root: str) -> NotAdmitted:
        return NotAdmitted(
            f"{tool} of {self._server} was called with {name} = {path}, which is outside {root}",
            f"choose a path inside {root}; only the user can allow others, with `arguments` in "
            "the profile",
            is_counted=True,
            recorded=f"the argument `{name}` is outside {root}",
        )

    def _refuse_path(self, tool: str, name: str, why: str) -> NotAdmitted:
        return NotAdmitted(
            f"the argument `{name}` of {tool} {why}",
            "give a plain path inside the session's project, or leave it out",
            is_counted=True,
            recorded=f"the argument `{name}` {why}",
        )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _find_doubtful(members: Mapping[str, Json], names: Iterable[str]) -> str | None:
    """Return a member that differs from one of these only in its case."""
    exact = set(names)
    folded = {name.casefold() for name in exact}
    for name in members:
        if name not in exact and name.casefold() in folded:
            return name
    return None


def _refuse_doubtful(name: str) -> NotAdmitted:
    return NotAdmitted(
        f"the member {name} of this call has unusual capitalisation, which some servers ignore and "
        "others do not",
        "write it as the tool's description does",
        is_counted=True,
        recorded="a member has unusual capitalisation",
    )


def _find_repeated(line: bytes, *path: str) -> str | None:
    """Return a name that two members of an object have; servers differ in which of them counts."""
    seen = set()
    for name in json_edit.list_names(line, *path):
        if name in seen:
            return name
        seen.add(name)
    return None


def _refuse_repeated(name: str) -> NotAdmitted:
    return NotAdmitted(
        f"this call has two members with the name {name}",
        "write each of them once",
        is_counted=True,
        recorded="a member is repeated",
    )


def _refuse_unreadable(server: str) -> NotAdmitted:
    return NotAdmitted(
        f"this call of {server} names no tool, or its arguments are not an object",
        "call a tool by its name, with its arguments as an object",
        is_counted=True,
    )


def _read_members(line: bytes) -> dict[str, bytes]:
    """Return the arguments of a call as they are written."""
    text = json_edit.read_raw(line, "params", "arguments").decode("utf-8", "surrogateescape")
    members = json_edit.list_members(text, 0)
    return {
        name: text[start:end].encode("utf-8", "surrogateescape") for name, start, end in members
    }


def _set_member(written: dict[str, bytes], name: str, wanted: Json) -> bool:
    """Set an argument; return whether that has changed anything."""
    before = written.get(name)
    written[name] = json_text.encode(wanted).encode()
    return written[name] != before


def _write_members(written: Mapping[str, bytes]) -> bytes:
    pairs = (json_text.encode(name).encode() + b":" + value for name, value in written.items())
    return b"{%b}" % b",".join(pairs)


class _NotAPath(ValueError):
    """A value that cannot be checked as a path, and why."""


def _list_readings(name: str) -> set[str]:
    """Return a tool's name, and the same as servers read it that remove what cannot be seen."""
    return {name, "".join(filter(str.isprintable, name)).strip()}


def _list_meanings(path: Json, home: str, environ: Mapping[str, str]) -> set[str]:
    """Return every path that a server may take a value for.

    Raises:
        _NotAPath: It is none, or servers differ too much in what they read.

    """
    if not isinstance(path, str) or isinstance(path, json_text.Digits) or "\0" in path:
        raise _NotAPath(_NOT_A_PATH)
    meanings = {path, path.strip(_TRIMMED), _replace_variables(path, environ)}
    for one in [*meanings]:
        if one == "~" or one.startswith("~/"):
            meanings.add(expand_home(one, home))
        elif one.startswith("~") and (one[1].isalnum() or one[1] in "_-+"):
            meanings.add("/")  # the home of another user is nowhere near
    if path == "~" or path.startswith("~/"):
        meanings.discard(path)  # it is written out for the server
    if path.translate(_REMOVED_FROM_URLS).lstrip(_TRIMMED)[:5].lower() == "file:":
        import re
        from urllib.parse import unquote

        found = re.fullmatch(_FILE_URL, path, re.IGNORECASE)
        if found is None:
            raise _NotAPath("cannot be checked: servers may read this file URL differently")
        meanings.add(unquote(found[1], errors="surrogateescape"))
    return meanings


def _replace_variables(path: str, environ: Mapping[str, str]) -> str:
    """Return a path as a server reads it that replaces variables of its environment."""
    if "$" not in path:
        return path
    import re

    return re.sub(_VARIABLE, lambda name: environ.get(name[1] or name[2], name[0]), path)


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")

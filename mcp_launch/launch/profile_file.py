"""Parse the user's file of profiles: check every key, and report errors with line and column."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from mcp_launch.documents import toml
from mcp_launch.documents.positions import Path, Spot, Unreadable, locate, locate_path
from mcp_launch.errors import ProfileRefused, suggest
from mcp_launch.launch import environment
from mcp_launch.launch.options import (
    ALLOWED_CALLS,
    ALLOWED_SERVERS,
    CHOICES,
    SHARED_VARIABLES,
    SOURCES,
    SWITCHES,
    is_own_variable,
    read_time,
)

_T = TypeVar("_T")

# The keys of policies.
POLICIES = ("tools", "arguments")

# The lists of patterns in `tools`; every other key names a tool, or a pattern of some.
GLOBS = ("allow", "deny")

# What may be demanded of an argument, one of them.
DEMANDS = ("inside", "value")

# The directories of a session that an argument can be compared with; a path is another.
PLACES = ("project_root", "cwd")

_EXAMPLE = '{ inside = "project_root" } or { value = "…" }'

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PATTERN = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]*")

_WORD = re.compile(r"[a-z_]{1,20}")

_SWITCHES = tuple(option[2:].replace("-", "_") for option in SWITCHES)
_CHOSEN = {option[2:].replace("-", "_"): words for option, words in CHOICES.items()}
_TEXTS = ("command", "args", "cwd", "env_vars", "env", "dotenv", "pass_env")
_TIMES = ("rest", "call_timeout")
NUMBERS = {"max_servers": ALLOWED_SERVERS, "max_concurrent": ALLOWED_CALLS}
KEYS = (*_TEXTS, *_TIMES, *_CHOSEN, *NUMBERS, *_SWITCHES, *POLICIES)
KEYS_OF_ONE_SERVER = ("command", "args")
KEYS_OF_A_VARIABLE = ("name", "source", "from", "default", "required")

# The table that only `doctor` reads, and checks: no launch depends on it.
OF_DOCTOR = "doctor"
_TABLES = ("servers", "defaults", OF_DOCTOR)

# The sources in which a variable may have another name than it has in the server (`from`).
HAVE_NAMES = ("local", "dotenv")


def parse(content: bytes, path: str) -> dict[str, Any]:
    """Return the settings in a file: `defaults`, and `servers` by name.

    An invalid table of a server is not among them; `refused` has its error.

    Raises:
        ProfileRefused: The file is invalid as a whole; the error says where, and what would be
            valid.

    """
    text, document, found = _decode(content, path)
    checker = _Checker(text, path, found)
    checker.check_keys((), document, _TABLES)
    servers, refused = {}, {}
    for name, table in checker.take_table(("servers",), document.get("servers", {})).items():
        here = ("servers", name)
        try:
            servers[name] = checker.take_server(here, checker.take_table(here, table))
        except ProfileRefused as error:
            refused[name] = [error.without_place, error.fix, error.line, error.column]
    defaults = checker.take_defaults(("defaults",), document.get("defaults", {}))
    return {"defaults": defaults, "servers": servers, "refused": refused}


# The name of a table in the words of Python's parser.
_TABLE = re.compile(r"\('(.*?)',?\)")


def _decode(content: bytes, path: str) -> tuple[str, dict[str, Any], list[Spot]]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ProfileRefused(
            "not valid UTF-8", fix="save the file as UTF-8", path=path, line=line
        ) from None
    try:
        return text, *toml.read(text)
    except Unreadable as error:
        line, column = locate(text, error.offset)
        fix = "correct this line (strings need quotes; each [table] needs its own header)"
        if "already exists" in str(error):
            fix = "write it once; what is `key = { ... }` above and a [table] here has to be two "
            fix += "tables, as in [servers.NAME.tools] and [servers.NAME.tools.TOOL.arguments]"
        # Python shows the name of a table as a tuple.
        what = _TABLE.sub(lambda name: "[" + name[1].replace("', '", ".") + "]", str(error))
        raise ProfileRefused(
            f"not valid TOML: {what}; none of its profiles can be read",
            fix=fix,
            path=path,
            line=line,
            column=column,
        ) from None


class _Checker:
    """Checks the values of a document; knows their positions in the text."""

    def __init__(self, text: str, path: str, found: list[Spot]) -> None:
        self._text = text
        self._path = path
        self._spots = {spot.path: spot for spot in found}

    def refuse(self, where: Path, problem: str, *, fix: str) -> ProfileRefused:
        line, column = locate_path(self._text, self._spots, where)
        return ProfileRefused(problem, fix=fix, path=self._path, line=line, column=column)

    def check_keys(self, where: Path, table: dict[str, Any], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                raise self.refuse(
                    (*where, key),
                    f"unknown key `{key}`{_name_place(where)}",
                    fix=f"{suggest(key, known)}the keys are {', '.join(known)}",
                )

    def take_table(self, where: Path, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.refuse(
                where,
                f"{_name(where)} must be a table",
                fix=f"write [servers.{where[1] if where[1:] else 'NAME'}]",
            )
        return value

    def take_defaults(self, where: Path, value: object) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            raise self.refuse(where, "`defaults` must be a table", fix="write [defaults]")
        for key in KEYS_OF_ONE_SERVER:
            if key in value:
                raise self.refuse(
                    (*where, key),
                    f"`{key}` cannot be set for every server",
                    fix=f"move `{key}` to the server's own [servers.NAME]",
                )
        known = tuple(key for key in KEYS if key not in KEYS_OF_ONE_SERVER)
        return self.take_server(where, value, known) if value else None

    def take_server(
        self, where: Path, table: dict[str, Any], known: tuple[str, ...] = KEYS
    ) -> dict[str, Any]:
        self.check_keys(where, table, known)
        options: dict[str, list[str] | None] = {}
        for key, value in table.items():
            here = (*where, key)
            option = "--" + key.replace("_", "-")
            if key in _SWITCHES:
                is_on = self.take(here, value, bool, "true or false")
                options[option] = [] if is_on else None
            elif key in _CHOSEN:
                options[option] = [self._choose(here, value)]
            elif key == "cwd":
                options[option] = [self.take_text(here, value)]
            elif key in _TIMES:
                options[option] = [self._take_time(here, value)]
            elif key in NUMBERS:
                options[option] = [self._take_number(here, value, NUMBERS[key])]
            elif key == "dotenv":
                options[option] = self._take_texts(here, value)
            elif key == "pass_env":
                options[option] = [",".join(self._take_passed(here, value))]
        literals = self._take_literals((*where, "env"), table.get("env", {}))
        variables = self._take_variables((*where, "env_vars"), table.get("env_vars", []), literals)
        return {
            "command": self._take_command(where, table),
            "options": options,
            "literals": literals,
            "variables": variables,
            "policies": _PolicyChecker(self).take(where, table),
        }

    def take(self, where: Path, value: object, kind: type[_T], what: str, *, fix: str = "") -> _T:
        """Return a value that has to be of a kind."""
        if not isinstance(value, kind):
            raise self.refuse(
                where,
                f"{_name(where)} must be {what}, not {_name_kind(value)}",
                fix=fix or f"write {what}",
            )
        return value

    def take_text(self, where: Path, value: object) -> str:
        """Return a value that has to be a text, and not an empty one."""
        text = self.take(where, value, str, "a string in quotes")
        if not text:
            raise self.refuse(where, f"{_name(where)} is empty", fix="write a value, or remove it")
        return self.refuse_nul(where, text)

    def refuse_nul(self, where: Path, text: str) -> str:
        if "\0" in text:
            problem = f"{_name(where)} contains a NUL, which no program can be given"
            raise self.refuse(where, problem, fix="remove the \\u0000")
        return text

    def _take_texts(self, where: Path, value: object) -> list[str]:
        if isinstance(value, str):
            return [self.take_text(where, value)]
        values = self.take(where, value, list, "a string, or a list of strings")
        return [self.take_text((*where, index), one) for index, one in enumerate(values)]

    def _take_command(self, where: Path, table: dict[str, Any]) -> list[str]:
        if "command" not in table:
            if "args" in table:
                raise self.refuse(
                    (*where, "args"), "`args` without a `command`", fix="add a `command`"
                )
            return []
        if isinstance(table["command"], list):
            raise self.refuse(
                (*where, "command"),
                "`command` must be a string in quotes, not a list",
                fix='write only the program, and put the rest in `args`: command = "npx", '
                'args = ["-y", "some-server"]',
            )
        command = self.take_text((*where, "command"), table["command"])
        args = self.take((*where, "args"), table.get("args", []), list, "a list of strings")
        for index, word in enumerate(args):
            text = self.take((*where, "args", index), word, str, "a string in quotes")
            self.refuse_nul((*where, "args", index), text)
        return [command, *args]

    def _choose(self, where: Path, value: object) -> str:
        known = [word for word in _CHOSEN[str(where[-1])] if word]
        if isinstance(value, bool) and "on" in known:
            return "on" if value else "off"
        if value not in known:
            raise self.refuse(
                where,
                f"{_name(where)} does not take {_spell(value)}",
                fix=f"{suggest(str(value), known)}write one of {', '.join(map(_spell, known))}",
            )
        return str(value)

    def _take_time(self, where: Path, value: object) -> str:
        text = "off" if value is False else value
        if not isinstance(text, str) or read_time(text) is None:
            raise self.refuse(
                where,
                f"{_name(where)} does not take {_spell(value)}",
                fix='write "90s", "10m", "2h" or "off"',
            )
        return text

    def _take_number(self, where: Path, value: object, allowed: range) -> str:
        # JSON Schema does not tell 8.0 from 8, so neither do we; to Python, true is 1.
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or value not in allowed:
            raise self.refuse(
                where,
                f"{_name(where)} does not take {_spell(value)}",
                fix=f"write a number from {allowed[0]} to {allowed[-1]}",
            )
        return f"{value:.0f}"

    def _take_passed(self, where: Path, value: object) -> list[str]:
        if value in (environment.ALL, environment.SAFE):
            return [str(value)]
        patterns = self.take(where, value, list, '"all", "safe", or a list of names')
        for index, one in enumerate(patterns):
            if not isinstance(one, str) or not PATTERN.fullmatch(one):
                raise self.refuse(
                    (*where, index),
                    "this is not a valid variable name",
                    fix="write names, in which * may stand for any text",
                )
        if {environment.ALL, environment.SAFE} & set(patterns):
            raise self.refuse(
                where,
                '"all" and "safe" cannot be combined with names',
                fix='write pass_env = "safe", or only names',
            )
        return patterns or ["PATH"]  # an empty list: only BASICS, of which PATH is one

    def _take_literals(self, where: Path, value: object) -> dict[str, str]:
        table = self.take(where, value, dict, "a table of strings")
        for name, text in table.items():
            self._check_name((*where, name), name)
            self.take((*where, name), text, str, "a string in quotes")
            self.refuse_nul((*where, name), text)
        return dict(table)

    def _take_variables(
        self, where: Path, value: object, literals: dict[str, str]
    ) -> dict[str, list[Any]]:
        variables: dict[str, list[Any]] = {}
        wanted = self.take(where, value, list, "a list of variables")
        for index, one in enumerate(wanted):
            here = (*where, index)
            name, facts = self._take_variable(here, one)
            if name in variables or name in literals:
                raise self.refuse(here, f"`{name}` is set twice", fix="remove one of them")
            variables[name] = facts
        return variables

    def _take_variable(self, where: Path, value: object) -> tuple[str, list[Any]]:
        if isinstance(value, str):
            value = {"name": value}
        table = self.take(where, value, dict, 'a name, or { name = "…", source = "…" }')
        self.check_keys(where, table, KEYS_OF_A_VARIABLE)
        if "name" not in table:
            raise self.refuse(where, "a variable has no name", fix='write { name = "…", … }')
        name = self._check_name((*where, "name"), table["name"])
        source = self._take_source((*where, "source"), table.get("source", "local"))
        sought = self._check_name((*where, "from"), table.get("from", name))
        if "from" in table and source not in HAVE_NAMES:
            raise self.refuse(
                (*where, "from"),
                f"`from` does not apply to the source {_spell(source)}",
                fix=f"remove `from`; only {' and '.join(HAVE_NAMES)} take it",
            )
        default = table.get("default")
        if default is not None:
            text = self.take((*where, "default"), default, str, "a string in quotes")
            self.refuse_nul((*where, "default"), text)
        # As in Codex: a variable of our own environment may be missing.
        required = table.get("required", source != "local")
        self.take((*where, "required"), required, bool, "true or false")
        return name, [source, sought, default, required]

    def _check_name(self, where: Path, value: object) -> str:
        if not isinstance(value, str) or not NAME.fullmatch(value):
            raise self.refuse(
                where,
                "this is not a valid variable name",  # not shown: it may be a misplaced secret
                fix="use letters, digits and _, and do not begin with a digit",
            )
        if is_own_variable(value) or value in SHARED_VARIABLES:
            raise self.refuse(
                where, f"`{value}` is reserved for mcp-launch", fix="choose another name"
            )
        return value

    def _take_source(self, where: Path, value: object) -> str:
        source = str(value)
        if source not in SOURCES:
            raise self.refuse(
                where,
                # Only a plain word is repeated: it may be a misplaced secret.
                f"unknown source {_spell(source)}" if _WORD.fullmatch(source) else "unknown source",
                fix=f"{suggest(source, SOURCES)}the sources are {', '.join(SOURCES)}; "
                "put a fixed value into `env`",
            )
        return source


class _PolicyChecker:
    """Checks what a server's table says of its tools and their arguments."""

    def __init__(self, checker: _Checker) -> None:
        self._checker = checker

    def take(self, where: Path, table: dict[str, Any]) -> dict[str, Any]:
        """Return the policies; None for one that is not set."""
        at = (*where, "tools")
        tools = self._checker.take(
            at, table.get("tools", {}), dict, "a table", fix='write tools = { deny = ["x"] }'
        )
        globs = {
            key: self._take_patterns((*at, key), tools[key])
            for key in GLOBS
            if isinstance(tools.get(key), list | str)
        }
        others = {key: one for key, one in tools.items() if key not in globs}
        return {
            "tools": globs or None,
            "arguments": self._take_arguments((*where, "arguments"), table.get("arguments")),
            "arguments_of": {
                name: self._take_tool((*at, name), one) for name, one in others.items()
            }
            or None,
        }

    def _take_patterns(self, where: Path, value: object) -> list[str]:
        patterns = self._checker.take(where, value, list, 'a list of names, such as ["read_*"]')
        return [self._checker.take_text((*where, at), one) for at, one in enumerate(patterns)]

    def _take_tool(self, where: Path, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._checker.refuse(
                where,
                f"`{where[-1]}` in `tools` is neither a list of patterns nor a tool with arguments",
                fix=f'{suggest(str(where[-1]), GLOBS)}write allow = ["…"] or deny = ["…"], or '
                f"a table such as [servers.NAME.tools.{where[-1]}.arguments]",
            )
        for key in value:
            if key != "arguments":
                table = ".".join(map(str, where))
                raise self._checker.refuse(
                    (*where, key),
                    f"unknown key `{key}` in [{table}]",
                    fix=suggest(key, ("arguments",))
                    or f"if `{key}` is an argument of the tool, move it to [{table}.arguments]",
                )
        return self._take_arguments((*where, "arguments"), value.get("arguments")) or {}

    def _take_arguments(self, where: Path, value: object) -> dict[str, Any] | None:
        if value is None:
            return None
        table = self._checker.take(where, value, dict, f"a table, such as cwd = {_EXAMPLE}")
        return {name: self._take_pin((*where, name), one) for name, one in table.items()}

    def _take_pin(self, where: Path, value: object) -> dict[str, Any]:
        pin = self._checker.take(where, value, dict, _EXAMPLE)
        self._checker.check_keys(where, pin, DEMANDS)
        demanded = [key for key in DEMANDS if key in pin]
        if len(demanded) != 1:
            problem = "needs one of these" if not demanded else "cannot have more than one of these"
            raise self._checker.refuse(
                where,
                f"the argument `{where[-1]}` {problem}: {', '.join(DEMANDS)}",
                fix=f"write {_EXAMPLE}",
            )
        if "inside" in pin:
            self._check_place((*where, "inside"), pin["inside"])
        elif not _is_json(pin["value"]):
            raise self._checker.refuse(
                (*where, "value"),
                "`value` must be a text, a number, true or false, or a list or table of these",
                fix="put a date or a time in quotes",
            )
        return dict(pin)

    def _check_place(self, where: Path, value: object) -> None:
        place = self._checker.take_text(where, value)
        if place not in PLACES and not place.startswith(("/", "~/")) and place != "~":
            raise self._checker.refuse(
                where,
                f"`{where[-1]}` does not take {place}",
                fix=f"{suggest(place, PLACES)}write one of {', '.join(PLACES)}, or a path that "
                "begins with / or ~",
            )


def _is_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    is_finite = not isinstance(value, float) or value - value == 0
    return isinstance(value, str | int | float) and is_finite


def _name(where: Path) -> str:
    if isinstance(where[-1], str):
        return f"`{where[-1]}`"
    return f"an element of `{where[-2]}`"


def _name_place(where: Path) -> str:
    if not where:
        return ""
    is_table = isinstance(where[-1], str)
    return f" in [{'.'.join(map(str, where))}]" if is_table else f" in {_name(where)}"


def _name_kind(value: object) -> str:
    """Return what TOML calls a kind of value."""
    if isinstance(value, bool):
        return _spell(value)
    kinds = {str: "a string", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return kinds.get(type(value), "a date or time")


def _spell(value: object) -> str:
    """Return a value as TOML writes it; of a long one, only its kind."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    return str(value) if isinstance(value, int | float) else _name_kind(value)

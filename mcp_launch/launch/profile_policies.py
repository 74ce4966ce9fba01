"""Parse the policies in a profile file: `tools` and `arguments`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_launch.errors import suggest

if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    from mcp_launch.documents.positions import Path
    from mcp_launch.errors import ProfileRefused

    _T = TypeVar("_T")

    class Checker(Protocol):
        """Checks the values of a document; knows their positions in the text."""

        def refuse(self, where: Path, problem: str, *, fix: str) -> ProfileRefused:
            """Return the error for a place in the document."""

        def check_keys(self, where: Path, table: dict[str, Any], known: tuple[str, ...]) -> None:
            """Refuse a table that has an unknown key."""

        def take(
            self, where: Path, value: object, kind: type[_T], what: str, *, fix: str = ""
        ) -> _T:
            """Return a value that has to be of a kind."""

        def take_text(self, where: Path, value: object) -> str:
            """Return a value that has to be a text, and not an empty one."""


POLICIES = ("tools", "arguments")

# The lists of patterns in `tools`; every other key names a tool, or a pattern of some.
GLOBS = ("allow", "deny")

# What may be demanded of an argument, one of them.
DEMANDS = ("inside", "value")

# The directories of a session that an argument can be compared with; a path is another.
PLACES = ("project_root", "cwd")

_EXAMPLE = '{ inside = "project_root" } or { value = "…" }'


class PolicyChecker:
    """Checks what a server's table says of its tools and their arguments."""

    def __init__(self, checker: Checker) -> None:
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

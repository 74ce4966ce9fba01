"""Add a server's table to the text of a profile file; everything that is there stays.

`write_file` replaces files. Here the text is made and checked: our own parser must accept it, and
find in it what it found before, and the new table.
"""

from __future__ import annotations

from typing import Any

import tomlkit

from mcp_launch.documents.positions import locate
from mcp_launch.errors import ProfileRefused
from mcp_launch.launch import profile_file

# The first lines of a new file.
_USERS = """\
# What mcp-launch does for your servers; mcp-launch help profiles explains the keys.
# For completion in an editor, run: mcp-launch schema config > FILE, and name that file
# in the first line of this one: #:schema FILE
"""
_PROJECTS = """\
# What mcp-launch does for this project's servers; mcp-launch help profiles explains the keys.
# It applies once a user has run: mcp-launch trust
"""


class Table:
    """A server's table: its keys, and comments that come first."""

    def __init__(self, name: str, keys: dict[str, Any], remarks: list[str]) -> None:
        self.name = name
        self.keys = keys
        self.remarks = remarks

    def spell(self) -> str:
        """Return it as TOML."""
        table = tomlkit.table()
        for remark in self.remarks:
            table.add(tomlkit.comment(remark))
        for key, value in self.keys.items():
            table.add(key, _spell(value))
        servers = tomlkit.table(is_super_table=True)
        servers.add(tomlkit.key(self.name), table)
        document = tomlkit.document()
        document.add("servers", servers)
        return tomlkit.dumps(document)


def _spell(value: Any) -> Any:  # noqa: ANN401  # a value of TOML, and tomlkit's form of it
    if isinstance(value, dict):
        pairs = [
            f"{tomlkit.key(key).as_string()} = {tomlkit.item(one).as_string()}"
            for key, one in value.items()
        ]
        return tomlkit.value(f"{{ {', '.join(pairs)} }}")
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        array = tomlkit.array()
        for one in value:
            array.append(_spell(one))
        return array.multiline(multiline=len(value) > 1)
    return value


def add(text: str | None, table: Table, path: str, *, is_projects: bool) -> str:
    """Return the text of a file with a table added at its end; None: there is no such file.

    Raises:
        ProfileRefused: The file is invalid, has this table, or cannot have it.

    """
    _check_alone(table, path, is_projects=is_projects)
    before = text if text is not None else _PROJECTS if is_projects else _USERS
    had = _parse(before, path, is_projects=is_projects)
    if table.name in had["servers"]:
        raise _refuse_second(before, table.name, path)
    end = "\r\n" if "\r\n" in before else "\n"
    gap = "" if not before else end if before.endswith("\n") else end * 2
    after = before + gap + table.spell().replace("\n", end)
    try:
        has = _parse(after, path, is_projects=is_projects)
    except ProfileRefused as refused:
        raise ProfileRefused(
            f"[servers.{table.name}] cannot be added to {path}: {refused.without_place}",
            fix="write all servers in it as tables with a heading, [servers.NAME]",
        ) from None
    servers = dict(has["servers"])
    del servers[table.name]
    if has | {"servers": servers} != had:
        raise ProfileRefused(
            f"adding [servers.{table.name}] would change something else in {path}",
            fix="add it by hand",
        )
    return after


def _check_alone(table: Table, path: str, *, is_projects: bool) -> None:
    """Refuse a table that no file can have: an entry may hold what a profile cannot."""
    try:
        _parse(table.spell(), path, is_projects=is_projects)
    except ProfileRefused as refused:
        raise ProfileRefused(
            f"the entry of {table.name} cannot become a profile: {refused.without_place}",
            fix="correct the entry, or write the profile by hand",
        ) from None
    except UnicodeEncodeError:
        raise ProfileRefused(
            f"the entry of {table.name} has a text that is not valid Unicode",
            fix="correct the entry",
        ) from None


def _parse(text: str, path: str, *, is_projects: bool) -> dict[str, Any]:
    return profile_file.parse(text.encode(), path, is_projects=is_projects)


def _refuse_second(text: str, name: str, path: str) -> ProfileRefused:
    from mcp_launch.documents import toml

    spots = {spot.path: spot.key[0] for spot in toml.read(text)[1]}
    near = [offset for where, offset in spots.items() if where[:2] == ("servers", name)]
    line, column = locate(text, min(near, default=0))
    return ProfileRefused(
        f"there is a profile of {name} already",
        fix="edit it there, or remove it and run this again",
        path=path,
        line=line,
        column=column,
    )

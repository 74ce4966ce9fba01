"""`mcp-launch profile list`: the profiles that apply here, and what they set."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from mcp_launch import masking
from mcp_launch.commands import policy_rules
from mcp_launch.commands.output import print_json, print_paragraph, print_row
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import ProfileRefused, printable, suggest
from mcp_launch.launch import context, profile, profile_reader
from mcp_launch.machine.survey import open_survey
from mcp_launch.state import profile_cache
from mcp_launch.values import find_home_directory, shorten_home

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Literal

    from mcp_launch.machine.survey import Survey

VERSION = 1


class _File(NamedTuple):
    """One profile file, and what it has."""

    path: str
    scope: Literal["user", "project"]
    exists: bool
    record: dict[str, Any] | None = None  # as parsed; None if it does not exist or is invalid
    refused: ProfileRefused | None = None  # why none of it can be used

    @property
    def is_trusted(self) -> bool | None:
        """Whether the user trusts it; None for the user's own, which needs no trust."""
        if self.scope == "user":
            return None
        return bool(self.record and self.record["trusted"])

    def list_refused(self) -> dict[str, ProfileRefused]:
        """Return what is wrong with the tables of single servers, by server."""
        return profile_cache.list_refused(self.record) if self.record else {}


def run(environ: Mapping[str, str], *, is_json: bool) -> int:
    """List all profiles; return 1 if a file is invalid or may not be used."""
    files = [*_look(environ)]
    survey = open_survey(environ)
    if is_json:
        print_json(_describe(files, survey))
    else:
        _show(files, find_home_directory(environ), survey)
    return 1 if any(file.refused or file.list_refused() for file in files) else 0


def _look(environ: Mapping[str, str]) -> Iterator[_File]:
    here = context.read_cwd(environ)
    paths = (profile.locate_user_file(environ), profile.locate_project_file(here))
    for path in filter(None, paths):
        is_projects = path != paths[0]
        scope: Literal["user", "project"] = "project" if is_projects else "user"
        if not os.path.lexists(path):
            yield _File(path, scope, exists=False)
            continue
        try:
            if is_projects:
                profile.refuse_foreign(path, here)
            elif os.path.exists(path):
                profile.refuse_if_others_can_write(path, os.stat(path))
            kept = profile_cache.read(path, environ)
            record = profile_reader.read(path, kept, is_projects=is_projects)
            yield _File(path, scope, exists=True, record=record)
        except ProfileRefused as refused:
            yield _File(path, scope, exists=True, refused=refused)


def _list_tables(file: _File) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Return the tables of a file with the servers' names; None: for every server."""
    record = file.record or {"defaults": None, "servers": {}}
    if record["defaults"]:
        yield None, record["defaults"]
    yield from record["servers"].items()


def _show(files: list[_File], home: str, survey: Survey) -> None:
    console = Screen()
    if not any(file.exists for file in files):
        places = printable(" nor ".join(shorten_home(file.path, home) for file in files))
        neither = "Neither " if len(files) > 1 else "There is no "
        console.print(Text(f"{neither}{places}{' exists' if len(files) > 1 else ''}."))
        console.print("To make a profile from a host's entry: mcp-launch profile add SERVER")
    for file in (one for one in files if one.exists):
        console.print(Text(printable(shorten_home(file.path, home)), "underline"))
        whole = [file.refused] if file.refused else []
        for refused in (*whole, *file.list_refused().values()):
            print_paragraph(console, refused.problem, "red", indent=2)
            # Not broken: people copy it.
            console.print(Text(f"  fix: {printable(refused.fix)}"))
        if file.refused:
            continue
        rows = [*_list_tables(file)]
        names = [printable(name or profile.DEFAULTS) for name, _ in rows]
        width = max(map(len, names), default=0)
        for shown, (name, table) in zip(names, rows, strict=True):
            before = Text("  ").append(f"{shown:{width}}", "bold").append("  ")
            row = Text(_summarize(table))
            if name is not None and survey.is_unknown(name):
                near = printable(suggest(name, survey.names)).strip()
                row.append(f"; applies to no server{near and f': {near}'}", "yellow")
            print_row(console, before, row)
        if not rows and not file.list_refused():
            console.print("  no profiles")
        if file.is_trusted is False and rows:
            how = f"mcp-launch trust {shlex.quote(file.path)}"
            text = f"not used, because you do not trust it: {how}"
            print_paragraph(console, text, "yellow", indent=2)


def _summarize(table: dict[str, Any]) -> str:
    """Return what a table sets, in one line."""
    settings = _list_settings(table)
    parts = [shlex.join(masking.mask(table["command"]))] if table["command"] else []
    for key, value in settings.items():
        if value is True:
            parts.append(key)
        else:
            text = " ".join(value) if isinstance(value, list) else value
            parts.append(f"{key}=off" if value is False else f"{key}={text}")
    names = [*table["literals"], *table["variables"]]
    parts += [f"sets {' '.join(names)}"] if names else []
    parts += map(str, policy_rules.list_rules(policy_rules.mask(table["policies"])))
    return ", ".join(parts) or "nothing"


def _list_settings(table: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a table by their keys: a text, a list of texts, or on and off."""
    found: dict[str, Any] = {}
    for option, texts in table["options"].items():
        key = option[2:].replace("-", "_")
        if key in {"dotenv", "pass_env"}:
            found[key] = [one for text in texts for one in text.split(",")]
        elif texts:
            found[key] = texts[-1]
        else:
            found[key] = texts is not None
    return found


def _describe(files: list[_File], survey: Survey) -> dict[str, Any]:
    return {
        "version": VERSION,
        "files": [
            {
                "path": file.path,
                "scope": file.scope,
                "exists": file.exists,
                "is_trusted": file.is_trusted,
                "problem": file.refused and file.refused.problem,
                "fix": file.refused and file.refused.fix,
                "problems": [
                    {"server": server, "problem": refused.problem, "fix": refused.fix}
                    for server, refused in file.list_refused().items()
                ],
            }
            for file in files
        ],
        "profiles": [
            {
                "server": name,
                "file": file.path,
                "is_used": file.is_trusted is not False,
                "has_server": name is None or not survey.is_unknown(name),
                "command": masking.mask(table["command"]),
                "settings": _list_settings(table),
                "policies": policy_rules.mask(table["policies"]),
                "variables": [
                    *({"name": one, "source": None} for one in table["literals"]),
                    *(
                        {"name": one, "source": facts[0]}
                        for one, facts in table["variables"].items()
                    ),
                ],
            }
            for file in files
            for name, table in _list_tables(file)
        ],
    }

"""`mcp-launch list --profiles`: the user's profiles, and what each sets."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from rich.text import Text

from mcp_launch import masking
from mcp_launch.commands.env_report import list_rules, mask_policies
from mcp_launch.commands.output import print_json, print_paragraph, print_row
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import ProfileRefused, printable, suggest
from mcp_launch.launch import profile_tables
from mcp_launch.machine.survey import open_survey
from mcp_launch.values import find_home_directory, shorten_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.launch.profile_tables import Table

VERSION = 1


def run(environ: Mapping[str, str], *, is_json: bool) -> int:
    """List the profiles; return 1 if the file, or a table in it, is invalid."""
    report = _describe(environ)
    if is_json:
        print_json(report)
    else:
        _show(report, find_home_directory(environ))
    return 1 if report["problems"] else 0


def _describe(environ: Mapping[str, str]) -> dict[str, Any]:
    problems: dict[str | None, ProfileRefused] = {}
    tables: dict[str | None, Table] = {}
    exists = True
    try:
        file = profile_tables.read(environ)
    except ProfileRefused as refused:
        problems[None] = refused
    else:
        exists = file.exists
        problems |= file.refused
        tables = {None: file.defaults} if file.defaults else {}
        tables |= file.servers
    survey = open_survey(environ)
    unknown = [name for name in tables if name is not None and survey.is_unknown(name)]
    return {
        "version": VERSION,
        "file": profile_tables.locate(environ),
        "exists": exists,
        "problems": [
            {"server": server, "problem": refused.problem, "fix": refused.fix}
            for server, refused in problems.items()
        ],
        "profiles": [
            {
                "server": name,
                "has_server": name not in unknown,
                "near": suggest(name or "", survey.names).strip() if name in unknown else "",
                "command": masking.mask(table.command),
                "settings": _list_settings(table),
                "policies": mask_policies(table.policies),
                "variables": [
                    *({"name": one, "source": None} for one in table.literals),
                    *({"name": one, "source": v.source} for one, v in table.variables.items()),
                ],
            }
            for name, table in tables.items()
        ],
    }


def _list_settings(table: Table) -> dict[str, Any]:
    """Return the settings of a table by their keys: a text, a list of texts, or on and off."""
    found: dict[str, Any] = {}
    for option, texts in table.options.items():
        key = option[2:].replace("-", "_")
        if key in {"dotenv", "pass_env"}:
            found[key] = [one for text in texts or () for one in text.split(",")]
        else:
            found[key] = texts[-1] if texts else texts is not None
    return found


def _show(report: dict[str, Any], home: str) -> None:
    console = Screen()
    path = printable(shorten_home(report["file"], home))
    if not report["exists"]:
        console.print(
            Text(f"There is no {path}; mcp-launch explain profiles says what it can hold.")
        )
        return
    console.print(Text(path, "underline"))
    for refused in report["problems"]:
        print_paragraph(console, refused["problem"], "red", indent=2)
        console.print(Text(f"  fix: {printable(refused['fix'])}"))  # not broken: people copy it
    rows = report["profiles"]
    names = [printable(one["server"] or profile_tables.DEFAULTS) for one in rows]
    width = max(map(len, names), default=0)
    for name, one in zip(names, rows, strict=True):
        row = Text(_summarize(one))
        if not one["has_server"]:
            near = printable(one["near"])
            row.append(f"; applies to no server{near and f': {near}'}", "yellow")
        print_row(console, Text("  ").append(f"{name:{width}}", "bold").append("  "), row)
    if not (rows or report["problems"]):
        console.print("  no profiles")


def _summarize(profile: dict[str, Any]) -> str:
    """Return what a profile sets, in one line."""
    parts = [shlex.join(profile["command"])] if profile["command"] else []
    for key, value in profile["settings"].items():
        if value is True:
            parts.append(key)
        else:
            text = " ".join(value) if isinstance(value, list) else value or "off"
            parts.append(f"{key}={text}")
    names = [one["name"] for one in profile["variables"]]
    parts += [f"sets {' '.join(names)}"] if names else []
    parts += map(str, list_rules(profile["policies"]))
    return ", ".join(parts) or "nothing"

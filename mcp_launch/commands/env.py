"""`mcp-launch env`: what a server would get here and now, each value with its origin.

Nothing is started, written, or read from stdin.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from mcp_launch import launch
from mcp_launch.commands import env_explanation, env_report
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError, printable
from mcp_launch.machine import preview_inputs
from mcp_launch.machine.preview import Preview
from mcp_launch.system import open_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Console

    from mcp_launch.system import ProcessTable

# How much of a value is shown, and how much of a line it may take from what stands behind it.
_WIDTH = 72
_ALIGNED = 40

# How a row is shown: a name, its value, and where that is from.
_STYLES = ("bold", "", "dim")


class EnvRequest(NamedTuple):
    """What the user asked for."""

    server: str
    hosts: list[str]
    explained: str  # one variable; empty: all of them
    is_json: bool
    words: list[str]  # options of `run`, and a command


def run(
    request: EnvRequest, environ: Mapping[str, str], *, table: ProcessTable | None = None
) -> int:
    """Tell what a server would get; return 1 if a launch would stop, or has no such variable.

    Raises:
        UsageError: There is no such server, several hosts have one, or none was named.

    """
    if request.hosts and not request.server:
        raise UsageError(
            "--host goes with a server",
            fix=f"write: mcp-launch env SERVER --host {request.hosts[0]}",
        )
    launch.prepare_process()
    found = preview_inputs.look_here(request.words, environ, table or open_table())
    if request.server:
        found = preview_inputs.look_at_server(request.server, request.hosts, request.words, found)
    preview = Preview(found)
    told = env_report.describe(preview)
    is_there = True
    if request.explained:
        explained = env_explanation.explain(preview, request.explained)
        told["explained"] = env_report.describe_explanation(preview, request.explained, explained)
        is_there = explained.used is not None
    told = env_report.make_scrubber(preview).clean_all(told)
    if request.is_json:
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    else:
        _show(told)
    return 0 if is_there and not preview.list_stopping() else 1


def _show(told: dict[str, Any]) -> None:
    console = Screen()
    if "explained" in told:
        _show_explanation(console, told["explained"])
    else:
        _show_all(console, told)
    for note in told["notes"]:
        _print(console, f"Note: {note}", "yellow")
    said = told.get("explained", {}).get("fix")
    for error in (error for error in told["problems"] if error["fix"] != said):
        when = "once wrapped, the launch" if error["only_if_wrapped"] else "the launch"
        _print(console, f"{when} would stop: {error['problem']}", "red")
        _print(console, f"  fix: {error['fix']}")


def _show_explanation(console: Console, explained: dict[str, Any]) -> None:
    rows = (
        (
            f"{'>' if at == explained['used'] else ' '} {step['place']}",
            "nothing" if step["value"] is None else step["value"],
            step["why"],
        )
        for at, step in enumerate(explained["steps"])
    )
    _show_rows(console, rows)
    if explained["used"] is None:
        _print(console, f"the server would not get {explained['name']}", "red")
        _print(console, f"  fix: {explained['fix']}")


def _show_all(console: Console, told: dict[str, Any]) -> None:
    entry, frame = told["entry"], told["frame"]
    if entry:
        _print(console, f"{entry['server']}: {entry['host']}, {entry['scope']}, {entry['file']}")
    _show_rows(
        console, [(name, fact["value"] or "none", fact["origin"]) for name, fact in frame.items()]
    )
    is_launched = entry is None or entry["is_wrapped"]
    _print(console, "mcp-launch sets:" if is_launched else "mcp-launch would set:", "underline")
    _show_rows(console, _list_rows(told, is_set=True))
    _print(console, "handed on as it is:", "underline")
    _show_rows(console, _list_rows(told, is_set=False))
    if told["removed"]:
        _print(console, "not handed on:", "underline")
    reasons: dict[str, list[str]] = {}
    for one in told["removed"]:
        reasons.setdefault(one["why"], []).append(one["name"] or '""')
    for why, names in reasons.items():
        _print(console, f"{', '.join(names)}: {why}")


def _list_rows(told: dict[str, Any], *, is_set: bool) -> list[tuple[str, str, str]]:
    return [
        (one["name"], one["value"] or "(empty)", one["origin"])
        for one in told["variables"]
        if one["is_set"] is is_set
    ]


def _show_rows(console: Console, rows: Iterable[tuple[str, str, str]]) -> None:
    """Show rows in columns; lines are as long as they are, for whoever reads them by program."""
    shown = [(_cut(name), _cut(value), printable(origin)) for name, value, origin in rows]
    widths = [max((cell_len(row[at]) for row in shown), default=0) for at in (0, 1)]
    for row in shown:
        text = Text()
        for cell, style, width in zip(row, _STYLES, (*widths, 0), strict=True):
            text.append(cell, style)
            text.append(" " * max(2, min(width, _ALIGNED) + 2 - cell_len(cell)) if width else "")
        text.rstrip()
        console.print(text)


def _cut(text: str) -> str:
    text = printable(text)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"


def _print(console: Console, text: str, style: str = "") -> None:
    console.print(Text(printable(text), style))

"""`mcp-launch env`: what a server started here would get, each value with its origin.

Starts nothing, writes nothing, and does not read stdin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from mcp_launch import launch
from mcp_launch.commands import env_explanation, env_report, option_explanation
from mcp_launch.commands.json_output import print_json
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError, printable
from mcp_launch.machine import preview_inputs
from mcp_launch.machine.preview import Preview
from mcp_launch.system import open_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Console

    from mcp_launch.system import ProcessTable

# How much of a value is shown, and up to which width values are aligned.
_WIDTH = 72
_ALIGNED = 40

# The styles of a row: a name, its value, and the value's origin.
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
    """Show what a server would get; return 1 if its launch would fail or the variable is missing.

    Raises:
        UsageError: There is no such server, several hosts have one, or none was named.

    """
    if request.hosts and not request.server:
        raise UsageError(
            "--host needs a server",
            fix=f"name one: mcp-launch env SERVER --host {request.hosts[0]}",
        )
    launch.prepare_process()
    found = preview_inputs.look_here(request.words, environ, table or open_table())
    if request.server:
        found = preview_inputs.look_at_server(request.server, request.hosts, request.words, found)
    preview = Preview(found)
    report = env_report.describe(preview)
    is_there = True
    if request.explained:
        is_option = option_explanation.is_explained(request.explained)
        explains = option_explanation if is_option else env_explanation
        explained = explains.explain(preview, request.explained)
        report["explained"] = env_report.describe_explanation(preview, request.explained, explained)
        is_there = explained.used is not None
    report = env_report.make_scrubber(preview).clean_all(report)
    if request.is_json:
        print_json(report)
    else:
        _show(report)
    return 0 if is_there and not preview.list_stopping() else 1


def _show(report: dict[str, Any]) -> None:
    console = Screen()
    if "explained" in report:
        _show_explanation(console, report["explained"])
    else:
        _show_all(console, report)
    for note in report["notes"]:
        _print(console, f"Note: {note}", "yellow")
    shown = report.get("explained", {}).get("fix")
    for error in (error for error in report["problems"] if error["fix"] != shown):
        when = "once wrapped, the launch" if error["only_if_wrapped"] else "the launch"
        _print(console, f"{when} would fail: {error['problem']}", "red")
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


def _show_all(console: Console, report: dict[str, Any]) -> None:
    entry, frame = report["entry"], report["frame"]
    if entry:
        _print(console, f"{entry['server']}: {entry['host']}, {entry['scope']}, {entry['file']}")
    _show_rows(
        console, [(name, fact["value"] or "none", fact["origin"]) for name, fact in frame.items()]
    )
    is_launched = entry is None or entry["is_wrapped"]
    _print(console, "mcp-launch sets:" if is_launched else "mcp-launch would set:", "underline")
    _show_rows(console, _list_rows(report, is_set=True))
    _print(console, "passed on unchanged:", "underline")
    _show_rows(console, _list_rows(report, is_set=False))
    if report["removed"]:
        _print(console, "not passed on:", "underline")
    reasons: dict[str, list[str]] = {}
    for one in report["removed"]:
        reasons.setdefault(one["why"], []).append(one["name"] or '""')
    for why, names in reasons.items():
        _print(console, f"{', '.join(names)}: {why}")


def _list_rows(report: dict[str, Any], *, is_set: bool) -> list[tuple[str, str, str]]:
    return [
        (one["name"], one["value"] or "(empty)", one["origin"])
        for one in report["variables"]
        if one["is_set"] is is_set
    ]


def _show_rows(console: Console, rows: Iterable[tuple[str, str, str]]) -> None:
    """Show rows in columns; long lines are not broken, so that programs can read them."""
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

"""`mcp-launch env`: what a server started here would get, each value with its origin.

Starts nothing, writes nothing, and does not read stdin. First comes what mcp-launch changes, then
the rest.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.text import Text

from mcp_launch import system
from mcp_launch.commands.app import Hosts, Json, TakesRunCommand, app, name_servers
from mcp_launch.commands.output import cut, print_json, print_paragraph, print_row
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

# How much of a value is shown where there is room, and up to which width values are aligned.
_WIDTH = 73
_ALIGNED = 40

# Beside a value there must be this much room for its origin.
_NARROWEST = 24

# The styles of a row: a name, its value, and the value's origin.
_STYLES = ("bold", "", "dim")


@app.command("env", cls=TakesRunCommand)
def env(  # noqa: PLR0913  # typer wants a parameter for each option
    context: typer.Context,
    server: Annotated[
        str,
        name_servers("A server of a host or profile; or, after --, the arguments of `run`."),
    ] = "",
    *,
    host: Hosts = None,
    explain: Annotated[
        str,
        typer.Option(
            "--explain",
            metavar="NAME",
            help="Show where this variable, or option of `run` (--start), comes from.",
        ),
    ] = "",
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Also list the variables that are passed on."),
    ] = False,
    as_json: Json = False,
) -> int:
    """Show what a server started here would get, and where each value comes from.

    Starts nothing. Exit code: 0, or 1 if the launch would fail or the variable is missing.

    \b
    Examples:
      mcp-launch env docs                       as its host would start it here
      mcp-launch env docs --explain API_KEY     where one variable is looked for
      mcp-launch env docs --explain --cwd       where a setting comes from
      mcp-launch env -- --pass-env safe npx x   as `mcp-launch run` would start it
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch import launch
    from mcp_launch.commands import env_report
    from mcp_launch.machine import preview_inputs
    from mcp_launch.machine.preview import Preview

    hosts, words = host or [], context.obj
    if hosts and not server:
        raise UsageError(
            "--host needs a server", fix=f"name one: mcp-launch env SERVER --host {hosts[0]}"
        )
    launch.prepare_process()
    here = preview_inputs.look_here(words, os.environ, system.open_table())
    found = preview_inputs.look_at_server(server, hosts, words, here) if server else [here]
    code = 0
    reports = []
    for one in found:
        preview = Preview(one)
        report = env_report.describe(preview, explain)
        is_missing = explain and report["explained"]["used"] is None
        code = 1 if is_missing or preview.list_stopping() else code
        if as_json:
            reports.append(report)
        else:
            name = one.item.host.name if one.item and len(found) > 1 else ""
            _show(report, one.withheld, name, is_verbose=verbose)
    if as_json:
        first, *others = reports
        print_json({**first, "others": others} if others else first)
    return code


def _show(
    report: dict[str, Any], withheld: Container[str], host: str = "", *, is_verbose: bool
) -> None:
    """Show a report; `withheld` are the variables that the host itself does not pass on.

    `host` is the one that it is about, if there are reports for several.
    """
    console = Screen()
    if host:
        _print(console, f"In {host}:", "bold")
    if "explained" in report:
        _show_explanation(console, report["explained"])
    else:
        _show_all(console, report, withheld, is_verbose=is_verbose)
    for note in report["notes"]:
        print_paragraph(console, f"Note: {note}", "yellow")
    shown = report.get("explained", {}).get("fix")
    for error in (error for error in report["problems"] if error["fix"] != shown):
        when = "once wrapped, the launch" if error["only_if_wrapped"] else "the launch"
        print_paragraph(console, f"{when} would fail: {error['problem']}", "red")
        _print(console, f"  fix: {error['fix']}")  # not broken: people copy it


def _show_explanation(console: Screen, explained: dict[str, Any]) -> None:
    for at, step in enumerate(explained["steps"]):
        is_used = at == explained["used"]
        text = Text(f"{step['place']}: ", "bold" if is_used else "")
        if step["value"] is None:
            text.append(step["why"], "not bold dim")
        else:
            text.append(_cut(console, step["value"]) or "(empty)", "not bold")
            text.append(f" ({step['why']})", "not bold dim")
        print_row(console, Text("> " if is_used else "  "), text)
    if explained["used"] is None:
        print_paragraph(console, f"the server would not get {explained['name']}", "red")
        _print(console, f"  fix: {explained['fix']}")


def _show_all(
    console: Screen, report: dict[str, Any], withheld: Container[str], *, is_verbose: bool
) -> None:
    entry, frame = report["entry"], report["frame"]
    if entry:
        text = f"{entry['server']}: {entry['host']}, {entry['scope']}, {entry['file']}"
        print_paragraph(console, text)
    _show_rows(
        console, [(name, fact["value"] or "none", fact["origin"]) for name, fact in frame.items()]
    )
    is_launched = entry is None or entry["is_wrapped"]
    would = "" if is_launched else "would "
    _print(console, f"mcp-launch {would}set{'s' * is_launched}:", "underline")
    _show_rows(console, [_make_row(one) for one in report["variables"] if one["is_set"]])
    removed = [one for one in report["removed"] if one["name"] not in withheld]
    _show_removed(console, f"mcp-launch {would}remove{'s' * is_launched}", removed)
    _show_policies(console, f"mcp-launch {would}check{'s' * is_launched}", report["policies"])
    _show_passed(console, report, is_verbose=is_verbose)
    kept = [one for one in report["removed"] if one["name"] in withheld]
    if is_verbose:
        _show_removed(console, "not passed on by the host", kept)
    elif kept:
        _print(console, f"not passed on by the host: {_count(kept)} (-v lists them)")


def _show_removed(console: Screen, title: str, removed: list[dict[str, str]]) -> None:
    """Show the variables that a server does not get, by reason."""
    if removed:
        _print(console, f"{title}:", "underline")
    reasons: dict[str, list[str]] = {}
    for one in removed:
        reasons.setdefault(one["why"], []).append(one["name"] or '""')
    for why, names in reasons.items():
        print_paragraph(console, f"{', '.join(names)}: {why}")


def _show_policies(console: Screen, title: str, policies: list[dict[str, Any]]) -> None:
    """Show what the calls of a server must be like."""
    from mcp_launch.commands.env_report import list_rules

    if policies:
        _print(console, f"{title}:", "underline")
    rules = [(rule, one["origin"]) for one in policies for rule in list_rules(one)]
    _show_rows(console, [(rule.about, rule.demand, origin) for rule, origin in rules])


def _show_passed(console: Screen, report: dict[str, Any], *, is_verbose: bool) -> None:
    """Show the variables that are passed on as they are: all, or only those of the entry."""
    passed = [one for one in report["variables"] if not one["is_set"]]
    inherited = [one for one in passed if one["origin"].startswith("inherited")]
    named = passed if is_verbose else [one for one in passed if one not in inherited]
    if named:
        _print(console, "passed on unchanged:", "underline")
        _show_rows(console, map(_make_row, named))
    if inherited and not is_verbose:
        also = "also passed on" if named else "passed on"
        _print(console, f"{also} unchanged: {_count(inherited)} inherited (-v lists them)")


def _count(found: list[Any]) -> str:
    return f"{len(found)} variable{'s' * (len(found) > 1)}"


def _make_row(one: dict[str, str]) -> tuple[str, str, str]:
    return one["name"], one["value"] or "(empty)", one["origin"]


def _show_rows(console: Screen, rows: Iterable[tuple[str, str, str]]) -> None:
    """Show rows in columns; in a pipe nothing is cut or broken, so that programs can read it.

    On a terminal, an origin that has no room beside a long value stands below it.
    """
    listed = list(rows)
    names = [_cut(console, name) for name, _, _ in listed]
    margin = min(max(map(cell_len, names), default=0), _ALIGNED)
    shown = [
        (name, _cut(console, value, max(margin, cell_len(name)) + 2), printable(origin))
        for name, (_, value, origin) in zip(names, listed, strict=True)
    ]
    widths = [max((cell_len(row[at]) for row in shown), default=0) for at in (0, 1)]
    for row in shown:
        text = Text()
        for cell, style, width in zip(row[:2], _STYLES, widths, strict=False):
            text.append(cell, style)
            text.append(" " * max(2, min(width, _ALIGNED) + 2 - cell_len(cell)))
        origin = Text(row[2], _STYLES[2])
        if console.is_terminal and text.cell_len + min(origin.cell_len, _NARROWEST) > console.width:
            text.rstrip()
            console.print(text)
            text = Text(" " * (min(widths[0], _ALIGNED) + 2))
        print_row(console, text, origin)


def _cut(console: Screen, text: str, margin: int = 0) -> str:
    """Return a text that is not too long for a terminal, beside what has this width."""
    room = max(_NARROWEST, console.width - margin)
    text = printable(text)
    return cut(console, text, min(_WIDTH, room)) if console.is_terminal else text


def _print(console: Screen, text: str, style: str = "") -> None:
    console.print(Text(printable(text), style))

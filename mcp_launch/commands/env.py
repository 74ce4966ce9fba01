"""`mcp-launch env`: what a server started here would get, each value with its origin.

Starts nothing, writes nothing, and does not read stdin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import launch
from mcp_launch.commands import env_explanation, env_report, env_text, option_explanation
from mcp_launch.commands.output import print_json
from mcp_launch.errors import UsageError
from mcp_launch.machine import preview_inputs
from mcp_launch.machine.preview import Preview
from mcp_launch.system import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.system import ProcessTable


class EnvRequest(NamedTuple):
    """What the user asked for."""

    server: str
    hosts: list[str]
    explained: str  # one variable; empty: all of them
    is_json: bool
    words: list[str]  # options of `run`, and a command
    is_verbose: bool = False  # also what is passed on unchanged


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
        is_option = option_explanation.check(request.explained)
        explains = option_explanation if is_option else env_explanation
        explained = explains.explain(preview, request.explained)
        report["explained"] = env_report.describe_explanation(preview, request.explained, explained)
        is_there = explained.used is not None
    report = env_report.make_scrubber(preview).clean_all(report)
    if request.is_json:
        print_json(report)
    else:
        withheld = frozenset(preview.situation.withheld)
        env_text.show(report, withheld, is_verbose=request.is_verbose)
    return 0 if is_there and not preview.list_stopping() else 1

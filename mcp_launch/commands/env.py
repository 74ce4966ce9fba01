"""`mcp-launch env`: what a server started here would get, each value with its origin.

Starts nothing, writes nothing, and does not read stdin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch import launch
from mcp_launch.commands import env_explanation, env_report, env_text, option_explanation
from mcp_launch.commands.output import print_json
from mcp_launch.errors import UsageError
from mcp_launch.machine import preview_inputs
from mcp_launch.machine.preview import Preview
from mcp_launch.system import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.machine.preview_inputs import Situation
    from mcp_launch.system import ProcessTable


class EnvRequest(NamedTuple):
    """What the user asked for."""

    server: str
    hosts: list[str]
    explained: str  # one variable; empty: all of them
    is_json: bool
    words: list[str]  # options of `run`, and a command
    is_verbose: bool = False  # also what is passed on unchanged


class _Answer(NamedTuple):
    """What one host's server would get."""

    host: str  # empty: no host has an entry
    report: dict[str, Any]
    withheld: frozenset[str]  # the variables that the host itself does not pass on
    code: int


def run(
    request: EnvRequest, environ: Mapping[str, str], *, table: ProcessTable | None = None
) -> int:
    """Show what a server would get; return 1 if its launch would fail or the variable is missing.

    Raises:
        UsageError: There is no such server, or none was named.

    """
    if request.hosts and not request.server:
        raise UsageError(
            "--host needs a server",
            fix=f"name one: mcp-launch env SERVER --host {request.hosts[0]}",
        )
    launch.prepare_process()
    here = preview_inputs.look_here(request.words, environ, table or open_table())
    found = [here]
    if request.server:
        found = preview_inputs.look_at_server(request.server, request.hosts, request.words, here)
    answers = [_answer(one, request) for one in found]
    if request.is_json:
        first, *others = (one.report for one in answers)
        print_json({**first, "others": others} if others else first)
    else:
        for one in answers:
            host = one.host if len(answers) > 1 else ""
            env_text.show(one.report, one.withheld, host, is_verbose=request.is_verbose)
    return max(one.code for one in answers)


def _answer(found: Situation, request: EnvRequest) -> _Answer:
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
    host = found.item.host.name if found.item else ""
    code = 0 if is_there and not preview.list_stopping() else 1
    return _Answer(host, report, frozenset(preview.situation.withheld), code)

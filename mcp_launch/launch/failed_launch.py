"""What is known of a launch that fails, for the host that gets the reason as a tool.

It is found again after the failure, because hardly any launch fails.
"""

from __future__ import annotations

import os

from mcp_launch.errors import LaunchError, UsageError
from mcp_launch.launch import options, profile
from mcp_launch.launch.context import look, trace_back
from mcp_launch.launch.plan import choose_answer
from mcp_launch.system import open_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.launch.context import Lineage
    from mcp_launch.system import ProcessTable


class FailedLaunch:
    """A launch as far as it has come."""

    __slots__ = ("answer", "command", "hosts", "launch", "lineage", "server", "table")

    def __init__(  # noqa: PLR0913  # a record, always built by keyword
        self,
        *,
        launch: str,
        server: str,
        command: list[str],
        table: ProcessTable,
        lineage: Lineage,
        hosts: list[int],
        answer: str,
    ) -> None:
        self.launch = launch
        self.server = server  # empty, as is the command, if the arguments cannot be read
        self.command = command
        self.table = table
        self.lineage = lineage
        self.hosts = hosts  # the processes whose end means that the host is gone
        self.answer = answer  # what the host gets, see `choose_answer`


def reconstruct(arguments: list[str], launch: str) -> FailedLaunch | None:
    """Return what can be found out about a launch that failed; None if the system does not tell."""
    try:
        table = open_table()
        lineage = trace_back(table, os.getpid())
        sighting = look(table, lineage, os.environ)
    except OSError:
        return None  # out of descriptors
    server, command, wanted = _read_arguments(arguments)
    return FailedLaunch(
        launch=launch,
        server=server,
        command=command,
        table=table,
        lineage=lineage,
        hosts=lineage.list_hosts(os.getppid()),
        answer=choose_answer(wanted, lineage.host, sighting, os.environ),
    )


def _read_arguments(arguments: list[str]) -> tuple[str, list[str], str]:
    """Return the server's name, its command and `--on-failure`, as far as they can be read."""
    try:
        wanted = profile.load(arguments, os.environ)
    except (LaunchError, OSError):
        pass  # perhaps the failure that is reported
    else:
        return wanted.server, wanted.command, wanted.on_failure
    server, command = name_server(arguments)
    return server, command, options.peek("--on-failure", arguments, os.environ)


def name_server(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the server's name and command; both are empty if they cannot be read."""
    try:
        given, words = options.split(arguments)
    except UsageError:
        return "", []
    server = profile.name_server(given, os.environ)
    return server or os.path.basename("".join(words[:1])), words

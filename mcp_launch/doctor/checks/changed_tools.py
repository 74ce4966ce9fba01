"""Hosts that do not notice when a server's tools differ from the remembered ones.

A server that is not running is answered for from memory. If its tools have changed when it is
started, the host gets a notification, which some hosts ignore. This concerns only users whose
servers are started later, so nobody else sees this finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import printable
from mcp_launch.machine.preview import predict
from mcp_launch.machine.subject import Subject
from mcp_launch.protocol import get_member
from mcp_launch.state import leases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Item, Survey


def check(survey: Survey) -> Iterator[Finding]:
    """Find hosts that may show tools which a server started later does not have (ML123)."""
    waiting = set(_list_waiting(survey))
    for host in survey.hosts:
        unnoticed = host.explain_unnoticed_tools(survey)
        items = [item for item in survey.servers if item.host is host and item.is_wrapped]
        late = [item for item in items if _is_late(survey, item, waiting)]
        if unnoticed is None or not late:
            continue
        why, fix = unnoticed
        names = ", ".join(dict.fromkeys(printable(item.name) for item in late))
        yield Finding(
            "ML123",
            Subject(host.name),
            f"{names}: until the first call, {host.title} is shown the remembered tools. If "
            f"these have changed since, it does not notice: {why}",
            f"{fix}, then restart {host.title}",
            servers=tuple(dict.fromkeys(item.name for item in late)),
        )


def _is_late(survey: Survey, item: Item, waiting: set[tuple[str, str]]) -> bool:
    """Return whether an entry's server is started with the first call: always, or right now."""
    if (item.host.name, item.name) in waiting:
        return True
    profile = predict(survey, item).profile
    return profile is not None and profile.start == "called"


def _list_waiting(survey: Survey) -> Iterator[tuple[str, str]]:
    """Return the hosts and names of the servers that a living launch has not started yet."""
    for record in leases.read_all(f"{survey.state}/leases").values():
        host, name = get_member(record, "context", "host", "value"), record.get("server")
        is_waiting = record.get("state") == leases.NOT_STARTED
        if is_waiting and not leases.is_stale(survey.table, record):
            yield str(host), str(name)


OF_ALL = (check,)

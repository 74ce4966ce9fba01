"""Parameters that several commands share, and what a shell offers for them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

# A project's file may name its servers as it likes, and typer's script for zsh evaluates what it
# is offered: no other names are.
_HARMLESS = re.compile(r"[\w.@/+-]+", re.ASCII)


def offer(names: Iterable[str]) -> list[str]:
    """Return the names that may be offered to a shell; typer takes those that fit the word."""
    return sorted({name for name in names if _HARMLESS.fullmatch(name)})


def offer_hosts() -> list[str]:
    """Return the names of all hosts."""
    from mcp_launch.hosts.configured import HOSTS

    return offer(HOSTS)


def offer_servers() -> list[str]:
    """Return the names of the servers in the hosts' files."""
    from mcp_launch.machine.survey import open_survey

    return offer(item.name for item in open_survey(os.environ).items)


def offer_sessions() -> list[str]:
    """Return the ids of the sessions that have servers."""
    from mcp_launch.machine.survey import open_survey

    hosts = open_survey(os.environ).take_census().hosts
    return offer(one.thread or one.session for host in hosts for one in host.sessions)


Names = Annotated[
    list[str] | None,
    typer.Argument(
        help="Servers; default: all.",
        metavar="SERVER",
        show_default=False,
        autocompletion=offer_servers,
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="HOST",
        help="Only this host; may be repeated.",
        autocompletion=offer_hosts,
    ),
]
Session = Annotated[
    str,
    typer.Option(
        "--session",
        metavar="ID",
        help="A session or thread, or the beginning of its id.",
        autocompletion=offer_sessions,
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option("--file", metavar="FILE", help="Only this file; may be repeated."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show more.")]

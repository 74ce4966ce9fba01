"""What a word of a command line can become: hosts, servers, sessions, codes, options of `run`."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch.commands import help as topics
from mcp_launch.commands import schema
from mcp_launch.doctor.check import CHECKS
from mcp_launch.doctor.registry import find_codes
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.launch.options import CHOICES, SOURCES, SWITCHES, TAKE_A_VALUE, USAGE
from mcp_launch.machine import call_records
from mcp_launch.machine.call_statistics import ORDERS
from mcp_launch.machine.survey import open_survey
from mcp_launch.state.calls import find_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# What a shell does itself: complete paths, or the names of programs.
_FILES, _PROGRAMS = ":files", ":programs"


# How many of the last calls are searched for the names of tools.
_CALLS = 1000


class Suggestion(NamedTuple):
    """One word that may come next."""

    word: str
    about: str = ""


def suggest_for_run(before: list[str], current: str) -> Iterable[Suggestion]:
    """Return options of `run`, their values, or, once its command begins, programs and files."""
    last = before[-1] if before else ""
    own = 0  # how many of the words belong to `run`
    while own < len(before) and before[own].startswith("-") and before[own] != "--":
        own += 2 if before[own] in TAKE_A_VALUE else 1
    if own < len(before):
        return [Suggestion(_PROGRAMS if last == "--" else _FILES)]
    if own > len(before):
        return _list_run_values(last, current)
    if current.startswith("-") or not current:
        about = _read_usage()
        return [Suggestion(name, about.get(name, "")) for name in ("--", *TAKE_A_VALUE, *SWITCHES)]
    return [Suggestion(_PROGRAMS)]


def _read_usage() -> dict[str, str]:
    """Return the beginning of what the usage of `run` says about each option."""
    found = re.findall(
        r"^  (--[\w-]+)(?: [A-Z=]+)?\s+(.+?)(?=\n  --|\n\n)", USAGE, re.MULTILINE | re.DOTALL
    )
    return {name: re.split(r"[;:(]", " ".join(about.split()))[0].strip() for name, about in found}


def _list_run_values(option: str, current: str) -> Iterable[Suggestion]:
    name, equals, _ = current.partition("=")
    if option == "--env":
        return [Suggestion(f"{name}={source}") for source in SOURCES] if equals else []
    known = {
        "--cwd": ("session", "project_root", "keep"),
        "--pass-env": ("all", "safe"),
        "--rest": ("off", "5m", "10m", "1h"),
        "--max-servers": ("4", "8", "16"),
        "--call-timeout": ("off", "5m", "10m", "1h"),
        "--max-concurrent": ("1", "2", "4", "8"),
        **{one: tuple(filter(None, words)) for one, words in CHOICES.items()},
    }
    if option == "--server":
        return _list_servers()
    found = [Suggestion(word) for word in known.get(option, ())]
    return [*found, Suggestion(_FILES)] if option in {"--cwd", "--dotenv"} else found


def list_values(metavar: str) -> list[Suggestion]:
    """Return the values of a parameter, by the name that it has in the help text."""
    return VALUES.get(metavar, list)()


def _list_hosts() -> list[Suggestion]:
    return [Suggestion(name, host.title) for name, host in HOSTS.items()]


def _list_servers() -> list[Suggestion]:
    found: dict[str, list[str]] = {}
    for item in open_survey(os.environ).items:
        hosts = found.setdefault(item.name, [])
        hosts += [item.host.title] if item.host.title not in hosts else []
    return [Suggestion(name, ", ".join(hosts)) for name, hosts in sorted(found.items())]


def _list_sessions() -> list[Suggestion]:
    return [
        Suggestion(session.thread or session.session, host.title)
        for host in open_survey(os.environ).take_census().hosts
        for session in host.sessions
        if session.thread or session.session
    ]


def _list_codes() -> list[Suggestion]:
    return [Suggestion(code, CHECKS[code].title) for code in find_codes()]


def _list_shells() -> list[Suggestion]:
    return [Suggestion(name) for name in ("bash", "zsh", "fish")]


def _list_topics() -> list[Suggestion]:
    return [Suggestion(topic, topics.summarize(topic)) for topic in topics.TOPICS]


def _list_schemas() -> list[Suggestion]:
    return [Suggestion(name) for name in schema.list_names()]


def _list_tools() -> list[Suggestion]:
    """Return the tools that were called lately, with their servers."""
    parts = call_records.list_parts(find_calls(os.environ))
    found: dict[str, set[str]] = {}
    for call in call_records.read_last(parts, _CALLS):
        found.setdefault(call.tool, set()).add(call.server)
    return [Suggestion(tool, ", ".join(sorted(found[tool]))) for tool in sorted(found)]


def _list_orders() -> list[Suggestion]:
    return [Suggestion(order) for order in ORDERS]


def _list_files() -> list[Suggestion]:
    return [Suggestion(_FILES)]


VALUES: dict[str, Callable[[], list[Suggestion]]] = {
    "CODE": _list_codes,
    "CODES": _list_codes,
    "FILE": _list_files,
    "HOST": _list_hosts,
    "ID": _list_sessions,
    "ORDER": _list_orders,
    "PATH": _list_files,
    "SCHEMA": _list_schemas,
    "SERVER": _list_servers,
    "SHELL": _list_shells,
    "TOOL": _list_tools,
    "TOPIC": _list_topics,
}

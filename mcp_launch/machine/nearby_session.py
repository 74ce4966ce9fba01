"""Find the running hosts that would start a server here.

A session counts only if it is this user's, uses this home, and its directory is the current
one or above it in the same project.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mcp_launch import hosts
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.launch import context
from mcp_launch.system import list_ancestors
from mcp_launch.values import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.site import Site
    from mcp_launch.launch.context import Lineage
    from mcp_launch.system import ProcessTable

# A host with another value in one of these reads other files than it would if started here.
_MOVING = {name: host.quirks.home_variable for name, host in HOSTS.items()}


def find_hosts(table: ProcessTable, site: Site, here: str) -> dict[int, str]:
    """Return the running hosts that may start a server here: pids with names in `hosts`.

    A host above us comes first.
    """
    above = _list_above(table)
    own = {pid: name for pid, name in _list_running(table) if _is_own(table, site, pid, name)}
    near = [pid for pid in own if pid in above]
    near += [
        pid
        for pid, name in own.items()
        if pid not in above and _may_work_here(table, pid, name, here)
    ]
    return {pid: own[pid] for pid in near}


def _list_running(table: ProcessTable) -> Iterator[tuple[int, str]]:
    """Return the pids of all running hosts, with their names."""
    for pid in table.list_pids():
        process = table.look(pid)
        host = hosts.recognise(table, process) if process else None
        if host is not None:
            yield pid, host.name


def _is_own(table: ProcessTable, site: Site, pid: int, name: str) -> bool:
    """Return whether a host is this user's, and uses this home and our own settings."""
    if not hasattr(os, "getuid") or table.read_owner(pid) != os.getuid():
        return False
    environ, moving = table.read_environ(pid), _MOVING.get(name, "")
    is_same_home = environ.get("HOME", site.home) == site.home
    return is_same_home and environ.get(moving) == site.environ.get(moving)


def _may_work_here(table: ProcessTable, pid: int, name: str, here: str) -> bool:
    # An editor may have windows in any directory, and shows no session.
    host = hosts.load(name)
    if host.carries == "many sessions" or host.is_daemon(table, pid):
        return True
    return _is_place(table.read_cwd(pid), here)


def _is_place(directory: str, here: str) -> bool:
    """Return whether a session's directory is `here`, or above it in the same project."""
    if not directory or not here:
        return False
    if os.path.realpath(directory) == os.path.realpath(here):
        return True
    root = context.find_project_root(os.path.realpath(here))
    is_above = context.is_inside(here, [directory])
    return is_above and isinstance(root, Found) and context.is_inside(directory, [root.value])


def hide_threads(table: ProcessTable, line: Lineage, here: str) -> ProcessTable:
    """Return a process table that hides a host's threads that work elsewhere."""
    pid = line.process.identity.pid if line.process else 0
    threads = line.host.list_open_threads(table, pid)
    if not threads or pid in _list_above(table):
        return table
    is_daemon = line.host.is_daemon(table, pid)
    hidden = {
        thread.id
        for thread in threads
        if not (_is_place(thread.cwd, here) if thread.cwd else not is_daemon)
    }
    view: Any = _View(table, hidden)
    return view  # type: ignore[no-any-return]


def list_notes(table: ProcessTable, line: Lineage, title: str) -> Iterator[str]:
    """Yield a note if the host could have shown a session, but none is running here."""
    process = line.process
    is_told = process is not None
    if process is not None and line.host.carries == "one thread":
        is_told = bool(line.host.list_open_threads(table, process.identity.pid))
    if line.host.told_later and not is_told:
        yield f"no {title} session is running here: the values are those of a new one"


def _list_above(table: ProcessTable) -> set[int]:
    return {process.identity.pid for process in list_ancestors(table, os.getpid())}


class _View:
    """A process table that hides the open files of some threads."""

    def __init__(self, table: ProcessTable, hidden: set[str]) -> None:
        self._table = table
        self._hidden = hidden

    def list_open_files(self, pid: int) -> list[str]:
        paths = self._table.list_open_files(pid)
        return [path for path in paths if not any(one in path for one in self._hidden)]

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._table, name)
        return found

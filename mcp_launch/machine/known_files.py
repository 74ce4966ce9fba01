"""The files of hosts: those in the usual places, and those of directories that hosts now use.

A host can be started with another directory for its settings: `CODEX_HOME=~/work codex`. Nobody
but its processes knows of such a directory, so their environment is read. Only processes of this
user and home count, as anywhere else (see `nearby_session`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcp_launch.machine import nearby_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.config_files.site import Site
    from mcp_launch.system import ProcessTable

# How many directories of one host are looked at, besides the usual one.
_MOST_PROFILES = 20


def list_all(
    hosts: Iterable[HostConfig], site: Site, table: ProcessTable
) -> list[tuple[HostConfig, File]]:
    """Return all files in which these hosts may have servers, whether or not they exist."""
    running = list(_list_environs(site, table))
    return [
        (host, file)
        for host in hosts
        for file in (*host.list_files(site), *_list_moved(host, site, running))
    ]


def _list_environs(site: Site, table: ProcessTable) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Return the environments of the running hosts of this user, with the hosts' names."""
    for pid, name in nearby_session.list_running(table):
        environ = table.read_environ(pid)
        # Without HOME we could not say whose directories its own are.
        if "HOME" in environ and nearby_session.is_of_user(table, site, pid):
            yield name, environ


def _list_moved(
    host: HostConfig, site: Site, running: list[tuple[str, Mapping[str, str]]]
) -> list[File]:
    """Return a host's own files in the directories that its processes use instead of ours."""
    variable = host.quirks.home_variable
    usual = site.environ.get(variable, "")
    used = {environ.get(variable, "") for name, environ in running if name in host.processes}
    found = []
    for directory in sorted(used - {usual})[:_MOST_PROFILES] if variable else ():
        if directory and not os.path.isabs(directory):
            continue  # relative to wherever the host was started
        moved = site._replace(environ={**site.environ, variable: directory})
        of_user = [file for file in host.list_files(moved) if file.scope == "user"]
        found += [file._replace(is_of_profile=True) for file in of_user]
    here = {file.path for file in host.list_files(site)}
    return [file for file in found if file.path not in here]

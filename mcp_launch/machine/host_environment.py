"""The environment a server gets from its host: not the shell's, and different for each host.

If the host is running, its process shows its environment. Otherwise we assume how it is
usually started: from a terminal, with the whole environment of the shell, or from the
desktop, where editors ask the shell for the rest and Claude Desktop does not.
"""

from __future__ import annotations

import os
import re
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import hosts, masking
from mcp_launch.config_files.host_config import File
from mcp_launch.errors import FileRefused, SourceMissing
from mcp_launch.launch import environment
from mcp_launch.launch.dotenv import read_text
from mcp_launch.values import expand_home, is_same_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.config_files.host_config import HostConfig
    from mcp_launch.config_files.host_quirks import Environment
    from mcp_launch.machine.survey import Item, Survey

_UNSOLVED = re.compile(r"\$\{|\{env:")


class Given(NamedTuple):
    """The environment that a host gives to a server, or to the launcher in front of it."""

    environ: dict[str, str]
    origins: dict[str, str]
    withheld: dict[str, str]  # variables of the host that it does not pass on, and why
    around: Mapping[str, str]  # the host's own environment


def give(survey: Survey, item: Item, cwd: str) -> Given:
    """Return the environment in which a host starts an entry's command in a directory."""
    title, host = item.host.title, read_host(survey, item.host)
    of_project = _read_of_project(survey, item)
    inherited = {**host, **of_project}
    environ = {name: text for name, text in inherited.items() if passes(item, name, inherited)}
    of_file = _read_env_file(survey, item)
    environ |= of_file
    own = {name: expand(survey, item, text) for name, text in item.variables.items()}
    if item.host.quirks.environment.extends_path and "PATH" in own and environ.get("PATH"):
        own["PATH"] = f"{environ['PATH']}:{own['PATH']}"
    kept = host.keys() - environ.keys() - own.keys()
    withheld = dict.fromkeys(kept, f"{title} does not pass it on to servers")
    # An inherited value belongs to another session: the host sets its own for every server.
    for name in hosts.IDENTITY_VARIABLES.get(item.host.name, ()):
        if name not in own and environ.pop(name, None) is not None:
            withheld[name] = f"{title} sets its own when it starts a server"
    added = {name: text for name, text in _list_added(item, cwd).items() if name not in own}
    origins = {
        **dict.fromkeys(host, f"inherited from {title}"),
        **dict.fromkeys(of_project, "the project's settings"),
        **dict.fromkeys(of_file, "the entry's envFile"),
        **dict.fromkeys(added, f"{title} sets it for every server"),
        **dict.fromkeys(own, "the entry's env"),
    }
    withheld = {name: why for name, why in sorted(withheld.items()) if name not in added}
    return Given(environ | own | added, origins, withheld, host)


def find_project(survey: Survey, item: Item) -> str:
    """Return the project that an entry is evaluated for."""
    return item.scope.partition("local: ")[2] or survey.site.project


def _list_added(item: Item, cwd: str) -> dict[str, str]:
    """Return the variables that a host sets for every server it starts in a directory."""
    known = item.environment
    return {
        **dict(known.added),
        **({known.project_variable: cwd} if known.project_variable else {}),
    }


def passes(item: Item, name: str, inherited: Mapping[str, str]) -> bool:
    """Return whether a host passes one of its own variables on to a server."""
    known = item.environment
    if name in list_named(item):
        return True
    passed = known.list_passed(inherited)
    if passed is not None:
        return name in passed
    return _is_kept(item, name) or not _is_stripped(known, name, inherited)


def _is_kept(item: Item, name: str) -> bool:
    known = item.environment
    if known.keeps and known.keeps.match(name):
        return True
    allowed = item.document.get(known.kept_in) if known.kept_in else None
    return isinstance(allowed, list) and name in allowed


def _is_stripped(known: Environment, name: str, inherited: Mapping[str, str]) -> bool:
    if known.strips and known.strips.search(name):
        return True
    if inherited.get(known.strips_secrets_if) and environment.is_host_secret(name):
        return True
    return known.strips_secret_values and masking.looks_secret(inherited.get(name, ""))


def list_named(item: Item) -> list[str]:
    """Return the variables that an entry names in `env_vars`, if its host knows that key."""
    named = item.entry.get("env_vars") if item.host.quirks.environment.has_env_vars else None
    found = []
    for one in named if isinstance(named, list) else []:
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict) and one.get("source", "local") == "local":
            found.append(str(one.get("name")))
    return found


def list_of_keyring(item: Item) -> list[str]:
    """Return the variables that a host takes from the system's keyring for an entry."""
    named = item.entry.get(item.host.quirks.texts.keyring)
    return [str(name) for name in named] if isinstance(named, list) else []


def read_host(survey: Survey, host: HostConfig) -> Mapping[str, str]:
    """Return a host's environment: its process's if it is running, else the usual one."""
    environs = (survey.table.read_environ(pid) for pid in find_processes(survey, host))
    running = next(filter(None, environs), {})
    known = host.quirks.environment
    started = {**running, **survey.environ} if known.asks_the_shell else running or survey.environ
    path = known.find_path(survey.site)
    own = _read_settings(survey, known.list_settings(survey.site))
    return {**started, **({"PATH": path} if path else {}), **own}


def find_processes(survey: Survey, host: HostConfig) -> list[int]:
    """Return the processes of a host that may start a server here, the most likely first."""
    near = {pid: name for pid, name in survey.near_hosts.items() if name in host.processes}
    # A terminal may let a daemon start its servers, and the daemon may run elsewhere.
    return sorted(near, key=lambda pid: not hosts.load(near[pid]).is_daemon(survey.table, pid))


def _read_of_project(survey: Survey, item: Item) -> dict[str, str]:
    """Return the variables that a project's settings add to those of its entries."""
    project = find_project(survey, item)
    if is_same_directory(project, survey.site.home):
        return {}  # they are the user's own
    return _read_settings(survey, item.host.quirks.environment.list_project_settings(project))


def _read_settings(survey: Survey, paths: list[str]) -> dict[str, str]:
    """Return the variables that settings files set; a later file wins."""
    found: dict[str, str] = {}
    for path in paths:
        try:
            table = survey.read(File(path, "settings")).get(("env",))
        except FileRefused:
            continue  # most do not exist; the host reports what is wrong with one
        if isinstance(table, dict):
            found |= {str(name): str(text) for name, text in table.items()}
    return found


def expand(survey: Survey, item: Item, text: str) -> str:
    """Return a text of an entry as its host expands it; unset variables stay as written."""
    pattern = item.host.quirks.texts.borrowing
    if pattern is None:
        return text
    environ = read_host(survey, item.host)

    def replace(found: re.Match[str]) -> str:
        name, default, *_ = (*found.groups(), None)
        return environ.get(name) or default or found.group()

    text = pattern.sub(replace, text)
    text = text.replace("${workspaceFolder}", survey.site.project)
    return text.replace("${userHome}", survey.site.home)


def spell_out(survey: Survey, item: Item, words: list[str]) -> list[str]:
    """Return the words of an entry's command as its host expands them."""
    spelled = [expand(survey, item, word) for word in words]
    if not item.host.quirks.texts.expands_tilde:
        return spelled
    home = survey.site.home
    return [expand_home(word, home) if word.startswith("~/") else word for word in spelled]


def is_solved(item: Item, text: str) -> bool:
    """Return whether a text holds nothing that its host would still expand."""
    return item.host.quirks.texts.replaces_nothing or not _UNSOLVED.search(text)


def _read_env_file(survey: Survey, item: Item) -> dict[str, str]:
    """Return the variables of an entry's `envFile`, which editors support."""
    path = item.entry.get("envFile")
    return read_variables(expand(survey, item, path)) if isinstance(path, str) else {}


def read_variables(path: str) -> dict[str, str]:
    """Return the variables of a dotenv file; none if it cannot be read, or is a pipe."""
    from dotenv import dotenv_values

    try:
        # A pipe can be read only once, and that is for the launch.
        text = read_text(path) if os.path.isfile(path) else ""
    except SourceMissing:
        return {}  # whether that is a problem is for the caller to decide
    found = dotenv_values(stream=StringIO(text))
    return {name: text for name, text in found.items() if text is not None}

"""Everything that the checks examine, read once: files, entries, environment, processes."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch import state, system
from mcp_launch.config_files import entry_script, planned_changes, wrap, wrapped_files
from mcp_launch.config_files.host_config import ANY_HOST, list_entries, tell_why_not
from mcp_launch.config_files.site import Site
from mcp_launch.documents.document import read_document
from mcp_launch.documents.positions import locate
from mcp_launch.errors import FileRefused, UsageError, suggest
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.launch import options
from mcp_launch.launch.context import find_project_root, read_cwd
from mcp_launch.machine import (
    installation,
    nearby_session,
    remembered_tools,
    running,
)
from mcp_launch.machine.recognize_server import Configured
from mcp_launch.values import Found, find_home_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.config_files.host_quirks import Environment
    from mcp_launch.documents.document import Document
    from mcp_launch.documents.positions import Path
    from mcp_launch.machine.remembered_tools import RememberedTools
    from mcp_launch.machine.running import Census
    from mcp_launch.system import ProcessTable

# The keys under which hosts' entries keep their variables.
_VARIABLES = ("env", "environment", "envs")


class Subject(NamedTuple):
    """What a finding is about; fields that do not apply are empty."""

    host: str = ""  # its name in `hosts`
    server: str = ""
    scope: str = ""
    file: str = ""
    line: int = 0  # counted from 1; 0: the file as a whole
    column: int = 0
    pid: int = 0


class Item(NamedTuple):
    """One server in one file."""

    host: HostConfig
    file: File
    document: Document
    path: Path  # where it is in the document
    name: str
    scope: str  # in the host's words; "local: /project" for Claude Code's private ones
    entry: dict[str, Any]
    words: list[str]  # its command as written in the file; empty if the entry is invalid
    why_not: str  # why this host does not start it; empty: it does
    is_wrapped: bool  # by a launcher of its own name
    options: dict[str, list[str]]  # of `run`, if it is wrapped
    command: list[str]  # the server's own command; empty if a profile has it

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables that the entry sets."""
        found: dict[str, str] = {}
        command = self.entry.get("command")
        tables = [self.entry.get(key) for key in _VARIABLES]
        # Zed's old entries have the variables inside `command`.
        tables += [command.get("env")] if isinstance(command, dict) else []
        for table in tables:
            if isinstance(table, dict):
                found |= {str(name): str(text) for name, text in table.items() if text is not None}
        return found

    @property
    def cwd(self) -> object:
        """Return the directory that the entry names, whatever its host makes of it."""
        return self.entry.get(self.host.quirks.cwd_key)

    @property
    def starts_anywhere(self) -> bool:
        """Return whether its host starts it in `/` or the home, whatever the project."""
        is_program = not self.file.lives_in and self.host.quirks.lives_in
        return self.host.starts_anywhere and not is_program

    @property
    def environment(self) -> Environment:
        """Return what it gets of its host's environment."""
        known = self.host.quirks
        own = None if self.file.lives_in else known.own_environment
        return known.environment if own is None else own

    @property
    def running_as(self) -> str:
        """Return the name of the host whose process starts it."""
        return self.file.lives_in or self.host.name

    @property
    def is_of_project(self) -> bool:
        """Return whether the entry is in a project's file, where others may see it."""
        return self.scope in {"project", "workspace", "repository"}

    @property
    def hidden(self) -> str:
        """Return the `why_not` of an entry that a nearer file of the same project overrides."""
        return f"a nearer {os.path.basename(self.file.path)} has it too"

    def point(self, *keys: str | int) -> Subject:
        """Return the place of the entry, or of something in it, as a subject."""
        place = point(self.host, self.file, self.document, self.path + keys)
        return place._replace(server=self.name, scope=self.scope)


def point(host: HostConfig, file: File, document: Document, path: Path) -> Subject:
    """Return the place of something in a file as a subject."""
    while path and path not in document.spots:
        path = path[:-1]
    spot = document.spots.get(path)
    line, column = locate(document.text, spot.key[0]) if spot else (0, 0)
    return Subject(host.name, "", file.scope, file.path, line, column)


class Refusal(NamedTuple):
    """A file that could not be read, and why."""

    host: HostConfig
    file: File
    error: FileRefused


class Survey:
    """What is on this machine. Everything is read on first use."""

    def __init__(
        self,
        site: Site,
        table: ProcessTable,
        directory: str,
        only: Sequence[str] = (),
        *,
        here: str = "",
    ) -> None:
        self.site = site
        self.here = here or site.project  # where a host would be started
        self.environ: Mapping[str, str] = site.environ
        self.table = table
        self.state = directory  # where leases and logs are
        self.is_narrowed = bool(only)
        self.hosts = [host for host in HOSTS.values() if not only or host.name in only]
        self.refusals: list[Refusal] = []
        self.failures: list[tuple[Subject, Exception]] = []  # entries that raised an error
        self._documents: dict[str, Document] = {}

    @cached_property
    def files(self) -> list[tuple[HostConfig, File]]:
        """Return every existing file, once: the project may be the home."""
        found: dict[tuple[str, str], tuple[HostConfig, File]] = {}
        for host, file in list_known_files(self.hosts, self.site):
            if os.path.lexists(file.path):
                found.setdefault((host.name, os.path.realpath(file.path)), (host, file))
        return list(found.values())

    @cached_property
    def items(self) -> list[Item]:
        """Return every server of every file; a file that cannot be read is in `refusals`."""
        found: list[Item] = []
        for host, file in self.files:
            try:
                document = self.read(file)
            except FileRefused as error:
                self.refusals.append(Refusal(host, file, error))
                continue
            for path in list_entries(document, file):
                try:
                    item = _describe(host, file, document, path)
                    found.append(item._replace(why_not=self._tell_why_not(item, found)))
                except Exception as error:  # noqa: BLE001  # one bad entry must not hide the others
                    name = wrap.show_name(document, path)
                    subject = Subject(host.name, name, file.scope, file.path)
                    self.failures.append((subject, error))
        return found

    def _tell_why_not(self, item: Item, before: list[Item]) -> str:
        """Return why a host does not start an entry; empty if it does."""
        entry = item.document.get(item.path)
        if item.file.why_not:
            return item.file.why_not
        if any(_hides(one, item) for one in before):
            return item.hidden
        why_not = tell_why_not(item.host, entry)
        if why_not:
            return why_not
        return item.host.approval.tell_why_off(
            self, item.path, item.words, is_of_project=item.is_of_project
        )

    @cached_property
    def remembered(self) -> dict[str, RememberedTools]:
        """Return the tools of servers that have run, by the servers' names in profiles."""
        return remembered_tools.read([self.state])

    @cached_property
    def names(self) -> set[str]:
        """Return the names by which profiles apply: those of entries, and of servers that have run.

        Also in the wrapped files of other projects, where the user's own file applies, too.
        """
        if self.is_narrowed:
            return self._whole.names
        found = {_name_profile(item) for item in self.items}
        for host, file in list_elsewhere(self.files, self.state):
            try:
                document = self.read(file)
                for path in list_entries(document, file):
                    found.add(_name_profile(_describe(host, file, document, path)))
            except Exception:  # noqa: BLE001, S112  # the other project's own doctor reports it
                continue
        return found | self.remembered.keys()

    def is_unknown(self, name: str) -> bool:
        """Return whether certainly no server has this name in profiles."""
        # A file that cannot be read may have it. Without any server there is nothing to compare.
        return bool(self.names) and not self._whole.refusals and name not in self.names

    @cached_property
    def _whole(self) -> Survey:
        """Return the survey of all hosts."""
        if not self.is_narrowed:
            return self
        return Survey(self.site, self.table, self.state, here=self.here)

    @cached_property
    def servers(self) -> list[Item]:
        """Return the servers that their hosts start."""
        return [item for item in self.items if not item.why_not]

    def covers(self, host: str) -> bool:
        """Return whether a host, by the name of its process, is among those to look at."""
        return not self.is_narrowed or any(host in one.processes for one in self.hosts)

    @cached_property
    def launcher(self) -> str:
        """Return what entries should start; empty if mcp-launch is not installed."""
        try:
            installation.find(self.environ, self.site.home)
        except UsageError:
            return ""
        return entry_script.locate(self.state)

    @cached_property
    def near_hosts(self) -> dict[int, str]:
        """Return the pids of hosts that may start a server here, with the hosts' names."""
        return nearby_session.find_hosts(self.table, self.site, self.here)

    @cached_property
    def configured(self) -> list[Configured]:
        """Return the servers whose own commands are in the files of all hosts.

        Also with `only` some hosts: a running server's name must not depend on that.
        """
        if self.is_narrowed:
            return self._whole.configured
        return [
            Configured(item.name, tuple(item.command), item.host.name)
            for item in self.items
            if item.command
        ]

    @cached_property
    def census(self) -> Census:
        """Return all running servers with their hosts, read once."""
        return self.take_census()

    def take_census(self) -> Census:
        """Return all running servers with their hosts, read now."""
        return running.take(self.table, self.state, self.configured)

    @cached_property
    def programs(self) -> dict[str, str]:
        """Return the paths of the installed hosts, by name."""
        return installation.find_hosts(self.site)

    def read(self, file: File) -> Document:
        """Return a file's document, read once.

        Raises:
            FileRefused: The file cannot be read.

        """
        if file.path not in self._documents:
            text = planned_changes.read_file(file.path)
            self._documents[file.path] = read_document(file.kind, text, file.path)
        return self._documents[file.path]


def list_known_files(hosts: Iterable[HostConfig], site: Site) -> list[tuple[HostConfig, File]]:
    """Return all files in which these hosts may have servers, whether or not they exist."""
    return [(host, file) for host in hosts for file in host.list_files(site)]


def list_elsewhere(
    here: Iterable[tuple[HostConfig, File]], directory: str
) -> list[tuple[HostConfig, File]]:
    """Return the recorded wrapped files that are not among those found from here."""
    seen = {os.path.realpath(file.path) for _, file in here}
    return [
        # A later version may have recorded a host that this one does not know.
        (HOSTS.get(name, ANY_HOST), file)
        for name, file in wrapped_files.list_files(directory)
        if os.path.realpath(file.path) not in seen
    ]


def check_hosts(names: list[str], *also: str) -> None:
    """Check that all these hosts are known, or `also` allowed.

    Raises:
        UsageError: One is unknown.

    """
    known = (*HOSTS, *also)
    for name in names:
        if name not in known:
            raise UsageError(
                f"there is no host {name}",
                fix=f"{suggest(name, known)}the hosts are {', '.join(known)}",
            )


def check_servers(survey: Survey, names: Iterable[str], *also: str) -> None:
    """Check that all these servers are in a host's file, or `also` known, if all can be read.

    Raises:
        UsageError: One is unknown.

    """
    given = (value for item in survey.items for value in item.options.get("--server", []))
    known = {*also, *(item.name for item in survey.items), *given}
    for name in names:
        if name not in known and not survey.refusals:
            raise UsageError(
                f"there is no server {name}",
                fix=f"{suggest(name, known)}mcp-launch list shows all servers",
            )


def make_site(environ: Mapping[str, str]) -> Site:
    """Return where to look for configuration: this user, this project.

    Raises:
        UsageError: The working directory was deleted.

    """
    return Site(find_home_directory(environ), find_current_project(environ), environ, sys.platform)


def open_survey(
    environ: Mapping[str, str],
    table: ProcessTable | None = None,
    only: Sequence[str] = (),
    *,
    needs_project: bool = False,
) -> Survey:
    """Return a survey for this user in this project, of all hosts or `only` some.

    Raises:
        UsageError: The project is needed, but the working directory was deleted.

    """
    try:
        site = make_site(environ)
    except UsageError:
        if needs_project:
            raise
        # Processes can be seen from anywhere, and the user's own files are in the home.
        home = find_home_directory(environ)
        site = Site(home, home, environ, sys.platform)
    return Survey(site, table or system.open_table(), state.find_directory(environ), only)


def _describe(host: HostConfig, file: File, document: Document, path: Path) -> Item:
    entry = document.get(path)
    shape = planned_changes.find_shape(document, host, path)
    words = wrap.list_words(document, path, shape) if shape else []
    is_wrapped = bool(shape) and wrap.is_wrapped(document, path, shape or host.shapes[0])
    given: dict[str, list[str]] = {}
    command = words
    if is_wrapped:
        try:
            given, command = options.split(words[2:])
        except UsageError:
            command = []
    return Item(
        host,
        file,
        document,
        path,
        wrap.show_name(document, path),
        # Claude Code's local servers of one project are under `projects`.
        file.scope if path[0] != "projects" else f"local: {path[1]}",
        entry if isinstance(entry, dict) else {},
        words,
        "",
        is_wrapped,
        given,
        command,
    )


def _name_profile(item: Item) -> str:
    """Return the name of the profiles that apply to an entry."""
    given = item.options.get("--server") or [item.variables.get("MCP_LAUNCH_SERVER", "")]
    return given[-1] or item.name


def _hides(nearer: Item, item: Item) -> bool:
    """Return whether a nearer entry of the same project overrides this one."""
    takes_nearest = item.host.quirks.same_name == "nearest"
    is_same = (nearer.host.name, nearer.name) == (item.host.name, item.name)
    is_other_file = nearer.file.path != item.file.path
    is_of_project = nearer.scope == item.scope == "project"
    return takes_nearest and is_same and is_other_file and is_of_project


def find_current_project(environ: Mapping[str, str]) -> str:
    """Return the root of the current project; outside of projects, the current directory.

    Raises:
        UsageError: The directory was deleted.

    """
    here = read_cwd(environ)
    if not here:
        raise UsageError(
            "the current directory was deleted",
            fix="change to an existing directory (cd ~) and run the command again",
        )
    root = find_project_root(here)
    return root.value if isinstance(root, Found) else here

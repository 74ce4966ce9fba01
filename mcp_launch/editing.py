"""`wrap` and `unwrap`: show what would change, ask, and do it."""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcp_launch import (
    asking,
    changing,
    consequences,
    masking,
    replacing,
    runwords,
    state,
    tracking,
    whereabouts,
)
from mcp_launch.changing import Change, Wish
from mcp_launch.context import find_project_root, read_cwd
from mcp_launch.errors import LaunchError, UsageError, printable, suggest, tell
from mcp_launch.hosts.host import Found, find_home_directory
from mcp_launch.settings import HOSTS
from mcp_launch.settings.host import File, Host, Site
from mcp_launch.wrapping import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# A file that no host is known for: every way in which a server can be written.
_ANY_HOST = Host(
    "file",
    "a file",
    lambda _: [],
    (Shape(), Shape(is_one_list=True), Shape(("command", "path"), ("command", "args"))),
)
_ANY_SERVERS = tuple(
    {
        servers: None
        for host in HOSTS.values()
        for file in host.list_files(Site("/", "/", {}))
        for servers in file.servers
        if servers
    }
)
# How much of a changed line is shown.
_WIDTH = 160

_KINDS = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}


class Request(NamedTuple):
    """What the user asked for."""

    names: list[str]
    hosts: list[str]
    files: list[str]
    is_sure: bool = False  # do not ask
    is_dry: bool = False  # only show
    options: tuple[str, ...] = ()  # of `run`, to be written into the entries


def make_site(environ: Mapping[str, str]) -> Site:
    """Return where to look for configuration: this user, this project."""
    here = read_cwd(environ)
    root = find_project_root(here)
    project = root.value if isinstance(root, Found) else here
    return Site(find_home_directory(environ), project, environ, sys.platform)


def run(request: Request, environ: Mapping[str, str], *, is_wrapping: bool) -> int:
    """Wrap or unwrap, and return the exit code."""
    runwords.check([*request.options])
    site = make_site(environ)
    console = Console(highlight=False, soft_wrap=True)
    launcher = whereabouts.find(environ, site.home) if is_wrapping else ""
    wish = Wish(launcher, tuple(request.names), request.options)
    refusals: list[LaunchError] = []
    files = _list_files(request, site)
    changes = changing.look_at_all(files, wish, refusals.append)
    for refused in refusals:
        tell(refused, sys.stderr)
    _check_names(request, files, changes)
    _show(console, changes, is_wrapping=is_wrapping)
    wanted = [change for change in changes if change.after != change.before]
    for warning in list_warnings(site, wanted, launcher):
        console.print(Text(printable(f"Note: {warning}"), "yellow"))
    if not wanted:
        console.print("There is nothing to change.")
    elif _is_agreed(console, request, wanted):
        refusals += _write(console, wanted, wish)
    elif not request.is_dry:
        console.print("Nothing was changed.")
    return 1 if refusals else 0


def _list_files(request: Request, site: Site) -> list[tuple[Host, File]]:
    check_hosts(request.hosts)
    known = [
        (host, file)
        for host in HOSTS.values()
        if not request.hosts or host.name in request.hosts
        for file in host.list_files(site)
    ]
    if not request.files:
        return [(host, file) for host, file in known if not file.is_outside]
    return [_find_file(path, known) for path in request.files]


def check_hosts(names: list[str]) -> None:
    """See that all these hosts are known.

    Raises:
        UsageError: One is not.

    """
    for name in names:
        if name not in HOSTS:
            raise UsageError(
                f"there is no host {name}",
                fix=f"{suggest(name, HOSTS)}the hosts are {', '.join(HOSTS)}",
            )


def _find_file(path: str, known: list[tuple[Host, File]]) -> tuple[Host, File]:
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path}", fix="name one that is there")
    for host, file in known:
        if os.path.realpath(file.path) == os.path.realpath(path):
            return host, file
    kind = _KINDS.get(os.path.splitext(path)[1], "json")
    host = HOSTS["goose"] if kind == "yaml" else _ANY_HOST
    return host, File(path, "file", kind, _ANY_SERVERS)  # type: ignore[arg-type]


def _check_names(request: Request, files: list[tuple[Host, File]], changes: list[Change]) -> None:
    known = {entry.name for change in changes for entry in change.entries}
    for name in request.names:
        if name not in known:
            everything = changing.look_at_all(files, Wish("", ()), lambda _: None)
            names = {entry.name for change in everything for entry in change.entries}
            raise UsageError(
                f"no file has a server {name}",
                fix=f"{suggest(name, names)}mcp-launch wrap --dry-run lists them all",
            )


def _show(console: Console, changes: list[Change], *, is_wrapping: bool) -> None:
    table = Table("host", "scope", "server", "command", "", box=None, header_style="bold")
    doing = Text("wrap" if is_wrapping else "unwrap", "green")
    for change in changes:
        for entry in change.entries:
            what = Text(f"left alone: {entry.why_not}", "dim") if entry.why_not else doing
            cells = (
                change.host.title,
                entry.scope,
                entry.name,
                shlex.join(masking.mask(entry.words)),
            )
            table.add_row(*[Text(printable(cell)) for cell in cells], what)
    if table.row_count:
        console.print(table)
    for change in changes:
        if change.after != change.before:
            _show_difference(console, change)


def _show_difference(console: Console, change: Change) -> None:
    lines = difflib.unified_diff(
        change.before.splitlines(),
        change.after.splitlines(),
        change.file.path,
        change.file.path,
        n=0,  # what stands beside may be secret
        lineterm="",
    )
    styles = {"+": "green", "-": "red", "@": "cyan"}
    secrets = (one for entry in change.entries for one in masking.list_in_words(entry.words))
    scrubber = masking.Scrubber(secrets)  # a value may stand in another line than its name
    for line in lines:
        shown = printable(scrubber.clean(line))
        shown = shown if len(shown) <= _WIDTH else f"{shown[:_WIDTH]}…"
        console.print(Text(shown, styles.get(line[:1], "")))


def list_warnings(site: Site, changes: list[Change], launcher: str) -> Iterator[str]:
    """Tell what wrapping these may bring about."""
    if not changes or not launcher:
        return
    if reason := whereabouts.warn(launcher):
        yield reason
    for change in changes:
        yield from change.warnings
        if tracking.is_tracked(change.file.path):
            yield (
                f"{change.file.path} is tracked by Git: others get this machine's path of "
                "mcp-launch, too; write it by its name there (command: mcp-launch), or unwrap it"
            )
    if any(change.host.name == "claude" for change in changes):
        yield from _warn_of_claude(site, changes)


def _warn_of_claude(site: Site, changes: list[Change]) -> Iterator[str]:
    for path in consequences.find_allowlists(site):
        yield f"{path} allows servers by their exact command: wrapped ones may be refused"
    wrapped = {
        tuple(entry.words): entry.name
        for change in changes
        for entry in change.entries
        if not entry.why_not
    }
    for words, path in consequences.list_plugin_commands(site).items():
        if name := wrapped.get(words):
            yield (
                f"{name}: a plugin brings the same command ({path}); "
                "Claude Code started only one of the two, and will start both"
            )


def _is_agreed(console: Console, request: Request, changes: list[Change]) -> bool:
    if request.is_dry:
        console.print("Nothing was changed (--dry-run).")
        return False
    count = len(changes)
    question = f"Change {count} file{'s' if count > 1 else ''}?"
    return asking.is_agreed(console, question, is_sure=request.is_sure)


def _write(console: Console, changes: list[Change], wish: Wish) -> list[LaunchError]:
    """Write every file that can be; return why others could not."""
    refusals: list[LaunchError] = []
    for change in changes:
        host, file = change.host, change.file
        make = partial(_make, host, file, wish)  # anew, from what is there by then
        try:
            if replacing.replace(file, make, state.find_directory(os.environ)):
                console.print(Text(printable(f"Changed {file.path}")))
        except LaunchError as error:
            refusals.append(error)
    for refused in refusals:
        tell(refused, sys.stderr)
    console.print("Start the hosts' sessions anew, so that they notice.")
    return refusals


def _make(host: Host, file: File, wish: Wish, text: str) -> str:
    return changing.look(host, file, text, wish).after

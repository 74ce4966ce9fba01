"""Warn of side effects of wrapping and unwrapping, for other people and in the host."""

from __future__ import annotations

import os
import shlex
import shutil
from typing import TYPE_CHECKING

from mcp_launch import masking
from mcp_launch.config_files import git_tracking, planned_changes, wrap
from mcp_launch.config_files.host_config import list_entries
from mcp_launch.config_files.planned_changes import Wish
from mcp_launch.documents.document import read_document
from mcp_launch.machine import installation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.host_config import HostConfig
    from mcp_launch.config_files.planned_changes import Change
    from mcp_launch.config_files.site import Site


def list_warnings(site: Site, changes: list[Change], launcher: str) -> Iterator[str]:
    """Yield the warnings for these changes; an empty `launcher` means unwrapping."""
    shared = [change for change in changes if git_tracking.is_tracked(change.file.path)]
    if not launcher:
        for change in shared:
            yield (
                f"Git tracks {change.file.path}: if it was committed with mcp-launch in it, "
                "committing this removes mcp-launch for others"
            )
        for change in changes:
            yield from _warn_of_sources(change)
        return
    if len(shared) < len(changes) and (warning := installation.warn(launcher)):
        yield f"{warning.problem}: {warning.fix}"
    for change in changes:
        yield from change.warnings
    for change in shared:
        yield (
            f"{change.file.path} is tracked by Git: it names mcp-launch without a path, so "
            "everyone who uses it needs mcp-launch on PATH"
        )
    for host in dict.fromkeys(change.host for change in changes):
        if list_allowed := host.quirks.list_allowed_commands:
            for path in list_allowed(site):
                yield f"{path} allows servers by exact command and may refuse wrapped ones"
            yield from _warn_of_plugins(site, host, changes)


def list_missing_programs(site: Site, changes: list[Change], launcher: str) -> Iterator[str]:
    """Yield a warning if programs of servers to be wrapped are provably not there."""
    missing: dict[str, list[str]] = {}
    for change in changes if launcher else ():
        for entry in change.entries:
            is_wrapped = wrap.find_run(entry.words) is not None  # then this is our launcher
            if not (entry.why_not or is_wrapped) and _is_missing(site, entry.words[0]):
                [program, *_] = masking.mask(entry.words)
                missing.setdefault(program, []).append(shlex.quote(entry.name))
    if missing:
        # Several hosts may have the same server under the same name.
        programs = [f"{one} ({', '.join(dict.fromkeys(names))})" for one, names in missing.items()]
        yield (
            f"not found on this machine: {', '.join(programs)}. Wrapping does not change that; "
            "for details: mcp-launch doctor"
        )


def _is_missing(site: Site, program: str) -> bool:
    """Return whether a program is neither at its path nor on the user's PATH."""
    if os.path.isabs(program):
        return not os.path.exists(program)
    is_plain = not set(program) & {"/", "$", "{", "~", "%"}  # a host may expand the others
    return is_plain and shutil.which(program, path=site.environ.get("PATH")) is None


def _warn_of_sources(change: Change) -> Iterator[str]:
    """Yield a warning for each entry that gets back `env_vars` sources which its host refuses."""
    if not change.host.quirks.environment.has_env_vars:
        return
    before, after = (
        read_document(change.file.kind, text, change.file.path)
        for text in (change.before, change.after)
    )
    for path in list_entries(after, change.file):
        refused = wrap.list_refused_sources(after, path)
        if refused and not wrap.list_refused_sources(before, path):
            yield (
                f"{wrap.show_name(after, path)}: its env_vars again have the source "
                f"{', '.join(refused)}, with which "
                f"{change.host.title} does not start. Remove it from {change.file.path}"
            )


def _warn_of_plugins(site: Site, host: HostConfig, changes: list[Change]) -> Iterator[str]:
    wrapped = {
        tuple(entry.words): entry.name
        for change in changes
        if change.host == host
        for entry in change.entries
        if not entry.why_not
    }
    for words, path in list_plugin_commands(site, host).items():
        if name := wrapped.get(words):
            yield (
                f"{name}: a plugin has the same command ({path}); "
                f"{host.title} started only one of the two and will now start both"
            )


def list_plugin_commands(site: Site, host: HostConfig) -> dict[tuple[str, ...], str]:
    """Return the commands of a host's plugins, with the file of each."""
    plugins = [(host, file) for file in host.list_files(site) if file.scope == "plugin"]
    return {
        tuple(entry.words): change.file.path
        for change in planned_changes.look_at_all(plugins, Wish("", ()), lambda _: None)
        for entry in change.entries
        if entry.words
    }

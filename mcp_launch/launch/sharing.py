"""Share a server with other sessions (`--share`), unless it can only be right for one of them.

That is checked before anything is started: sessions that share a server would not notice that it
has the variables of another one.
"""

from __future__ import annotations

import os

from mcp_launch import __version__, state
from mcp_launch.errors import UsageError
from mcp_launch.hosts import variables
from mcp_launch.launch import plan
from mcp_launch.protocol import json_text
from mcp_launch.state import handshakes, leases, pools
from mcp_launch.system import list_ancestors
from mcp_launch.system.pool_client import SharedStarter
from mcp_launch.values import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_launch.launch.context import Context
    from mcp_launch.launch.profile import Profile
    from mcp_launch.system import ProcessTable
    from mcp_launch.system.guardian_process import NoteKilled, Tidy
    from mcp_launch.system.spawn import ServerPlan

# The sources whose values differ between the sessions of a project.
_OF_ONE_SESSION = ("session", "thread", "host_pid", "launch")

# Variables that say nothing about a server's answers, but without which it may not work: sockets
# that end with a login, and the project.
_COMPARED_AS_WELL = (
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "MCP_LAUNCH_PROJECT_ROOT",
)

# Variables that every launch sets.
_OURS = ("PWD", "MCP_LAUNCH_HOST", "MCP_LAUNCH_ID", "MCP_LAUNCH_PROJECT_ROOT")

# The namespaces of a process, and its rights: a server that was started in a sandbox must not serve
# sessions outside of it, nor the other way round.
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_RIGHTS = ("Umask:", "Groups:", "CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:")

# What contradicts sharing, and why.
_CONTRADICTIONS = {
    "isolate": "one gives several sessions the same server, the other each its own",
    "restart": "a new server for one session would end the one that the others use",
}


def check(wanted: Profile) -> None:
    """Refuse settings that contradict `--share`.

    Raises:
        UsageError: They do.

    """
    clash = _find_clash(wanted) if wanted.share != "off" else None
    if clash is not None:
        setting, why = clash
        raise UsageError(
            f"--share {wanted.share} cannot be combined with {setting}: {why}",
            fix=f"remove {setting}, or write --share off",
        )


def may_be_shared(wanted: Profile) -> bool:
    """Return whether a server that is not shared could be, as far as its settings say."""
    return wanted.share == "off" and _find_clash(wanted) is None


def _find_clash(wanted: Profile) -> tuple[str, str] | None:
    """Return the setting of a server that cannot be shared, and why; None: it can be."""
    if wanted.direct:
        return "--direct", "a server that is connected to its host directly cannot be shared"
    if why := _CONTRADICTIONS.get(wanted.on_change):
        return f"--on-change {wanted.on_change}", why
    for name, variable in wanted.env.items():
        if variable.source in _OF_ONE_SESSION:
            why = "it differs between sessions, which a server finds in _meta of each call"
            return f"the variable {name} (source {variable.source})", why
    return None


def make_starter(  # noqa: PLR0913, PLR0917  # what any starter has, and what names a pool
    table: ProcessTable,
    hosts: list[int],
    lease: str,
    tidy: Tidy,
    note_killed: NoteKilled,
    wanted: Profile,
    found: Context,
) -> SharedStarter:
    """Return what starts the servers of a launch that shares them."""

    def describe_job(started: ServerPlan) -> tuple[str, bytes]:
        inherited = _describe_inheritance(table, started.cwd.value)
        return describe(wanted, found, started, os.environ, inherited)

    hello = json_text.encode({"launch": found.launch.value}).encode() + b"\n"
    return SharedStarter(
        table,
        hosts,
        lease,
        tidy,
        note_killed,
        hello=hello,
        describe=describe_job,
        note=state.note,
    )


def describe(
    wanted: Profile,
    found: Context,
    started: ServerPlan,
    environ: Mapping[str, str],
    inherited: Sequence[str],
) -> tuple[str, bytes]:
    """Return the stem of a pool's files, and the job of a new one.

    The server gets the environment of the launch that starts it, without what belongs to a
    session or says how its host was started: sessions with and without a terminal share it, too.
    Two launches share a server if they agree in all of that (but not in the copies of programs
    that their hosts bring, or in what a terminal says of itself), in the command, the files of
    the program, the directory, and the version of mcp-launch.
    """
    kept = plan.drop_session_variables(wanted, found, started)  # type: ignore[arg-type]  # a Plan
    # What the user has asked for, also by a file of variables, counts whatever its name is.
    named = {*wanted.env, *wanted.literals}
    # Compared as it is kept: Codex puts a directory of its own on PATH, but not always.
    given = variables.drop_private_variables(environ)
    named |= {name for name, value in kept.items() if given.get(name) != value}
    asked_for = {name: kept[name] for name in named if name in kept and name not in _OURS}
    shown = variables.drop_start_variables(kept) | asked_for
    if isinstance(found.project_root, Found):
        shown["MCP_LAUNCH_PROJECT_ROOT"] = found.project_root.value
    compared = variables.drop_bundled_directories(shown)
    server = handshakes.name_server(started.argv, started.program, started.cwd.value, compared)
    facts = [server, __version__, *(shown.get(name, "") for name in _COMPARED_AS_WELL)]
    facts += [f"{name}={compared[name]}" for name in sorted(asked_for)]
    facts += inherited
    key = state.digest("\n".join(facts).encode("utf-8", "surrogateescape"))[:32]
    directory = pools.find_directory(environ)
    state.make_private(directory)
    job = {
        "key": key,
        "directory": directory,
        "server": wanted.server,
        "mark": leases.mark_command(wanted.command),
        "argv": started.argv,
        "program": started.program,
        "cwd": started.cwd.value,
        "environ": shown,
    }
    return f"{directory}/{key}", json_text.encode(job).encode()


def _describe_inheritance(table: ProcessTable, cwd: str) -> list[str]:
    """Return what our children inherit besides variables; `cwd` is where they work."""
    return [*_describe_sandbox(), *_find_launch_above(table), *_describe_directory(cwd)]


def _describe_sandbox() -> list[str]:
    facts = [_read_link(f"/proc/self/ns/{kind}") for kind in _NAMESPACES]
    try:
        with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
            return facts + [line for line in file if line.startswith(_RIGHTS)]
    except OSError:
        os.umask(mask := os.umask(0o77))  # there is no other way to read it
        return [*facts, f"{mask:o}", str(sorted(os.getgroups()))]


def _find_launch_above(table: ProcessTable) -> list[str]:
    """Return the guardian that we are below: what we start ends with it."""
    above = list_ancestors(table, os.getpid())
    guardians = [one.identity for one in above if one.name == "mcp-guardian"]
    return [f"{one.pid} {one.start}" for one in guardians[:1]]


def _describe_directory(cwd: str) -> list[str]:
    """Return which directory this is: one that was removed and made again is another."""
    try:
        place = os.stat(cwd or os.curdir)
    except OSError:
        return []
    return [f"{place.st_dev} {place.st_ino}"]


def _read_link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""

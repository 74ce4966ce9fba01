"""Share a server with other sessions (`--share`), unless it can only be right for one of them.

That is checked before anything is started: sessions that share a server would not notice that it
has the variables of another one.
"""

from __future__ import annotations

import os

from mcp_launch import __version__, state
from mcp_launch.errors import Contradiction
from mcp_launch.hosts import variables
from mcp_launch.launch import plan
from mcp_launch.protocol import json_text
from mcp_launch.state import handshakes, leases, pools
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

# What contradicts sharing, and why.
_CONTRADICTIONS = {
    "isolate": "one gives several sessions the same server, the other each its own",
    "restart": "a new server for one session would end the one that the others use",
}


def check(wanted: Profile) -> None:
    """Refuse settings that contradict `--share`.

    Raises:
        Contradiction: They do.

    """
    clash = find_clash(wanted)
    if clash is None:
        return
    share, (key, why) = f"--share {wanted.share}", clash
    if key == "direct":
        raise Contradiction(
            f"{share} does not work with --direct: {why}",
            fix="remove --direct, or write --share off",
        )
    if key == "on_change":
        raise Contradiction(
            f"{share} contradicts --on-change {wanted.on_change}: {why}",
            fix="remove --on-change, or write --share off",
        )
    raise Contradiction(
        f"with {share} {why}",
        fix="remove them (--env, MCP_LAUNCH_ENV, profile), because the server finds its "
        'session in _meta["mcp-launch/context"] of each call; or write --share off',
    )


def find_clash(wanted: Profile) -> tuple[str, str] | None:
    """Return the key of a profile that contradicts `share`, and why; None: nothing does."""
    if wanted.share == "off":
        return None
    if wanted.direct:
        return "direct", "a server that is connected to its host directly cannot be shared"
    if why := _CONTRADICTIONS.get(wanted.on_change):
        return "on_change", why
    named = [
        f"{name} (source {variable.source})"
        for name, variable in wanted.env.items()
        if variable.source in _OF_ONE_SESSION
    ]
    why = "several sessions use one server, but these variables have another value in each session"
    return ("env_vars", f"{why}: {', '.join(named)}") if named else None


def may_be_shared(wanted: Profile) -> bool:
    """Return whether a server that is not shared could be, as far as its settings say."""
    is_for_one = any(one.source in _OF_ONE_SESSION for one in wanted.env.values())
    is_contradicted = wanted.direct or wanted.on_change in _CONTRADICTIONS
    return wanted.share == "off" and not is_for_one and not is_contradicted


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
        from mcp_launch.system import inherited

        facts = inherited.describe(table, started.cwd.value)
        return describe(wanted, found, started, os.environ, facts)

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
    named |= {name for name, value in kept.items() if environ.get(name) != value}
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

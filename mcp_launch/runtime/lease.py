"""The lease of a launch that runs: what it says, when it is written; the last line of the log."""

from __future__ import annotations

import os
import time

from mcp_launch import hosts, state
from mcp_launch.state import leases
from mcp_launch.system import kernel
from mcp_launch.values import END

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker.client import Client
    from mcp_launch.broker.core import Core
    from mcp_launch.broker.routing import Binding
    from mcp_launch.broker.server import Server
    from mcp_launch.errors import LaunchError
    from mcp_launch.hosts import HostIdentity
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.plan import Plan
    from mcp_launch.launch.running import Running
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.runtime.loop import Loop
    from mcp_launch.runtime.outer_launch import Outer
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.values import Found

# The client of a launch, and its first server.
HOST, SERVER = "host", "server"

# The lease is written when nothing has happened for this time, since each write is a new file …
_DELAY = 0.25
# … or after this time, if something always happens.
_LIMIT = 5.0


class LeaseTimer:
    """Writes a lease soon after a change, for several at once."""

    __slots__ = ("_is_due", "_loop", "_since", "_write", "core")

    def __init__(self, core: Core, loop: Loop, write: Callable[[], None]) -> None:
        self.core = core
        self._loop = loop
        self._write = write
        self._is_due = False
        self._since = 0.0  # when it became due

    def expect(self, *, is_urgent: bool) -> None:
        """Write the lease soon; at once if that is urgent."""
        if is_urgent:
            self._finish()
        elif not self._is_due:
            self._is_due = True
            self._since = time.monotonic()
            self._loop.set_timer("lease", _DELAY, self._consider)

    def _consider(self) -> None:
        rest = min(self.core.now + _DELAY, self._since + _LIMIT) - time.monotonic()
        if rest > 0:
            self._loop.set_timer("lease", rest, self._consider)
        else:
            self._finish()

    def _finish(self) -> None:
        self._loop.cancel_timer("lease")
        self._is_due = False
        self._write()


def _describe_runner(plan: Plan) -> dict[str, object] | None:
    if plan.runner is None:
        return None
    return {
        "left_out": plan.runner.is_left_out,
        "program": plan.program,
        "why": plan.runner.why,
    }


class LeaseWriter:
    """Writes the lease of a launch."""

    find_size: Callable[[], int] = int  # returns the memory of the last server

    core: Core  # once there is one

    def __init__(self, running: Running, outer: Outer | None) -> None:
        record = leases.open_record(running.found.launch.value, running.wanted.command)
        self._lease = leases.Lease(running.lease, record)
        self._running = running
        self._offset = time.time() - time.monotonic()
        self._state = ""
        self._since = 0.0
        self._guardians: dict[str, Guardian] = {}  # by backend
        self._states: dict[str, tuple[str, float]] = {}  # of several backends, with the time
        record.update(
            server=running.wanted.server,
            wire="direct" if running.wanted.direct else "guarded",
            boot=running.table.boot_id(),
            lineage={"verdict": running.line.verdict, "evidence": running.line.evidence},
            outer=outer.path if outer else None,
            restarts=0,
            restarts_on="SIGUSR1" if kernel.hears_restart() else None,
        )

    def write_absent(self, size: int) -> None:
        """Write the lease while there is neither a server nor a core."""
        found, decided = self._running.found, self._running.decided
        identity = found.identity
        self._lease.write(
            context=describe_facts(found, decided.cwd),
            place_note=decided.place_note,
            is_host_directory=found.is_host_directory,
            runner=_describe_runner(decided),
            binding={
                "state": identity.state,
                "session": getattr(identity.session, "value", None),
                "thread": getattr(identity.thread, "value", None),
                "evidence": identity.evidence,
            },
            processes=_describe_processes(self._running),
            calls=0,
            refusals=0,
            starts=0,
            restart_requests=0,
            state=leases.NOT_STARTED,
            since=time.time(),
            saved=size or None,
        )

    def note_server(self, name: str, started: Guardian) -> None:
        """Record the processes of a server that has started."""
        self._guardians[name] = started
        if name == SERVER:
            self._running.guardian = started
            self._lease.record["processes"] = _describe_processes(self._running)
        self.write()

    def write(self) -> None:
        """Write the lease with everything known by now."""
        if self._running.guardian is not None and self._running.guardian.goes_on:
            return  # it is the guardian's now
        core = self.core
        server, client = core.servers[SERVER], core.clients[HOST]
        self._note_state()
        last = core.counts.last_call
        history, served = server.history, server.to_serve
        self._lease.write(
            context=describe_facts(served.context, server.served.plan.cwd),
            place_note=server.served.plan.place_note,
            is_host_directory=served.context.is_host_directory,
            runner=_describe_runner(server.served.plan),
            binding=_describe_binding(served.bound),
            calls=server.own_calls,
            refusals=core.counts.refusals,
            last_call=last and last + self._offset,
            opened_with=client.opened or None,
            noise=core.counts.noise,
            restarts=max(0, history.starts - 1 - history.wakes),
            restart_requests=history.restarts,
            roots=client.roots.listed,
            state=self._state,
            since=self._since,
            saved=self._find_saved() or None,
            starts=history.starts,
            failure=leases.describe_failure(self._find_failure()),
            backends=self._describe_servers(),
            shared=self._describe_pool(),
            shareable=_name_era(client, server),
            # A launch that failed does not start its server again.
            restarts_on=None
            if core.leaving.failure is not None
            else self._lease.record["restarts_on"],
        )

    def _describe_servers(self) -> list[dict[str, object]] | None:
        """Return each server of a launch that has several."""
        servers = self.core.servers.values()
        return [*map(self._describe_server, servers)] if len(servers) > 1 else None

    def _describe_pool(self) -> dict[str, object] | None:
        """Return the pool that keeps the server, if one does."""
        guardian = self._running.guardian
        if guardian is None or guardian.shared is None:
            return None
        pid, key, sessions = guardian.shared
        self._lease.record["processes"] = _describe_processes(self._running)
        pool = leases.describe_processes(self._running.table, pool=pid)
        return {**pool, "key": key, "sessions": sessions}

    def _describe_server(self, server: Server) -> dict[str, object]:
        guardian = self._guardians.get(server.name)
        is_absent = server.state == "absent"
        state = server.why_absent if is_absent else "running"
        if not is_absent and (guardian is None or guardian.is_released):
            state = "starting"
        if self._states.get(server.name, ("",))[0] != state:
            self._states[server.name] = (state, time.time())
        served, history = server.to_serve, server.history
        processes = _describe_guarded(guardian) if guardian and state == "running" else {}
        stand_in = server.stand_in if is_absent else None
        return {
            "name": server.name,
            "state": state,
            "since": self._states[server.name][1],
            "processes": leases.describe_processes(self._running.table, **processes),
            "context": describe_facts(served.context, server.served.plan.cwd),
            "binding": _describe_binding(served.bound),
            "calls": server.own_calls,
            "last_call": history.last_active + self._offset if server.own_calls else None,
            "starts": history.starts,
            "restart_requests": history.restarts,
            "saved": None,
            "failure": leases.describe_failure(stand_in.error if stand_in else None),
        }

    def _find_failure(self) -> LaunchError | None:
        """Return why there is no server, if it could not be started."""
        stand_in = self.core.leaving.failure or self.core.servers[SERVER].stand_in
        return stand_in.error if stand_in is not None and self._state == leases.FAILED else None

    def _note_state(self) -> None:
        """Note whether a server runs, and since when."""
        core, server = self.core, self.core.servers[SERVER]
        state = "running"
        if server.state == "absent" or core.leaving.is_shown_as_tool:
            state = leases.FAILED if core.leaving.is_shown_as_tool else server.why_absent
            self._running.guardian = None  # it has ended with its server
            self._lease.record["processes"] = _describe_processes(self._running)
        elif self._running.guardian is None or not self._running.guardian.server:
            state = "starting"
        if state != self._state:
            self._state, self._since = state, time.time()

    def _find_saved(self) -> int:
        """Return the memory that a server would use which does not run now."""
        memories = self.core.recall.memories.values()
        known = max((one.size_of_server for one in memories), default=0)
        is_saved = self._state in {leases.RESTING, leases.NOT_STARTED}
        return (self.find_size() or known) if is_saved else 0

    def note_end(self, why: str = "", code: int | None = None) -> None:
        """Log the end of the launch; on the direct wire, only the caller knows why and how."""
        servers = [*self.core.servers.values()]
        guardian = self._running.guardian
        goes_on = guardian is not None and guardian.goes_on
        how = "its runner goes on installing" if goes_on else _tell_server(servers[0])
        if guardian is not None and guardian.shared and not servers[0].process.exit_code:
            how = "it has left the shared server"
        count = sum(one.history.calls for one in servers)
        calls = f"{count} call{'' if count == 1 else 's'} in "
        if self._running.wanted.direct:
            how = (
                f"the server {tell_exit(code)}" if code is not None else "the server is being ended"
            )
            calls = "after "
        seconds = time.time() - float(self._lease.record["started"])  # type: ignore[arg-type]
        parts = (
            why or explain_end(self.core, self._running.line.host),
            how,
            calls + describe_duration(seconds),
        )
        state.note(f"ended: {'; '.join(filter(None, parts))}", END)

    def remove(self) -> None:
        """Remove the lease, unless the guardian goes on without us: then it removes it itself."""
        if self._running.guardian is None or not self._running.guardian.may_install:
            self._lease.remove()


def _name_era(client: Client, server: Server) -> str | None:
    """Return why several sessions might share the server; None if they should not."""
    if not client.is_ready:
        return None
    if client.opened != "initialize":
        return "2026"  # its own specification allows it
    return None if server.process.has_spoken_up else "2025"


def _describe_binding(bound: Binding) -> dict[str, object]:
    return {name: getattr(bound, name) for name in ("state", "session", "thread", "evidence")}


def _describe_processes(running: Running) -> dict[str, object]:
    guarded = _describe_guarded(running.guardian) if running.guardian else {}
    return leases.describe_processes(
        running.table, launcher=os.getpid(), **guarded, host=find_host(running)
    )


def _describe_guarded(guardian: Guardian) -> dict[str, int | None]:
    return {"keeper": guardian.keeper, "guardian": guardian.pid, "server": guardian.server}


def find_host(running: Running) -> int | None:
    """Return the pid of the host."""
    process = running.line.process
    return process.identity.pid if process else None


def find_outer(running: Running) -> Outer | None:
    """Return the launch around this one, if there is one."""
    host = find_host(running)
    # An outer launch is rare and one read detects it, so the module is imported only then.
    if not host or not running.table.read_variable(host, "MCP_LAUNCH_ID"):
        return None
    from mcp_launch.runtime import outer_launch

    return outer_launch.find(running.table, host)


def describe_facts(found: Context, cwd: Found) -> dict[str, Json]:
    """Return the facts of a launch for its lease."""
    return leases.describe_facts(
        host=found.host,
        session=found.session,
        thread=found.thread,
        project_root=found.project_root,
        cwd=cwd,
    )


_SIGNALS = {1: "SIGHUP", 2: "SIGINT", 15: "SIGTERM"}

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def explain_end(core: Core, host: HostIdentity) -> str:
    """Return why a launch ended; empty if its server ended first."""
    if core.leaving.is_shown_as_tool:
        return f"it had failed; {_explain_end(core, host)}"
    return _explain_end(core, host)


def _explain_end(core: Core, host: HostIdentity) -> str:
    name, leaving = hosts.name_in_sentence(host.name), core.leaving
    if leaving.host_is_lost:
        return f"{name} has ended"  # some send a signal first
    if leaving.signalled:
        return f"{name_signal(leaving.signalled)} was received"
    if any(not one.may_be_asked for one in core.clients.values()):
        return f"{name} has closed the connection"
    return "it failed" if leaving.failure is not None else ""


def name_signal(number: int) -> str:
    """Return the name of a signal that ends a launch."""
    return _SIGNALS.get(number, f"signal {number}")


def _tell_server(server: Server) -> str:
    if server.process.exit_code is not None:
        return f"the server {tell_exit(server.process.exit_code)}"
    if server.state != "absent":
        return "the server is being ended"
    return "no server was running" if server.history.starts else "no server was started"


def tell_exit(code: int) -> str:
    """Return how a process ended, by its exit code."""
    return f"was killed by signal {code - 128}" if code > 128 else f"ended with exit code {code}"  # noqa: PLR2004


def describe_duration(seconds: float) -> str:
    """Return a duration in its two largest units."""
    whole, parts = int(seconds), []
    for size, unit in _UNITS:
        if whole >= size:
            parts.append(f"{whole // size} {unit}")
            whole %= size
    return " ".join(parts[:2]) or f"{max(0.0, seconds):.1f} s"

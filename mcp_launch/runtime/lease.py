"""The lease of a launch that runs: what it says, when it is written; the last line of the log."""

from __future__ import annotations

import os
import time

from mcp_launch import hosts, state
from mcp_launch.errors import ServerFailed
from mcp_launch.state import leases
from mcp_launch.system import kernel
from mcp_launch.values import END

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.client import Client
    from mcp_launch.broker.core import Core
    from mcp_launch.broker.routing import Binding
    from mcp_launch.broker.server import Server
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


class LeaseWriter:
    """Writes the lease of a launch."""

    core: Core  # once there is one

    def __init__(self, running: Running, outer: Outer | None) -> None:
        record = leases.open_record(running.found.launch.value, running.wanted.command)
        self.size = 0  # the memory of the last server
        self._lease = leases.Lease(running.lease, record)
        self._running = running
        self._offset = time.time() - time.monotonic()
        self._latest = 0.0  # when it must be written, if that is expected
        self._guardians: dict[str, Guardian] = {}  # by server, as the states
        self._states: dict[str, tuple[str, float]] = {}  # since when each lasts
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
            **_describe_start(found, decided),
            context=describe_facts(found, decided.cwd),
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

    def expect(self, loop: Loop, *, is_urgent: bool) -> None:
        """Write the lease soon after a change, for several at once; at once if that is urgent."""
        if is_urgent:
            loop.cancel_timer("lease")
            self.write()
        elif not loop.has_timer("lease"):
            self._latest = time.monotonic() + _LIMIT
            loop.set_timer("lease", _DELAY, lambda: self._consider(loop))

    def _consider(self, loop: Loop) -> None:
        rest = min(self.core.now + _DELAY, self._latest) - time.monotonic()
        if rest > 0:
            loop.set_timer("lease", rest, lambda: self._consider(loop))
        else:
            self.write()

    def note_server(self, name: str, started: Guardian) -> None:
        """Record the processes of a server that has started."""
        self._guardians[name] = started
        if name == SERVER:
            self._running.guardian = started
            self._lease.record["processes"] = _describe_processes(self._running)
        self.write()

    def write(self) -> None:
        """Write the lease with everything known by now."""
        running, core = self._running, self.core
        if running.guardian is not None and running.guardian.goes_on:
            return  # it is the guardian's now
        server, client = core.servers[SERVER], core.clients[HOST]
        first, record = self._describe(server), self._lease.record
        is_absent = server.state == "absent" or core.leaving.is_shown_as_tool
        if is_absent:
            running.guardian = None  # it has ended with its server
        if is_absent or (running.guardian is not None and running.guardian.shared):
            record["processes"] = _describe_processes(running)
        last = core.counts.last_call
        self._lease.write(
            **first,
            **_describe_start(server.to_serve.context, server.served.plan),
            refusals=core.counts.refusals,
            last_call=last and last + self._offset,
            opened_with=client.opened or None,
            noise=core.counts.noise,
            restarts=max(0, server.history.starts - 1 - server.history.wakes),
            roots=client.roots.listed,
            saved=self._find_saved(server) or None,
            backends=self._describe_backends() if len(core.servers) > 1 else None,
            shared=self._describe_pool(),
            shareable=_name_era(client, server),
            # A launch that failed does not start its server again.
            restarts_on=record["restarts_on"] if core.leaving.failure is None else None,
        )

    def _describe(self, server: Server) -> dict[str, object]:
        """Return what is said alike of the only server and of each of several."""
        state = self._find_state(server)
        last, since = self._states.get(server.name, (None, 0.0))
        if state != last:
            since = time.time()
            self._states[server.name] = (state, since)
        stand_in = self.core.leaving.failure or server.stand_in
        error = stand_in.error if stand_in is not None and state == leases.FAILED else None
        served = server.to_serve
        return {
            "state": state,
            "since": since,
            "context": describe_facts(served.context, server.served.plan.cwd),
            "binding": _describe_binding(served.bound),
            "calls": server.own_calls,
            "starts": server.history.starts,
            "restart_requests": server.history.restarts,
            "failure": leases.describe_failure(error),
        }

    def _find_state(self, server: Server) -> str:
        guardian = self._guardians.get(server.name)
        if self.core.leaving.is_shown_as_tool:
            return leases.FAILED
        if server.state == "absent":
            return server.why_absent
        return "starting" if guardian is None or guardian.is_released else "running"

    def _describe_backends(self) -> list[dict[str, object]]:
        return [
            {
                "name": name,
                **self._describe(server),
                "processes": leases.describe_processes(
                    self._running.table, **self._find_processes(server)
                ),
                "last_call": server.history.last_active + self._offset
                if server.own_calls
                else None,
                "saved": None,
            }
            for name, server in self.core.servers.items()
        ]

    def _find_processes(self, server: Server) -> dict[str, int | None]:
        is_running = self._find_state(server) == "running"
        return describe_guarded(self._guardians[server.name]) if is_running else {}

    def _describe_pool(self) -> dict[str, object] | None:
        guardian = self._running.guardian
        if guardian is None or guardian.shared is None:
            return None
        pid, key, sessions = guardian.shared
        pool = leases.describe_processes(self._running.table, pool=pid)
        return {**pool, "key": key, "sessions": sessions}

    def _find_saved(self, server: Server) -> int:
        """Return the memory that a server would use which does not run now."""
        if self._find_state(server) not in {leases.RESTING, leases.NOT_STARTED}:
            return 0
        memories = self.core.recall.memories.values()
        return self.size or max((one.size_of_server for one in memories), default=0)

    def note_end(self, why: str = "", code: int | None = None) -> None:
        """Log the end of the launch; on the direct wire, only the caller knows why and how."""
        servers, guardian = [*self.core.servers.values()], self._running.guardian
        count = sum(one.history.calls for one in servers)
        how, calls = _tell_server(servers[0]), f"{count} call{'' if count == 1 else 's'} in "
        if self._running.wanted.direct:
            how, calls = f"the server {_tell_end(code)}", "after "
        elif guardian is not None and guardian.shared and not servers[0].process.exit_code:
            how = "it has left the shared server"
        elif guardian is not None and guardian.goes_on:
            how = "its runner goes on installing"
        why = why or explain_launch_end(self.core, self._running.line.host)
        seconds = time.time() - float(self._lease.record["started"])  # type: ignore[arg-type]
        parts = filter(None, (why, how, calls + describe_duration(seconds)))
        state.note(f"ended: {'; '.join(parts)}", END)

    def remove(self) -> None:
        """Remove the lease, unless the guardian goes on without us: then it removes it itself."""
        if self._running.guardian is None or not self._running.guardian.may_install:
            self._lease.remove()


def leave(running: Running, lease: LeaseWriter) -> None:
    """Release what a launch holds; its guardian finishes its work alone."""
    kernel.ignore_restart()
    lease.remove()
    if running.guardian is not None:
        running.guardian.leave()
    else:
        running.tidy()


def write_outcome(**facts: object) -> None:
    """Append what is known of a launch when it is over to a file, if one is named."""
    if path := os.environ.get(state.OUTCOME):
        from mcp_launch.state import outcome

        outcome.append(path, facts)


def _describe_start(found: Context, plan: Plan) -> dict[str, object]:
    runner = plan.runner and {
        "left_out": plan.runner.is_left_out,
        "program": plan.program,
        "why": plan.runner.why,
    }
    return {
        "place_note": plan.place_note,
        "is_host_directory": found.is_host_directory,
        "runner": runner,
    }


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
    guarded = describe_guarded(running.guardian) if running.guardian else {}
    return leases.describe_processes(
        running.table, launcher=os.getpid(), **guarded, host=find_host(running)
    )


def describe_guarded(guardian: Guardian) -> dict[str, int | None]:
    """Return the pids of a server and of what guards it."""
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


# How many of the last lines of a server's stderr are shown to its host.
_LAST_LINES = 5

# Lines that say nothing about a server's end: npm announces its own updates after an error.
_NOT_THE_CAUSE = "npm notice"

_SIGNALS = {1: "SIGHUP", 2: "SIGINT", 15: "SIGTERM"}

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def explain_launch_end(core: Core, host: HostIdentity) -> str:
    """Return why a launch ended; empty if its server ended first."""
    name, leaving = hosts.name_in_sentence(host.name), core.leaving
    why = "it failed" if leaving.failure is not None else ""
    if leaving.host_is_lost:
        why = f"{name} has ended"  # some send a signal first
    elif leaving.signalled:
        why = f"{name_signal(leaving.signalled)} was received"
    elif any(not one.may_be_asked for one in core.clients.values()):
        why = f"{name} has closed the connection"
    return f"it had failed; {why}" if leaving.is_shown_as_tool else why


def name_signal(number: int) -> str:
    """Return the name of a signal that ends a launch."""
    return _SIGNALS.get(number, f"signal {number}")


def _tell_server(server: Server) -> str:
    if server.process.exit_code is not None or server.state != "absent":
        return f"the server {_tell_end(server.process.exit_code)}"
    return "no server was running" if server.history.starts else "no server was started"


def _tell_end(code: int | None) -> str:
    return "is being ended" if code is None else tell_exit(code)


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


def explain_end(code: int, when: str, stderr_end: bytes) -> str:
    """Describe how a server ended, with the last lines of its stderr."""
    lines = _list_last_lines(stderr_end)
    said = f"; the end of its stderr: {' / '.join(lines)}" if lines else ""
    return f"{tell_exit(code)} {when}{said}"


def _list_last_lines(stderr_end: bytes) -> list[str]:
    """Return the last lines, without secrets: the host passes them on to a model."""
    lines = [line.strip() for line in stderr_end.decode(errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith(_NOT_THE_CAUSE)][-_LAST_LINES:]
    if not lines:
        return []
    from mcp_launch import masking

    # All at once: a secret's name may be on the line before it.
    return masking.mask_text("\n".join(lines)).split("\n")


def explain_early_end(server: str, code: int, stderr_end: bytes = b"") -> ServerFailed:
    """Return the error for a server that ended before it answered."""
    error = ServerFailed(
        f"{server} {explain_end(code, 'before it answered', stderr_end)}",
        fix=f"see its output and how it was started: mcp-launch logs {server}; "
        "or run its command by itself in its directory",
        exit_code=code,
    )
    error.lines = _list_last_lines(stderr_end)
    return error

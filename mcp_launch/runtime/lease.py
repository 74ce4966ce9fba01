"""The lease of a launch that runs: what it says, when it is written; the last line of the log."""

from __future__ import annotations

import os
import time

from mcp_launch import hosts, state
from mcp_launch.runtime.streams import tell_exit
from mcp_launch.runtime.supervisor import HOST, SERVER
from mcp_launch.state import leases
from mcp_launch.system import kernel
from mcp_launch.values import END

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker import Broker
    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.broker.routing import Binding
    from mcp_launch.errors import LaunchError
    from mcp_launch.hosts import HostIdentity
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.plan import Plan
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.runtime.absent import AbsentServers
    from mcp_launch.runtime.outer_launch import Outer
    from mcp_launch.runtime.running import Running
    from mcp_launch.system.guardian import Guardian
    from mcp_launch.values import Found


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

    absent: AbsentServers | None = None

    def __init__(self, running: Running, broker: Broker, outer: Outer | None) -> None:
        record = leases.open_record(running.found.launch.value, running.wanted.command)
        self._lease = leases.Lease(running.starter.lease, record)
        self._running = running
        self._broker = broker
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
        broker = self._broker
        backend, connection = broker.backends[SERVER], broker.connections[HOST]
        self._note_state()
        # What the server serves or, if it is being replaced, what the next one will.
        served = backend.next_served or backend.served
        bound, last = served.bound, broker.last_call
        self._lease.write(
            context=describe_facts(served.context, backend.served.plan.cwd),
            place_note=backend.served.plan.place_note,
            is_host_directory=served.context.is_host_directory,
            runner=_describe_runner(backend.served.plan),
            binding=_describe_binding(bound),
            calls=backend.own_calls,
            refusals=broker.refusals,
            last_call=last and last + self._offset,
            opened_with=connection.handshake.era,
            noise=broker.noise,
            restarts=backend.generation - backend.wakes,
            restart_requests=backend.restart_requests,
            roots=connection.roots,
            state=self._state,
            since=self._since,
            saved=self._find_saved() or None,
            starts=backend.starts,
            failure=leases.describe_failure(self._find_failure()),
            backends=self._describe_backends(),
            shared=self._describe_pool(),
            shareable=_name_era(connection, backend),
            # A launch that failed does not start its server again.
            restarts_on=None if broker.phase == "failed" else self._lease.record["restarts_on"],
        )

    def _describe_backends(self) -> list[dict[str, object]] | None:
        """Return each server of a launch that has several."""
        backends = self._broker.backends.values()
        return [*map(self._describe_backend, backends)] if len(backends) > 1 else None

    def _describe_pool(self) -> dict[str, object] | None:
        """Return the pool that keeps the server, if one does."""
        guardian = self._running.guardian
        if guardian is None or guardian.shared is None:
            return None
        pid, key, sessions = guardian.shared
        self._lease.record["processes"] = _describe_processes(self._running)
        pool = leases.describe_processes(self._running.table, pool=pid)
        return {**pool, "key": key, "sessions": sessions}

    def _describe_backend(self, backend: Backend) -> dict[str, object]:
        guardian = self._guardians.get(backend.name)
        is_absent = backend.state == "absent"
        state = _name_absence(backend) if is_absent else "running"
        if not is_absent and (guardian is None or guardian.is_released):
            state = "starting"
        if self._states.get(backend.name, ("",))[0] != state:
            self._states[backend.name] = (state, time.time())
        served = backend.next_served or backend.served
        processes = _describe_guarded(guardian) if guardian and state == "running" else {}
        return {
            "name": backend.name,
            "state": state,
            "since": self._states[backend.name][1],
            "processes": leases.describe_processes(self._running.table, **processes),
            "context": describe_facts(served.context, backend.served.plan.cwd),
            "binding": _describe_binding(served.bound),
            "calls": backend.own_calls,
            "last_call": backend.last_active + self._offset if backend.own_calls else None,
            "starts": backend.starts,
            "restart_requests": backend.restart_requests,
            "saved": None,
            "failure": leases.describe_failure(backend.wake_error if is_absent else None),
        }

    def _find_failure(self) -> LaunchError | None:
        """Return why there is no server, if it could not be started."""
        error = self._broker.failure or self._broker.backends[SERVER].wake_error
        return error if self._state == leases.FAILED else None

    def _note_state(self) -> None:
        """Note whether a server runs, and since when."""
        backend = self._broker.backends[SERVER]
        state = "running"
        if backend.state == "absent" or self._broker.is_shown_as_tool:
            has_failed = self._broker.is_shown_as_tool
            state = leases.FAILED if has_failed else _name_absence(backend)
            self._running.guardian = None  # it has ended with its server
            self._lease.record["processes"] = _describe_processes(self._running)
        elif self._running.guardian is None or not self._running.guardian.server:
            state = "starting"
        if state != self._state:
            self._state, self._since = state, time.time()

    def _find_saved(self) -> int:
        """Return the memory that a server would use which does not run now."""
        memories = self._broker.connections[HOST].memories.values()
        known = max((one.size_of_server for one in memories), default=0)
        is_saved = self._state in {leases.RESTING, leases.NOT_STARTED}
        last = self.absent.size if self.absent is not None else 0
        return (last or known) if is_saved else 0

    def note_end(self, why: str = "", code: int | None = None) -> None:
        """Log the end of the launch; on the direct wire, only the caller knows why and how."""
        backends = [*self._broker.backends.values()]
        guardian = self._running.guardian
        goes_on = guardian is not None and guardian.goes_on
        how = "its runner goes on installing" if goes_on else _tell_server(backends[0])
        if guardian is not None and guardian.shared and not backends[0].exit_code:
            how = "it has left the shared server"
        count = sum(one.calls for one in backends)
        calls = f"{count} call{'' if count == 1 else 's'} in "
        if self._running.wanted.direct:
            how = (
                f"the server {tell_exit(code)}" if code is not None else "the server is being ended"
            )
            calls = "after "
        seconds = time.time() - float(self._lease.record["started"])  # type: ignore[arg-type]
        parts = (
            why or explain_end(self._broker, self._running.line.host),
            how,
            calls + describe_duration(seconds),
        )
        state.note(f"ended: {'; '.join(filter(None, parts))}", END)

    def remove(self) -> None:
        """Remove the lease, unless the guardian goes on without us: then it removes it itself."""
        if self._running.guardian is None or not self._running.guardian.may_install:
            self._lease.remove()


def _name_absence(backend: Backend) -> str:
    """Return why there is no server."""
    if backend.wake_error is not None:
        return leases.FAILED
    if not backend.has_run:
        return leases.NOT_STARTED
    return leases.RESTING if backend.is_resting else leases.ENDED


def _name_era(connection: HostConnection, backend: Backend) -> str | None:
    """Return why several sessions might share the server; None if they should not."""
    if not connection.handshake.is_ready:
        return None
    if connection.handshake.era != "initialize":
        return "2026"  # its own specification allows it
    return None if backend.speaks_to_its_host else "2025"


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


def explain_end(broker: Broker, host: HostIdentity) -> str:
    """Return why a launch ended; empty if its server ended first."""
    if broker.is_shown_as_tool:
        return f"it had failed; {_explain_end(broker, host)}"
    return _explain_end(broker, host)


def _explain_end(broker: Broker, host: HostIdentity) -> str:
    name = hosts.name_in_sentence(host.name)
    if broker.host_is_lost:
        return f"{name} has ended"  # some send a signal first
    if broker.signalled:
        return f"{name_signal(broker.signalled)} was received"
    if any(one.input_has_ended or one.reader_is_lost for one in broker.connections.values()):
        return f"{name} has closed the connection"
    return "it failed" if broker.failure is not None else ""


def name_signal(number: int) -> str:
    """Return the name of a signal that ends a launch."""
    return _SIGNALS.get(number, f"signal {number}")


def _tell_server(backend: Backend) -> str:
    if backend.exit_code is not None:
        return f"the server {tell_exit(backend.exit_code)}"
    if backend.state not in {"absent", "failed"}:
        return "the server is being ended"
    return "no server was running" if backend.has_run else "no server was started"


def describe_duration(seconds: float) -> str:
    """Return a duration in its two largest units."""
    whole, parts = int(seconds), []
    for size, unit in _UNITS:
        if whole >= size:
            parts.append(f"{whole // size} {unit}")
            whole %= size
    return " ".join(parts[:2]) or f"{max(0.0, seconds):.1f} s"

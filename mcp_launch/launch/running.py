"""A launch that was decided: its context and plan, and how to start servers for it."""

from __future__ import annotations

import os

from mcp_launch import state
from mcp_launch.errors import OutOfResources
from mcp_launch.launch.plan import drop_session_variables
from mcp_launch.state import handshakes
from mcp_launch.system import kernel
from mcp_launch.values import compare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.context import Context, Lineage
    from mcp_launch.launch.plan import Plan
    from mcp_launch.launch.profile import Profile
    from mcp_launch.state.handshakes import Handshakes
    from mcp_launch.state.launch_log import Log
    from mcp_launch.system import ProcessTable
    from mcp_launch.system.guardian import Guardian, Starter
    from mcp_launch.values import Found


# How many descriptors the start of a server needs, with the modules that are imported for it.
_NEEDED = 11


class Running:
    """The facts of a launch, its guardian, and how to start a server."""

    __slots__ = (
        "_handshakes",
        "_log",
        "clean",
        "decide",
        "decided",
        "found",
        "guardian",
        "hosts",
        "lease",
        "line",
        "note_runner",
        "on_failure",
        "open_starter",
        "report",
        "starter",
        "table",
        "wanted",
    )

    def __init__(  # noqa: PLR0913  # a record, always built by keyword
        self,
        *,
        table: ProcessTable,
        wanted: Profile,
        line: Lineage,
        found: Context,
        decided: Plan,
        hosts: list[int],
        lease: str,
        open_starter: Callable[[], Starter],
        decide: Callable[[Context], Plan],
        note_runner: Callable[[Plan], None],
        report: Callable[[LaunchError], None],
        clean: Callable[[ProcessTable, str], None],
        on_failure: str = "error",
    ) -> None:
        self.table = table
        self.wanted = wanted
        self.line = line
        self.found = found
        self.decided = decided
        self.hosts = hosts  # processes whose end means that the host is gone
        self.lease = lease  # the path of its file
        self.open_starter = open_starter
        self.decide = decide
        self.note_runner = note_runner  # notes that a runner is about to look for updates
        self.report = report  # reports on stderr and in the log why there is no server
        self.clean = clean
        # Opened when they are needed.
        self._handshakes: Handshakes | None = None
        self._log: Log | None = None
        self.on_failure = on_failure  # what the host gets if there is never a server
        self.guardian: Guardian | None = None  # None: no server was started yet
        self.starter: Starter | None = None  # made when the first server is started

    def open_handshakes(self) -> Handshakes:
        """Return what is remembered of the server."""
        if self._handshakes is None:
            seen = drop_session_variables(self.wanted, self.found, self.decided)
            name = self.wanted.profile_name
            self._handshakes = handshakes.open_for(self.decided, seen, os.environ, name)
        return self._handshakes

    def open_log(self) -> Log:
        """Return the log of this launch, which is opened once."""
        if self._log is None:
            from mcp_launch.state import launch_log, leases

            found = self.found
            facts: dict[str, object] = {
                "server": self.wanted.server,
                "mark": leases.mark_command(self.wanted.command),
                "cwd": self.decided.cwd.value,
            }
            for name in ("host", "session", "thread"):
                facts[name] = getattr(getattr(found, name), "value", None)
            launch = "" if self.wanted.no_log else found.launch.value
            self._log = launch_log.open_log(launch, facts)
            state.keep_trace_in(self._log)
        return self._log

    def watch_hosts(self) -> kernel.HostWatch:
        """Watch the host's processes; one of them may have ended already."""
        hosts = kernel.HostWatch(self.table, self.hosts, parent=self.hosts[0])
        process = self.line.process
        if process is not None and not hosts.is_lost:
            # After opening the watch: check that the pid still belongs to the same process.
            seen = self.table.look(process.identity.pid)
            hosts.is_lost = seen is None or compare(process.identity, seen.identity) == "different"
        if hosts.is_lost:
            state.note("the host ended while the server was started")
        return hosts

    def find_starter(self) -> Starter:
        """Return what starts servers."""
        self.starter = self.starter or self.open_starter()
        return self.starter

    def tidy(self) -> None:
        """Clean up after others, as a guardian does: this launch has none."""
        self.clean(self.table, os.path.dirname(self.lease))

    def plan_for(self, context: Context, place: Found | None) -> tuple[Context, Plan]:
        """Return the plan of a server, and its context: in another directory, if one is given.

        Raises:
            LaunchError: It cannot be started.

        """
        try:
            kernel.reserve_descriptors(_NEEDED)
        except OSError as error:
            raise OutOfResources(error) from None
        from mcp_launch.system.spawn import check_environment

        changed = context.at(place) if place else context
        plan = self.decide(changed)
        check_environment(plan)
        self.note_runner(plan)
        return changed, plan

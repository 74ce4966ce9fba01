"""A launch whose server was just started, without a process: the facts that `carry` needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_playbooks import make_plan
from fakes import FakeProcessTable, make_context
from loop_rig import FakeStarter

from mcp_launch.launch.context import Lineage
from mcp_launch.launch.profile import Profile
from mcp_launch.runtime.running import Running

if TYPE_CHECKING:
    from loop_rig import FakeGuardian

    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.plan import Plan

# The process of the host, in the fake process table.
HOST_PID = 10


class StartedLaunch:
    """A launch of the command `srv`, started by a Codex with the pid 10."""

    def __init__(
        self, guardian: FakeGuardian, lease: str, options: dict[str, list[str]], **facts: Any
    ) -> None:
        self.table = FakeProcessTable()
        self.starter = FakeStarter([HOST_PID], lease)
        self.starter.table = self.table
        self.host = self.table.add(HOST_PID, "codex")
        self.context = make_context(**facts)
        self.planned: list[Context] = []
        self.reported: list[LaunchError] = []
        self.running = Running(
            wanted=Profile(options, ["srv"], []),
            line=Lineage([self.host], self.context.facts, self.host),
            found=self.context,
            decided=make_plan("/work/app"),
            guardian=guardian,
            starter=self.starter,
            decide=self._decide,
            note_runner=lambda _plan: None,
            report=self.reported.append,
        )

    def _decide(self, context: Context) -> Plan:
        self.planned.append(context)
        return make_plan(context.place.value)

"""A launch that was decided: its context and plan, and how to start servers for it."""

from __future__ import annotations

from mcp_launch.system.spawn import check_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.errors import LaunchError
    from mcp_launch.launch.context import Context, Lineage
    from mcp_launch.launch.plan import Plan
    from mcp_launch.launch.profile import Profile
    from mcp_launch.system.guardian import Guardian, Starter
    from mcp_launch.values import Found


class Running:
    """The facts of a launch, its guardian, and how to start a server."""

    __slots__ = (
        "decide",
        "decided",
        "found",
        "guardian",
        "line",
        "note_runner",
        "on_failure",
        "report",
        "starter",
        "table",
        "wanted",
    )

    def __init__(  # noqa: PLR0913  # a record, always built by keyword
        self,
        *,
        wanted: Profile,
        line: Lineage,
        found: Context,
        decided: Plan,
        guardian: Guardian | None,
        starter: Starter,
        decide: Callable[[Context], Plan],
        note_runner: Callable[[Plan], None],
        report: Callable[[LaunchError], None],
        on_failure: str = "error",
    ) -> None:
        self.wanted = wanted
        self.starter = starter
        self.table = starter.table
        self.decide = decide
        self.note_runner = note_runner  # notes that a runner is about to look for updates
        self.report = report  # reports on stderr and in the log why there is no server
        self.line = line
        self.found = found
        self.decided = decided
        self.guardian = guardian  # None: no server was started yet
        self.on_failure = on_failure  # what the host gets if there is never a server

    def plan_for(self, context: Context, place: Found | None) -> tuple[Context, Plan]:
        """Return the plan of a server, and its context: in another directory, if one is given.

        Raises:
            LaunchError: It cannot be started.

        """
        changed = context.at(place) if place else context
        plan = self.decide(changed)
        check_environment(plan)
        self.note_runner(plan)
        return changed, plan

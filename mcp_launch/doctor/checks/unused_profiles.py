"""Profiles that no entry has the name of: a policy in one protects nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_launch.doctor import profile_files
from mcp_launch.doctor.finding import Finding
from mcp_launch.errors import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.machine.survey import Survey


def check(survey: Survey) -> Iterator[Finding]:
    """Find profiles with a name that no server has (ML019)."""
    file = profile_files.read(survey)
    for name in file.servers if file else ():
        if file and survey.is_unknown(name):
            yield Finding(
                "ML019",
                file.point(name, ("servers", name)),
                f"no entry is named {name}: this profile applies to no server",
                f"{suggest(name, survey.names)}rename the table, or remove it",
            )

"""The names of hosts in `calls`, of which a record may only say that they are unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from call_parts import make_call
from made_up_launches import MadeUpLaunches, record

from mcp_launch.machine.call_records import RunningHosts

if TYPE_CHECKING:
    from pathlib import Path

LAUNCH = "8fe1"


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUpLaunches:
    return MadeUpLaunches(tmp_path / "state", monkeypatch)


def name(made_up: MadeUpLaunches, host: str = "unknown", launch: str = LAUNCH) -> str:
    hosts = RunningHosts({"MCP_LAUNCH_HOME": str(made_up.state)}, made_up.table)
    return hosts.name(make_call(host=host, launch=launch))


def test_a_program_that_is_no_known_host_is_named_while_its_launch_runs(
    made_up: MadeUpLaunches,
) -> None:
    host = made_up.start("my-agent")
    made_up.write_lease(LAUNCH, {"host": record(host)})

    assert name(made_up) == "my-agent"
    assert name(made_up, host="codex") == "codex"
    made_up.end(host)
    assert name(made_up) == "unknown"


@pytest.mark.parametrize("launch", ["", "77aa", "../8fe1"])
def test_the_host_of_a_launch_without_a_lease_stays_unknown(
    launch: str, made_up: MadeUpLaunches
) -> None:
    assert name(made_up, launch=launch) == "unknown"

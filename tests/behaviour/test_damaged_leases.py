"""A lease that was damaged stops no command."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from command_line import run_command

from mcp_launch import state, system
from mcp_launch.state import leases

NEVER = float("nan")


def write_lease(**damaged: Any) -> None:
    directory = f"{state.find_directory(os.environ)}/leases"
    os.makedirs(directory, mode=0o700, exist_ok=True)
    table = system.open_table()
    record = leases.open_record("it", ["server"]) | {
        "processes": leases.describe_processes(table, launcher=os.getpid()),
        "state": "resting",
        "server": "it",
    }
    with open(f"{directory}/it.json", "w", encoding="utf-8") as file:
        json.dump(record | damaged, file)


@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize(
    "moment", [NEVER, float("inf"), -1e300, 10**400], ids=["nan", "inf", "early", "late"]
)
def test_a_time_that_is_none_is_unknown(moment: float) -> None:
    write_lease(last_call=moment, since=moment)

    shown, as_json = run_command("ps"), run_command("ps", "--json")

    assert (shown.returncode, shown.stderr) == (0, "")
    assert " it " in shown.stdout
    json.loads(as_json.stdout, parse_constant=pytest.fail)

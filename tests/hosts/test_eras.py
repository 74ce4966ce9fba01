"""Both eras of the protocol, with the hosts that speak them."""

from __future__ import annotations

import pytest
from hosts import claude
from hosts.both import HOSTS
from hosts.desk import SERVER, Desk, promise

VERSION = "io.modelcontextprotocol/protocolVersion"


def test_a_server_of_2026_hears_whose_a_call_is(desk: Desk) -> None:
    project = desk.make_project("project")
    claude.configure(desk, desk.wrap([*SERVER, "--modern"]))

    claude.run(desk, project)

    [sight] = desk.wait_for_sights(1)
    assert sight.meta[VERSION] == "2026-07-28"
    promise(sight.context.get("sessionId") == sight.asker, "no call tells its session")
    desk.check(sight, project)


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_server_of_2025_hears_whose_a_call_is(desk: Desk, host: str) -> None:
    project = desk.make_project("project")
    HOSTS[host].configure(desk, desk.wrap(SERVER))

    HOSTS[host].run(desk, project)

    [sight] = desk.wait_for_sights(1)
    assert VERSION not in sight.meta
    told = sight.meta.get("threadId", sight.context.get("sessionId"))
    promise(told == sight.asker, "no call tells its session")
    desk.check(sight, project)

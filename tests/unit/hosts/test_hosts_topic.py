"""The topic `hosts` says of every host what is known of it, and how."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest
from generated_docs import ROOT, check, mark

from mcp_launch.hosts.configured import HOSTS

if TYPE_CHECKING:
    from mcp_launch.config_files.host_config import HostConfig

COLUMNS = "host|release|files|directory of a server|session at the start|session of a call"


def make_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def describe(host: HostConfig) -> list[str]:
    return [host.title, host.knowledge.release, *map(str, host.knowledge.facts)]


def test_the_topic_says_what_is_known_of_every_host_and_how(pytestconfig: pytest.Config) -> None:
    head = COLUMNS.split("|")
    rows = [head, ["---"] * len(head), *map(describe, HOSTS.values())]
    made = "".join(map(make_row, rows))

    check(
        pytestconfig,
        "mcp_launch/help/hosts.md",
        mark("tests/unit/hosts/test_hosts_topic.py"),
        made,
    )


@pytest.mark.parametrize("name", list(HOSTS))
def test_only_a_host_that_was_run_was_measured_and_its_release_is_named(name: str) -> None:
    known = HOSTS[name].knowledge

    assert any(fact.how == "measured" for fact in known.facts) == bool(known.release)
    assert all(fact.how for fact in known.facts if fact.what)
    assert not known.release or re.search(r"\d+\.\d+", known.release)


def test_a_release_that_the_tests_run_is_the_one_that_was_measured() -> None:
    pins = tomllib.loads((ROOT / "tests/hosts/versions.toml").read_text(encoding="utf-8"))
    pinned = {name: pins[name]["version"] for name in HOSTS if name in pins}

    assert {name: HOSTS[name].knowledge.release for name in pinned} == pinned

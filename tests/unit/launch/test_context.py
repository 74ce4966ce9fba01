"""Which process above us is the host, in a made-up process table."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable

from mcp_launch import hosts
from mcp_launch.errors import LineageContradicted
from mcp_launch.launch import context
from mcp_launch.values import Found

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.values import Verdict


def trace(table: FakeProcessTable, monkeypatch: pytest.MonkeyPatch) -> context.Lineage:
    """Trace back from process 3, whose stdin is a pipe."""
    monkeypatch.setattr(stat, "S_ISFIFO", lambda _: True)
    monkeypatch.setattr(stat, "S_ISSOCK", lambda _: False)
    return context.trace_back(table, 3)


def make_table(**writers: Verdict) -> FakeProcessTable:
    """Return codex (10) — sh (2) — us (3), and another codex (99) that is no ancestor."""
    table = FakeProcessTable()
    table.add(10, "codex", parent=0)
    table.add(2, "sh", parent=10)
    table.add(3, "mcp-launch", parent=2)
    table.add(99, "codex", parent=0)
    table.add(50, "relay", parent=0)
    table.writers = {int(pid[1:]): verdict for pid, verdict in writers.items()}
    return table


# who can write into our stdin; the verdict; whether the host started us itself
ROWS = {
    "the host holds it": ({"p10": "same"}, "same", True),
    "a program between holds it": ({"p2": "same"}, "same", False),
    "nobody is seen to hold it": ({}, "unknown", False),
    "nothing can be seen": ({"p10": "unknown", "p2": "unknown"}, "unknown", False),
    "another host holds it": ({"p99": "same"}, "different", False),
    "another program holds it": ({"p50": "same"}, "unknown", False),
}


@pytest.mark.parametrize(("writers", "verdict", "started"), ROWS.values(), ids=list(ROWS))
def test_the_verdict_when(
    writers: dict[str, Verdict],
    verdict: str,
    started: bool,  # a column of the table
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = trace(make_table(**writers), monkeypatch)

    assert found.host.name == "codex"
    assert (found.verdict, found.started_us()) == (verdict, started)


# verdict, strict, refused
POLICY = [
    ("same", False, False),
    ("same", True, False),
    ("unknown", False, False),
    ("unknown", True, True),
    ("different", False, True),
    ("different", True, True),
]


@pytest.mark.parametrize(("verdict", "strict", "refused"), POLICY)
def test_a_launch_is_refused(
    verdict: Verdict,
    strict: bool,  # a column of the table
    refused: bool,  # ditto
) -> None:
    table = make_table()
    found = context.Lineage([table.processes[2]], hosts.UNKNOWN, None)
    found.verdict, found.holder = verdict, 99 if verdict == "different" else None

    if refused:
        with pytest.raises(LineageContradicted):
            context.verify_lineage(table, found, strict=strict)
    else:
        context.verify_lineage(table, found, strict=strict)


@pytest.mark.parametrize("marker", context.ROOT_MARKERS)
def test_a_project_root_is_known_by(marker: str, tmp_path: Path) -> None:
    (tmp_path / "outer" / ".git").mkdir(parents=True)
    inner = tmp_path / "outer" / "inner"
    (inner / "deep" / "down").mkdir(parents=True)
    (inner / marker).write_text("", encoding="utf-8")

    found = context.find_project_root(str(inner / "deep" / "down"))

    assert isinstance(found, Found)
    assert found.value == str(inner)


@pytest.mark.parametrize(
    ("words", "is_agents"),
    [
        (["gemini", "--acp"], True),
        (["node", "/opt/gemini", "--experimental-acp", "-m", "x"], True),
        (["gemini", "-p", "what is --acp?"], False),
    ],
    ids=["an agent", "an agent's script", "a terminal"],
)
def test_the_place_of_a_launch_may_be_only_its_hosts_own(
    words: list[str], is_agents: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(p10="same")
    table.add(10, "gemini", parent=0)
    table.argv[10] = words
    line = trace(table, monkeypatch)

    found = context.find_context(context.look(table, line, {"HOME": "/nowhere"}), line)

    assert found.is_host_directory == is_agents
    assert found.is_certain != is_agents
    assert found.place.origin.startswith("where Gemini CLI runs") == is_agents
    at_root = found.at(Found("/work", "the host's roots/list"))
    assert (at_root.place.value, at_root.is_certain) == ("/work", True)

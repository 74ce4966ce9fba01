"""What a host gets from a launch that fails, and what is known of that launch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable, make_sighting

from mcp_launch import state
from mcp_launch.hosts import load
from mcp_launch.launch import failed_launch
from mcp_launch.launch.context import Lineage
from mcp_launch.launch.plan import choose_answer

if TYPE_CHECKING:
    from mcp_launch.hosts import Sighting


def look(*argv: str) -> Sighting:
    """Return a sighting of a host with this command line."""
    table = FakeProcessTable()
    table.add(10, "node")
    table.argv[10] = list(argv)
    return make_sighting(table, 10)


@pytest.mark.parametrize("wanted", ["", "error", "tool"])
@pytest.mark.parametrize(
    ("host", "default"),
    [("gemini", "tool"), ("qwen", "tool"), ("codex", "error"), ("claude", "error")],
)
def test_the_user_decides_and_else_the_host(host: str, default: str, wanted: str) -> None:
    answer = choose_answer(wanted, load(host), look("node", host), {})

    assert answer == wanted or (not wanted and answer == default)


def test_a_host_that_keeps_lists_of_tools_is_not_given_one() -> None:
    """Vibe would list it for a day, and not start the server that works by then."""
    vibe = load("vibe")

    assert choose_answer("", vibe, look("vibe"), {}) == "call"
    assert choose_answer("tool", vibe, look("vibe"), {}) == "call"
    assert choose_answer("error", vibe, look("vibe"), {}) == "error"


@pytest.mark.parametrize(
    ("host", "words", "only_looks"),
    [
        ("gemini", ["node", "/usr/bin/gemini", "mcp", "list"], True),
        ("qwen", ["node", "/usr/bin/qwen", "mcp", "list"], True),
        ("claude", ["claude", "mcp", "list"], True),
        ("claude", ["claude", "mcp", "get", "docs"], True),
        ("gemini", ["node", "/usr/bin/gemini", "-p", "mcp list"], False),
        ("gemini", ["node", "/usr/bin/gemini", "mcp", "get"], False),
        ("gemini", [], False),
    ],
)
def test_a_command_that_only_looks_gets_an_error(
    host: str, words: list[str], only_looks: bool
) -> None:
    assert load(host).only_looks(look(*words)) == only_looks
    answer = choose_answer("tool", load(host), look(*words), {})
    assert answer == ("error" if only_looks else "tool")


def test_a_program_of_ours_that_reads_the_outcome_gets_an_error() -> None:
    environ = {state.OUTCOME: "/tmp/outcome"}  # noqa: S108  # nothing is written

    assert choose_answer("tool", load("gemini"), look(), environ) == "error"


@pytest.mark.parametrize(
    ("words", "name", "command"),
    [
        (["--server", "docs", "--", "npx", "x"], "docs", ["npx", "x"]),
        (["--", "/opt/server"], "server", ["/opt/server"]),
        (["--nonsense", "--", "x"], "", []),
        ([], "", []),
    ],
)
def test_name_and_command_are_known_if_they_can_be_read(
    words: list[str], name: str, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MCP_LAUNCH_SERVER", raising=False)

    found = failed_launch.reconstruct(words, "launch-1")

    assert found is not None
    assert (found.server, found.command) == (name, command)
    assert os.getppid() in found.hosts


def test_a_wrapper_between_host_and_launcher_is_watched_too() -> None:
    gemini = Lineage([], load("gemini"), look("gemini").process)

    assert gemini.list_hosts(7) == [7, 10]
    assert gemini.list_hosts(10) == [10]
    assert Lineage([], load("gemini"), None).list_hosts(7) == [7]

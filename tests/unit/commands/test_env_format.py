"""What `mcp-launch env --json` prints is described by its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from json_formats import check_format

if TYPE_CHECKING:
    from fake_machine import FakeMachine

CODEX = """\
[mcp_servers.docs]
command = "sh"
env = { TOKEN = "abc" }

[mcp_servers.wrapped]
command = "mcp-launch"
args = ["run", "--server", "wrapped", "--pass-env", "safe", "--", "sh"]
"""


@pytest.fixture
def configured(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", CODEX)


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize(
    "words",
    [
        [],
        ["docs"],
        ["wrapped"],
        ["docs", "--explain", "TOKEN"],
        ["docs", "--explain", "MISSING"],
        ["docs", "--explain", "--start"],
        ["--", "--env", "A=thread", "--when-unknown", "fail", "--", "sh"],
        ["--", "no-such-program"],
    ],
    ids=" ".join,
)
def test_the_schema_describes_what_is_printed(words: list[str]) -> None:
    # Options come before the arguments of `run`.
    done = run_command("env", "--json", *words, ANTHROPIC_API_KEY="secret")

    told: dict[str, Any] = check_format("env", done.stdout)

    assert ("explained" in told) is ("--explain" in words)
    assert (told["entry"] is not None) is (words[:1] in (["docs"], ["wrapped"]))
    assert bool(told["problems"]) is (done.returncode == 1 and "explained" not in told)

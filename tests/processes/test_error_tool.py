"""In a host that swallows errors, a launch that failed stays up and says why, with a tool."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from launches import RUN, SCRIPTED_SERVER, python, request, wait_for_lease, wait_until_gone

if TYPE_CHECKING:
    from pathlib import Path

    from launches import Launch, LaunchRunner

MISSING = ["--server", "docs", "--", "no-such-command-anywhere"]
DIES = ["--server", "docs", "--", "sh", "-c", "echo 'TOKEN=s3cretvalue' >&2; exit 3"]
FAILURES = {"missing": (MISSING, 127), "dies": (DIES, 3)}
REFUSES = """
import json, sys
for line in sys.stdin:
    error = {"code": -32602, "message": "no license, token=s3cretvalue"}
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "error": error}), flush=True)
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def is_failed(lease: dict[str, Any]) -> bool:
    return lease.get("state") == "failed"


def list_tools(launch: Launch) -> list[str]:
    """Open the connection, and return the names of the tools."""
    assert "result" in launch.initialize()
    return [tool["name"] for tool in launch.ask("tools/list")["tools"]]


def test_a_host_that_swallows_errors_gets_the_tool_unasked(runner: LaunchRunner) -> None:
    launch = runner.launch_below_host("gemini", command=[*RUN, *MISSING])

    assert list_tools(launch) == ["mcp_launch_error"]


def test_a_host_that_shows_errors_gets_the_error(runner: LaunchRunner) -> None:
    launch = runner.launch_below_host("codex", command=[*RUN, *MISSING])

    assert "was not found on PATH" in launch.initialize()["error"]["message"]


def test_a_command_that_only_looks_gets_the_error(runner: LaunchRunner) -> None:
    """Or `gemini mcp list` would say that the server is connected."""
    words = ["--on-failure", "tool", *MISSING]
    launch = runner.launch_below_host("gemini", "mcp", "list", command=[*RUN, *words])

    assert "was not found on PATH" in launch.initialize()["error"]["message"]


def test_an_invalid_option_does_not_hide_what_was_asked_for(runner: LaunchRunner) -> None:
    launch = runner.launch(
        "--strickt", *MISSING, env={**os.environ, "MCP_LAUNCH_ON_FAILURE": "tool"}
    )

    assert list_tools(launch) == ["mcp_launch_error"]
    assert "did you mean --strict?" in launch.call("x")["content"][0]["text"]
    assert launch.finish()[0] == 125


def test_an_entry_without_run_gets_the_tool_too(runner: LaunchRunner) -> None:
    command = [sys.executable, "-m", "mcp_launch", "cat"]
    launch = runner.launch_below_host("gemini", command=command)

    assert list_tools(launch) == ["mcp_launch_error"]
    assert "mcp-launch run -- COMMAND" in launch.call("x")["content"][0]["text"]


def test_a_refused_handshake_reaches_the_model_without_secrets(runner: LaunchRunner) -> None:
    launch = runner.launch("--on-failure", "tool", "--", *python(REFUSES))

    assert list_tools(launch) == ["mcp_launch_error"]
    text = launch.call("x")["content"][0]["text"]
    assert "refused the handshake: no license" in text
    assert "s3cretvalue" not in text
    assert launch.finish()[0] == 1


REASONS = {
    "missing": "was not found on PATH",
    "dies": "docs ended with exit code 3",
}


@pytest.mark.parametrize("fault", FAILURES)
def test_it_is_shown_with_the_reason_until_it_ends(
    fault: str, runner: LaunchRunner, state: Path
) -> None:
    launch = runner.launch_below_host("gemini", command=[*RUN, *FAILURES[fault][0]])
    list_tools(launch)
    wait_for_lease(state, is_failed)

    shown = json.loads(run_command("ps", "--json").stdout)["hosts"]
    servers = [one for host in shown for session in host["sessions"] for one in session["servers"]]
    (failed,) = [one["launch"] for one in servers if one["launch"]]
    assert failed["server_state"] == "failed"
    assert REASONS[fault] in failed["failure"]["problem"]
    assert failed["failure"]["fix"]
    assert "s3cretvalue" not in str(failed)

    told = run_command("restart", "docs")
    assert "it could not be started: " in told.stdout + told.stderr
    assert launch.call("x")["isError"]

    launch.finish()
    log = run_command("logs", "docs").stdout.splitlines()
    (failure,) = [line for line in log if " failure " in line]
    assert "the launch for gemini in " in failure
    assert REASONS[fault] in failure
    (end,) = [line for line in log if " end " in line]
    assert "it had failed; Gemini CLI has closed the connection" in end
    assert not list(state.glob("handshakes/*")), "something of it is remembered"


@pytest.mark.parametrize(("words", "code"), FAILURES.values(), ids=list(FAILURES))
def test_a_signal_ends_it_with_the_code_of_the_failure(
    words: list[str], code: int, runner: LaunchRunner, state: Path
) -> None:
    launch = runner.launch("--on-failure", "tool", *words)
    list_tools(launch)
    launch.process.send_signal(signal.SIGTERM)

    assert launch.wait() == code
    assert not list((state / "leases").iterdir())
    assert "SIGTERM was received" in run_command("logs", "docs").stdout


@pytest.mark.parametrize("fault", FAILURES)
def test_it_ends_when_its_host_is_killed(fault: str, runner: LaunchRunner, state: Path) -> None:
    launch = runner.launch_below_host("gemini", command=[*RUN, *FAILURES[fault][0]])
    list_tools(launch)
    launch.process.kill()

    wait_until_gone(launch.child)
    assert not list((state / "leases").iterdir())


def test_a_server_that_works_is_not_touched(runner: LaunchRunner) -> None:
    words = ["--on-failure", "tool", "--", *SCRIPTED_SERVER]

    assert list_tools(runner.launch(*words)) == ["look"]


def test_requests_after_the_end_of_input_are_errors_as_ever(runner: LaunchRunner) -> None:
    launch = runner.launch(
        "--on-failure", "tool", "--", *python("import sys; sys.stdin.read(); sys.exit('no')")
    )
    launch.send(request("initialize"))

    code, out, _ = launch.finish()

    assert code == 1
    assert "error" in json.loads(out)

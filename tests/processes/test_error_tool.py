"""In a host that swallows errors, a launch that failed stays up and says why, with a tool."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from fake_hosts import limit_to_subtree
from launches import RUN, SCRIPTED_SERVER, python, request, wait_for_lease, wait_until_gone
from shown_servers import read_row, show_running

from mcp_launch.commands import ps
from mcp_launch.commands.ps import PsRequest

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


@pytest.mark.parametrize("host", ["gemini", "qwen"])
def test_a_host_that_swallows_errors_gets_the_tool_unasked(host: str, runner: LaunchRunner) -> None:
    launch = runner.launch_below_host(host, command=[*RUN, *MISSING])

    assert list_tools(launch) == ["mcp_launch_error"]


@pytest.mark.parametrize("host", ["codex", "claude", "goose"])
def test_a_host_that_shows_errors_gets_the_error(host: str, runner: LaunchRunner) -> None:
    launch = runner.launch_below_host(host, command=[*RUN, *MISSING])

    assert "was not found on PATH" in launch.initialize()["error"]["message"]


def test_a_command_that_only_looks_gets_the_error(runner: LaunchRunner) -> None:
    """Or `gemini mcp list` would say that the server is connected."""
    words = ["--on-failure", "tool", *MISSING]
    launch = runner.launch_below_host("gemini", "mcp", "list", command=[*RUN, *words])

    assert "was not found on PATH" in launch.initialize()["error"]["message"]


def test_the_user_decides_before_the_host(runner: LaunchRunner) -> None:
    launch = runner.launch_below_host("gemini", command=[*RUN, "--on-failure", "error", *MISSING])

    assert "error" in launch.initialize()


def test_a_profile_may_ask_for_the_tool(runner: LaunchRunner, own_home: Path) -> None:
    file = own_home / ".config" / "mcp-launch" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[defaults]\non_failure = "tool"\n', encoding="utf-8")
    file.chmod(0o600)

    assert list_tools(runner.launch(*MISSING)) == ["mcp_launch_error"]


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


def test_a_host_of_the_newer_era_gets_the_tool(runner: LaunchRunner) -> None:
    launch = runner.launch("--on-failure", "tool", *MISSING)
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}

    found = launch.ask("server/discover", _meta=meta)
    listed = launch.ask("tools/list", _meta=meta)

    assert found["supportedVersions"] == ["2026-07-28"]
    assert [tool["name"] for tool in listed["tools"]] == ["mcp_launch_error"]
    assert listed["resultType"] == "complete"


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


@pytest.mark.parametrize(("words", "code"), FAILURES.values(), ids=list(FAILURES))
def test_it_ends_when_its_host_is_killed(
    words: list[str], code: int, runner: LaunchRunner, state: Path
) -> None:
    del code
    launch = runner.launch_below_host("gemini", command=[*RUN, *words])
    list_tools(launch)
    launch.process.kill()

    wait_until_gone(launch.child)
    assert not list((state / "leases").iterdir())


@pytest.mark.parametrize(
    ("words", "reason"),
    [(MISSING, "was not found on PATH"), (DIES, "docs ended with exit code 3")],
    ids=list(FAILURES),
)
def test_it_is_listed_as_failed_with_the_reason(
    words: list[str], reason: str, runner: LaunchRunner, state: Path
) -> None:
    launch = runner.launch_below_host("gemini", command=[*RUN, *words])
    list_tools(launch)
    wait_for_lease(state, is_failed)

    host, _, server = show_running(state)
    details = "\n".join(show_running(state, is_verbose=True))

    assert host.startswith("Gemini CLI  ")
    assert read_row(server)[:3] == ["docs", "-", "-"]
    assert "  failed, " in server
    assert reason in server
    assert "s3cretvalue" not in server
    assert "fix: " in details


def test_programs_get_the_reason(
    runner: LaunchRunner, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = runner.launch_below_host("gemini", command=[*RUN, *MISSING])
    list_tools(launch)
    wait_for_lease(state, is_failed)

    assert ps.run(PsRequest(is_json=True), os.environ, limit_to_subtree()) == 0
    (host,) = json.loads(capsys.readouterr().out)["hosts"]
    (server,) = host["sessions"][0]["servers"]

    assert server["launch"]["server_state"] == "failed"
    assert server["launch"]["failure"]["problem"].startswith("the server's command no-such")
    assert server["launch"]["failure"]["fix"]


@pytest.mark.parametrize(("words", "code"), FAILURES.values(), ids=list(FAILURES))
def test_its_log_has_the_failure_and_the_end(
    words: list[str], code: int, runner: LaunchRunner
) -> None:
    launch = runner.launch("--on-failure", "tool", *words)
    list_tools(launch)
    assert launch.finish()[0] == code

    failures = run_command("logs", "docs", "--failures").stdout
    ends = [line for line in run_command("logs", "docs").stdout.splitlines() if " end " in line]

    assert "the launch failed: " in failures
    assert len(ends) == 1
    assert "it had failed; the host has closed the connection" in ends[0]


def test_its_log_names_the_host(runner: LaunchRunner) -> None:
    launch = runner.launch_below_host("gemini", command=[*RUN, *MISSING])
    list_tools(launch)

    assert "the launch for gemini in " in run_command("logs", "docs", "--failures").stdout


def test_it_is_not_restarted_on_request(runner: LaunchRunner, state: Path) -> None:
    launch = runner.launch_below_host("gemini", command=[*RUN, *DIES])
    list_tools(launch)
    wait_for_lease(state, is_failed)

    told = run_command("restart", "docs")

    assert "it could not be started: docs ended with exit code 3" in told.stdout + told.stderr
    assert launch.call("x")["isError"]


def test_nothing_of_it_is_remembered(runner: LaunchRunner, state: Path) -> None:
    launch = runner.launch("--on-failure", "tool", *DIES)
    list_tools(launch)
    launch.finish()

    assert not list(state.glob("handshakes/*"))


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

"""A launch that fails reports the reason to the host, with a fix."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from launches import ENVIRONMENT_SERVER, LaunchRunner, python, request

if TYPE_CHECKING:
    from pathlib import Path


def make_script(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return str(path)


# words of `run`, what the host is told, exit code; {d} is the project's directory
FAILURES = {
    "a command that does not exist": (
        ["--", "no-such-command-anywhere"],
        "no-such-command-anywhere was not found on PATH",
        127,
    ),
    "a path that does not exist": (
        ["--", "./missing.py"],
        "does not exist: no file {d}/missing.py",
        127,
    ),
    "not executable": (["--", "./plain"], "chmod +x {d}/plain", 126),
    "a directory": (["--", "./.git"], "is a directory", 126),
    "no such interpreter": (["--", "./bad"], "install the interpreter `/no/such/interp`", 126),
    "another machine's": (["--", "./alien"], "another system or processor", 126),
    "a directory that is missing": (["--cwd", "gone", "--", "cat"], "{d}/gone (--cwd)", 125),
    "a variable that is not there": (["--env", "NOPE=local", "--", "cat"], "NOPE is not in", 125),
    "no such option": (["--strickt", "--", "cat"], "did you mean --strict?", 125),
    "a server that cannot be shared": (
        ["--share", "project", "--env", "T=session", "--", "cat"],
        "--share project",  # on the direct wire, for another reason
        125,
    ),
    "a variable that no file has": (["--env", "X=dotenv", "--", "cat"], "any .env in {d}", 125),
    "no command": (["--strict"], "no server command was given", 125),
    "a dotenv file that never ends": (
        ["--dotenv", "zero.env", "--", "cat"],
        "the dotenv file {d}/zero.env is not a regular file",
        125,
    ),
    "a dotenv file that is broken": (
        ["--dotenv", "broken.env", "--", "cat"],
        "{d}/broken.env, line 2: not valid dotenv syntax",
        125,
    ),
    "a server that dies": (
        ["--", "sh", "-c", "echo 'needs X' >&2; exit 3"],
        "sh ended with exit code 3 before it answered",
        3,
    ),
}


@pytest.mark.parametrize(("words", "text", "code"), FAILURES.values(), ids=list(FAILURES))
def test_the_host_is_told_about(
    words: list[str], text: str, code: int, wire: list[str], runner: LaunchRunner
) -> None:
    fill(runner.project)
    launch = runner.launch(*wire, *words)
    # As Claude Code asks: the new era first, then the old one.
    launch.send(request("server/discover", "probe-1"))
    first = launch.answer()
    launch.send(request("initialize", 7))
    second = launch.answer()

    expected = text.format(d=runner.project)
    assert (first["id"], first["error"]["code"]) == ("probe-1", -32601)
    assert second["id"] == 7
    assert expected in second["error"]["message"]
    assert "fix: " in second["error"]["message"]
    assert launch.finish()[0] == code


# One that is found before anything is started, and one after.
@pytest.mark.parametrize("kind", ["no such option", "a server that dies"])
def test_a_tool_tells_about(kind: str, wire: list[str], runner: LaunchRunner) -> None:
    words, text, code = FAILURES[kind]
    fill(runner.project)
    launch = runner.launch("--on-failure", "tool", *wire, *words)

    assert launch.initialize()["result"]["protocolVersion"] == "2025-11-25"
    (tool,) = launch.ask("tools/list")["tools"]
    said = launch.call("mcp_launch_error")

    assert tool["name"] == "mcp_launch_error"
    assert said["isError"] is True
    for told in (tool["description"], said["content"][0]["text"]):
        assert text.format(d=runner.project) in told
        assert "Fix: " in told
    assert launch.finish()[0] == code


def fill(project: Path) -> None:
    make_script(project / "plain", "#!/bin/sh\n", 0o644)
    make_script(project / "bad", "#!/no/such/interp\n")
    (project / "alien").write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 200)
    (project / "alien").chmod(0o755)
    (project / "broken.env").write_text("A=1\nthis is = not ' it\n", encoding="utf-8")
    (project / "zero.env").symlink_to("/dev/zero")


def test_a_server_that_refuses_the_new_era_and_dies_in_the_old_is_reported(
    runner: LaunchRunner,
) -> None:
    code = (
        "import json, os\n"
        "asked = json.loads(os.read(0, 9999))\n"
        "error = {'code': -32601, 'message': ''}\n"
        "answer = {'jsonrpc': '2.0', 'id': asked['id'], 'error': error}\n"
        "os.write(1, json.dumps(answer).encode() + b'\\n')\n"
        "os.read(0, 9999)\n"
        "os._exit(4)\n"
    )
    launch = runner.launch("--", *python(code))
    launch.send(request("server/discover", 1))
    assert launch.answer()["error"]["code"] == -32601
    launch.send(request("initialize", 2))

    assert "exit code 4 before it answered" in launch.answer()["error"]["message"]


TOUCHY = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    known = {"initialize", "notifications/initialized"}
    if message["method"] not in known or "--never" in sys.argv:
        sys.exit(f"what is {message['method']}?")
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
"""


def test_a_server_that_dies_over_the_new_era_is_asked_in_the_old(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *python(TOUCHY))
    launch.send(request("server/discover", "probe-1"))
    first = launch.answer()
    launch.send(request("initialize", 7))

    assert (first["id"], first["error"]["code"]) == ("probe-1", -32601)
    assert launch.answer() == {"jsonrpc": "2.0", "id": 7, "result": {}}
    launch.close()
    assert launch.wait() == 0


@pytest.mark.parametrize("is_polite", [True, False], ids=["reads it", "dies unread"])
def test_no_server_is_started_for_a_host_that_is_gone(
    is_polite: bool, runner: LaunchRunner
) -> None:
    code = "import sys; open('starts', 'a').write('x')"
    code += "; sys.stdin.read()" if is_polite else ""
    launch = runner.launch("--", *python(code))
    launch.send(request("server/discover", "probe-1"))

    launch.finish()

    assert (runner.project / "starts").read_text(encoding="utf-8") == "x"


def test_what_a_server_that_dies_over_the_new_era_has_not_read_is_not_lost(
    runner: LaunchRunner,
) -> None:
    launch = runner.launch("--", *python(TOUCHY.replace("for line in sys.stdin", BYTE_BY_BYTE)))
    launch.send(request("server/discover", "probe-1"), request("initialize", 7))

    assert launch.answer()["error"]["code"] == -32601
    assert launch.answer() == {"jsonrpc": "2.0", "id": 7, "result": {}}


# Reads no more than it works on.
BYTE_BY_BYTE = "for line in iter(lambda: b''.join(iter(lambda: os.read(0, 1), b'\\n')), b'')"


def test_a_server_that_dies_in_either_era_is_reported(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *python(TOUCHY), "--never")
    launch.send(request("server/discover", "probe-1"))
    assert launch.answer()["error"]["code"] == -32601
    launch.send(request("initialize", 7))

    assert "the end of its stderr: what is initialize?" in launch.answer()["error"]["message"]
    assert launch.finish()[0] == 1


def test_a_server_that_dies_on_ended_input_is_reported_too(runner: LaunchRunner) -> None:
    """As everybody tries it by hand: cat requests | mcp-launch run -- server."""
    launch = runner.launch("--", *python("import sys; sys.stdin.read(); sys.exit('no database')"))
    launch.send(request("initialize"), request("tools/list", 2))

    code, out, err = launch.finish()

    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2]
    assert "the end of its stderr: no database" in answers[0]["error"]["message"]
    assert b"[mcp-launch] " in err
    assert code == 1


def test_no_password_in_last_words_reaches_a_model(runner: LaunchRunner) -> None:
    code = "import sys; sys.exit('cannot reach postgres://admin:hunter2hunter2@db/x')"
    launch = runner.launch("--", *python(code))
    launch.send(request("initialize"))

    message = launch.answer()["error"]["message"]

    assert "the end of its stderr: cannot reach postgres://admin:***@db/x" in message


def test_a_server_that_ends_as_it_should_is_not_said_to_have_died(runner: LaunchRunner) -> None:
    launch = runner.launch("--trace", "--", *ENVIRONMENT_SERVER)
    launch.ask("initialize")

    said = launch.finish()[2]

    assert b"the server ended with exit code 0 after the end of its input\n" in said


def test_the_same_text_is_on_stderr(runner: LaunchRunner) -> None:
    launch = runner.launch("--", "./missing.py", stdin=subprocess.DEVNULL)

    code, out, err = launch.finish()

    assert (code, out) == (127, b"")
    assert err.decode() == (
        "[mcp-launch] the server's command ./missing.py does not exist: "
        f"no file {runner.project}/missing.py\n"
        "[mcp-launch]   fix: correct the path\n"
    )


def test_a_program_of_a_version_manager_is_found_for_the_user(
    runner: LaunchRunner, own_home: Path
) -> None:
    """GUI hosts have a bare PATH: nvm's npx is not on it."""
    directory = own_home / ".nvm" / "versions" / "node" / "v22.1.0" / "bin"
    directory.mkdir(parents=True)
    npx = make_script(directory / "npx", "#!/bin/sh\n")
    (own_home / ".nvm" / "versions" / "node" / "v9.9.9" / "bin").mkdir(parents=True)
    launch = runner.launch("--", "npx", "-y", "x", env={**os.environ, "PATH": str(runner.project)})
    launch.send(request("initialize"))

    assert f"use {npx}, or add a PATH" in launch.answer()["error"]["message"]


def test_a_script_without_a_first_line_runs_as_hosts_would_run_it(
    wire: list[str], runner: LaunchRunner
) -> None:
    make_script(runner.project / "plain", "exit 6\n")
    launch = runner.launch(*wire, "--", "./plain", stdin=subprocess.DEVNULL)

    assert launch.finish()[0] == 6


def test_a_fault_of_our_own_is_one_line_and_a_report(runner: LaunchRunner, tmp_path: Path) -> None:
    sabotage = (
        "import sys\n"
        "from mcp_launch.launch import context\n"
        "context.trace_back = lambda *_: 1 / 0\n"
        "from mcp_launch import main\n"
        "sys.exit(main(['run', '--', 'cat', '--token=s3cret']))\n"
    )
    launch = runner.start(python(sabotage))
    launch.send(request("initialize"))

    message = launch.answer()["error"]["message"]
    code, _, err = launch.finish()

    assert "a bug in mcp-launch: ZeroDivisionError" in message
    assert code == 125
    assert b"Traceback" not in err
    report = next((tmp_path / "state").glob("crash-*.txt")).read_text(encoding="utf-8")
    assert "Traceback" in report
    assert "s3cret" not in report


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--cwd", "keep", "--help"]])
def test_the_usage_is_shown_on_request(words: list[str]) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "mcp_launch", "run", *words],
        check=True,
        capture_output=True,
        encoding="utf-8",
    )

    assert shown.stdout.startswith("Usage: mcp-launch run [OPTIONS] [--] COMMAND")


def test_what_may_be_a_secret_is_not_repeated(runner: LaunchRunner) -> None:
    launch = runner.launch("--env", "KEY=sk-12345", "--", "cat", stdin=subprocess.DEVNULL)

    code, _, err = launch.finish()

    assert code == 125
    assert b"the variable KEY" in err
    assert b"sk-12345" not in err


RUN_IS_MISSING = "write before a server's command: mcp-launch run -- COMMAND"


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["rnu", "--", "cat"], "did you mean run?"),
        (["cat"], RUN_IS_MISSING),
        (["--", "cat"], RUN_IS_MISSING),
        (["--trace", "--", "cat"], "write run: mcp-launch run --trace -- cat"),
        ([], RUN_IS_MISSING),
    ],
)
def test_an_entry_without_run_is_reported_to_the_host(
    words: list[str], fix: str, runner: LaunchRunner
) -> None:
    launch = runner.start([sys.executable, "-m", "mcp_launch", *words])
    launch.send(request("initialize", 4))

    message = launch.answer()["error"]["message"]

    assert fix in message
    assert launch.finish()[0] == 2


def test_a_standard_descriptor_that_is_closed_does_no_harm(
    wire: list[str], runner: LaunchRunner
) -> None:
    closes_stderr = python(
        "import os, sys; os.close(2); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    launch = runner.start(
        [*closes_stderr, "-m", "mcp_launch", "run", *wire, "--", *ENVIRONMENT_SERVER]
    )

    # The fourth is the listing itself.
    assert launch.ask("look")["fds"] == [0, 1, 2, 3]


def test_the_trace_shows_origins_and_no_secret(runner: LaunchRunner) -> None:
    (runner.project / ".env").write_text("TOKEN=s3cret\n", encoding="utf-8")
    launch = runner.launch(
        "--trace",
        "--env",
        "TOKEN=dotenv",
        "--env",
        "MINE=local",
        "--",
        *ENVIRONMENT_SERVER,
        "--key=s3cret",
        env={**os.environ, "MINE": "s3cret"},
    )
    assert launch.ask("look")["env"]["TOKEN"] == "s3cret"

    trace = launch.finish()[2].decode()

    assert f"sets TOKEN ({runner.project}/.env)" in trace
    assert "sets MINE (the launcher's environment)" in trace
    assert f"cwd {runner.project} (inherited)" in trace
    assert "s3cret" not in trace


def test_what_a_server_leaves_behind_is_counted(wire: list[str], runner: LaunchRunner) -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '100']); subprocess.Popen(['sleep', '9'])"
    launch = runner.launch("--trace", *wire, "--restart", "off", "--", *python(code))

    said = launch.finish()[2]

    assert b"[mcp-launch] the server left 2 processes behind\n" in said


def test_a_server_that_leaves_nothing_is_not_accused(wire: list[str], runner: LaunchRunner) -> None:
    # Its child ends with it, but a moment later.
    code = "import subprocess; subprocess.Popen(['cat'], stdin=subprocess.PIPE)"
    launch = runner.launch("--trace", *wire, "--restart", "off", "--", *python(code))

    assert b"behind" not in launch.finish()[2]

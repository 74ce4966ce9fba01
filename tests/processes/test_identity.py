"""Identity on real processes: whom a launch below a host takes itself to be for."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from launches import ENVIRONMENT_SERVER, HERE, RUN, SCRIPTED_SERVER, LaunchRunner

if TYPE_CHECKING:
    from pathlib import Path

    from launches import Launch


def thread_id(milliseconds: int, tail: int = 1) -> str:
    digits = f"{milliseconds:012x}7000800000000{tail:07x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


NOW = int(time.time() * 1000)
OLD, NEW, FUTURE = thread_id(NOW - 60_000), thread_id(NOW - 1_000), thread_id(NOW + 86_400_000)


def make_host(directory: Path, name: str) -> str:
    """Return a Python that the kernel knows by a host's name."""
    program = directory / name
    program.symlink_to(os.path.realpath(ENVIRONMENT_SERVER[0]))
    return str(program)


def ask_through(
    runner: LaunchRunner, program: str, *words: str, **options: object
) -> dict[str, str]:
    """Return the environment of a server below a stand-in host."""
    script = str(HERE / "scripts" / "fake_host.py")
    host = runner.start(
        [program, "-S", "-E", script, *words, "--", *RUN, "--", *ENVIRONMENT_SERVER], **options
    )
    host.read_line()
    environ = host.ask("look")["env"]
    assert isinstance(environ, dict)
    return environ


def test_a_server_of_a_codex_thread_gets_its_id(runner: LaunchRunner, tmp_path: Path) -> None:
    locks = tmp_path / "home" / ".codex" / "thread-writer-locks"
    locks.mkdir(parents=True)
    program = make_host(tmp_path, "codex")

    environ = ask_through(
        runner,
        program,
        "--open",
        str(locks / f"{OLD}.lock"),
        env={**os.environ, "CODEX_THREAD_ID": "an outer thread"},
    )

    assert environ["CODEX_THREAD_ID"] == OLD
    assert environ["MCP_LAUNCH_THREAD_ID"] == OLD
    assert environ["MCP_LAUNCH_HOST"] == "codex"


def test_strict_refuses_a_guess(runner: LaunchRunner, tmp_path: Path) -> None:
    locks = tmp_path / "home" / ".codex" / "thread-writer-locks"
    locks.mkdir(parents=True)
    opened = [word for one in (OLD, NEW) for word in ("--open", str(locks / f"{one}.lock"))]
    command = [*RUN, "--strict", "--", *ENVIRONMENT_SERVER]
    script = str(HERE / "scripts" / "fake_host.py")
    host = runner.start([make_host(tmp_path, "codex"), "-SE", script, *opened, "--", *command])
    host.read_line()
    host.send({"jsonrpc": "2.0", "id": 1, "method": "initialize"})

    assert "a guess: the newest of 2 open threads" in host.answer()["error"]["message"]


def test_a_server_of_claude_code_works_in_its_project(runner: LaunchRunner, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environ = ask_through(
        runner,
        make_host(tmp_path, "claude"),
        "--socket",
        "--cwd",
        str(elsewhere),
        env={
            **os.environ,
            "CLAUDE_CODE_SESSION_ID": "s-9",
            "CLAUDE_PROJECT_DIR": str(runner.project),
        },
    )

    assert environ["MCP_LAUNCH_SESSION_ID"] == "s-9"
    assert environ["PWD"] == str(runner.project)


def test_claudes_variables_below_another_host_are_not_believed(
    runner: LaunchRunner, tmp_path: Path
) -> None:
    leaked = {"CLAUDE_CODE_SESSION_ID": "s-9", "CLAUDE_PROJECT_DIR": "/"}

    environ = ask_through(runner, make_host(tmp_path, "opencode"), env={**os.environ, **leaked})

    assert environ["MCP_LAUNCH_HOST"] == "opencode"
    assert environ["PWD"] == str(runner.project)
    assert "MCP_LAUNCH_SESSION_ID" not in environ
    assert not leaked.keys() & environ.keys()


def test_calls_below_a_host_that_names_no_session_name_none_either(runner: LaunchRunner) -> None:
    host = runner.launch_below_host("opencode", command=[*RUN, "--", *SCRIPTED_SERVER])

    told = [host.call("look", number)["meta"]["mcp-launch/context"] for number in (1, 2)]

    assert all("sessionId" not in one and one["launchId"] for one in told)


def test_a_call_of_vs_code_as_a_server_names_its_conversation(
    runner: LaunchRunner, tmp_path: Path
) -> None:
    script = tmp_path / "vscode" / "out" / "bootstrap-fork"
    script.parent.mkdir(parents=True)
    script.symlink_to(HERE / "scripts" / "fake_host.py")
    words = ["-SE", str(script), "--type=extensionHost", "--", *RUN, "--", *SCRIPTED_SERVER]
    host = runner.start([make_host(tmp_path, "node"), *words])
    host.read_line()

    told = host.call("look", meta={"vscode.conversationId": "c-1"})["meta"]["mcp-launch/context"]

    assert (told["host"], told["sessionId"]) == ("vscode", "c-1")
    assert "sessionId" not in host.call("look", 2)["meta"]["mcp-launch/context"]


def test_codex_in_a_terminal_of_vs_code_is_codex(runner: LaunchRunner, tmp_path: Path) -> None:
    script = tmp_path / "vscode" / "out" / "bootstrap-fork"
    script.parent.mkdir(parents=True)
    script.symlink_to(HERE / "scripts" / "fake_host.py")
    terminal = [make_host(tmp_path, "node"), "-SE", str(script), "--type=ptyHost", "--quiet", "--"]
    codex = [make_host(tmp_path, "codex"), "-SE", str(HERE / "scripts" / "fake_host.py"), "--"]
    host = runner.start([*terminal, *codex, *RUN, "--", *ENVIRONMENT_SERVER])
    host.read_line()

    assert host.ask("look")["env"]["MCP_LAUNCH_HOST"] == "codex"


def test_dotenv_is_read_only_when_asked(runner: LaunchRunner) -> None:
    (runner.project / ".env").write_text("TOKEN=t\nOTHER=o\n", encoding="utf-8")
    (runner.project / "sub").mkdir()

    def look(*words: str) -> Launch:
        return runner.launch(*words, "--", *ENVIRONMENT_SERVER, cwd=runner.project / "sub")

    assert "TOKEN" not in look().ask("look")["env"]
    named = look("--env", "TOKEN=dotenv").ask("look")["env"]
    assert (named.get("TOKEN"), named.get("OTHER")) == ("t", None)
    whole = look("--dotenv", "../.env").ask("look")["env"]
    assert (whole.get("TOKEN"), whole.get("OTHER")) == ("t", "o")

"""What `wrap` writes is what a launch does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest
from command_line import run_command
from launches import ENVIRONMENT_SERVER, LIMIT, RUN, Launch, LaunchRunner, wait_for_lease

import mcp_launch


@pytest.fixture
def user_file(own_home: Path) -> Path:
    """Return the user's file, which is not there yet."""
    path = own_home / ".config" / "mcp-launch" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def read_words(file: Path) -> list[str]:
    words: list[str] = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]["it"]["args"]
    assert words[0] == "run"
    return words[1:]


def test_a_wrapped_server_gets_its_profile_and_the_options_that_wrap_writes(
    own_home: Path, user_file: Path, runner: LaunchRunner
) -> None:
    write(user_file, "[servers.it]\ncommand = 'not this'\nenv = { A = 'profile' }\n")
    file = own_home / ".claude.json"
    text = json.dumps(
        {"mcpServers": {"it": {"command": ENVIRONMENT_SERVER[0], "args": ENVIRONMENT_SERVER[1:]}}}
    )
    write(file, text)
    safe = ["wrap", "it", "--host", "claude", "--yes", "--", "--pass-env", "safe"]

    for words in (["wrap", "--host", "claude", "--yes"], safe):
        assert run_command(*words).returncode == 0

    environ = {**os.environ, "ANTHROPIC_API_KEY": "secret"}
    assert read_words(file) == ["--server", "it", "--pass-env", "safe", *ENVIRONMENT_SERVER]
    words = [*RUN, "--trace", *read_words(file)]
    launch = runner.launch_below_host("claude", command=words, env=environ)
    seen = launch.ask("look")["env"]
    assert "ANTHROPIC_API_KEY" not in seen
    assert seen["A"] == "profile"
    *_, said = launch.finish()
    assert b"withholds ANTHROPIC_API_KEY: Claude Code has it itself (--pass-env safe)\n" in said
    assert run_command("unwrap", "--host", "claude", "--yes").returncode == 0
    assert file.read_text(encoding="utf-8") == text


# A server whose own Python obeys no variable.
SERVER = [sys.executable, "-I", ENVIRONMENT_SERVER[1]]


def write_entry(home: Path, words: list[str], **variables: str) -> Path:
    """Write an entry for a host, and return its file."""
    file = home / ".claude.json"
    entry: dict[str, Any] = {"command": words[0], "args": words[1:], "env": variables}
    write(file, json.dumps({"mcpServers": {"it": entry}}))
    return file


def start_entry(file: Path, runner: LaunchRunner, **more: str) -> Launch:
    """Start an entry as its host does."""
    entry = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]["it"]
    environ = {**os.environ, **entry["env"], **more}
    return runner.start([entry["command"], *entry["args"]], env=environ)


FOR_PYTHON = {
    "PYTHONHOME": "/nowhere",
    "PYTHONINSPECT": "1",
    "PYTHONPLATLIBDIR": "nowhere",
    "PYTHONEXECUTABLE": "/nowhere/python",
    "PYTHONSTARTUP": "/nowhere.py",
    "PYTHONWARNINGS": "error",
    "PYTHONSAFEPATH": "1",
    "PYTHONUTF8": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONVERBOSE": "1",
    "PYTHONIOENCODING": "nonsense",
}


def test_variables_for_the_servers_python_reach_only_the_server(
    own_home: Path, tmp_path: Path, runner: LaunchRunner
) -> None:
    for name in ("select.py", "mcp_launch.py"):  # named like modules that we import
        write(tmp_path / name, "raise SystemExit(7)\n")
    file = write_entry(own_home, SERVER, **FOR_PYTHON, PYTHONPATH=str(tmp_path))
    assert run_command("wrap", "--yes").returncode == 0

    launch = start_entry(file, runner)
    environ = launch.ask("look")["env"]
    code, _, said = launch.finish()

    assert FOR_PYTHON.items() <= environ.items()
    assert environ["PYTHONPATH"] == str(tmp_path)
    assert "MCP_LAUNCH_ID" in environ
    assert (code, said) == (0, b"")


@pytest.mark.parametrize("words", [[], ["--share", "project"]], ids=["alone", "shared"])
def test_the_program_of_another_python_reaches_only_the_server(
    words: list[str], own_home: Path, tmp_path: Path, runner: LaunchRunner
) -> None:
    # By this file, Python recognises its library; here is nothing else of it.
    library = tmp_path / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    library.mkdir(parents=True)
    (library / "os.py").touch()
    other = str(tmp_path / "bin" / "python3")
    file = write_entry(own_home, ["/bin/sh", "-c", 'read -r line; env >"$SEEN"; read -r line'])
    assert run_command("wrap", "--yes", "--", *words).returncode == 0
    seen = tmp_path / "seen"
    os.mkfifo(seen)

    launch = start_entry(file, runner, PYTHONEXECUTABLE=other, SEEN=str(seen))
    launch.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})

    environ = seen.read_text(encoding="utf-8").splitlines()
    assert f"PYTHONEXECUTABLE={other}" in environ
    assert not any(line.startswith("_MCP_LAUNCH_") for line in environ)
    launch.finish()


def test_a_variable_that_python_removes_reaches_a_server_that_is_not_python(
    own_home: Path, runner: LaunchRunner
) -> None:
    # It ends with what the variable says.
    file = write_entry(
        own_home,
        ["/bin/sh", "-c", 'read -r line; exit "$__PYVENV_LAUNCHER__"'],
        __PYVENV_LAUNCHER__="7",
    )
    assert run_command("wrap", "--yes", "--", "--restart", "off").returncode == 0

    launch = start_entry(file, runner)
    launch.send({"jsonrpc": "2.0", "method": "notifications/x"})

    assert launch.wait() == 7


@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="the shell here drops such variables")
def test_a_variable_whose_name_no_shell_knows_reaches_the_server(
    own_home: Path, runner: LaunchRunner
) -> None:
    odd = {"spring.datasource.url": "a b", "npm_config_@x:registry": "c", "python": "mine"}
    file = write_entry(own_home, SERVER, **odd)
    assert run_command("wrap", "--yes").returncode == 0

    environ = start_entry(file, runner).ask("look")["env"]

    assert {name: environ.get(name) for name in odd} == odd


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return an installation of its own, which can be moved."""
    return install(tmp_path / "it's a place" / "venv")


def install(place: Path) -> Path:
    venv.create(place, symlinks=True)
    [libraries] = place.glob("lib/python*/site-packages")
    package = Path(mcp_launch.__file__).parent.parent
    write(libraries / "us.pth", f"{package}\n{sysconfig.get_path('purelib')}\n")
    script = place / "bin" / "mcp-launch"
    write(script, "#!/bin/sh\n" + f'exec "{place}/bin/python" -m mcp_launch "$@"\n')
    script.chmod(0o700)
    return place


def run_installed(place: Path, *words: str) -> None:
    """Run a command of an installation."""
    subprocess.run([place / "bin" / "mcp-launch", *words], check=True, timeout=LIMIT)


def test_a_server_runs_alone_while_mcp_launch_is_gone(
    own_home: Path, installed: Path, tmp_path: Path, runner: LaunchRunner
) -> None:
    file = write_entry(own_home, [*SERVER, "a b", "--strict"])
    run_installed(installed, "wrap", "--yes")
    assert "MCP_LAUNCH_ID" in start_entry(file, runner).ask("look")["env"]

    installed.rename(tmp_path / "moved")
    launch = start_entry(file, runner)
    seen = launch.ask("look")
    code, _, said = launch.finish()

    assert "MCP_LAUNCH_ID" not in seen["env"]
    assert seen["argv"] == ["a b", "--strict"]
    assert seen["pid"] == launch.pid
    assert code == 0
    assert said.decode() == (
        f"[mcp-launch] the mcp-launch of {installed}/bin/python is gone, so this server runs "
        "without it; fix: install mcp-launch again, then run: mcp-launch wrap\n"
    )

    (tmp_path / "moved").rename(installed)
    launch = start_entry(file, runner)
    assert "MCP_LAUNCH_ID" in launch.ask("look")["env"]
    assert launch.finish()[2] == b""


def test_any_command_of_another_installation_takes_over_from_one_that_is_gone(
    own_home: Path, installed: Path, tmp_path: Path, runner: LaunchRunner
) -> None:
    file = write_entry(own_home, SERVER)
    run_installed(installed, "wrap", "--yes")
    other = install(tmp_path / "other")
    script = tmp_path / "state" / "mcp-launch"
    before = script.read_bytes()

    run_installed(other, "list")
    assert script.read_bytes() == before

    installed.rename(tmp_path / "moved")
    run_installed(other, "list")
    launch = start_entry(file, runner)
    assert "MCP_LAUNCH_ID" in launch.ask("look")["env"]
    assert launch.finish()[2] == b""


OWN = {
    "a name": ["--server", "docs"],
    "a name that looks like an option": ["--server=--x"],
    "an option with a value, a switch, and the end of the options": (
        ["--set", "A=run -- x", "--no-log", "--direct", "--"]
    ),
    "nothing": [],
    "only the end of the options": ["--"],
}


REFUSED = {
    "its command is in a profile": ["run", "--server", "docs"],
    "it must not run without": ["run", "--server", "docs", "--strict", "true"],
    "an option lacks its value": ["run", "--server"],
    "another command": ["ps"],
}


def test_what_can_run_without_mcp_launch_gets_its_own_words_and_the_rest_says_so(
    own_home: Path, installed: Path, tmp_path: Path, runner: LaunchRunner
) -> None:
    write_entry(own_home, SERVER)
    run_installed(installed, "wrap", "--yes")
    installed.rename(tmp_path / "moved")
    theirs = ["--server", "--", "", "a'b", "*"]

    script = str(tmp_path / "state" / "mcp-launch")

    for kind, own in OWN.items():
        launch = runner.start([script, "run", *own, *SERVER, *theirs])
        assert launch.ask("look")["argv"] == theirs, kind
    for kind, words in REFUSED.items():
        code, out, said = runner.start([script, *words]).finish()
        assert (code, out) == (125, b""), kind
        assert said.startswith(b"[mcp-launch] the mcp-launch of ")
        assert said.endswith(b"; fix: install mcp-launch again, then run: mcp-launch wrap\n")
        assert said.count(b"\n") == 1


def test_the_script_stays_until_no_launch_needs_it(
    own_home: Path, tmp_path: Path, runner: LaunchRunner
) -> None:
    file = write_entry(own_home, SERVER)
    before = file.read_bytes()
    assert run_command("wrap", "--yes").returncode == 0
    launch = start_entry(file, runner)
    launch.ask("look")
    lease = wait_for_lease(tmp_path / "state", lambda one: "launcher" in one["processes"])
    assert lease["processes"]["launcher"]["pid"] == launch.pid  # what the host has started
    script = tmp_path / "state" / "mcp-launch"

    assert run_command("uninstall", "--yes").returncode == 1
    assert file.read_bytes() == before
    assert script.exists()

    launch.finish()
    assert run_command("uninstall", "--yes").returncode == 0
    assert not script.parent.exists()

"""The real `npx` and `uvx`, with and without us: the same program starts in the same way."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from launches import LIMIT, RUN, LaunchRunner, request, wait_for_lease, wait_until_gone
from npm_registry import NAME, PROGRAM, NpmRegistry
from python_index import PythonIndex

from mcp_launch.state import leases

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOUR = 3600.0

# Longer than npx may be at work on its cache, and after the last change of npm's settings.
LATELY = 300.0

needs_npx = pytest.mark.skipif(shutil.which("npx") is None, reason="npm is not installed")


@pytest.fixture
def registry(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NpmRegistry]:
    """Return a registry that has version 1.0.0; npm's settings are none but this registry."""
    for name in list(os.environ):
        if name.lower().startswith("npm_"):
            monkeypatch.delenv(name)
    registry = NpmRegistry()
    registry.publish("1.0.0")
    file = own_home / ".npmrc"
    file.write_text(f"registry={registry.url}\nupdate-notifier=false\n", encoding="utf-8")
    os.utime(file, (0, 0))
    yield registry
    registry.close()


def ask(runner: LaunchRunner, command: list[str]) -> dict[str, Any]:
    """Start a server and return what it sees of its start."""
    launch = runner.start(command)
    launch.send(request("initialize"))
    facts = launch.answer()["result"]
    assert launch.finish()[0] == 0
    assert isinstance(facts, dict)
    return facts


def set_age(home: Path, seconds: float) -> None:
    """Make npx's cache, and our notes of it, as old as this."""
    moment = time.time() - seconds
    caches = list((home / ".npm/_npx").iterdir())
    stamps = list((home.parent / "state").glob("runners/*"))
    for path in (*caches, *(cache / "node_modules" for cache in caches), *stamps):
        os.utime(path, (moment, moment))


def assert_same(ours: dict[str, Any], bare: dict[str, Any]) -> None:
    """Compare what a server saw with us and without, but for its parent."""
    for facts in (bare, ours):
        facts["env"] = {name: text for name, text in facts["env"].items() if is_common(name)}
    assert bare.pop("parent") != ours.pop("parent")
    ours["env"]["PWD"] = bare["env"].get("PWD", ours["env"]["PWD"])
    assert ours == bare


def show(*words: str) -> str:
    done = run_command(*words)
    assert done.returncode == 0, done
    return done.stdout


def is_common(name: str) -> bool:
    """Return whether a variable should be the same with and without us."""
    return not name.startswith(("npm_", "MCP_LAUNCH_")) and name not in {"_", "SHLVL", "OLDPWD"}


@needs_npx
@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("words", "wire"),
    [
        (["npx", "-y", f"{NAME}@1.0.0"], []),
        (["npx", "-y", NAME], ["--direct"]),
        (["npm", "exec", "--yes", "--", f"{NAME}@latest"], []),
        (["npx", "-y", "-p", f"{NAME}@^1.0.0", PROGRAM], []),
    ],
    ids=["a version", "a name, directly", "npm exec", "a package and its program"],
)
def test_without_npx_the_server_sees_what_it_would_see_with_npx(
    runner: LaunchRunner, own_home: Path, words: list[str], wire: list[str]
) -> None:
    command = [*words, "a b", "", "$HOME", "--yes", "--"]
    bare = ask(runner, command)
    set_age(own_home, LATELY)

    ours = ask(runner, [*RUN, *wire, "--", *command])

    assert_same(ours, bare)


@needs_npx
def test_npx_is_not_started_and_the_registry_not_asked(
    registry: NpmRegistry, runner: LaunchRunner, own_home: Path, tmp_path: Path
) -> None:
    command = ["npx", "-y", NAME]
    ask(runner, command)
    set_age(own_home, LATELY)
    registry.asked.clear()

    launch = runner.launch("--", *command)
    launch.send(request("initialize"))
    launch.answer()
    lease = wait_for_lease(tmp_path / "state", lambda one: bool(one.get("processes")))
    pid = lease["processes"]["server"]["pid"]
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        seen = file.read().split(b"\0")

    assert seen[0] == b"node"
    assert seen[1].endswith(b"/node_modules/.bin/tiny-server")
    assert lease["mark"] == leases.mark_command(command)
    assert lease["runner"]["left_out"] is True
    assert registry.asked == []
    shown = show("ps", "-v")
    assert "without its runner: @tiny/server 1.0.0 in " in shown
    assert launch.finish()[0] == 0
    assert "leaves out npx: @tiny/server 1.0.0 in " in show("logs", "-v")


@needs_npx
@pytest.mark.usefixtures("registry")
def test_the_profile_can_keep_npx(runner: LaunchRunner, own_home: Path) -> None:
    command = ["npx", "-y", f"{NAME}@1.0.0"]
    ask(runner, command)
    set_age(own_home, LATELY)
    file = own_home / ".config/mcp-launch/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[defaults]\nrunner = "keep"\n', encoding="utf-8")
    file.chmod(0o600)

    assert "npm_execpath" in ask(runner, [*RUN, "--", *command])["env"]
    set_age(own_home, LATELY)
    assert "npm_execpath" not in ask(runner, [*RUN, "--runner", "auto", "--", *command])["env"]


@needs_npx
def test_a_new_version_is_started_after_a_day(
    registry: NpmRegistry, runner: LaunchRunner, own_home: Path
) -> None:
    command = [*RUN, "--", "npx", "-y", NAME]
    assert ask(runner, command)["version"] == "1.0.0"  # npx installs it
    registry.publish("1.1.0")

    set_age(own_home, LATELY)
    assert ask(runner, command)["version"] == "1.0.0"
    set_age(own_home, 25 * HOUR)
    assert ask(runner, command)["version"] == "1.1.0"
    set_age(own_home, LATELY)
    registry.asked.clear()
    assert ask(runner, command)["version"] == "1.1.0"
    assert registry.asked == []


@needs_npx
@pytest.mark.usefixtures("registry")
def test_a_program_of_the_project_is_started_as_npx_would(
    runner: LaunchRunner, project: Path
) -> None:
    (project / "package.json").write_text("{}", encoding="utf-8")
    install = [str(shutil.which("npm")), "install", "-s", NAME]
    subprocess.run(install, check=True, timeout=LIMIT, cwd=project)
    command = ["npx", "-y", PROGRAM, "a"]

    bare, ours = ask(runner, command), ask(runner, [*RUN, "--", *command])

    assert ours["argv"] == bare["argv"]
    assert ours["argv"][1] == f"{project}/node_modules/.bin/{PROGRAM}"
    assert ours["env"]["PATH"] == bare["env"]["PATH"]


@needs_npx
@pytest.mark.usefixtures("registry", "project")
def test_env_shows_what_would_be_started(runner: LaunchRunner, own_home: Path) -> None:
    ask(runner, ["npx", "-y", NAME])
    set_age(own_home, LATELY)

    shown = json.loads(show("env", "--json", "--", "npx", "-y", NAME))
    explained = show("env", "--explain", "PATH", "--", "npx", "-y", NAME)

    assert shown["frame"]["command"]["value"] == f"npx -y {NAME}"
    assert shown["frame"]["program"]["value"].endswith(f"/.bin/{PROGRAM}")
    assert shown["frame"]["program"]["origin"].startswith("npx is left out: @tiny/server 1.0.0 in ")
    assert "> the runner that is left out" in explained
    set_age(own_home, 25 * HOUR)
    kept = json.loads(show("env", "--json", "--", "npx", "-y", NAME))["frame"]["program"]
    assert kept["value"] == shutil.which("npx")
    assert "once a day" in kept["origin"]
    assert not list((own_home.parent / "state").glob("runners/*"))  # a preview notes nothing


@needs_npx
def test_npx_finishes_an_installation_that_the_host_does_not_wait_for(
    registry: NpmRegistry, runner: LaunchRunner, tmp_path: Path
) -> None:
    command = [*RUN, "--", "npx", "-y", NAME]
    registry.hold_archives()
    launch = runner.start(command)
    launch.send(request("initialize"))
    assert registry.is_asked_for_archive.wait(LIMIT)
    lease = wait_for_lease(tmp_path / "state", lambda one: bool(one.get("processes")))

    launch.close()
    wait_for_lease(tmp_path / "state", lambda one: one.get("state") == "installing")
    registry.may_send_archives.set()
    for part in ("server", "guardian", "keeper"):
        wait_until_gone(lease["processes"][part]["pid"])
    registry.hold_archives()  # the next start needs none

    assert f"npx has installed {NAME}: the next start is ready" in show("logs", "-v")
    assert ask(runner, command)["version"] == "1.0.0"


@needs_npx
def test_two_that_install_the_same_package_wait_for_each_other(
    registry: NpmRegistry, runner: LaunchRunner, tmp_path: Path
) -> None:
    command = [*RUN, "--", "npx", "-y", NAME]
    registry.hold_archives()
    first = runner.start(command)
    assert registry.is_asked_for_archive.wait(LIMIT)
    wait_for_lease(tmp_path / "state", lambda one: bool(one.get("processes")))
    first.process.kill()
    wait_for_lease(tmp_path / "state", lambda one: one.get("state") == "installing")

    second = runner.start(command)
    second.send(request("initialize"))
    registry.may_send_archives.set()

    assert second.answer()["result"]["version"] == "1.0.0"
    assert second.finish()[0] == 0


def install_tool(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the server with `uv tool install`, as if from PyPI, and return uv's receipt."""
    for name in list(os.environ):
        if name.startswith("UV_") or name == "VIRTUAL_ENV":
            monkeypatch.delenv(name)
    # Behind everything else: beside uv there is a Python.
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{os.path.dirname(sys.executable)}")
    uv = os.path.join(os.path.dirname(sys.executable), "uv")
    wheels = str(make_wheel(home).parent)
    install = [uv, "tool", "install", "-q", "--no-index", "--find-links", wheels, PROGRAM]
    subprocess.run(install, check=True, timeout=LIMIT)
    receipt = home / ".local/share/uv/tools" / PROGRAM / "uv-receipt.toml"
    text = receipt.read_text(encoding="utf-8")
    receipt.write_text(text.partition("[tool.options]")[0], encoding="utf-8")
    return receipt


@pytest.mark.parametrize("has_own", [True, False], ids=["uv's own Python", "a system's Python"])
@pytest.mark.usefixtures("project")
def test_without_uvx_the_server_sees_what_it_would_see_with_uvx(
    has_own: bool, runner: LaunchRunner, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_own:
        make_interpreter(own_home)
    install_tool(own_home, monkeypatch)
    command = ["uvx", PROGRAM, "a b", "", "--from"]

    bare, ours = ask(runner, command), ask(runner, [*RUN, "--", *command])

    assert_same(ours, bare)
    assert "leaves out uvx" in show("logs", "-v")


@pytest.mark.usefixtures("project")
def test_what_is_wrong_with_a_tool_is_said_in_plain_words(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt = install_tool(own_home, monkeypatch)

    def explain() -> str:
        shown = " ".join(show("env", "-v", "--", "uvx", PROGRAM).split())
        assert "uvx is not left out: " in shown
        assert "Error" not in shown
        assert "Errno" not in shown
        return shown

    receipt.write_bytes(b"\xff")
    assert "is not as expected" in explain()
    receipt.unlink()
    assert "No such file or directory: " in explain()


@pytest.mark.usefixtures("project")
def test_uvx_finishes_an_installation_that_the_host_does_not_wait_for(
    runner: LaunchRunner, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{os.path.dirname(sys.executable)}")
    index = PythonIndex(make_wheel(own_home))
    command = ["uvx", "--default-index", f"{index.url}/simple", "--python", sys.executable, PROGRAM]
    try:
        launch = runner.launch("--", *command)
        assert index.is_asked_for_wheel.wait(LIMIT)
        lease = wait_for_lease(tmp_path / "state", lambda one: bool(one.get("processes")))

        launch.process.kill()
        wait_for_lease(tmp_path / "state", lambda one: one.get("state") == "installing")
        index.may_send_wheel.set()
        for part in ("server", "guardian", "keeper"):
            wait_until_gone(lease["processes"][part]["pid"])
    finally:
        index.close()

    assert f"uvx has installed {PROGRAM}: the next start is ready" in show("logs", "-v")
    assert ask(runner, [*RUN, "--", "uvx", "--offline", *command[1:]])["argv"]


def make_interpreter(home: Path) -> None:
    """Make this Python one of uv's own, without a download."""
    system = f"{sys.platform}-{platform.machine()}-gnu"
    name = f"cpython-{platform.python_version()}-{system}"
    directory = home / ".local/share/uv/python" / name
    (directory / "bin").mkdir(parents=True)
    program = f"python{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copy(os.path.realpath(sys.executable), directory / "bin" / program)
    for link in ("python", "python3"):
        (directory / "bin" / link).symlink_to(program)
    (directory / "lib").symlink_to(f"{sys.base_prefix}/lib")


WHEEL = {
    "tiny_server.py": (
        "import json, os, sys\n"
        "def main():\n"
        "    facts = dict(argv=sys.argv, exec=sys.executable, cwd=os.getcwd(),\n"
        "                 env=dict(os.environ), parent=os.getppid())\n"
        "    for line in sys.stdin:\n"
        "        answer = dict(jsonrpc='2.0', id=json.loads(line).get('id'), result=facts)\n"
        "        if answer['id'] is not None: print(json.dumps(answer), flush=True)\n"
    ),
    "tiny_server-1.0.dist-info/METADATA": "Metadata-Version: 2.1\n"
    "Name: tiny-server\nVersion: 1.0\n",
    "tiny_server-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
    "Tag: py3-none-any\n",
    "tiny_server-1.0.dist-info/entry_points.txt": "[console_scripts]\n"
    "tiny-server = tiny_server:main\n",
    "tiny_server-1.0.dist-info/RECORD": "",
}


def make_wheel(directory: Path) -> Path:
    path = directory / "wheels" / "tiny_server-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in WHEEL.items():
            archive.writestr(name, text)
    return path

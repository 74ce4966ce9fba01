"""The launch path may only import what a launch needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from npm_caches import Machine, write

import mcp_launch

PACKAGE = Path(mcp_launch.__file__).parent

# Each of these costs a good part of a Python start, or is not needed to start a server.
# Names, not milliseconds: a clock would make this test fail on a busy machine.
TOO_HEAVY = {
    *("argparse", "asyncio", "collections", "ctypes", "dataclasses", "enum", "functools"),
    *("hashlib", "json", "logging", "pathlib", "re", "selectors", "shutil", "signal", "socket"),
    *("subprocess", "tempfile", "threading", "tomllib", "traceback", "typing", "uuid"),
    *("dotenv", "packaging", "psutil", "rich", "tomlkit", "typer"),
}

LAUNCH_AND_LIST_WHAT_IT_IMPORTED = """
import sys
before = set(sys.modules)
from mcp_launch import main
code = main(["run", *sys.argv[1:]])
print(*set(sys.modules) - before, file=sys.stderr)
sys.exit(code)
"""

# A fresh interpreter: in this one, pytest has imported half the library. -S: an editable
# install or a coverage hook imports more than a launch does.
RUN_AND_LIST = [
    sys.executable,
    "-S",
    "-c",
    f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n" + LAUNCH_AND_LIST_WHAT_IT_IMPORTED,
]


def launch(
    project: Path, words: list[str], command: list[str] | None = None, path: str = ""
) -> set[str]:
    done = subprocess.run(
        [*RUN_AND_LIST, *words, "--", *(command or ["true"])],
        check=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=project,
        encoding="utf-8",
        env={
            "HOME": str(project / "home"),
            "MCP_LAUNCH_HOME": str(project),
            "PATH": f"{path}/usr/bin:/bin",
        },
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "words", [[], ["--direct"], ["--server", "it"]], ids=["guarded", "direct", "with a profile"]
)
def test_a_launch_imports_nothing_heavy(words: list[str], project: Path) -> None:
    file = project / "home" / ".config" / "mcp-launch" / "config.toml"
    write(
        file,
        b"[defaults]\npass_env = 'safe'\n"
        b"[servers.it]\nenv_vars = ['A', { name = 'B', source = 'host' }]\n",
        0o600,
    )
    launch(project, words)  # the first launch reads the file itself

    imported = launch(project, words)

    assert "mcp_launch.system.guardian" in imported  # else no launch took place
    assert imported & TOO_HEAVY == set()
    assert "mcp_launch.launch.runners" not in imported


def test_leaving_out_npx_imports_nothing_heavy(project: Path) -> None:
    machine = Machine(project)
    program = machine.install() / "node_modules/@tiny/envdump/x.js"
    write(program, Path("/bin/true").read_bytes(), 0o755)

    imported = launch(project, [], ["npx", "-y", "@tiny/envdump@1.0.0"], f"{machine.usr}/bin:")

    assert "mcp_launch.launch.runners" in imported
    assert imported & TOO_HEAVY == set()


FIND_CALLERS = """
import sys
from mcp_launch import hosts
from mcp_launch.hosts import Sighting
from mcp_launch.system import linux as table
host = hosts.load(sys.argv[1])
assert host.is_known
seen = Sighting(
    table=table, process=table.look(1), environ={"HOME": "/"}, cwd="/", is_starter=True
)
host.identify(seen)
host.follow_callers(seen)
print(*sys.modules)
"""


@pytest.mark.parametrize("host", ["cline", "copilot", "kimi", "opencode", "qwen", "vibe"])
def test_what_a_host_needs_only_at_a_call_is_not_imported_before(host: str) -> None:
    path = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n"

    done = subprocess.run(
        [sys.executable, "-S", "-c", path + FIND_CALLERS, host],
        check=True,
        capture_output=True,
        encoding="utf-8",
    )

    assert set(done.stdout.split()).isdisjoint(TOO_HEAVY | {"datetime", "glob", "sqlite3"})


# How many modules of ours a launch below Codex may read until its first answer. Each costs a look
# into a directory and about a hundredth of a Python start, so another one needs a reason.
BUDGET = 60

ASK_ONCE = """
import subprocess, sys
launch = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
launch.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\\n')
launch.stdin.flush()
assert b"result" in launch.stdout.readline()
launch.communicate()
"""

# Answers the first request: with everything before its method, its id is repeated.
ANSWER = """
import sys
begin = sys.stdin.readline().partition(',"method"')[0]
print(begin + ',"result":{}}')
"""


def test_a_launch_below_codex_reads_few_modules_until_its_first_answer(tmp_path: Path) -> None:
    host = tmp_path / "codex"
    host.symlink_to(os.path.realpath(sys.executable))
    (tmp_path / ".git").mkdir()

    done = subprocess.run(
        [host, "-S", "-c", ASK_ONCE, *RUN_AND_LIST, "--", sys.executable, "-S", "-c", ANSWER],
        check=True,
        capture_output=True,
        cwd=tmp_path,
        encoding="utf-8",
        env={"HOME": str(tmp_path), "MCP_LAUNCH_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        timeout=60,
    )

    ours = {name for name in done.stderr.split() if name.partition(".")[0] == "mcp_launch"}
    assert "mcp_launch.hosts.codex" in ours
    assert len(ours) <= BUDGET


def test_the_line_for_a_prompt_needs_no_command_line_library(tmp_path: Path) -> None:
    code = (
        "import sys, mcp_launch\n"
        "assert mcp_launch.main(['ps', '--short']) == 0\n"
        "print([name for name in ('typer', 'rich', 'pydantic') if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        encoding="utf-8",
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        timeout=60,
    )

    assert shown.stdout.splitlines()[-1] == "[]"

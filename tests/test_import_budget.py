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
TOO_HEAVY = ["argparse", "asyncio", "collections", "ctypes", "dataclasses", "enum", "functools"]
TOO_HEAVY += ["json", "logging", "pathlib", "re", "selectors", "shutil", "signal", "socket"]
TOO_HEAVY += ["subprocess", "tempfile", "threading", "traceback", "typing", "uuid"]
TOO_HEAVY += ["hashlib", "tomllib", "dotenv", "packaging", "psutil", "rich", "tomlkit", "typer"]

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

WORDS = {"guarded": [], "direct": ["--direct"], "profiled": ["--server", "it"]}


@pytest.fixture(scope="module", params=list(WORDS))
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names of all modules that one whole launch brought in."""
    project = tmp_path_factory.mktemp("project")
    file = project / "home" / ".config" / "mcp-launch" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        "[defaults]\npass_env = 'safe'\n"
        "[servers.it]\nenv_vars = ['A', { name = 'B', source = 'host' }]\n",
        encoding="utf-8",
    )
    file.chmod(0o600)
    words = WORDS[request.param]
    launch(project, words)  # the first launch reads the file itself
    return launch(project, words)


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


@pytest.fixture(scope="module")
def imported_without_npx(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names of all modules of a launch that leaves out npx."""
    project = tmp_path_factory.mktemp("npx")
    machine = Machine(project)
    program = machine.install() / "node_modules/@tiny/envdump/x.js"
    write(program, Path("/bin/true").read_bytes(), 0o755)
    return launch(project, [], ["npx", "-y", "@tiny/envdump@1.0.0"], f"{machine.usr}/bin:")


@pytest.mark.parametrize("module", TOO_HEAVY)
def test_leaving_out_npx_does_not_import(module: str, imported_without_npx: set[str]) -> None:
    assert module not in imported_without_npx


def test_only_a_runner_needs_its_modules(
    imported: set[str], imported_without_npx: set[str]
) -> None:
    assert "mcp_launch.launch.runners" not in imported
    assert "mcp_launch.launch.runners.npx" in imported_without_npx
    assert "mcp_launch.launch.runners.uvx" not in imported_without_npx


@pytest.mark.parametrize("module", TOO_HEAVY)
def test_launching_does_not_import(module: str, imported: set[str]) -> None:
    assert module not in imported


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

    assert set(done.stdout.split()).isdisjoint({*TOO_HEAVY, "datetime", "glob", "sqlite3"})


def test_launching_imports_the_launch_path(imported: set[str]) -> None:
    """The list above proves something only if a launch took place."""
    assert {"mcp_launch.launch", "mcp_launch.system.guardian"} <= imported


# All that a launch below Codex reads until its first answer. Each module costs a look into a
# directory and about a hundredth of a Python start, so another one needs a reason.
BUDGET = 53
READ_BELOW_CODEX = {
    "mcp_launch",
    "mcp_launch.broker",
    "mcp_launch.broker.absence",
    "mcp_launch.broker.ending",
    "mcp_launch.broker.isolation",
    "mcp_launch.broker.replacement",
    "mcp_launch.broker.rest",
    "mcp_launch.hosts.variables",
    "mcp_launch.protocol.memory",
    "mcp_launch.runtime.absent",
    "mcp_launch.runtime.lease",
    "mcp_launch.runtime.running",
    "mcp_launch.state.handshake_files",
    "mcp_launch.state.handshakes",
    "mcp_launch.launch.profile_tables",
    "mcp_launch.broker.admission",
    "mcp_launch.broker.backend",
    "mcp_launch.broker.calls",
    "mcp_launch.broker.commands",
    "mcp_launch.broker.connection",
    "mcp_launch.broker.host_requests",
    "mcp_launch.broker.routing",
    "mcp_launch.broker.server_messages",
    "mcp_launch.broker.waiting",
    "mcp_launch.errors",
    "mcp_launch.hosts",
    "mcp_launch.hosts.codex",
    "mcp_launch.launch",
    "mcp_launch.launch.context",
    "mcp_launch.launch.environment",
    "mcp_launch.launch.options",
    "mcp_launch.launch.plan",
    "mcp_launch.launch.profile",
    "mcp_launch.protocol",
    "mcp_launch.protocol.json_edit",
    "mcp_launch.protocol.json_text",
    "mcp_launch.protocol.requests",
    "mcp_launch.protocol.framing",
    "mcp_launch.runtime",
    "mcp_launch.runtime.loop",
    "mcp_launch.runtime.supervisor",
    "mcp_launch.runtime.streams",
    "mcp_launch.state",
    "mcp_launch.state.launch_log",
    "mcp_launch.state.leases",
    "mcp_launch.system",
    "mcp_launch.system.guardian",
    "mcp_launch.system.guardian_process",
    "mcp_launch.system.kernel",
    "mcp_launch.system.linux",
    "mcp_launch.system.spawn",
    "mcp_launch.system.sweep",
    "mcp_launch.values",
}

ASK_ONCE = """
import subprocess, sys
launch = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
launch.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\\n')
launch.stdin.flush()
assert b"result" in launch.stdout.readline()
launch.communicate()
"""

ANSWER = 'import sys; sys.stdin.readline(); print(\'{"jsonrpc":"2.0","id":1,"result":{}}\')'


def test_a_launch_below_codex_reads_these_modules_until_its_first_answer(tmp_path: Path) -> None:
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
    assert ours == READ_BELOW_CODEX
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

"""A process is called what it is."""

from __future__ import annotations

import pytest
from fakes import FakeProcessTable

from mcp_launch.machine import process_titles

NODE = "/usr/bin/node"

# the kernel's name, the executable, the command line, what it is called
PROGRAMS = {
    "a host that is known": ("claude", "/x/claude", ["claude"], "Claude Code"),
    "a package's script": (
        "MainThread",
        NODE,
        ["node", "--no-warnings", "/usr/lib/node_modules/@acme/agent-code/cli.js"],
        "@acme/agent-code",
    ),
    "a linked script": ("MainThread", NODE, ["node", "/usr/local/bin/agent"], "agent"),
    "a script with an ending": ("node", NODE, ["node", "/srv/agent.mjs", "--acp"], "agent"),
    "a script that any program has": (
        "MainThread",
        NODE,
        ["/usr/bin/node", "/opt/agent/dist/index.js"],
        "agent",
    ),
    "such a script without a directory": ("MainThread", NODE, ["node", "cli.js"], "cli"),
    "behind an option with a value": (
        "MainThread",
        NODE,
        ["node", "--require", "/x/hook.js", "/x/agent.js"],
        "agent",
    ),
    "a title in place of a command line": ("MainThread", NODE, ["agent --acp"], "agent"),
    "code, and no script": ("MainThread", NODE, ["node", "-e", "1", "agent"], "node"),
    "nothing but an interpreter": ("MainThread", NODE, ["node"], "node"),
    "a module": ("python3", "/usr/bin/python3.12", ["python3", "-m", "pytest", "-q"], "pytest"),
    "Python's own options": (
        "python3",
        "/usr/bin/python3.12",
        ["python3", "-X", "dev", "/x/bin/aider"],
        "aider",
    ),
    "bun": ("bun", "/x/bun", ["bun", "run", "/x/agent.ts"], "agent"),
    "a shell's script": ("bash", "/bin/bash", ["/bin/bash", "/x/start-agent.sh"], "start-agent"),
    "a shell": ("bash", "/bin/bash", ["-bash"], "bash"),
    "a shell of another user": ("bash", "", ["-bash"], "bash"),
    "a shell's name as a title": ("MainThread", NODE, ["sh -c agent"], "node"),
    "a binary with another first word": ("x", "/usr/bin/crush2", ["worker"], "crush2"),
    "a program that shows its words alone": ("MainThread", "", ["/x/agent", "--acp"], "agent"),
    "no words": ("agent", "", [" "], "agent"),
    "a binary": ("aider", "/usr/bin/aider", ["aider"], "aider"),
    "a binary named for its version": ("1.2.3", "/x/agent/1.2.3", ["/x/bin/agent"], "agent"),
    "a binary that cannot be read": ("agent", "", [], "agent"),
    "a thread's name on a binary": ("main-thread", "/usr/bin/agent", ["agent"], "agent"),
}


@pytest.mark.parametrize(("name", "executable", "argv", "title"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_process_is_called(name: str, executable: str, argv: list[str], title: str) -> None:
    table = FakeProcessTable()
    process = table.add(10, name)
    table.executables[10], table.argv[10] = executable, argv

    assert process_titles.name_process(table, process) == title


def test_a_process_that_has_ended_is_a_program() -> None:
    assert process_titles.name_pid(FakeProcessTable(), 10) == "a program"

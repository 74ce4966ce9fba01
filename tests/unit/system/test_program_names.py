"""A program is called what a person would call it, not what the kernel calls its main thread."""

from __future__ import annotations

import pytest
from fakes import FakeProcessTable

from mcp_launch.system import name_program

NODE = "/usr/bin/node"

# the kernel's name, the executable, the command line, what its program is called
PROGRAMS = {
    "a binary": ("crush", "/usr/bin/crush", ["crush"], "crush"),
    "a binary with another first word": ("x", "/usr/bin/crush", ["worker"], "crush"),
    "a thread's name on a binary": ("main-thread", "/usr/bin/agent", ["agent"], "agent"),
    "a binary named for its version": ("1.2.3", "/x/agent/1.2.3", ["/x/bin/agent"], "agent"),
    "an interpreter": ("MainThread", NODE, ["/usr/bin/node", "/srv/agent.mjs"], "node"),
    "an interpreter with its version": (
        "py",
        "/x/python3.12",
        ["python3", "-m", "x"],
        "python3.12",
    ),
    "a title in place of a command line": ("MainThread", NODE, ["agent --acp"], "agent"),
    "a shell's name as a title": ("MainThread", NODE, ["sh -c agent"], "node"),
    "a login shell": ("bash", "/bin/bash", ["-bash"], "bash"),
    "a login shell of another user": ("bash", "", ["-bash"], "bash"),
    "a program that shows its words alone": ("MainThread", "", ["/x/agent", "--acp"], "agent"),
    "a program that shows nothing": ("agent", "", [], "agent"),
    "no words": ("agent", "", [" "], "agent"),
}


@pytest.mark.parametrize(("name", "executable", "argv", "title"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_is_called(name: str, executable: str, argv: list[str], title: str) -> None:
    table = FakeProcessTable()
    process = table.add(10, name)
    table.executables[10], table.argv[10] = executable, argv

    assert name_program(table, process) == title

"""Who may know whom: imports that only the type checker sees count, too."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mcp_launch

PACKAGE = Path(mcp_launch.__file__).parent

# Modules that know each other in a circle. This list may only become shorter.
CIRCLES = {
    frozenset(
        {
            "runtime.relay",
            "broker.connection",
            "broker.replacement",
            "broker.server_messages",
            "broker.replay",
            "broker.roots",
        }
    ),
    frozenset({"machine.survey", "machine.permission", "machine.claude_keys"}),
}


def name_module(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    return name.removesuffix(".__init__")


SOURCES = {name_module(path): path for path in PACKAGE.rglob("*.py")}


def list_imports(module: str) -> set[str]:
    """Return the modules of ours that a module imports, wherever in it and for whatever."""
    found = set()
    for node in ast.walk(ast.parse(SOURCES[module].read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        if node.module.partition(".")[0] != "mcp_launch":
            continue
        base = node.module.removeprefix("mcp_launch").lstrip(".")
        for alias in node.names:
            inner = f"{base}.{alias.name}".lstrip(".")
            found.add(inner if inner in SOURCES else base)
    return found - {"", module}


GRAPH = {module: list_imports(module) for module in SOURCES}


def find_circles() -> set[frozenset[str]]:
    """Return the groups of modules each of which leads to all of its group (Tarjan)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_ones: list[str] = []
    circles = set()

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        open_ones.append(module)
        for other in GRAPH[module]:
            if other not in numbers:
                visit(other)
            if other in open_ones:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == numbers[module]:
            at = open_ones.index(module)
            circle = frozenset(open_ones[at:])
            del open_ones[at:]
            if len(circle) > 1:
                circles.add(circle)

    for module in GRAPH:
        if module not in numbers:
            visit(module)
    return circles


def test_no_modules_know_each_other_in_a_circle_but_those_that_are_listed() -> None:
    assert find_circles() == CIRCLES


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_a_module_is_not_too_long(module: str) -> None:
    assert len(SOURCES[module].read_text(encoding="utf-8").splitlines()) <= 400

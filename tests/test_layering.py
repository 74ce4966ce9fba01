"""Which module may import which. Imports for the type checker count, too."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mcp_launch

PACKAGE = Path(mcp_launch.__file__).parent

# Which package or top-level module may import which; a package may always import itself.
EVERYBODY = {"errors", "values"}
LAUNCH_PATH = {"hosts", "launch", "protocol", "state", "system"}
OFF_PATH = LAUNCH_PATH | {"config_files", "documents", "hosts.configuration", "masking"}
MAY_IMPORT = {
    "__init__": {"cli", "commands", "launch", "system"},
    "values": set(),
    "errors": set(),
    "protocol": set(),
    "system": set(),
    "state": {"protocol", "system"},
    "hosts": {"protocol", "system"},
    # `runtime` late, once: everything that only a running server needs.
    "launch": {"documents", "hosts", "protocol", "runtime", "state", "system"},
    # Of hosts and launches it knows only what their values look like.
    "broker": {"hosts", "launch", "protocol"},
    "runtime": LAUNCH_PATH | {"broker", "masking"},
    "masking": {"launch"},
    "documents": {"protocol"},
    "config_files": {"documents", "launch", "masking", "state"},
    # What is known of a host's files; what is known of its identity is on the launch path.
    "hosts.configuration": {"config_files", "documents", "hosts"},
    "machine": OFF_PATH,
    "doctor": OFF_PATH | {"machine"},
    "commands": OFF_PATH | {"doctor", "machine", "runtime"},
    "cli": {"commands", "state"},
    "__main__": {"__init__"},
}

# Packages that import each other: `launch` imports `runtime` late and once, and it uses the plans.
MUTUAL_IMPORTS = {frozenset({"launch", "runtime"})}

# What neither `protocol` nor `broker` may import: they decide, and others act.
IMPURE = {"os", "select", "signal", "socket", "subprocess", "time"}


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


def list_library_imports(module: str) -> set[str]:
    """Return the first parts of the names of all modules that a module imports."""
    imported = set()
    for node in ast.walk(ast.parse(SOURCES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.partition(".")[0])
    return imported


GRAPH = {module: list_imports(module) for module in SOURCES}


def name_package(module: str) -> str:
    """Return what a module belongs to, in the table's words."""
    package, *rest = module.split(".")
    # Below a host's own package, which is its identity.
    if module == "hosts.configured" or (package == "hosts" and len(rest) > 1):
        return "hosts.configuration"
    return package


def list_package_edges() -> set[tuple[str, str]]:
    """Return which packages import which others."""
    return {
        (name_package(module), name_package(other))
        for module, others in GRAPH.items()
        for other in others
        if module and name_package(module) != name_package(other)
    }


def find_cycles() -> set[frozenset[str]]:
    """Return the groups of modules each of which leads to all of its group (Tarjan)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_ones: list[str] = []
    cycles = set()

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
            cycle = frozenset(open_ones[at:])
            del open_ones[at:]
            if len(cycle) > 1:
                cycles.add(cycle)

    for module in GRAPH:
        if module not in numbers:
            visit(module)
    return cycles


@pytest.mark.parametrize("package", sorted({name_package(module) for module in SOURCES} - {""}))
def test_a_package_imports_only_what_the_table_allows(package: str) -> None:
    known = {other for one, other in list_package_edges() if one == package}

    assert known <= MAY_IMPORT[package] | EVERYBODY


def test_only_the_listed_packages_import_each_other() -> None:
    edges = list_package_edges()

    assert {frozenset(edge) for edge in edges if edge[::-1] in edges} == MUTUAL_IMPORTS


@pytest.mark.parametrize(
    "module", sorted(one for one in SOURCES if name_package(one) == "protocol")
)
def test_the_protocol_is_pure(module: str) -> None:
    assert not list_library_imports(module) & IMPURE


# It knows the names of pipes.
NAMES_PIPES = "launch.dotenv"


def list_strings(module: str) -> list[str]:
    """Return the strings that a module uses; docstrings are prose."""
    tree = ast.parse(SOURCES[module].read_text(encoding="utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [
        node.value for node in constants if isinstance(node.value, str) and id(node) not in prose
    ]


@pytest.mark.parametrize("module", sorted(one for one in SOURCES if name_package(one) != "system"))
def test_nobody_reads_proc_but_the_system(module: str) -> None:
    strings = [] if module == NAMES_PIPES else list_strings(module)

    assert not [text for text in strings if text.startswith("/proc")]


# Who renames a file over another, and why not by `state.write_whole`.
RENAMING = {
    "state",  # which has it
    "state.launch_log",  # a full part of a log makes room for the next
    "config_files.wrapped_files",  # a damaged record is set aside
}


def test_files_are_replaced_in_one_place() -> None:
    found = {
        module
        for module in SOURCES
        for node in ast.walk(ast.parse(SOURCES[module].read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in {"rename", "replace"}
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    }

    assert found == RENAMING


# C modules that stand behind the library's own, which cost more to import. What they hold is
# promised by nobody, so one module of ours knows each.
PRIVATE = {
    "_ctypes": "system.kernel",
    "_json": "protocol.json_text",
    "_sha2": "state",
    "_sha256": "state",
    "_sha512": "state",
    "_signal": "system.kernel",
    "_socket": "system.sockets",
}


def test_one_module_knows_each_private_module_of_the_library() -> None:
    found = {
        (name, module)
        for module in SOURCES
        for name in list_library_imports(module)
        if name.startswith("_") and name != "__future__"
    }

    assert found == {*PRIVATE.items()}


def test_no_two_classes_share_a_name() -> None:
    modules: dict[str, list[str]] = {}
    for module, path in SOURCES.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                modules.setdefault(node.name, []).append(module)

    assert {name: sorted(found) for name, found in modules.items() if len(found) > 1} == {}


def test_few_modules_lie_beside_the_packages() -> None:
    beside = {module for module, path in SOURCES.items() if path.parent == PACKAGE}

    assert len(beside) <= 8


def test_there_are_no_import_cycles() -> None:
    assert find_cycles() == set()

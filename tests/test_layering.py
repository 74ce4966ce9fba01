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
    "__init__": {"commands", "launch", "system"},
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
    "__main__": {"__init__"},
}

# Packages that import each other: `launch` imports `runtime` late and once, and it uses the plans.
MUTUAL_IMPORTS = {frozenset({"launch", "runtime"})}

# What a package that decides may not import: others act.
ACTING = {"os", "select", "signal", "socket", "subprocess", "time"}
DECIDING = {"broker", "protocol"}


def name_module(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    return name.removesuffix(".__init__")


SOURCES = {name_module(path): path for path in PACKAGE.rglob("*.py")}


def list_imports(module: str) -> set[str]:
    """Return what a module imports, wherever in it: modules of ours, and names of libraries."""
    found = set()
    for node in ast.walk(ast.parse(SOURCES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            package, _, base = node.module.partition(".")
            if package != "mcp_launch":
                found.add(package)
                continue
            inner = {f"{base}.{alias.name}".lstrip(".") for alias in node.names}
            found |= {name if name in SOURCES else base for name in inner}
    return found - {"", module}


def name_package(module: str) -> str:
    """Return what a module belongs to, in the table's words."""
    package, *rest = module.split(".")
    # Below a host's own package, which is its identity.
    if module == "hosts.configured" or (package == "hosts" and len(rest) > 1):
        return "hosts.configuration"
    return package


IMPORTS = {module: list_imports(module) for module in SOURCES}
EDGES = {
    (name_package(module), name_package(other))
    for module, others in IMPORTS.items()
    for other in others & SOURCES.keys()
    if module and name_package(module) != name_package(other)
}


@pytest.mark.parametrize("package", sorted({name_package(module) for module in SOURCES} - {""}))
def test_a_package_imports_only_what_the_table_allows(package: str) -> None:
    imported = {other for one, other in EDGES if one == package}

    assert imported <= MAY_IMPORT[package] | EVERYBODY


def test_only_the_listed_packages_import_each_other() -> None:
    assert {frozenset(edge) for edge in EDGES if edge[::-1] in EDGES} == MUTUAL_IMPORTS


@pytest.mark.parametrize("package", sorted(DECIDING))
def test_what_decides_does_not_act(package: str) -> None:
    modules = {module for module in SOURCES if name_package(module) == package}

    assert modules
    assert {module: found for module in modules if (found := IMPORTS[module] & ACTING)} == {}


def test_there_are_no_import_cycles() -> None:
    left = {module: others & SOURCES.keys() for module, others in IMPORTS.items()}
    while free := {module for module, others in left.items() if not others & left.keys()}:
        left = {module: others for module, others in left.items() if module not in free}

    assert left == {}, "these import each other, or modules that do"

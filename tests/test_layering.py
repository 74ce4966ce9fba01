"""Which package may import which, and which module.

No two packages know each other, not even by a type. Modules of one package may: a function of the
core gets the core as an argument. They only have to be loadable one after the other.
"""

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
    # `runtime` only late: what only a launch needs that runs, has failed or was killed.
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

# Packages that import each other: `launch` imports `runtime` late, which has the launch's plan.
MUTUAL_IMPORTS = {frozenset({"launch", "runtime"})}

# What a package that decides may not import: others act.
ACTING = {"os", "select", "signal", "socket", "subprocess", "time"}
DECIDING = {"broker", "protocol"}


def name_module(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    return name.removesuffix(".__init__")


SOURCES = {name_module(path): path for path in PACKAGE.rglob("*.py")}


def list_imports(module: str, *, for_types: bool) -> set[str]:
    """Return what a module imports, wherever in it: modules of ours, and names of libraries."""
    found = set()
    tree = ast.parse(SOURCES[module].read_text(encoding="utf-8"))
    if not for_types:
        tree.body = [node for node in tree.body if not is_for_types(node)]
    for node in ast.walk(tree):
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


def is_for_types(node: ast.stmt) -> bool:
    """Return whether only the type checker reads a statement of a module."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def name_package(module: str) -> str:
    """Return what a module belongs to, in the table's words."""
    package, *rest = module.split(".")
    # Below a host's own package, which is its identity.
    if module == "hosts.configured" or (package == "hosts" and len(rest) > 1):
        return "hosts.configuration"
    return package


IMPORTS = {module: list_imports(module, for_types=True) for module in SOURCES}
AT_RUN_TIME = {module: list_imports(module, for_types=False) for module in SOURCES}
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


def test_no_modules_import_each_other_at_run_time() -> None:
    left = {module: others & SOURCES.keys() for module, others in AT_RUN_TIME.items()}
    while free := {module for module, others in left.items() if not others & left.keys()}:
        left = {module: others for module, others in left.items() if module not in free}

    assert left == {}, "these import each other, or modules that do"

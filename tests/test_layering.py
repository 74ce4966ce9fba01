"""The architecture, where it is enforced: which module may import which."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mcp_launch

PACKAGE = Path(mcp_launch.__file__).parent

# Three storeys, lowest first; a module imports only what stands before it.
STOREYS = (
    *("errors", "identity", "jsontext", "signals", "kernel", "trace", "stamps"),
    *("processes.linux", "processes.blind", "processes.portable", "processes", "hostwatch"),
    *("hosts.host", "hosts.codex", "hosts.claude", "hosts.goose", "hosts.vscode", "hosts"),
    # The launch path: little of the standard library, nothing else.
    *(
        "options",
        "masking",
        "lineage",
        "context",
        "state",
        "passing",
        "literals",
        "ours",
        "records",
        "spots",
        "tomltext",
        "profilefile",
        "recording",
        "profiles",
        "profile",
        "command",
        "place",
        "plan",
        "dotenvfile",
        "binding",
        "leases",
        "logfile",
    ),
    *("ending", "spawning", "watchkeeping", "keeping", "guardian", "starting"),
    *(
        "spans",
        "message",
        "edges",
        "opening",
        "stdoutguard",
        "answering",
        "attending",
        "outlet",
        "complaints",
    ),
    *(
        "description",
        "familiar",
        "calls",
        "outer",
        "ledger",
        "recollection",
        "succession",
        "roots",
        "hearing",
    ),
    *("conversation", "relay", "direct"),
    "carrying",
    *("crash", "launch"),
    # The workshop: may be slow.
    *("screen", "trusting"),
    *("jsonctext", "yamltext", "document", "runwords", "wrapping", "amending", "settings.host"),
    *(f"settings.{name}" for name in ("codex", "claude", "claude_desktop", "cursor", "vscode")),
    *(f"settings.{name}" for name in ("gemini", "opencode", "zed", "windsurf", "cline")),
    *("settings.copilot", "settings.goose", "settings", "gitindex"),
    *("aliases", "changing", "leftovers", "backups", "registry", "writing", "replacing"),
    *("whereabouts", "tracking", "consequences", "differences", "asking", "editing"),
    *("endpoints", "measures", "commandline", "likeness", "titles", "channels"),
    *("population", "launched", "strangers", "census"),
    *("doctor.finding", "doctor.programs", "doctor.kinds", "doctor.claudekeys"),
    *("doctor.permission", "doctor.survey", "doctor.presets", "doctor.surroundings"),
    *("watching", "ps", "reaping", "logs"),
    *("doctor.wrapped", "doctor.files", "doctor.codexkeys", "doctor.misplaced"),
    "doctor.directories",
    *("doctor.expansion", "doctor.approval", "doctor.naming", "doctor.exposure"),
    *("doctor.packages", "doctor.agents", "doctor.policies", "doctor.configuration"),
    *(
        "doctor.foresight",
        "doctor.secrets",
        "doctor.binaries",
        "doctor.executables",
        "doctor.managers",
    ),
    *("doctor.needs", "doctor.refusals", "doctor.locating", "doctor.variables"),
    "doctor.environment",
    "doctor.installation",
    *("doctor.pools", "doctor.allegiance", "doctor.processes"),
    *("doctor.limits", "doctor.rehearsing", "doctor.wire", "doctor.probing", "doctor.judging"),
    "doctor.live",
    *("doctor.examining", "doctor.report", "doctor.command", "doctor"),
    *("explaining.nearby", "explaining.situation", "explaining.prospect", "explaining.precedence"),
    *("explaining.account", "explaining"),
    *("demo.server", "demo.standin", "demo", "uninstalling", "slips", "cli"),
    "__main__",
)


def name_of(source: Path) -> str:
    parts = source.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "__init__"


def siblings_imported_by(source: Path) -> set[str]:
    """Return the modules of this package that `source` imports at run time, anywhere in it."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "mcp_launch":
            found |= {alias.name for alias in node.names if alias.name != "__version__"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mcp_launch."):
            inner = f"{node.module}.{node.names[0].name}".removeprefix("mcp_launch.")
            outer = str(node.module).removeprefix("mcp_launch.")
            found.add(inner if inner in STOREYS else outer)
    return found


SOURCES = {name_of(source): source for source in sorted(PACKAGE.rglob("*.py"))}


def test_every_module_has_its_place() -> None:
    assert set(SOURCES) - {"__init__"} == set(STOREYS)


@pytest.mark.parametrize("module", [name for name in SOURCES if name != "__init__"])
def test_a_module_imports_only_what_stands_below(module: str) -> None:
    below = STOREYS[: STOREYS.index(module)]
    # A package may gather its own parts.
    assert {name for name in siblings_imported_by(SOURCES[module]) if name not in below} == set()


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_a_module_is_not_too_long(module: str) -> None:
    assert len(SOURCES[module].read_text(encoding="utf-8").splitlines()) <= 400

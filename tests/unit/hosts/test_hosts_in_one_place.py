"""What differs between hosts is a question that a host answers: nobody else knows their names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mcp_launch
from mcp_launch import hosts
from mcp_launch.config_files.host_config import ANY_HOST, HostConfig
from mcp_launch.config_files.host_quirks import HostQuirks
from mcp_launch.hosts.configured import HOSTS

PACKAGE = Path(mcp_launch.__file__).parent

NAMES = {*HOSTS, *hosts.IDENTITY_VARIABLES}

# Members of the protocol that happen to be called like a host.
NO_HOSTS = {
    ("broker/backend.py", "cursor"),
    ("doctor/live/client.py", "cursor"),
    ("protocol/__init__.py", "cursor"),
    ("protocol/memory.py", "cursor"),
    ("protocol/requests.py", "cursor"),
}

# The files outside of hosts/ that still have such a name. This list may only become shorter.
REMAINING = {
    ("doctor/checks/packages.py", "claude"),  # what others have published under these names
    ("doctor/checks/packages.py", "codex"),
    ("doctor/checks/packages.py", "gemini"),
}

# The modules of hosts/ that are about all of them.
COMMON = ("configured",)


def list_names(path: Path) -> set[str]:
    """Return the hosts that a file has as a text of their own."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return {name for name in NAMES if name in found}


def test_nobody_but_the_hosts_knows_their_names() -> None:
    found = {
        (str(path.relative_to(PACKAGE)), name)
        for path in PACKAGE.rglob("*.py")
        if not path.is_relative_to(PACKAGE / "hosts")
        for name in list_names(path)
    }

    assert found - NO_HOSTS == REMAINING


def list_host_imports(path: Path) -> set[str]:
    """Return the hosts' own modules that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    of_hosts = {name for name in imported if name and name.startswith("mcp_launch.hosts.")}
    return of_hosts - {f"mcp_launch.hosts.{module}" for module in COMMON}


def test_nobody_but_the_hosts_imports_what_one_of_them_knows() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if not path.is_relative_to(PACKAGE / "hosts") and list_host_imports(path)
    }

    assert found == {"doctor/checks/packages.py"}  # the commands that start a host as a server


@pytest.mark.parametrize("host", HOSTS.values(), ids=list(HOSTS))
def test_a_host_is_called_the_same_wherever_it_is_known(host: HostConfig) -> None:
    for name in host.processes:
        identity = hosts.load(name)

        assert identity.is_known
        assert HOSTS[name].title == identity.title


@pytest.mark.parametrize("name", list(hosts.IDENTITY_VARIABLES))
def test_a_host_tells_the_session_in_a_variable_that_is_known_to_be_its_own(name: str) -> None:
    host = hosts.load(name)

    told = {host.session_variable, host.thread_variable} - {""}

    assert told <= set(hosts.IDENTITY_VARIABLES[name])


@pytest.mark.parametrize("host", HOSTS.values(), ids=list(HOSTS))
def test_what_is_known_of_a_host_can_be_a_key(host: HostConfig) -> None:
    assert hash(host) == hash(host._replace())


def test_a_host_of_which_nothing_is_known_has_an_answer_to_everything() -> None:
    quirks = ANY_HOST.quirks

    assert quirks == HostQuirks()
    assert quirks.environment.list_passed({"A": "1"}) is None
    assert not quirks.limits.list_waits({}, {})
    assert not list(quirks.keys.list_skipping("no entry"))
    assert not list(quirks.keys.list_refusing("no entry", "it", False))  # noqa: FBT003
    assert ANY_HOST.approval.asks == "unknown"
    assert quirks.texts.borrow.format("NAME") == ""

"""Which version an installed host is, asked of its program."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from host_installations import install, install_package, make_site
from launches import LIMIT

from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine.installed_hosts import find_all

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.config_files.site import Site


@pytest.fixture
def site(own_home: Path) -> Site:
    """Return a machine on which nothing is installed but what lies in ~/bin."""
    return make_site(own_home)


@pytest.mark.parametrize(
    ("host", "command"),
    [("codex", "codex"), ("vscode", "code"), ("zed", "zed"), ("goose", "goose")],
)
def test_a_host_is_found_by_the_name_of_its_settings(
    site: Site, own_home: Path, host: str, command: str
) -> None:
    file = install(own_home / "bin" / command)
    assert {name: one.path for name, one in find_all(site).items()} == {host: str(file)}
    assert host in HOSTS


def test_a_host_is_found_where_its_installer_puts_it(site: Site, own_home: Path) -> None:
    file = install(own_home / ".opencode" / "bin" / "opencode", "echo 1.2.3")
    assert find_all(site, patience=20)["opencode"] == (str(file), "1.2.3")


def test_another_package_above_a_program_is_not_taken_for_its_own(
    site: Site, own_home: Path
) -> None:
    install_package(own_home, "codex", {"name": "my-dotfiles", "version": "1.0.0"})
    assert find_all(site, patience=20)["codex"].version == "9.9.9"  # it was asked


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("echo codex-cli 0.166.0", "0.166.0"),
        ("echo '2.1.325 (Claude Code)'", "2.1.325"),
        ("echo no version", ""),
        ("exit 3", ""),
        ("read it && echo 1.1.1 || echo 2.2.2", "2.2.2"),
        ('[ "$SECRET" ] && echo 1.1.1 || echo 2.2.2', "2.2.2"),
    ],
    ids=["codex", "claude", "nonsense", "failing", "no stdin", "clean environment"],
)
def test_a_program_is_asked_if_no_file_gives_its_version(
    site: Site, own_home: Path, said: str, version: str
) -> None:
    install(own_home / "bin" / "codex", said)
    site.environ["SECRET"] = "it"  # type: ignore[index]
    assert find_all(site, patience=20)["codex"].version == version


def test_a_file_that_cannot_be_started_has_no_version(site: Site, own_home: Path) -> None:
    file = own_home / "bin" / "codex"
    file.write_bytes(b"\x7fELF nonsense")
    file.chmod(0o755)
    assert find_all(site)["codex"] == (str(file), "")


def test_programs_that_hang_are_ended_with_all_they_started(site: Site, own_home: Path) -> None:
    fifo = own_home / "alive"
    os.mkfifo(fifo)
    for name in ("codex", "claude", "goose"):
        install(own_home / "bin" / name, f"exec 3<>{fifo}; /bin/sleep 600 & /bin/sleep 600")
    assert [one.version for one in find_all(site, patience=0.2).values()] == ["", "", ""]
    wait_until_nobody_reads(fifo)


def wait_until_nobody_reads(fifo: Path) -> None:
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        try:
            os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return
        time.sleep(0.01)  # who is killed may take a moment to go
    raise AssertionError("something was left running")

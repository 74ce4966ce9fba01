"""Which hosts are installed, and which version each is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from host_installations import install, install_package, make_site
from hosts.programs import read_pins

from mcp_launch.config_files.site import Site
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine.installed_hosts import find_all, read_version, tell_tried

if TYPE_CHECKING:
    from pathlib import Path

TRIED = HOSTS["codex"].quirks.program.tried


@pytest.fixture
def site(own_home: Path) -> Site:
    """Return a machine on which nothing is installed but what lies in ~/bin."""
    return make_site(own_home)


def test_no_program_is_found_where_there_is_none(site: Site) -> None:
    assert find_all(site) == {}


@pytest.mark.parametrize(
    ("name", "package", "version"),
    [
        ("codex", {"name": "@openai/codex", "version": "0.166.0"}, "0.166.0"),
        ("codex", {"name": "@openai/codex", "version": "0.166.0-linux-x64"}, "0.166.0"),
        ("codex", {"name": "@openai/codex", "version": "0.167.0-alpha.2"}, "0.167.0-alpha.2"),
        ("claude", {"name": "@anthropic-ai/claude-code", "version": "2.1.325"}, "2.1.325"),
        ("gemini", {"name": "@google/gemini-cli", "version": "0.30.1"}, "0.30.1"),
    ],
    ids=["plain", "for one platform", "before its release", "claude", "gemini"],
)
def test_the_version_of_a_package_is_read_and_the_program_is_not_started(
    site: Site, own_home: Path, name: str, package: dict[str, str], version: str
) -> None:
    link = install_package(own_home, name, package)
    assert find_all(site) == {name: (str(link), version)}


@pytest.mark.parametrize(
    ("name", "path", "version"),
    [
        ("claude", ".local/share/claude/versions/2.1.325", "2.1.325"),
        ("codex", ".codex/packages/app-server-daemon/releases/0.166.0/bin/codex", "0.166.0"),
        ("goose", "Cellar/block-goose-cli/1.9.3/bin/goose", "1.9.3"),
        ("codex", ".pyenv/versions/3.11.7/bin/codex", ""),
        ("codex", ".nvm/versions/node/v20.1.0/bin/codex", ""),
    ],
    ids=["claude", "codex", "homebrew", "a Python's", "a Node's"],
)
def test_a_version_is_read_from_a_path_that_is_of_one(
    own_home: Path, name: str, path: str, version: str
) -> None:
    file = install(own_home / path)
    link = own_home / name
    link.symlink_to(file)
    assert read_version(name, str(link)) == version


def test_a_program_with_a_window_is_never_started(site: Site, own_home: Path) -> None:
    for name in ("code", "cursor", "zed", "windsurf", "claude-desktop"):
        install(own_home / "bin" / name, f"touch {own_home}/started; echo 1.2.3")
    assert {one.version for one in find_all(site).values()} == {""}
    assert not (own_home / "started").exists()


@pytest.mark.parametrize(
    ("name", "files", "version"),
    [
        ("vscode", {"package.json": {"name": "Code", "version": "1.120.0"}}, "1.120.0"),
        (
            "windsurf",
            {"product.json": {"windsurfVersion": "2.0.1"}, "package.json": {"version": "1.99.0"}},
            "2.0.1",
        ),
    ],
    ids=["code", "made from code"],
)
def test_the_version_of_an_editor_is_read_beside_it(
    own_home: Path, name: str, files: dict[str, object], version: str
) -> None:
    file = install(own_home / "share" / "it" / "bin" / "it")
    app = own_home / "share" / "it" / "resources" / "app"
    app.mkdir(parents=True)
    for one, said in files.items():
        (app / one).write_text(json.dumps(said), encoding="utf-8")
    assert read_version(name, str(file)) == version


def test_the_version_of_a_bundle_is_read_from_it(own_home: Path) -> None:
    contents = own_home / "Applications" / "Claude.app" / "Contents"
    contents.mkdir(parents=True)
    (contents / "Info.plist").write_text(
        '<?xml version="1.0"?><plist version="1.0"><dict>'
        "<key>CFBundleShortVersionString</key><string>1.4.5</string></dict></plist>",
        encoding="utf-8",
    )
    assert read_version("claude-desktop", str(contents.parent)) == "1.4.5"


def test_what_our_tests_run_against_is_what_they_install() -> None:
    pinned: dict[str, set[str]] = {}
    for pin, program in read_pins().items():
        name = pin.removeprefix("old-")
        # VS Code is installed as a server, which counts its releases in its own way.
        if name in HOSTS and name != "vscode":
            pinned.setdefault(name, set()).add(program.version)
    tried = {name: set(host.quirks.program.tried) for name, host in HOSTS.items()}
    assert {name: versions for name, versions in tried.items() if versions} == pinned


@pytest.mark.parametrize(
    ("name", "version", "told"),
    [
        ("codex", TRIED[0], "our tests run against it"),
        ("codex", "99.0.0", f"newer than {TRIED[-1]}, which our tests run against"),
        ("codex", "0.9.0", f"older than {TRIED[0]}, which our tests run against"),
        (
            "codex",
            "0.149.0",
            f"between {' and '.join(TRIED)}, which our tests run against",
        ),
        (
            "codex",
            f"{TRIED[-1]}-alpha.3",
            f"between {' and '.join(TRIED)}, which our tests run against",
        ),
        ("codex", "", f"our tests run against {' and '.join(TRIED)}"),
        ("zed", "0.200.1", "our tests do not run against it"),
    ],
    ids=["tried", "newer", "older", "between", "before the newest", "unknown", "never tried"],
)
def test_the_report_says_what_our_tests_know_of_a_version(
    name: str, version: str, told: str
) -> None:
    assert tell_tried(name, version) == told


@pytest.mark.parametrize("path", [".", "", "bin"])
def test_a_program_of_the_project_is_not_taken_for_a_host(
    path: str, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_home)
    for name in ("codex", "bin/codex"):
        program = own_home / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\necho codex 1.2.3\n", encoding="utf-8")
        program.chmod(0o700)
    site = Site(str(own_home / "elsewhere"), str(own_home), {"PATH": path})

    assert find_all(site) == {}

"""Installing the real hosts: once, again after an interruption, and with a reason if it fails."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hosts.programs import InstallFailed, Program, install, read_pins

HOST = Program("Host", "@makers/host", "1.2.3", ".bin/host")

# Stands in for npm: `npm install --prefix PLACE --cache CACHE ... PACKAGE@VERSION`.
NPM = """#!/bin/sh
echo "$*" >> "$LOG"
test -z "$FAULT" || { echo "$FAULT" >&2; exit 1; }
mkdir -p "$3/node_modules/.bin" "$5"
touch "$3/node_modules/.bin/host"
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment with an npm that only makes files."""
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(NPM, encoding="utf-8")
    npm.chmod(0o755)
    path = f"{npm.parent}:{os.environ['PATH']}"
    return {"PATH": path, "LOG": str(tmp_path / "log"), "HOME": str(tmp_path)}


def read_log(env: dict[str, str]) -> list[str]:
    return Path(env["LOG"]).read_text(encoding="utf-8").splitlines()


def test_a_program_is_installed_once(tmp_path: Path, env: dict[str, str]) -> None:
    found = [install(HOST, tmp_path / "cache", env) for _ in range(2)]

    assert found == 2 * [tmp_path / "cache/@makers+host@1.2.3/node_modules/.bin/host"]
    [line] = read_log(env)
    assert line.endswith("@makers/host@1.2.3")
    assert "--ignore-scripts" in line


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_packages_inside_a_package_are_installed_and_its_last_step_is_run(
    tmp_path: Path, env: dict[str, str]
) -> None:
    finish = 'import { writeFileSync } from "node:fs"; writeFileSync("node_modules/.bin/late", "");'
    program = HOST._replace(executable=".bin/late", inside=".bin", finish=finish)

    found = install(program, tmp_path / "cache", env)

    assert found.exists()
    first, second = read_log(env)
    assert "/.bin " not in first
    assert f"--prefix {found.parent} " in second


def test_an_installation_that_failed_says_why_and_is_tried_again(
    tmp_path: Path, env: dict[str, str]
) -> None:
    fault = env | {"FAULT": "npm error network request failed"}

    with pytest.raises(InstallFailed, match="npm error network request failed"):
        install(HOST, tmp_path / "cache", fault)

    assert install(HOST, tmp_path / "cache", env).exists()
    assert len(read_log(env)) == 2


def test_a_package_without_the_executable_is_refused(tmp_path: Path, env: dict[str, str]) -> None:
    other = HOST._replace(executable=".bin/other")

    with pytest.raises(InstallFailed, match="@makers/host has nothing to run on this machine"):
        install(other, tmp_path / "cache", env)


def test_a_program_that_needs_another_python_says_so(tmp_path: Path, env: dict[str, str]) -> None:
    future = HOST._replace(executable="host", python=">=3.99")

    with pytest.raises(InstallFailed, match=r"3\.99"):
        install(future, tmp_path / "cache", env)


def test_every_pin_is_an_exact_version() -> None:
    for name, program in read_pins().items():
        assert program.version.replace(".", "").isdigit(), name
        assert "{" not in program.package

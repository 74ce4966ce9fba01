"""`doctor` names the hosts that are installed, also those without a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from command_line import run_command

if TYPE_CHECKING:
    from pathlib import Path


def install(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def list_hosts() -> dict[str, str]:
    hosts = json.loads(run_command("doctor", "--json").stdout)["hosts"]
    return {host["host"]: host["program"] for host in hosts}


@pytest.mark.parametrize(
    ("host", "place"),
    [("vscode", "path/code"), ("goose", "home/.local/bin/goose"), ("claude", "path/claude")],
    ids=["by the name of its program", "where its installer puts it", "on PATH"],
)
def test_a_host_is_found(host: str, place: str, tmp_path: Path, project: Path) -> None:
    assert project.is_dir()

    file = install(tmp_path / place)

    assert list_hosts() == {host: str(file)}


@pytest.mark.parametrize("path", [".", "", "bin"], ids=["here", "empty", "below"])
def test_a_program_of_the_project_is_not_taken_for_a_host(
    path: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path)
    install(project / "codex")
    install(project / "bin/codex")

    assert list_hosts() == {}

"""Leases of real launches: written, learned from, and removed."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

from launches import ENVIRONMENT_SERVER, LaunchRunner, request, wait_for_lease, wait_until_gone

if TYPE_CHECKING:
    from pathlib import Path


def test_a_lease_names_the_host_and_its_server(
    wire: list[str], runner: LaunchRunner, tmp_path: Path
) -> None:
    (runner.project / "sub").mkdir()
    words = ("--server", "docs", "--cwd", "sub", "--", *ENVIRONMENT_SERVER, "--token=s3cret")
    launch = runner.launch(*wire, *words)
    sight = launch.ask("look")

    # On the direct wire the server may be faster than the lease is written.
    lease = wait_for_lease(tmp_path / "state", lambda lease: "server" in lease["processes"])

    parts = {part: one["pid"] for part, one in lease["processes"].items()}
    assert parts["launcher"] == launch.pid
    assert parts["server"] == sight["pid"]
    assert parts["host"] == os.getpid()
    assert lease["launch"] == sight["env"]["MCP_LAUNCH_ID"]
    assert lease["server"] == "docs"
    assert lease["context"]["cwd"]["value"] == sight["cwd"] == str(runner.project / "sub")
    assert lease["binding"]["state"] == "unbound"
    assert "s3cret" not in json.dumps(lease)
    directory = tmp_path / "state" / "leases"
    (file,) = directory.glob("[!.]*")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_guardian_removes_the_lease_of_a_killed_launcher(
    runner: LaunchRunner, tmp_path: Path
) -> None:
    launch = runner.launch("--", *ENVIRONMENT_SERVER)
    launch.ask("look")
    lease = wait_for_lease(tmp_path / "state", lambda lease: "guardian" in lease["processes"])
    guardian = lease["processes"]["guardian"]["pid"]

    launch.process.kill()
    wait_until_gone(guardian)

    assert list((tmp_path / "state" / "leases").iterdir()) == []


def test_twenty_launches_at_once_lose_no_lease(runner: LaunchRunner, tmp_path: Path) -> None:
    launches = [runner.launch("--", "cat") for _ in range(20)]
    for launch in launches:
        launch.send(request("ping"))
    for launch in launches:
        launch.answer()

    assert len(list((tmp_path / "state" / "leases").glob("*.json"))) == 20
    for launch in launches:
        launch.close()
    for launch in launches:
        assert launch.wait() == 0
    assert list((tmp_path / "state" / "leases").iterdir()) == []


def test_our_files_are_never_put_into_a_project(runner: LaunchRunner, own_home: Path) -> None:
    runner.launch(
        "--", *ENVIRONMENT_SERVER, env={**os.environ, "MCP_LAUNCH_HOME": "somewhere"}
    ).ask("look")

    assert not (runner.project / "somewhere").exists()
    assert (own_home / "somewhere" / "leases").is_dir()


def test_a_launch_goes_on_without_a_lease(wire: list[str], runner: LaunchRunner) -> None:
    env = {**os.environ, "MCP_LAUNCH_HOME": "/proc/nowhere"}
    launch = runner.launch(*wire, "--trace", "--", *ENVIRONMENT_SERVER, env=env)

    assert launch.ask("look")["pid"]
    assert b"[mcp-launch] no lease: " in launch.finish()[2]

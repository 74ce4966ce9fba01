"""A launch whose project's profile nobody has trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launches import ENVIRONMENT_SERVER, LaunchRunner, wait_for_lease

if TYPE_CHECKING:
    from pathlib import Path


TEXT = "[servers.it]\ncommand = './tools/server'\nenv = { A = 'b' }\n"


def test_what_was_not_used_is_traced_logged_and_in_the_lease(
    runner: LaunchRunner, tmp_path: Path
) -> None:
    (runner.project / ".mcp-launch.toml").write_text(TEXT, encoding="utf-8")

    launch = runner.launch("--trace", "--server", "it", "--", *ENVIRONMENT_SERVER)
    launch.ask("look")

    lease = wait_for_lease(tmp_path / "state", lambda _: True)
    problem = (
        f"{runner.project}/.mcp-launch.toml configures the server it, but you have not trusted"
    )
    assert lease["passed_over"].startswith(problem)
    line = f"continues without the project's profile: {problem}"
    [log] = (tmp_path / "state" / "logs").glob("*.log")
    assert line in log.read_text(encoding="utf-8")
    assert line.encode() in launch.finish()[2]

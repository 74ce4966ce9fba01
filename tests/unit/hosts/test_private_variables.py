"""What differs between two processes of the same host, and so says nothing about a server."""

from __future__ import annotations

from mcp_launch.hosts import variables


def test_what_a_host_makes_for_one_process_is_dropped() -> None:
    # As Codex 0.166 and 0.125 and Claude Code 2.1.325 start their servers.
    environ = {
        "PATH": "/home/me/.codex/tmp/arg0-linux/codex-arg0kZqCny:/opt/codex-path:/usr/bin",
        "CLAUDE_CODE_MESSAGING_SOCKET": "/tmp/cc-socks/3607.sock",  # noqa: S108  # not used
        "CLAUDE_CODE_MESSAGING_TOKEN": "b9e05399261868481c193088bee1f8c2",
        "CLAUDE_CODE_SESSION_ID": "4f36674a-4bc9-4756-a21e-723b606b230a",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
    }
    kept = {"PATH": "/opt/codex-path:/usr/bin", "CLAUDE_CODE_ENTRYPOINT": "cli"}
    assert variables.drop_private_variables(environ) == kept

    environ = {"PATH": "/home/me/.codex/tmp/arg0/codex-arg00T5Bze:/usr/bin:"}
    assert variables.drop_private_variables(environ) == {"PATH": "/usr/bin:"}


def test_two_processes_of_the_same_host_look_the_same() -> None:
    # As Copilot CLI 1.0.102, Qwen Code 0.24.4, opencode 1.18 and Kilo Code 7.7 start theirs.
    environ = {
        "COPILOT_AGENT_SESSION_ID": "0889001d-f10b-4a29-9aee-3933945c5f53",
        "COPILOT_LOADER_PID": "22059",
        "QWEN_CODE_SESSION_ID": "50688199-0082-4acb-b057-56f8ae2daa5f",
        "QWEN_CODE_LAUNCHER_PID": "21862",
        "QWEN_CODE_MESSAGING_SOCKET": "/tmp/qwen-socks-a94494730fe67eb2/21882.sock",  # noqa: S108  # not used
        "QWEN_CODE_MESSAGING_TOKEN": "1ca3a108dd69c1d1abb1038d0e91b719",
        "OPENCODE_PID": "16501",
        "KILO_PID": "8682",
        "KILO_RUN_ID": "5f1c",
        "QWEN_CODE_MODEL": "mock",
    }

    assert variables.drop_private_variables(environ) == {"QWEN_CODE_MODEL": "mock"}


def test_what_contains_the_id_of_the_session_is_dropped() -> None:
    # The first as Claude Code 2.1.327 sets it; the next release may add another.
    session = "4f36674a-4bc9-4756-a21e-723b606b230a"
    environ = {
        "CLAUDE_CODE_SESSION_ID": session,
        "CLAUDE_CODE_CHILD_NOTES_DIR": f"/tmp/claude-0/-home-me-shop/{session}/started",  # noqa: S108  # not used
        "CLAUDE_CODE_NEXT_RELEASE": f"of-{session}",
        "OPENCODE_PID": "16501",
        "PORT": "16501",
    }

    assert variables.drop_private_variables(environ) == {"PORT": "16501"}


def test_an_environment_without_a_path_stays_without_one() -> None:
    assert variables.drop_private_variables({"A": "1"}) == {"A": "1"}


def test_how_a_host_was_started_is_dropped() -> None:
    # As Claude Code 2.1.325 starts its servers in a terminal, and without one as "sdk-cli".
    environ = {"CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDECODE": "1"}

    assert variables.drop_start_variables(environ) == {"CLAUDECODE": "1"}


def test_codex_and_its_daemon_have_the_same_path() -> None:
    # As Codex 0.166 starts its servers by `codex exec`, and by the daemon of its terminals.
    own, daemons = "/opt/codex/vendor/codex-path", "/home/me/.codex/packages/0.166.0/codex-path"

    for path in (f"{own}:/usr/bin", f"{daemons}:{own}:/usr/bin"):
        assert variables.drop_bundled_directories({"PATH": path}) == {"PATH": "/usr/bin"}

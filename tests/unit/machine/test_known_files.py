"""The files of hosts whose directory a variable moves."""

from __future__ import annotations

import pytest

from mcp_launch.config_files.site import Site
from mcp_launch.hosts.configured import HOSTS

# The variable that moves a host's directory, and one of its files below it.
MOVED = {
    "amp": ("XDG_CONFIG_HOME", "amp/settings.json"),
    "claude": ("CLAUDE_CONFIG_DIR", ".claude.json"),
    "cline": ("CLINE_DIR", "data/settings/cline_mcp_settings.json"),
    "codex": ("CODEX_HOME", "config.toml"),
    "continue": ("CONTINUE_GLOBAL_DIR", "config.yaml"),
    "copilot": ("COPILOT_HOME", "mcp-config.json"),
    "crush": ("CRUSH_GLOBAL_CONFIG", "crush.json"),
    "gemini": ("GEMINI_CLI_HOME", ".gemini/settings.json"),
    "goose": ("XDG_CONFIG_HOME", "goose/config.yaml"),
    "grok": ("GROK_HOME", "config.toml"),
    "kilo": ("XDG_CONFIG_HOME", "kilo/kilo.json"),
    "kimi": ("KIMI_CODE_HOME", "mcp.json"),
    "opencode": ("XDG_CONFIG_HOME", "opencode/opencode.json"),
    "openhands": ("OPENHANDS_PERSISTENCE_DIR", "mcp.json"),
    "qwen": ("QWEN_HOME", "settings.json"),
    "vibe": ("VIBE_HOME", "config.toml"),
    "zed": ("XDG_CONFIG_HOME", "zed/settings.json"),
}


def test_every_host_with_a_variable_is_in_the_table() -> None:
    assert {name: host.quirks.home_variable for name, host in HOSTS.items()} == {
        name: MOVED.get(name, ("",))[0] for name in HOSTS
    }


@pytest.mark.parametrize("name", list(MOVED))
def test_a_variable_moves_a_file(name: str) -> None:
    variable, path = MOVED.get(name, ("", ""))
    assert HOSTS[name].quirks.home_variable == variable

    files = HOSTS[name].list_files(Site("/home/me", "/work", {variable: "/elsewhere"}))

    assert f"/elsewhere/{path}" in [file.path for file in files]

"""What is shown of a change: every command that changes, and no secret."""

from __future__ import annotations

from mcp_launch.config_files import diff, planned_changes
from mcp_launch.config_files.host_config import ANY_HOST, File
from mcp_launch.config_files.planned_changes import Wish

LAUNCHER = "/opt/bin/mcp-launch"
FILE = File("/some/file", "user", "json", (("mcpServers",),))


def test_a_command_is_shown_whole_without_what_is_a_secret_anywhere_in_its_entry() -> None:
    text = '{"mcpServers": {"it": {"command": "x", "args": ["hunter2"], "env": {"PW": "hunter2"}}}}'

    wrapping = planned_changes.look(ANY_HOST, FILE, text, Wish(LAUNCHER))
    unwrapping = planned_changes.look(ANY_HOST, FILE, wrapping.after, Wish(""))

    bare, wrapped = ["x", "***"], [LAUNCHER, "run", "--server", "it", "x", "***"]
    assert [one[1:] for one in diff.list_words(wrapping)] == [(bare, wrapped)]
    assert [one[1:] for one in diff.list_words(unwrapping)] == [(wrapped, bare)]


def test_an_argument_behind_p_is_a_secret() -> None:
    text = '{"mcpServers": {"it": {"command": "x", "args": ["-p", "hunter2"]}}}'

    [words] = diff.list_words(planned_changes.look(ANY_HOST, FILE, text, Wish(LAUNCHER)))

    assert words.before == ["x", "-p", "***"]

"""The hosts whose configuration we know, in the order in which they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_launch.config_files.host_config import ANY_HOST
from mcp_launch.hosts.claude.config import CONFIG as CLAUDE
from mcp_launch.hosts.cline.config import CONFIG as CLINE
from mcp_launch.hosts.codex.config import CONFIG as CODEX
from mcp_launch.hosts.copilot.config import CONFIG as COPILOT
from mcp_launch.hosts.gemini.config import CONFIG as GEMINI
from mcp_launch.hosts.goose.config import CONFIG as GOOSE
from mcp_launch.hosts.kimi.config import CONFIG as KIMI
from mcp_launch.hosts.plain.editors import EDITORS
from mcp_launch.hosts.plain.named_lists import NAMED_LISTS
from mcp_launch.hosts.plain.opencode_shape import OPENCODE_SHAPE
from mcp_launch.hosts.plain.terminals import TERMINALS
from mcp_launch.hosts.qwen.config import CONFIG as QWEN
from mcp_launch.hosts.vibe.config import CONFIG as VIBE
from mcp_launch.hosts.vscode.config import CONFIG as VSCODE

if TYPE_CHECKING:
    from mcp_launch.config_files.host_config import HostConfig

# The others follow, by name.
_ORDER = (
    *("codex", "claude", "claude-desktop", "cursor", "vscode", "gemini", "opencode"),
    *("zed", "windsurf", "cline", "copilot", "goose"),
)

_PLAIN = (*EDITORS, *TERMINALS, *OPENCODE_SHAPE, *NAMED_LISTS)
_OWN_PACKAGE = (
    *(CLAUDE, CLINE, CODEX, COPILOT, GEMINI, GOOSE),
    *(KIMI, QWEN, VIBE, VSCODE),
)
_KNOWN = {config.name: config for config in (*_OWN_PACKAGE, *_PLAIN)}

HOSTS = {name: _KNOWN[name] for name in (*_ORDER, *sorted(_KNOWN.keys() - set(_ORDER)))}


def describe_hosts() -> str:
    """Return a table in Markdown of what is known of every host, and how."""
    head = ["host", "release", "files", "directory of a server"]
    head += ["session at the start", "session of a call"]
    rows = [
        [host.title, host.knowledge.release, *map(str, host.knowledge.facts)]
        for host in HOSTS.values()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _explain_skip(entry: dict[str, Any]) -> str:
    return "" if "command" in entry else GOOSE.why_not(entry)


# The host whose entries an unknown file probably has, by its format. In YAML they may be Goose's,
# or Continue's, which have a `command`.
WRITTEN_IN: dict[str, HostConfig] = {
    "yaml": GOOSE._replace(shapes=(*GOOSE.shapes, *ANY_HOST.shapes), why_not=_explain_skip)
}

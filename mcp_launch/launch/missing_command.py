"""Explain why a launch has no command to start."""

from __future__ import annotations

from mcp_launch.errors import UsageError, suggest
from mcp_launch.state import profile_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def explain(
    server: str,
    environ: Mapping[str, str],
    list_files: Callable[[], list[str]],
    *,
    has_profile: bool,
) -> UsageError:
    """Return the error for a launch whose command nobody names."""
    how = "write the command after the options: mcp-launch run -- npx -y some-server"
    if not server:
        return UsageError("no server command was given", fix=how)
    if has_profile:
        return UsageError(f"the profile of {server} has no command", fix=f"add one, or {how}")
    return UsageError(
        f"no profile defines the server {server}, and no command was given",
        fix=f"{suggest(server, _list_known(environ, list_files()))}"
        f"add [servers.{server}] to ~/.config/mcp-launch/config.toml, or {how}",
    )


def _list_known(environ: Mapping[str, str], files: list[str]) -> list[str]:
    """Return the servers in the files that have a record."""
    kept = [profile_cache.read(path, environ) for path in files if path]
    return [name for record in kept if record for name in record["servers"]]

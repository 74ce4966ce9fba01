"""Explain why a launch has no command to start."""

from __future__ import annotations

from mcp_launch.errors import UsageError, suggest


def explain(server: str, known: list[str], *, has_profile: bool) -> UsageError:
    """Return the error for a launch whose command nobody names; `known` servers have profiles."""
    how = "write the command after the options: mcp-launch run -- npx -y some-server"
    if not server:
        return UsageError("no server command was given", fix=how)
    if has_profile:
        return UsageError(f"the profile of {server} has no command", fix=f"add one, or {how}")
    return UsageError(
        f"no profile defines the server {server}, and no command was given",
        fix=f"{suggest(server, known)}"
        f"add [servers.{server}] to ~/.config/mcp-launch/config.toml, or {how}",
    )

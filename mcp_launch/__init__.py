"""mcp-launch: a command prefix that starts MCP servers in the right place and session."""

__version__ = "0.1.0"

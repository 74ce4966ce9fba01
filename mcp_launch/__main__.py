"""`python -m mcp_launch`."""

from __future__ import annotations

from mcp_launch import main

if __name__ == "__main__":
    raise SystemExit(main())

"""mcp-launch: a command prefix that starts MCP servers in the right place and session.

The entry point is here, in the file that every start reads anyway.
"""

from __future__ import annotations

import gc
import sys

__version__ = "0.1.0"


def main(argv: list[str] | None = None) -> int:
    """Hand over to the launch path, or to the full command line."""
    arguments = sys.argv[1:] if argv is None else argv

    # A host waits for `run` at the start of every session, and importing the
    # command-line library would cost more than the whole rest of the launch.
    # tests/test_import_budget.py fails when this branch stops being first.
    if arguments[:1] == ["run"] and sys.platform != "win32":
        from mcp_launch.system import kernel

        kernel.unblock_signals()  # before the imports: SIGINT would show a traceback
        # What a start makes, it keeps: to look for garbage in it takes a millisecond.
        gc.disable()
        from mcp_launch import launch

        return launch.run(arguments[1:])

    if arguments == ["ps", "--short"]:  # a shell's prompt waits for it
        import os

        from mcp_launch.commands import status_line

        return status_line.run(os.environ)

    from mcp_launch.commands import command_line

    return command_line.run(arguments)

"""Say that a package is being installed, just before the host gives up waiting for its server.

The host would report only a timeout. With an answer it shows the reason. But a user may have given
a slow server more time, so we answer only if it is certain how long the host waits.
"""

from __future__ import annotations

import os

from mcp_launch import state
from mcp_launch.errors import ServerFailed
from mcp_launch.values import START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.core import Core
    from mcp_launch.launch.runners.installing import Install
    from mcp_launch.launch.running import Running
    from mcp_launch.runtime.launcher import Launcher

# When to find out how long the host waits: a server that is ready sooner never needs it.
_LOOK_AFTER = 3.0

# How long before the host gives up, in seconds. A runner that still installs then has no time left
# for that and for the start of the server.
_MARGIN = 0.5


def watch(running: Running, launcher: Launcher) -> None:
    """Answer a waiting host in time, if it is known by then when it gives up."""
    launcher.edge.loop.set_timer("patience", _LOOK_AFTER, lambda: _look(running, launcher))


def _look(running: Running, launcher: Launcher) -> None:
    install = running.decided.install
    age = running.table.started_seconds_ago(os.getpid())
    if install is None or age is None or not _is_waiting(launcher.core, install):
        return
    patience = running.found.find_patience(running.wanted.server)
    known = "" if patience is None else f"; the host waits {patience:g} s for the server"
    state.note(f"{install.runner} is installing {install.package}{known}", START)
    if patience is None or patience < age:
        return

    def answer() -> None:
        if _is_waiting(launcher.core, install):
            launcher.fail_first(_explain(install, patience - _MARGIN))

    launcher.edge.loop.set_timer("patience", max(0.0, patience - _MARGIN - age), answer)


def _is_waiting(core: Core, install: Install) -> bool:
    has_opened = any(client.opened for client in core.clients.values())
    return core.leaving.is_serving and not has_opened and install.is_missing()


def _explain(install: Install, seconds: float) -> ServerFailed:
    return ServerFailed(
        f"{install.package} is being installed ({install.runner}, {seconds:.0f} s so far); "
        "it will be ready at the next start",
        fix="wait a minute or two, then reconnect the server or start a new session",
        exit_code=1,
    )

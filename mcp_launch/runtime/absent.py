"""What the processes of a server tell before it rests: its size, and signs that it must run."""

from __future__ import annotations

from mcp_launch.system import linux, name_program
from mcp_launch.values import SHELLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.system import ProcessTable

# Programs that only start a server, and stay between it and us.
_STARTERS = {"npx", "npm", "npm exec", "uvx", "uv", "pnpm", "pnpx", "bun", "bunx", "env", *SHELLS}


def measure(table: ProcessTable, server: int) -> int:
    """Return how much memory a server and all processes below it use; 0 if it does not run."""
    pids = (server, *table.list_descendants(server)) if server else ()
    return sum(table.measure_share(pid) or 0 for pid in pids)


def find_sign(table: ProcessTable, server: int) -> str:
    """Return a sign that a server keeps state in its processes; empty if there is none."""
    if not table.SEES_ALL:
        return "its processes cannot be seen on this system"
    below = table.list_descendants(server)
    above = _list_to_main(table, server)
    program = table.read_executable(above[-1])
    for pid in below:
        process = table.look(pid)
        if process is None or pid in above:
            continue
        if table.read_executable(pid) != program:
            return f"it has a child process, {name_program(table, process)} (pid {pid})"
    for pid in (server, *below):
        if sockets := table.list_listening(pid):
            return f"it listens on {sockets[0]}"
    return ""


def _list_to_main(table: ProcessTable, server: int) -> list[int]:
    """Return the server itself, last, and what it is below: a runner, a shell or a script.

    The only child of a script that has the script's own stdin and stdout is the server: it reads
    what we write.
    """
    found = [server]
    while True:
        process = table.look(found[-1])
        below = [table.look(pid) for pid in table.list_descendants(found[-1])]
        children = [one.identity.pid for one in below if one and one.parent == found[-1]]
        if process is None or len(children) != 1:
            return found
        is_starter = name_program(table, process) in _STARTERS
        if not is_starter and not _has_same_wire(found[-1], children[0]):
            return found
        found += children


def _has_same_wire(pid: int, child: int) -> bool:
    wire, inherited = ([linux.read_link(one, fd) for fd in (0, 1)] for one in (pid, child))
    return all(wire) and wire == inherited

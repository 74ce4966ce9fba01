"""What is kept while a server does not run: its answers, its size; and signs that it must run."""

from __future__ import annotations

from mcp_launch import state
from mcp_launch.system import linux, name_program
from mcp_launch.values import SHELLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.launch.plan import Plan
    from mcp_launch.protocol.memory import Remembered
    from mcp_launch.state.handshakes import Handshakes
    from mcp_launch.system import ProcessTable

# Programs that only start a server, and stay between it and us.
_STARTERS = {"npx", "npm", "npm exec", "uvx", "uv", "pnpm", "pnpx", "bun", "bunx", "env", *SHELLS}


class AbsentServers:
    """Keeps what a launch needs while its server does not run."""

    def __init__(self, table: ProcessTable, handshakes: Handshakes, plan: Plan) -> None:
        self._table = table
        self._handshakes = handshakes
        self._plan = plan  # that the handshakes are named after
        self._variables: set[tuple[str, str]] = set()  # of all servers that were started
        self.size = 0  # the memory of the last server, when it was measured

    def note_variables(self, variables: Mapping[str, str]) -> None:
        """Note what a server gets to know."""
        self._variables.update(variables.items())

    def measure(self, server: int) -> None:
        """Note how much memory a server and all processes below it use, if it runs."""
        pids = (server, *self._table.list_descendants(server)) if server else ()
        self.size = sum(self._table.measure_share(pid) or 0 for pid in pids) or self.size

    def note_rest(self, server: int) -> None:
        """Note how much memory is free while a server rests."""
        self.measure(server)
        state.note(f"it used {self.size / 1e6:.0f} MB")

    def find_sign(self, server: int) -> str:
        """Return a sign that a server keeps state in its processes; empty if there is none."""
        return find_sign(self._table, server) if server else ""

    def remember(self, memory: Remembered, server: int, now: float) -> None:
        """Write what a server answers to disk, with its size; not if others must not know it."""
        from mcp_launch.runtime import private_values

        self.measure(server)
        memory.size_of_server = self.size or memory.size_of_server
        if server:
            # A shared one has been started for another session.
            self.note_variables(self._table.read_environ(server))
        named = self._handshakes.variables
        # Ours say the same in words that any server uses, such as the host's name.
        asked = {one for one in self._plan.set_variables if not one.startswith("MCP_LAUNCH_")}
        told = private_values.Told(
            self._plan.argv, self._plan.cwd.value, named, asked - named.keys()
        )
        if found := private_values.find(memory.answers.values(), self._variables, told):
            state.note(f"the handshake is not kept: it contains {found}")
            self.forget(memory.client)  # what was kept before is not what the server answers
        else:
            self._handshakes.write(memory, now)

    def forget(self, client: str) -> None:
        """Remove what is on disk for one kind of client."""
        self._handshakes.forget(client)


def find_sign(table: ProcessTable, server: int) -> str:
    """Return a sign that a server keeps state in its processes; empty if there is none."""
    if not table.SEES_ALL:
        return "its processes cannot be seen on this system"
    below = table.list_descendants(server)
    main = _find_main(table, server)
    program = table.read_executable(main)
    above = _list_between(table, main, server)
    for pid in below:
        process = table.look(pid)
        if process is None or pid == main or pid in above:
            continue
        if table.read_executable(pid) != program:
            return f"it has a child process, {name_program(table, process)} (pid {pid})"
    for pid in (server, *below):
        if sockets := table.list_listening(pid):
            return f"it listens on {sockets[0]}"
    return ""


def _find_main(table: ProcessTable, server: int) -> int:
    """Return the server itself, which may be below a runner, a shell or a script.

    The only child of a script that has the script's own stdin and stdout is the server: it reads
    what we write.
    """
    main = server
    while True:
        process = table.look(main)
        children = [pid for pid in table.list_descendants(main) if _find_parent(table, pid) == main]
        if process is None or len(children) != 1:
            return main
        is_starter = name_program(table, process) in _STARTERS
        if not is_starter and not _has_same_wire(main, children[0]):
            return main
        main = children[0]


def _has_same_wire(pid: int, child: int) -> bool:
    wire, inherited = ([linux.read_link(one, fd) for fd in (0, 1)] for one in (pid, child))
    return all(wire) and wire == inherited


def _list_between(table: ProcessTable, pid: int, top: int) -> set[int]:
    """Return the processes from one up to another above it."""
    found = set()
    while pid and pid not in found:
        found.add(pid)
        if pid == top:
            break
        pid = _find_parent(table, pid)
    return found


def _find_parent(table: ProcessTable, pid: int) -> int:
    process = table.look(pid)
    return process.parent if process is not None else 0

"""The facts of a launch: its host, session, thread and directories, each with its origin.

`trace_back` finds the host among our ancestors and asks the kernel which process holds the other
end of our stdin. The verdict has three values: "same" if the kernel confirms the host, "different"
if it contradicts, "unknown" if it does not say. A launch continues with "unknown" unless
`--strict` is set, and never with a host at the other end that is not our ancestor.

`find_context` collects the rest: session and thread as the host knows them, the directory where
the session works, and the project around it. Nothing is decided here; `plan` does that.
"""

from __future__ import annotations

import os
import stat
import time

from mcp_launch import hosts
from mcp_launch.errors import LineageContradicted
from mcp_launch.hosts import Sighting
from mcp_launch.system import list_ancestors, name_program
from mcp_launch.values import Found, Missing, find_home_directory, name_home, walk_upward

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.hosts import Callers, HostIdentity, Identity
    from mcp_launch.system import ProcessTable
    from mcp_launch.values import Process, Verdict

# Names that mark the root of a project. In a worktree `.git` is a file, and the worktree's own
# root is the project's.
ROOT_MARKERS = (
    ".git",
    ".hg",
    "pyproject.toml",
    "package.json",
    "Cargo.toml",
    "go.mod",
)


class Lineage:
    """The ancestors of a launch, its host, and the verdict on its stdin."""

    __slots__ = ("ancestors", "evidence", "holder", "host", "process", "verdict")

    def __init__(
        self, ancestors: list[Process], host: HostIdentity, process: Process | None
    ) -> None:
        self.ancestors = ancestors
        self.host = host
        # The host's process: the nearest ancestor that is a known host, else our parent.
        self.process = process
        self.holder: int | None = None  # the pid at the other end of stdin
        self.verdict: Verdict = "unknown"
        self.evidence = "stdin is neither a pipe nor a socket"

    def started_us(self) -> bool:
        """Return whether the host itself started us, not a program that it runs in a shell."""
        if self.process is None:
            return False
        pid = self.process.identity.pid
        return pid == self.holder or (
            self.holder is None and bool(self.ancestors) and self.ancestors[0].identity.pid == pid
        )

    def list_hosts(self, parent: int) -> list[int]:
        """Return the processes whose end means that the host is gone.

        The parent may not be the host but a wrapper between the two (`uvx`, a shell). To the host
        that wrapper is the server, so the launch ends when either of them ends.
        """
        host = self.process.identity.pid if self.process else parent
        return [parent] if host == parent else [parent, host]


class Context:
    """Host, session, thread, project root, place and launch, each with its origin."""

    __slots__ = (
        "_host_environ",
        "_sighting",
        "contradiction",
        "facts",
        "home",
        "host",
        "host_homes",
        "host_pid",
        "host_title",
        "identity",
        "inherited_cwd",
        "is_host_directory",
        "launch",
        "place",
        "project_root",
        "session",
        "thread",
    )

    def __init__(  # noqa: PLR0913  # a record's fields, each named at the call
        self,
        *,
        launch: Found,
        host: Found,
        host_pid: Found | Missing,
        identity: Identity,
        facts: HostIdentity,
        sighting: Sighting,
        inherited_cwd: Found,
        place: Found,
        project_root: Found | Missing,
        home: str,
        host_homes: list[str],
        contradiction: Found | None = None,
        is_host_directory: bool = False,
        host_environ: Mapping[str, str] | None = None,
    ) -> None:
        self.launch = launch
        self.host = host
        self.host_title = facts.title
        self.host_pid = host_pid
        self.identity = identity
        self.thread = identity.thread
        self.session = identity.session
        self.facts = facts
        self.inherited_cwd = inherited_cwd
        self.place = place
        self.project_root = project_root
        self.home = home
        self.host_homes = host_homes
        # The directory of the session in the host's own record, if that differs from `place`.
        self.contradiction = contradiction
        # Whether `place` is the host's own directory, regardless of where its session works.
        self.is_host_directory = is_host_directory
        self._sighting = sighting
        self._host_environ = host_environ  # None: not read yet

    def follow_callers(self) -> Callers:
        """Return the reader that finds out which session each request comes from."""
        return self.facts.follow_callers(self._sighting)

    def only_looks(self) -> bool:
        """Return whether the host starts us to see whether we work, not to call us."""
        return self.facts.only_looks(self._sighting)

    @property
    def is_certain(self) -> bool:
        """Whether the session we are started for is certain, or no call will ever tell."""
        is_known = self.identity.is_certain or not self.facts.told_later
        return is_known and not self.is_host_directory

    def find_patience(self, server: str) -> float | None:
        """Return how many seconds the host waits for a server; None if that is not certain."""
        return self.facts.find_patience(self._sighting, server)

    def read_host_environ(self) -> Mapping[str, str]:
        """Return the host's own environment, as it was at the first call.

        So a server that is started again later gets the same variables as before.
        """
        if self._host_environ is None:
            self._host_environ = self.facts.read_environ(self._sighting)
        return self._host_environ

    def assume_host_environ(self, environ: Mapping[str, str]) -> None:
        """Use this as the host's environment, for a preview that no host has started."""
        self._host_environ = {} if self.facts.adds_variables else environ

    def for_session(self, session: Found | Missing, thread: Found | Missing) -> Context:
        """Return the same for another session or thread."""
        return self._change(session=session, thread=thread)

    def at(self, place: Found) -> Context:
        """Return the same in the directory that the host has named."""
        root = find_project_root(place.value)
        return self._change(
            place=place, project_root=root, contradiction=None, is_host_directory=False
        )

    def _change(self, **fields: object) -> Context:
        changed = Context.__new__(Context)
        for name in self.__slots__:
            setattr(changed, name, fields.get(name, getattr(self, name)))
        return changed

    def guess_root(self) -> Found | Missing:
        """Return the project's root; the host's directory while its roots may still name one."""
        may_be_named = self.is_host_directory and self.facts.answers_roots
        if isinstance(self.project_root, Found) or not may_be_named:
            return self.project_root
        return Found(self.place.value, "the host's directory until it names its roots")

    def name_home(self, directory: str) -> str:
        """Return what kind of home a directory is, or that it is `/`; empty for any other."""
        return name_home(directory, self.home, self.host_homes, self.host_title)


def trace_back(table: ProcessTable, pid: int, stdin: int = 0) -> Lineage:
    """Return the host among the ancestors of `pid`, and the kernel's verdict on stdin."""
    ancestors = list_ancestors(table, pid)
    lineage = Lineage(ancestors, hosts.UNKNOWN, ancestors[0] if ancestors else None)
    for ancestor in ancestors:
        host = hosts.recognise(table, ancestor)
        if host is not None:
            lineage.host, lineage.process = host, ancestor
            break
    _judge_stdin(table, lineage, stdin)
    return lineage


def verify_lineage(table: ProcessTable, lineage: Lineage, *, strict: bool) -> None:
    """Refuse a lineage that the kernel contradicts; if strict, one that it cannot confirm.

    Raises:
        LineageContradicted: Another host holds the other end of our stdin, or may hold it.

    """
    if lineage.verdict == "different" and lineage.holder is not None:
        raise LineageContradicted(
            f"the other end of stdin belongs to {_name(table, lineage.holder)}, "
            f"which did not start this launch ({_chain(table, lineage)})",
            fix="start the server from the host that talks to it; do not pass one host's "
            "connection to another through a pool or a relay",
        )
    if strict and lineage.verdict == "unknown":
        raise LineageContradicted(
            f"--strict: cannot verify who holds the other end of stdin ({lineage.evidence})",
            fix="remove --strict, or start the server directly from its host",
        )


def _judge_stdin(table: ProcessTable, lineage: Lineage, stdin: int) -> None:
    try:
        mode = os.fstat(stdin).st_mode
    except OSError:
        lineage.evidence = "stdin is closed"
        return
    if stat.S_ISSOCK(mode):
        _judge_socket(table, lineage, stdin)
    elif stat.S_ISFIFO(mode):
        _judge_pipe(table, lineage, stdin)


def _judge_socket(table: ProcessTable, lineage: Lineage, stdin: int) -> None:
    from mcp_launch.system import sockets

    holder = sockets.read_peer(stdin)
    if holder is None:
        lineage.evidence = "the kernel does not name the peer of our socket"
        return
    if any(ancestor.identity.pid == holder for ancestor in lineage.ancestors):
        _accept(lineage, holder, "SO_PEERCRED")
        return
    process = table.look(holder)
    if process is not None and hosts.recognise(table, process) is not None:
        lineage.holder, lineage.verdict = holder, "different"
        lineage.evidence = f"SO_PEERCRED names process {holder}"
    else:
        # The process that made a socket pair may have ended, or have passed its end on.
        lineage.evidence = f"process {holder} made our socket and is not an ancestor"


def _judge_pipe(table: ProcessTable, lineage: Lineage, stdin: int) -> None:
    for ancestor in lineage.ancestors:
        pid = ancestor.identity.pid
        if table.holds_writing_end(pid, stdin) == "same":
            _accept(lineage, pid, "the pipe's inode")
            return
    if not table.SEES_ALL:
        lineage.evidence = "the process table of this system cannot be read"
        return
    lineage.evidence = "none of our ancestors visibly holds the other end of the pipe"
    # This is unusual, and only here is it worth walking over all processes.
    for pid in table.list_pids():
        process = table.look(pid)
        if process is None or table.holds_writing_end(pid, stdin) != "same":
            continue
        if hosts.recognise(table, process) is not None:
            lineage.holder, lineage.verdict = pid, "different"
            lineage.evidence = f"process {pid} holds the other end of the pipe"
            return


def _accept(lineage: Lineage, holder: int, evidence: str) -> None:
    lineage.holder = holder
    lineage.verdict = "same"
    lineage.evidence = evidence
    if lineage.host is hosts.UNKNOWN:
        # No known host: the process that talks to us takes its part.
        lineage.process = next(one for one in lineage.ancestors if one.identity.pid == holder)


def _name(table: ProcessTable, pid: int) -> str:
    process = table.look(pid)
    host = hosts.recognise(table, process) if process else None
    return f"{host.title if host else 'a program'} (process {pid})"


def _chain(table: ProcessTable, lineage: Lineage) -> str:
    nearest = lineage.ancestors[:4]
    names = (f"{name_program(table, one)} {one.identity.pid}" for one in nearest)
    return "started by " + ", below ".join(names)


def look(table: ProcessTable, lineage: Lineage, environ: Mapping[str, str]) -> Sighting:
    """Return what a host may use to identify a launch."""
    return Sighting(
        table=table,
        process=lineage.process,
        environ=environ,
        cwd=read_cwd(environ),
        is_starter=lineage.started_us(),
    )


def find_context(sighting: Sighting, lineage: Lineage, launch: str = "") -> Context:
    """Return what is known about a launch; without an id it gets a new one."""
    host = lineage.host
    above = Found(host.name, _origin_of_host(sighting.table, lineage))
    pid = str(lineage.process.identity.pid) if lineage.process else None
    identity = host.identify(sighting)
    place = host.find_place(sighting)
    is_host_directory = _is_host_directory(sighting, lineage)
    if is_host_directory:
        place = Found(place.value, f"where {host.title} runs, regardless of its session")
    found = Context(
        launch=Found(launch or make_launch_id(), "made for this launch"),
        host=above,
        host_pid=(Found(pid, above.origin) if pid else Missing(["no process above us is visible"])),
        identity=identity,
        facts=host,
        sighting=sighting,
        inherited_cwd=Found(sighting.cwd, "inherited"),
        place=place,
        project_root=find_project_root(place.value),
        home=find_home_directory(sighting.environ),
        host_homes=host.find_homes(sighting),
        is_host_directory=is_host_directory,
    )
    if found.name_home(place.value):
        found.contradiction = host.find_contradiction(sighting, place)
    return found


def _is_host_directory(sighting: Sighting, lineage: Lineage) -> bool:
    process = lineage.process
    return process is not None and lineage.host.starts_in_own_directory(
        sighting.table, process.identity.pid
    )


def _origin_of_host(table: ProcessTable, lineage: Lineage) -> str:
    if lineage.process is None:
        return "no process above us is visible"
    name, pid = name_program(table, lineage.process), lineage.process.identity.pid
    if not lineage.host.is_known:
        return f"no known host above us; process {pid} ({name}) talks to us"
    return f"process {pid} ({name}) above us"


def make_launch_id() -> str:
    """Return an id that no other launch has, sortable by time."""
    return f"{time.time_ns() // 1_000_000:012x}{os.urandom(5).hex()}"


def read_cwd(environ: Mapping[str, str]) -> str:
    """Return the directory we were started in, under the name in PWD if that is the same one."""
    try:
        real = os.getcwd()
    except FileNotFoundError:
        return ""  # it has been deleted; `decide_cwd` refuses it if it is needed
    logical = environ.get("PWD", "")
    try:
        if os.path.isabs(logical) and os.path.samefile(logical, real):
            return logical
    except OSError:
        pass  # a stale PWD: a host that changes its directory need not update it
    return real


def find_project_root(start: str) -> Found | Missing:
    """Return the nearest directory, from here upward, that holds one of ROOT_MARKERS."""
    for directory in walk_upward(start):
        for marker in ROOT_MARKERS:
            if os.path.lexists(f"{directory.rstrip('/')}/{marker}"):
                return Found(directory, f"{marker} in it")
    return Missing([f"no {', '.join(ROOT_MARKERS)} in {start} or above"])


def is_inside(directory: str, roots: list[str]) -> bool:
    """Return whether a directory is one of the roots, or inside one."""
    try:
        here = os.path.realpath(directory)
        real = [os.path.realpath(root) for root in roots]
    except ValueError:
        return False  # a name that no directory can have
    return any(here == root or here.startswith(root.rstrip("/") + "/") for root in real)

"""The story of a launch, in order: who is it for, where does it belong, start it, carry, end.

This is the table of contents; each step is a module of its own.
"""

from __future__ import annotations

import os
import sys

from mcp_launch import state, trace
from mcp_launch.errors import LaunchError, SourceMissing, UsageError, tell
from mcp_launch.launch import context, environment, options, plan, profile
from mcp_launch.launch.plan import Dotenv
from mcp_launch.system import kernel, open_table
from mcp_launch.system.guardian import Starter, wait_for
from mcp_launch.system.spawn import Pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from mcp_launch.launch.context import Context, Lineage
    from mcp_launch.launch.plan import Plan
    from mcp_launch.launch.profile import Profile
    from mcp_launch.system import ProcessTable

# How many descriptors a launch opens beyond the standard three, at the most at one moment:
# pipes to the server, to the guardian and for signals, the guardian's own, and one to spare
# for a module or a record. Measured (tests/test_platforms.py tries every limit).
_NEEDED_GUARDED = 15
_NEEDED_DIRECT = 9

# To fail takes a module, the modules that it imports, and a log.
_NEEDED_TO_FAIL = 3


def run(arguments: list[str]) -> int:
    """Launch a server and return its exit code; every failure is told to the host."""
    if not {"--help", "-h"}.isdisjoint(options.list_own_words(arguments)):
        try:
            os.write(1, options.USAGE.encode())
        except OSError:
            pass  # nobody is there to read it
        return 0
    prepare_process()
    if options.is_on("--trace", arguments, os.environ):
        trace.turn_on()
    if options.is_on("--no-log", arguments, os.environ):
        trace.keep_nothing()
    launch = context.make_launch_id()
    try:
        return _launch(arguments, launch)
    except Exception as error:  # noqa: BLE001  # the one boundary: a host must not see a traceback
        return _fail(error, arguments, launch)


def _launch(arguments: list[str], launch: str) -> int:
    parent = os.getppid()  # before anything else: it may end, and we would not know whose we were
    table = open_table()
    forget_locale(table, os.environ)
    line = context.trace_back(table, os.getpid())
    _trace_lineage(line)
    sighting = context.look(table, line, os.environ)
    wanted = profile.load(arguments, os.environ, lambda: line.host.find_place(sighting).value)
    if wanted.trace:
        trace.turn_on()  # a profile may ask for it, too
    if wanted.no_log:
        trace.keep_nothing()
    context.verify_lineage(table, line, strict=wanted.strict)
    sighting.list_confirmed_threads = lambda: list_taken(table, line, wanted, os.environ)
    found = context.find_context(sighting, line, launch)
    _trace_context(found)
    refuse_guess(wanted, found)
    decided = _plan(wanted, found)
    _trace_plan(wanted, decided)
    # Ours from here on, not an outer launch's: where nobody adopts orphans they are known by it.
    os.environ["MCP_LAUNCH_ID"] = found.launch.value
    # Found out later, there would be half a launch to undo: on the direct wire the server might
    # have read the host's request by then, and nobody could answer it any more.
    kernel.reserve_descriptors(_NEEDED_DIRECT if wanted.direct else _NEEDED_GUARDED)
    pipes = None if wanted.direct else Pipes()
    wake, _ = kernel.listen(kernel.ENDING)  # from here on there is somebody to tell
    lease = state.name_lease(os.environ, found.launch.value)
    starter = Starter(table, _list_hosts(line, parent), lease, _tidy)
    guardian = starter.begin(decided, pipes)
    # The server is on its way. What is imported from here on, is imported meanwhile.
    from mcp_launch import runtime

    wait_for(guardian, decided)
    running = runtime.Running(
        wanted=wanted,
        line=line,
        found=found,
        decided=decided,
        guardian=guardian,
        starter=starter,
        decide=lambda changed: _plan(wanted, changed),
    )
    return runtime.carry(running, pipes, wake)


def prepare_process() -> None:
    """See that the standard descriptors are open, if only to nothing."""
    # A host may start us with a standard descriptor closed; whatever is opened next
    # would take its number, and end up as the server's stdin.
    while (fd := kernel.open_null()) <= 2:  # noqa: PLR2004  # stderr is the last
        os.set_inheritable(fd, True)  # noqa: FBT003  # on the direct wire it is the server's
    os.close(fd)


def forget_locale(table: ProcessTable, environ: MutableMapping[str, str]) -> None:
    """Put back what Python changed for itself where the locale is the poorest there is."""
    name = "LC_CTYPE"
    if environ.get(name) in {"C.UTF-8", "C.utf8", "UTF-8"}:
        given = table.read_variable(os.getpid(), name)
        if given is None:
            del environ[name]
        else:
            environ[name] = given


def list_taken(
    table: ProcessTable, line: Lineage, wanted: Profile, environ: Mapping[str, str]
) -> set[str]:
    """Return the threads that other launches of the same server and host are sure of."""
    from mcp_launch.state import leases

    if line.process is None:
        return set()
    pid = line.process.identity.pid
    directory = state.find_leases(environ)
    return leases.list_confirmed_threads(table, directory, pid, wanted.command)


def _tidy(table: ProcessTable, directory: str) -> None:
    """Clear up after launches that have died; done by the guardian, where nobody waits."""
    from mcp_launch.state import launch_log, leases

    leases.reclaim_stale(table, directory)
    launch_log.prune(launch_log.find_directory(os.environ), directory)


def _list_hosts(line: Lineage, parent: int) -> list[int]:
    """Return the processes whose end is the host's.

    Of the two, whichever ends first: a wrapper between the host and us (`uvx`, a shell) is
    what the host takes for the server.
    """
    host = line.process.identity.pid if line.process else parent
    return [parent] if host == parent else [parent, host]


def refuse_guess(wanted: Profile, found: Context) -> None:
    """Refuse a thread that is only a guess, when asked to."""
    if wanted.strict and found.identity.is_guess:
        raise SourceMissing(
            f"the thread cannot be told for certain: {found.identity.evidence} (--strict)",
            fix="leave out --strict to start with the guess, or run one thread in a directory",
        )


def _plan(wanted: Profile, found: Context) -> Plan:
    decided = plan.decide(wanted, found, os.environ, read_dotenv(wanted, found))
    decided.program = plan.find_program(
        decided.argv[0], decided.environ.get("PATH"), decided.cwd.value
    )
    return decided


def read_dotenv(wanted: Profile, found: Context) -> Dotenv:
    """Return the values of dotenv files, if anybody wants some."""
    if not wanted.dotenv and all(one.source != "dotenv" for one in wanted.env.values()):
        return Dotenv({}, "")
    from mcp_launch.launch import dotenv

    return dotenv.load(wanted, found)


def _make_room() -> None:
    """Close what the failed launch has opened, if nothing more could be opened otherwise.

    To say why it failed takes modules, which are read from files. If there is a guardian, it
    ends the server now, as it would a moment later.
    """
    try:
        kernel.reserve_descriptors(_NEEDED_TO_FAIL)
    except OSError:
        kernel.close_all(trace.list_descriptors())


def _fail(failure: Exception, arguments: list[str], launch: str) -> int:
    kernel.stop_listening()
    _make_room()
    from mcp_launch.runtime import failed_launch

    if isinstance(failure, LaunchError):
        error = failure
    else:
        from mcp_launch.state import crash

        error = crash.describe(failure)
    trace.record(f"the launch failed: {error.problem} — fix: {error.fix}")
    if path := os.environ.get(state.OUTCOME):
        from mcp_launch.state import outcome

        outcome.append_failure(path, error)
    if trace.needs_log():
        _log_failure(arguments, launch)
    try:
        code = tell(error, sys.stderr)
    except OSError:
        code = error.exit_code  # nobody reads our stderr; the host still gets the answer
    failed_launch.answer_host(error)
    return code


def _log_failure(arguments: list[str], launch: str) -> None:
    """Keep a log of a launch that never started a server, and clear up in the guardian's place."""
    from mcp_launch.state import launch_log, leases

    try:
        given, words = options.split(arguments)
    except UsageError:
        given, words = {}, []  # that is what is being told
    server = profile.name_server(given, os.environ) or os.path.basename("".join(words[:1]))
    facts: dict[str, object] = {
        "server": server or "(no command)",
        "mark": leases.mark_command(words),
        "cwd": context.read_cwd({}),
    }
    trace.write_to(launch_log.open_log(launch, facts))
    launch_log.prune(launch_log.find_directory(os.environ), state.find_leases(os.environ))


def _trace_lineage(line: Lineage) -> None:
    process = line.process
    pid = process.identity.pid if process else "none"
    trace.note(f"host {line.host.name}, process {pid}; stdin: {line.verdict} ({line.evidence})")


def _trace_context(found: Context) -> None:
    trace.note(f"launch {found.launch.value}")
    evidence = found.identity.evidence
    trace.note(f"identity {found.identity.state}{f': {evidence}' if evidence else ''}")
    for name in ("session", "thread", "project_root"):
        fact = getattr(found, name)
        searched = getattr(fact, "searched", None)
        trace.note(
            f"{name}: none ({'; '.join(searched)})"
            if searched
            else f"{name} {fact.value} from {fact.origin}"
        )


def _trace_kept_back(decided: Plan, passed: str) -> None:
    kept_back = {
        name: why for name, why in decided.kept_back.items() if name not in decided.environ
    }
    unnamed = [name for name, why in kept_back.items() if why == environment.NOT_NAMED]
    if unnamed:  # which may be dozens
        trace.note(f"keeps back {', '.join(unnamed)}: not named by --pass-env {passed}")
    for name, why in kept_back.items():
        if why != environment.NOT_NAMED:
            trace.note(f"keeps back {name}: {why} (--pass-env {passed})")


def _trace_plan(wanted: Profile, decided: Plan) -> None:
    trace.note(f"cwd {decided.cwd.value or '(deleted)'} from {decided.cwd.origin}")
    if decided.place_note:
        trace.note(f"the server's directory is {decided.place_note}, not a project")
    for name, origin in decided.set_variables.items():
        trace.note(f"sets {name} from {origin}")
    for name in decided.unset_variables:
        trace.note(f"takes out {name}: not this session's")
    _trace_kept_back(decided, ",".join(wanted.pass_env))
    trace.note(f"starts {decided.program}, arguments: {len(decided.argv) - 1}")

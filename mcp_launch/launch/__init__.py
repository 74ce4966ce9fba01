"""A launch from beginning to end: find its context, plan it, start the server, relay until it ends.

This is the table of contents: each step of `_launch` is a module of its own.
"""

from __future__ import annotations

import os
import sys

from mcp_launch import state
from mcp_launch.errors import LaunchError, SourceMissing, UsageError, tell
from mcp_launch.launch import context, environment, options, plan, profile
from mcp_launch.launch.plan import Dotenv
from mcp_launch.launch.running import Running
from mcp_launch.system import kernel, open_table
from mcp_launch.values import FAILURE, Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from mcp_launch.launch.context import Context, Lineage
    from mcp_launch.launch.plan import Plan
    from mcp_launch.launch.profile import Profile
    from mcp_launch.system import ProcessTable
    from mcp_launch.system.guardian import Starter

# How many descriptors a launch has open at most, beyond the standard three: pipes to the
# server, to the guardian and for signals, the guardian's own, and one to spare for a module or
# a record. Measured (tests/processes/test_platforms.py tries every limit).
_NEEDED_GUARDED = 15
_NEEDED_DIRECT = 9

# How long to leave the processors to the forks that lead to the exec, in seconds.
_EXEC_USUALLY_TAKES = 0.1

# Reporting a failure opens a module, a module that it imports, and a log.
_NEEDED_TO_FAIL = 3


def run(arguments: list[str]) -> int:
    """Launch a server and return its exit code; report every failure to the host."""
    if not {"--help", "-h"}.isdisjoint(options.list_own_words(arguments)):
        try:
            os.write(1, options.USAGE.encode())
        except OSError:
            pass  # nobody reads our stdout
        return 0
    prepare_process()
    if options.is_on("--trace", arguments, os.environ):
        state.show_trace()
    if options.is_on("--no-log", arguments, os.environ):
        state.keep_no_trace()
    launch = context.make_launch_id()
    try:
        code = _launch(arguments, launch)
    except Exception as error:  # noqa: BLE001  # the one boundary: hosts must not get a traceback
        return _fail(error, arguments, launch)
    kernel.ignore_ending()
    return code


def _launch(arguments: list[str], launch: str) -> int:
    parent = os.getppid()  # first: if it ends, this returns the process that adopts us
    table = open_table()
    if not table.SEES_ALL:
        state.note("no usable /proc here: cannot read other processes")
    restore_variables(table, os.environ)
    line = context.trace_back(table, os.getpid())
    _trace_lineage(line)
    sighting = context.look(table, line, os.environ)
    wanted = profile.load(arguments, os.environ)
    if wanted.trace:
        state.show_trace()  # a profile may set it, too
    if wanted.no_log:
        state.keep_no_trace()
    refuse_sharing(wanted)
    context.verify_lineage(table, line, strict=wanted.strict)
    sighting.list_confirmed_threads = lambda: list_taken_threads(table, line, wanted, os.environ)
    found = context.find_context(sighting, line, launch)
    found.is_host_directory = found.is_host_directory and environment.is_found(wanted.cwd)
    _trace_context(found)
    refuse_guess(wanted, found)
    decided = _plan(wanted, found)
    _trace_plan(wanted, decided)
    # Ours from here on, not an outer launch's. Where orphans are not adopted, this variable is
    # how they are recognised.
    os.environ["MCP_LAUNCH_ID"] = found.launch.value
    # Checked now, because later half a launch would have to be undone: on the direct wire the
    # server might have read the host's request by then, and nobody could answer it.
    kernel.reserve_descriptors(_NEEDED_DIRECT if wanted.direct else _NEEDED_GUARDED)
    lease = state.name_lease(os.environ, found.launch.value)
    hosts = line.list_hosts(parent)
    running = Running(
        table=table,
        wanted=wanted,
        line=line,
        found=found,
        decided=decided,
        hosts=hosts,
        lease=lease,
        open_starter=lambda: _make_starter(table, hosts, lease, wanted, found),
        decide=lambda changed: _plan(wanted, changed),
        note_runner=_note_runner,
        report=_report,
        clean=_tidy,
        on_failure=plan.choose_answer(wanted.on_failure, line.host, sighting, os.environ),
    )
    pipes = None
    is_deferred = _may_wait(wanted, found) and _is_remembered(running)
    wake, _ = kernel.listen(kernel.ENDING if wanted.direct else (kernel.RESTART, *kernel.ENDING))
    if not is_deferred:
        from mcp_launch.system.spawn import Pipes

        _note_runner(decided)
        pipes = None if wanted.direct else Pipes()
        running.guardian = running.find_starter().begin(decided, pipes)
        # First the exec, then the imports: they would compete for the processors with the three
        # forks that lead to it (measured: a quarter of a Python start later). The boot of the
        # server leaves enough time for them. An exec that hangs is the loop's business, which
        # hears the host, too.
        running.guardian.wait_for_report(_EXEC_USUALLY_TAKES)
    if wanted.direct:
        from mcp_launch.runtime import direct

        return direct.carry(running, wake)
    front = None
    if is_deferred and not wanted.policies:
        from mcp_launch.runtime.front import Front

        front = Front(running)
        front.serve(wake)
    from mcp_launch.runtime import launcher

    return launcher.carry(running, pipes, wake, front)


def _make_starter(
    table: ProcessTable, hosts: list[int], lease: str, wanted: Profile, found: Context
) -> Starter:
    def note_killed(code: int | None, *, is_host_lost: bool) -> None:
        from mcp_launch.launch import ended

        host = found.host.value if isinstance(found.host, Found) else ""
        ended.note_killed(lease, host, code, is_host_lost=is_host_lost)

    if wanted.share == "off":
        from mcp_launch.system.guardian import Starter

        return Starter(table, hosts, lease, _tidy, note_killed)
    from mcp_launch.launch import sharing

    return sharing.make_starter(table, hosts, lease, _tidy, note_killed, wanted, found)


def _may_wait(wanted: Profile, found: Context) -> bool:
    """Return whether the server need not be started at once, if its host can be answered."""
    if wanted.direct and (wanted.start == "called" or wanted.rest):
        state.note("--start and --rest have no effect with --direct")
    if wanted.direct or wanted.start == "now" or found.only_looks():
        return False
    return wanted.start == "called" or not found.is_certain


def _is_remembered(running: Running) -> bool:
    """Return whether a host may be answered from memory; which one is known when it speaks."""
    is_remembered = running.open_handshakes().has_any()
    if not is_remembered:
        state.note(
            "no handshake is remembered for this command, environment and directory: "
            "the server is started at once"
        )
    return is_remembered


def prepare_process() -> None:
    """Open the standard descriptors that the host left closed, on /dev/null."""
    # The next file to be opened would take the free number, and would end up as the
    # server's stdin.
    while (fd := kernel.open_null()) <= 2:  # noqa: PLR2004  # stderr is the last
        os.set_inheritable(fd, True)  # noqa: FBT003  # on the direct wire the server gets it
    os.close(fd)


def restore_variables(table: ProcessTable, environ: MutableMapping[str, str]) -> None:
    """Restore LC_CTYPE, which Python changes for itself in the C locale (PEP 538).

    And, on Linux, a variable that Python removes everywhere. On macOS it is one of our own Python.
    """
    name = "__PYVENV_LAUNCHER__"
    if sys.platform == "linux" and (given := table.read_variable(os.getpid(), name)) is not None:
        environ[name] = given
    name = "LC_CTYPE"
    if table.SEES_ALL and environ.get(name) in {"C.UTF-8", "C.utf8", "UTF-8"}:
        given = table.read_variable(os.getpid(), name)
        if given is None:
            del environ[name]
        else:
            environ[name] = given


def list_taken_threads(
    table: ProcessTable, line: Lineage, wanted: Profile, environ: Mapping[str, str]
) -> set[str]:
    """Return the threads that other launches of the same server and host have confirmed."""
    from mcp_launch.state import leases

    if line.process is None:
        return set()
    pid = line.process.identity.pid
    directory = state.find_leases(environ)
    return leases.list_confirmed_threads(table, directory, pid, wanted.command)


def _tidy(table: ProcessTable, directory: str) -> None:
    from mcp_launch.launch import ended

    ended.tidy(table, directory)


def refuse_sharing(wanted: Profile) -> None:
    """Refuse a profile that shares a server which cannot be shared."""
    if wanted.share != "off":
        from mcp_launch.launch import sharing

        sharing.check(wanted)


def refuse_guess(wanted: Profile, found: Context) -> None:
    """Refuse a thread that is only a guess, if the profile is strict."""
    if wanted.strict and found.identity.is_guess:
        raise SourceMissing(
            f"the thread is only a guess: {found.identity.evidence} (--strict)",
            fix="remove --strict to start with the guess, or run one thread per directory",
        )


def _plan(wanted: Profile, found: Context) -> Plan:
    decided = plan.decide(wanted, found, os.environ, read_dotenv(wanted, found))
    decided.program = plan.find_program(
        decided.argv[0], decided.environ.get("PATH"), decided.cwd.value
    )
    plan.leave_out_runner(decided, wanted, state.find_directory(os.environ))
    return decided


def _note_runner(decided: Plan) -> None:
    """Note that a runner is about to look for updates."""
    if decided.runner is not None:
        from mcp_launch.launch import runners

        runners.note_check(decided.runner)


def read_dotenv(wanted: Profile, found: Context) -> Dotenv:
    """Return the values of the dotenv files that the profile asks for."""
    if not wanted.dotenv and all(one.source != "dotenv" for one in wanted.env.values()):
        return Dotenv({}, "")
    from mcp_launch.launch import dotenv

    return dotenv.load(wanted, found)


def _make_room() -> None:
    """Close the failed launch's descriptors if the limit leaves too few to report the failure.

    Reporting it imports modules, which are files. A guardian, if there is one, sees its pipe
    close and ends the server, as it would a moment later.
    """
    try:
        kernel.reserve_descriptors(_NEEDED_TO_FAIL)
    except OSError:
        kernel.close_all(state.list_trace_descriptors())


def _fail(failure: Exception, arguments: list[str], launch: str) -> int:
    kernel.stop_listening()
    _make_room()
    from mcp_launch.launch import failed_launch
    from mcp_launch.runtime.answer_failure import answer_failure

    found = None
    if isinstance(failure, LaunchError):
        error = failure
        found = failed_launch.reconstruct(arguments, launch)
    else:
        from mcp_launch.state import crash

        error = crash.describe(failure)
    if isinstance(failure, UsageError) and _is_typed():
        state.keep_no_trace()
    if state.needs_log():
        host = found.lineage.host.name if found else ""
        _log_failure(launch, *failed_launch.name_server(arguments), host)
    _report(error)
    answer_failure(error, found=found)
    return error.exit_code


def _is_typed() -> bool:
    """Return whether a person has typed our command, who sees the error and may type it again."""
    try:
        return os.isatty(0)
    except OSError:
        return False  # our stdin is closed


def _report(error: LaunchError) -> None:
    """Say where a person may find it why there is no server."""
    state.record(f"the launch failed: {error.problem} — fix: {error.fix}", FAILURE)
    if path := os.environ.get(state.OUTCOME):
        from mcp_launch.state import outcome

        outcome.append_failure(path, error)
    try:
        tell(error, sys.stderr)
    except OSError:
        pass  # nobody reads our stderr; the host still gets the answer


def _log_failure(launch: str, server: str, words: list[str], host: str) -> None:
    """Write the log of a launch that started no server, and prune old logs for the guardian."""
    from mcp_launch.state import launch_log, leases

    facts: dict[str, object] = {
        "server": server or "(no command)",
        "mark": leases.mark_command(words),
        "cwd": context.read_cwd({}),
    }
    if host:
        facts["host"] = host
    state.keep_trace_in(launch_log.open_log(launch, facts))
    launch_log.prune(launch_log.find_directory(os.environ), state.find_leases(os.environ))


def _trace_lineage(line: Lineage) -> None:
    process = line.process
    pid = process.identity.pid if process else "none"
    state.note(f"host {line.host.name}, process {pid}; stdin: {line.verdict} ({line.evidence})")


def _trace_context(found: Context) -> None:
    state.note(f"launch {found.launch.value}")
    evidence = found.identity.evidence
    state.note(f"identity {found.identity.state}{f': {evidence}' if evidence else ''}")
    for name in ("session", "thread", "project_root"):
        fact = getattr(found, name)
        searched = getattr(fact, "searched", None)
        state.note(
            f"{name}: none ({'; '.join(searched)})"
            if searched
            else f"{name} {fact.value} ({fact.origin})"
        )


def _trace_kept_back(decided: Plan, passed: str) -> None:
    kept_back = {
        name: why for name, why in decided.kept_back.items() if name not in decided.environ
    }
    unnamed = [name for name, why in kept_back.items() if why == environment.NOT_NAMED]
    if unnamed:  # one line for all: there may be dozens
        state.note(f"withholds {', '.join(unnamed)}: not named in --pass-env {passed}")
    for name, why in kept_back.items():
        if why != environment.NOT_NAMED:
            state.note(f"withholds {name}: {why} (--pass-env {passed})")


def _trace_plan(wanted: Profile, decided: Plan) -> None:
    state.note(f"cwd {decided.cwd.value or '(deleted)'} ({decided.cwd.origin})")
    if decided.place_note:
        state.note(f"the server's directory is {decided.place_note}, not a project")
    for name, origin in decided.set_variables.items():
        state.note(f"sets {name} ({origin})")
    for name in decided.unset_variables:
        state.note(f"removes {name}: it belongs to another session")
    _trace_kept_back(decided, ",".join(wanted.pass_env))
    _trace_runner(wanted, decided)
    state.note(f"the server is {decided.program}, arguments: {len(decided.argv) - 1}")


def _trace_runner(wanted: Profile, decided: Plan) -> None:
    if decided.runner is not None:
        does = "leaves out" if decided.runner.is_left_out else "does not leave out"
        state.note(f"{does} {os.path.basename(wanted.command[0])}: {decided.runner.why}")

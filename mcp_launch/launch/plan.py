"""Decide what to start: the command, its directory and its environment.

`decide` is pure, so that its policy can be tested as tables, and explained (`mcp-launch env`)
without starting anything: the facts come in as arguments, and the only question to the system is
whether a path is a directory. `find_program` looks for the command's file, and
`leave_out_runner` for the program that a runner (`npx`, `uvx`) would start.

The server's variables are set in this order, each step overriding those before it: what it
inherits, whole dotenv files, its identity (MCP_LAUNCH_* and the host's own names), what the
user asked for by name, PWD.
"""

from __future__ import annotations

import os

from mcp_launch import hosts
from mcp_launch.errors import SourceMissing
from mcp_launch.launch import environment
from mcp_launch.launch.options import is_own_variable
from mcp_launch.state import OUTCOME
from mcp_launch.values import Found, Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal

    from mcp_launch.hosts import HostIdentity, Sighting
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.profile import Profile
    from mcp_launch.launch.runners.installing import Install
    from mcp_launch.launch.runners.proof import Kept, Resolved
    from mcp_launch.values import Variable

    # Which kind of variable holds a wrong value; a requested one outweighs a default.
    Wrong = Literal["default", "requested"] | None


# The sources whose values a call can correct.
_CORRECTED_BY_CALLS = ("session", "thread")

# The PATH that exec's own search uses when the variable is not set.
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

# Programs that start others. What they start is looked for only if the command is one of them.
_RUNNERS = ("npx", "npm", "uvx", "uv", "pnpm", "pnpx", "bun", "bunx")

# How to get a value from each source; any other source is a fact of the session.
_WAYS_OUT = {
    "local": "set it in the `env` of the host's entry (hosts remove most variables)",
    "dotenv": "add it there, or name the right file with --dotenv FILE",
    "project_root": "start the host inside a project",
    "thread": "start the server from a Codex thread without --direct and --when-unknown fail "
    "(the first call names the thread), or set default or required = false in the profile",
    "session": "remove --direct and --when-unknown fail, so that the server gets the launch's own "
    "id until a call names the session",
}


class Dotenv:
    """The values of dotenv files, and the names of the files."""

    __slots__ = ("searched", "values")

    def __init__(self, values: dict[str, str | None], searched: str) -> None:
        self.values = values
        self.searched = searched


class IdentityInEnvironment:
    """The session and thread ids that a server's environment holds."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[tuple[str, str, bool]] = []  # source, value, is_requested

    def add(self, source: str, value: str, *, is_requested: bool) -> None:
        """Add a variable's value, and whether the user asked for the variable."""
        self._values.append((source, value, is_requested))

    @property
    def is_requested(self) -> bool:
        """Whether the user asked for one of them."""
        return any(is_requested for _, _, is_requested in self._values)

    def find_wrong(self, session: str | None, thread: str | None) -> Wrong:
        """Return the kind of variable that differs from these ids; None if none does."""
        truth = {"session": session, "thread": thread}
        wrong: Wrong = None
        for source, value, is_requested in self._values:
            if truth[source] not in {None, value}:
                wrong = "requested" if is_requested else wrong or "default"
        return wrong


class Plan:
    """What the guardian is to start."""

    __slots__ = (
        "argv",
        "cwd",
        "environ",
        "held",
        "install",
        "kept_back",
        "place_note",
        "program",
        "runner",
        "set_variables",
        "unset_variables",
    )

    def __init__(self, argv: list[str], cwd: Found, environ: dict[str, str]) -> None:
        self.argv = argv
        self.program = argv[0]  # its file, once `find_program` has found it
        self.cwd = cwd
        self.place_note = ""  # what kind of home cwd is, if it is one that nobody asked for
        self.environ = environ
        self.held = IdentityInEnvironment()
        self.set_variables: dict[str, str] = {}  # name: origin
        self.unset_variables: list[str] = []
        self.kept_back: dict[str, str] = {}  # by --pass-env; name: reason
        self.runner: Resolved | Kept | None = None  # None: the command is not a runner
        self.install: Install | None = None  # what the runner has to install first


def decide(
    profile: Profile,
    context: Context,
    environ: Mapping[str, str],
    dotenv: Dotenv,
    is_directory: Callable[[str], bool] = os.path.isdir,
) -> Plan:
    """Return the plan for a launch.

    Raises:
        PlaceRefused: The directory is missing, or is not the session's.
        SourceMissing: A requested source has no value.

    """
    cwd = environment.decide_cwd(
        profile.cwd,
        context,
        is_directory,
        origin=profile.cwd_origin,
        is_strict=profile.strict,
    )
    plan = Plan(profile.command, cwd, dict(environ))
    _keep_back(plan, profile, context)
    plan.place_note = environment.note_home(profile.cwd, cwd, context)
    shown = _forget_shared_session(profile, context)
    _drop_foreign_variables(plan, shown)
    named = any(variable.source == "dotenv" for variable in profile.env.values())
    if profile.dotenv and not named:
        for name, text in dotenv.values.items():
            if text is not None:  # a bare NAME without "=" sets nothing
                _set(plan, name, Found(text, dotenv.searched))
    # After a whole file, which must not set the identity; before what is requested by name.
    for name, found in list_defaults(shown).items():
        if isinstance(found, Found):
            _set(plan, name, found)
    _set_requested(plan, profile, context, environ, dotenv)
    _record_identity(plan, profile, shown)
    # As a shell does: the inherited PWD names another directory, and some servers trust it.
    if cwd.value:
        _set(plan, "PWD", cwd)
    return plan


def _forget_shared_session(profile: Profile, context: Context) -> Context:
    """Return the context without the session of a call, if others will use the same server."""
    is_requested = any(one.source in _CORRECTED_BY_CALLS for one in profile.env.values())
    is_followed = profile.on_change == "follow" or (
        profile.on_change == "auto" and not is_requested
    )
    is_shared = context.facts.carries == "many sessions" and is_followed
    if not is_shared or context.session is context.identity.session:
        return context
    shared = Missing(["the host has several sessions for this server"])
    return context.for_session(shared, context.thread)


def _keep_back(plan: Plan, profile: Profile, context: Context) -> None:
    def judge(name: str, text: str) -> str:
        return environment.compare(name, text, context.read_host_environ(), context.host_title)

    plan.kept_back = environment.list_kept_back(plan.environ, profile.pass_env, judge)
    for name in plan.kept_back:
        del plan.environ[name]


def _drop_foreign_variables(plan: Plan, context: Context) -> None:
    """Remove variables that another host, or an outer launch, set for its own server.

    Variables that this host set for another session are removed as well.
    """
    for name in list(plan.environ):
        # Some shells export a variable with an empty name, which exec refuses.
        if not name or is_own_variable(name):
            del plan.environ[name]
    foreign = hosts.list_foreign_variables(context.host.value)
    for name in (*foreign, *context.facts.list_untrue_variables(context.session)):
        if plan.environ.pop(name, None) is not None:
            plan.unset_variables.append(name)


def drop_session_variables(profile: Profile, context: Context, plan: Plan) -> dict[str, str]:
    """Return a plan's environment without what differs between two sessions of the same server."""
    dropped = {
        name
        for name, variable in profile.env.items()
        if variable.source in {*_CORRECTED_BY_CALLS, "host_pid", "launch"}
    }
    dropped.update(list_defaults(context))
    from mcp_launch.hosts import variables

    kept = variables.drop_private_variables(plan.environ)
    return {name: value for name, value in kept.items() if name not in dropped}


def list_defaults(context: Context) -> dict[str, Found | Missing]:
    """Return the variables that every server gets unasked, known or missing."""
    return {
        "MCP_LAUNCH_ID": context.launch,
        "MCP_LAUNCH_HOST": context.host,
        "MCP_LAUNCH_SESSION_ID": context.session,
        "MCP_LAUNCH_THREAD_ID": context.thread,
        "MCP_LAUNCH_PROJECT_ROOT": context.project_root,
        **context.facts.default_variables(context.session, context.thread),
    }


def _set_requested(
    plan: Plan, profile: Profile, context: Context, environ: Mapping[str, str], dotenv: Dotenv
) -> None:
    for name, text in profile.literals.items():
        origin = "--set" if name in profile.set_by_option else "the profile"
        _set(plan, name, Found(environment.expand(text, name, environ), origin))
    for name, variable in profile.env.items():
        value = resolve(variable, plan, profile, context, environ, dotenv)
        if isinstance(value, Found) or variable.is_required:
            _set(plan, name, _require(name, variable.source, value))
        elif name not in plan.set_variables:
            plan.environ.pop(name, None)


def resolve(  # noqa: PLR0913, PLR0917  # everything that a value can come from
    variable: Variable,
    plan: Plan,
    profile: Profile,
    context: Context,
    environ: Mapping[str, str],
    dotenv: Dotenv,
) -> Found | Missing:
    """Return the value of a requested variable."""
    if variable.source == "local":
        value = _pick(variable.sought, environ, "the launcher's environment")
    elif variable.source == "dotenv":
        value = _pick(variable.sought, dotenv.values, dotenv.searched)
    else:
        value = _find_fact(variable, context, plan.cwd, profile)
    if isinstance(value, Missing) and variable.default is not None:
        return Found(variable.default, f"its default ({'; '.join(value.searched)})")
    return value


def _find_fact(
    variable: Variable, context: Context, cwd: Found, profile: Profile
) -> Found | Missing:
    facts: dict[str, Found | Missing] = {
        "thread": context.thread,
        "session": context.session,
        "project_root": context.project_root,
        "cwd": cwd,
        "host": context.host,
        "host_pid": context.host_pid,
        "launch": context.launch,
    }
    fact = facts[variable.source]
    if isinstance(fact, Found) or profile.when_unknown == "fail":
        return fact
    if variable.source == "project_root":
        return context.guess_root()
    if variable.default is not None or not variable.is_required:
        return fact  # the server can start without it
    why = "; ".join(fact.searched)
    if variable.source in context.facts.told_later:
        # A call will name it, but a server may not start without a value. On the direct wire
        # we see no calls.
        until = Found(context.launch.value, f"the launch's own id until a call names it ({why})")
        return fact if profile.direct else until
    if variable.source == "session":
        # No call ever will. A server that only needs some id of its own works with this one.
        return Found(context.launch.value, f"the launch's own id instead of a session's ({why})")
    return fact


def _pick(name: str, values: Mapping[str, str | None], where: str) -> Found | Missing:
    value = values.get(name)
    return Found(value, where) if value is not None else Missing([f"{name} is not in {where}"])


def _require(name: str, source: str, found: Found | Missing) -> Found:
    if isinstance(found, Found):
        return found
    raise SourceMissing(
        f"no value for {name}: source `{source}` has none ({'; '.join(found.searched)})",
        fix=_WAYS_OUT.get(source, "start the server from a session of its host")
        + f", or stop asking for {name} (--env, MCP_LAUNCH_ENV, profile)",
    )


def _record_identity(plan: Plan, profile: Profile, context: Context) -> None:
    """Record the session and thread in the environment; a later call may contradict them."""
    for source in _CORRECTED_BY_CALLS:
        fact = getattr(context, source)
        if isinstance(fact, Found):
            plan.held.add(source, fact.value, is_requested=False)
        for name, variable in profile.env.items():
            is_left_out = name not in plan.environ and source not in context.facts.told_later
            if variable.source == source and not is_left_out:
                # What stands in for an id is no session's, so it suits a call that names none.
                held = fact.value if isinstance(fact, Found) else ""
                plan.held.add(source, held, is_requested=True)


def _set(plan: Plan, name: str, found: Found) -> None:
    plan.environ[name] = found.value
    plan.set_variables[name] = found.origin


def find_program(name: str, path: str | None, cwd: str) -> str:
    """Return the file of the server's program.

    Raises:
        CommandNotFound: There is no such file.
        NotExecutable: The file exists but cannot be run.

    """
    if "/" in name:
        directories, files = [], [os.path.join(cwd, name.removeprefix("./"))]
    else:
        directories = [entry or "." for entry in (path or _DEFAULT_PATH).split(":")]
        files = [os.path.join(cwd, directory, name) for directory in directories]
    for file in files:
        if os.path.isfile(file) and os.access(file, os.X_OK):
            return file
    from mcp_launch.launch import program_help

    raise program_help.explain(name, directories, files)


def leave_out_runner(plan: Plan, profile: Profile, state_directory: str) -> None:
    """Start the program that the command's runner would start, if that is certain."""
    if os.path.basename(plan.argv[0]) not in _RUNNERS:
        return
    import time

    from mcp_launch.launch import runners
    from mcp_launch.launch.runners import proof

    request = proof.Request(
        argv=plan.argv,
        program=plan.program,
        environ=plan.environ,
        cwd=plan.cwd.value,
        stamps=f"{state_directory}/runners",
        now=time.time(),
    )
    found = runners.resolve(request, [*profile.env, *profile.pass_env])
    plan.install = runners.find_install(found)
    if profile.runner == "keep":
        return
    plan.runner = found
    if isinstance(plan.runner, proof.Resolved):
        plan.program, plan.argv = plan.runner.program, plan.runner.argv
        name = os.path.basename(profile.command[0])
        for variable, text in plan.runner.variables.items():
            _set(plan, variable, Found(text, f"as {name} sets it"))


def choose_answer(
    wanted: str, host: HostIdentity, sighting: Sighting, environ: Mapping[str, str]
) -> str:
    """Return what a host gets if its server cannot be started: "error", "tool" or "call".

    A host that only looks always gets the error: with a tool, it would list the server as one
    that works. So does a program of ours that reads the outcome. A host that keeps lists of tools
    would keep this one, too: only calls of tools that it knows get the reason.
    """
    chosen = wanted or ("tool" if host.swallows_errors else "error")
    # Last, because it reads the host's command line, and most launches do not need to know.
    if chosen == "error" or environ.get(OUTCOME) or host.only_looks(sighting):
        return "error"
    return "call" if host.keeps_tool_lists else "tool"

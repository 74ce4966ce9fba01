"""What the user wants for a server: options of `run`, their twins, and profiles in files."""

from __future__ import annotations

from mcp_launch import trace
from mcp_launch.errors import ProfileUntrusted, UsageError, suggest
from mcp_launch.launch import options
from mcp_launch.launch.options import CHOICES, MAY_REPEAT, SOURCES, SPELLINGS
from mcp_launch.values import Variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_launch.state.profile_cache import Record


class Profile:
    """What the user wants, every value checked."""

    __slots__ = (
        "command",
        "cwd",
        "cwd_origin",
        "direct",
        "dotenv",
        "env",
        "literals",
        "no_log",
        "no_meta",
        "on_change",
        "pass_env",
        "passed_over",
        "restart",
        "server",
        "stdout",
        "strict",
        "trace",
        "when_unknown",
    )

    def __init__(
        self, values: Mapping[str, list[str]], command: list[str], records: list[Record]
    ) -> None:
        self.command = command
        self.passed_over = ""  # why a project's file was not used
        self.server = _last(values, "--server") or command[0].rpartition("/")[2]
        self.literals: dict[str, str] = {}
        self.env: dict[str, Variable] = {}
        for record in records:
            self._add_variables(record)
        for text in values.get("--env", []):
            name, source = _split_variable(text)
            self.env[name] = Variable(source, name)
            self.literals.pop(name, None)
        self.dotenv = list(values.get("--dotenv", []))
        self.pass_env = _split_passed(_last(values, "--pass-env") or "all")
        self.cwd = _last(values, "--cwd") or "session"
        self.cwd_origin = "--cwd"  # where a directory was named
        self.stdout = _choose(values, "--stdout")
        self.on_change = _choose(values, "--on-change")
        self.when_unknown = _choose(values, "--when-unknown")
        self.restart = _choose(values, "--restart")
        self.strict = "--strict" in values
        self.direct = "--direct" in values
        self.no_meta = "--no-meta" in values
        self.no_log = "--no-log" in values
        self.trace = "--trace" in values

    def _add_variables(self, record: Record) -> None:
        for name, text in record.literals.items():
            self.literals[name] = text
            self.env.pop(name, None)
        for name, variable in record.variables.items():
            self.env[name] = variable
            self.literals.pop(name, None)


def load(
    arguments: list[str],
    environ: Mapping[str, str],
    find_place: Callable[[], str] = str,
    *,
    is_launch: bool = True,
) -> Profile:
    """Return the profile that the words after `run`, the environment and files ask for.

    A project's file is looked at only for a server that has a name; `find_place` tells where
    its session works, and so which project's. One that nobody ever trusted cannot stop a
    server that does not need it: the launch goes on without, unless it is to be strict.

    Raises:
        UsageError: A word makes no sense; the text says which and what would.
        ProfileRefused: A file makes no sense, or may not be used.

    """
    from mcp_launch.launch import profile_files

    given, command = options.split(arguments)
    twins = options.read_twins(environ)
    server = name_server(given, environ)
    users = profile_files.look_at_users(server, environ, is_launch=is_launch)
    records = list(users.values())
    untrusted: ProfileUntrusted | None = None
    if server:
        try:
            own = profile_files.look_at_projects(server, environ, find_place(), is_launch=is_launch)
            records += [own] if own else []
        except ProfileUntrusted as refused:
            untrusted = refused
    values = _join([record.options for record in records], twins, given)
    for record in reversed(records):
        command = command or record.command
    if untrusted is not None and (not command or "--strict" in values):
        raise untrusted
    if not command:
        has_profile = len(records) > len(users.keys() & {profile_files.DEFAULTS})
        raise _no_command(
            server, lambda: profile_files.list_known(environ, find_place()), has_profile=has_profile
        )
    wanted = Profile(values, command, records)
    if "--cwd" not in given:
        twin = options.name_twin("--cwd")
        wanted.cwd_origin = twin if twins.get("--cwd") else "the profile"
    if untrusted is not None:
        wanted.passed_over = untrusted.problem
        trace.note(f"goes on without the project's profile: {untrusted.problem}")
    return wanted


def check(words: list[str]) -> None:
    """See that options of `run` make sense, whatever the server and its profile.

    Raises:
        UsageError: One does not.

    """
    given, _ = options.split(words)
    Profile(given, ["a server"], [])


def _join(
    files: list[dict[str, list[str] | None]],
    twins: Mapping[str, list[str] | None],
    given: Mapping[str, list[str]],
) -> dict[str, list[str]]:
    """Return the options of all layers, the more important last."""
    values: dict[str, list[str]] = {}
    for layer in (*files, twins, given):
        for name, texts in layer.items():
            if texts is None:
                values.pop(name, None)
            else:
                # All count where several may be given; of one name, the last layer's is the last.
                values[name] = [*values.get(name, []), *texts] if name in MAY_REPEAT else texts
    return values


def name_server(given: Mapping[str, list[str]], environ: Mapping[str, str]) -> str:
    """Return the name under which files speak of a server; empty: it has none."""
    return _last(given, "--server") or environ.get(options.name_twin("--server"), "")


def _no_command(
    server: str, list_known: Callable[[], list[str]], *, has_profile: bool
) -> UsageError:
    how = "write the command after the options: mcp-launch run -- npx -y some-server"
    if not server:
        return UsageError("no server command was given", fix=how)
    if has_profile:
        return UsageError(f"the profile of {server} has no command", fix=f"add one, or {how}")
    return UsageError(
        f"no profile has a server {server}, and no command was given",
        fix=f"{suggest(server, list_known())}"
        f"add [servers.{server}] to ~/.config/mcp-launch/config.toml, or {how}",
    )


def _last(values: Mapping[str, list[str]], name: str) -> str:
    return values[name][-1] if values.get(name) else ""


def _split_passed(text: str) -> list[str]:
    # A slip would be taken for a name, and the server would get next to nothing.
    is_word = text not in {"all", "safe"} and text.islower()
    if is_word and (near := suggest(text, ("all", "safe"))):
        raise UsageError(
            f"--pass-env (or MCP_LAUNCH_PASS_ENV) does not take {text}",
            fix=f"{near}it takes all, safe, or names of variables",
        )
    return text.split(",")


def _split_variable(text: str) -> tuple[str, str]:
    # What stands behind "=" is not repeated: somebody may have put a secret there.
    name, equals, source = text.strip().partition("=")
    if not equals or not name or not name.replace("_", "a").isalnum() or name[0].isdigit():
        raise UsageError(
            f"a variable (--env, MCP_LAUNCH_ENV) is not NAME=SOURCE: {name}",
            fix="write for example --env CODEX_THREAD_ID=thread",
        )
    source = SPELLINGS.get(source, source)
    if source not in SOURCES:
        raise UsageError(
            f"the variable {name} (--env, MCP_LAUNCH_ENV) asks for a source that does not exist",
            fix=f"{suggest(source, SOURCES)}the sources are {', '.join(SOURCES)}; "
            "a fixed value belongs into the `env` of the host's own entry",
        )
    return name, source


def _choose(values: Mapping[str, list[str]], option: str) -> str:
    known = CHOICES[option]
    word = _last(values, option) or known[0]
    if word not in known:
        choices = [choice for choice in known if choice]
        raise UsageError(
            f"{option} (or {options.name_twin(option)}) does not take {word}",
            fix=f"{suggest(word, choices)}it takes {', '.join(choices)}",
        )
    return word

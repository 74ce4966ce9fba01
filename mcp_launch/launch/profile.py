"""What the user wants for a server: options of `run`, their twins, and profiles in files."""

from __future__ import annotations

import os

from mcp_launch import trace
from mcp_launch.errors import ProfileRefused, ProfileUntrusted, UsageError, suggest
from mcp_launch.launch import options
from mcp_launch.launch.context import find_project_root, is_inside
from mcp_launch.launch.options import CHOICES, MAY_REPEAT, SOURCES, SPELLINGS
from mcp_launch.values import Found, Variable, find_home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

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
    given, command = options.split(arguments)
    twins = options.read_twins(environ)
    server = name_server(given, environ)
    users = look_at_users(server, environ, is_launch=is_launch)
    records = list(users.values())
    untrusted: ProfileUntrusted | None = None
    if server:
        try:
            own = look_at_projects(server, environ, find_place(), is_launch=is_launch)
            records += [own] if own else []
        except ProfileUntrusted as refused:
            untrusted = refused
    values = _join([record.options for record in records], twins, given)
    for record in reversed(records):
        command = command or record.command
    if untrusted is not None and (not command or "--strict" in values):
        raise untrusted
    if not command:
        has_profile = len(records) > len(users.keys() & {DEFAULTS})
        raise _no_command(
            server, lambda: list_known(environ, find_place()), has_profile=has_profile
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


USER_FILE = ".config/mcp-launch/config.toml"
PROJECT_FILE = ".mcp-launch.toml"

# The table of the user's file that speaks of every server.
DEFAULTS = "[defaults]"


def look_at_users(
    server: str, environ: Mapping[str, str], *, is_launch: bool = True
) -> dict[str, Record]:
    """Return what the user's file says: of every server, then of this one, by its tables.

    Only a launch keeps records of files; who merely looks leaves nothing behind.

    Raises:
        ProfileRefused: It makes no sense, or others can write it.

    """
    path = locate_user_file(environ)
    status = _look(path)
    if status is None:
        return {}
    refuse_if_others_can_write(path, status)
    kept = _read(path, environ, is_projects=False, is_launch=is_launch)
    from mcp_launch.state.profile_cache import Record

    told = {DEFAULTS: kept["defaults"], name_table(server): kept["servers"].get(server)}
    return {table: Record(one) for table, one in told.items() if one}


def look_at_projects(
    server: str, environ: Mapping[str, str], place: str, *, is_launch: bool = True
) -> Record | None:
    """Return what the file of the project in which a session works says of a server.

    Raises:
        ProfileUntrusted: It may not be used, and never was.
        ProfileRefused: It was used, and now makes no sense or is not trusted any more.

    """
    path = locate_project_file(place)
    if not path or not os.path.lexists(path):
        return None
    from mcp_launch.state import profile_cache

    before = profile_cache.read(path, environ)
    was_trusted = bool(before and (before["trusted"] or before["was_trusted"]))
    refusal = ProfileRefused if was_trusted else ProfileUntrusted
    try:
        refuse_foreign(path, place)
        if _look(path) is None:
            return None  # removed just now, or a link to nothing
        kept = _read(path, environ, is_projects=True, is_launch=is_launch)
    except ProfileRefused as refused:
        raise refusal(
            refused.without_place,
            fix=refused.fix,
            path=refused.path,
            line=refused.line,
            column=refused.column,
        ) from None
    told = kept["servers"].get(server)
    if told and not kept["trusted"]:
        since = " since it was changed" if kept["was_trusted"] else ""
        raise refusal(
            f"{path} sets up the server {server}, but you have not said that you trust it{since}",
            fix=f"read it, then run: mcp-launch trust {quote(path)}",
        )
    return profile_cache.Record(told) if told else None


def list_known(environ: Mapping[str, str], place: str) -> list[str]:
    """Return the servers that any file has, as far as files were read."""
    from mcp_launch.state import profile_cache

    files = (locate_user_file(environ), locate_project_file(place))
    kept = [profile_cache.read(path, environ) for path in files if path]
    return [name for record in kept if record for name in record["servers"]]


def name_table(server: str) -> str:
    """Return the table that speaks of one server."""
    return f"[servers.{server}]"


def locate_user_file(environ: Mapping[str, str]) -> str:
    """Return the path of the user's profiles; not below XDG_*, which Codex does not pass on."""
    return f"{find_home_directory(environ)}/{USER_FILE}"


def locate_project_file(place: str) -> str:
    """Return where the profiles of a session's project would be; nothing outside of projects.

    By the real path of the project: trust belongs to the directory, whatever leads to it.
    """
    root = find_project_root(place)
    if not isinstance(root, Found):
        return ""
    return os.path.join(os.path.realpath(root.value), PROJECT_FILE)


def refuse_foreign(path: str, place: str = "") -> None:
    """Refuse a project's file that is not the project's own, or not this session's.

    What a file says is run where the session works: words that are harmless in one project
    (`./tools/server`, `npm run mcp`) may run anything in another. So neither may a link bring
    in another project's file, nor one lead the session out of the project.

    Raises:
        ProfileRefused: It is a link out of the project, or the session is not in there.

    """
    root = os.path.dirname(path)
    if os.path.islink(path) and not is_inside(path, [root]):
        raise ProfileRefused(
            f"{path} is a link to {os.path.realpath(path)}, which is outside of the project",
            fix="replace the link by a file of the project's own",
        )
    if place and not is_inside(place, [root]):
        raise ProfileRefused(
            f"{path} is not used in {os.path.realpath(place)}, where a link led the session: "
            "that is outside of the project",
            fix="start the session in the project itself",
        )


def refuse_if_others_can_write(path: str, status: os.stat_result) -> None:
    """Refuse a file through which somebody else could run commands as this user."""
    from mcp_launch.state import OTHERS_CAN_WRITE

    if not hasattr(os, "geteuid"):
        return  # Windows, where nothing is launched
    if status.st_uid not in {0, os.geteuid()}:
        raise ProfileRefused(f"{path} belongs to another user", fix="replace it by one of your own")
    if status.st_mode & OTHERS_CAN_WRITE:
        raise ProfileRefused(
            f"{path} can be written by other users", fix=f"run: chmod go-w {quote(path)}"
        )


def _look(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None  # there is none
    except OSError as error:
        raise ProfileRefused(
            f"{path} cannot be read: {error.strerror}", fix=f"run: chmod u+r {quote(path)}"
        ) from None


def _read(
    path: str, environ: Mapping[str, str], *, is_projects: bool, is_launch: bool
) -> dict[str, Any]:
    """Return the record of a file as it is now."""
    from mcp_launch.state import profile_cache

    kept = profile_cache.read(path, environ)
    if kept and kept["digest"] == profile_cache.digest(profile_cache.read_file(path)):
        return kept
    from mcp_launch.launch import profile_reader

    if is_launch:
        return profile_reader.keep(path, environ, kept, is_projects=is_projects)
    return profile_reader.read(path, kept, is_projects=is_projects)


def quote(path: str) -> str:
    """Return a path as a shell takes it."""
    import shlex

    return shlex.quote(path)

"""What the user wants for a server: options, environment variables, and profile files.

`load` joins them. Precedence: option, variable, project file, user file, and the `[defaults]`
of the user file. Files name commands to run: the user's must not be writable by others, and a
project's counts only once the user has trusted its content (`mcp-launch trust`). A launch parses
a file only if it has changed; otherwise the record in `state.profile_cache` is enough.
"""

from __future__ import annotations

import os

from mcp_launch import state
from mcp_launch.errors import Contradiction, ProfileRefused, ProfileUntrusted, UsageError, suggest
from mcp_launch.launch import options
from mcp_launch.launch.context import find_project_root, is_inside
from mcp_launch.launch.options import CHOICES, MAY_REPEAT
from mcp_launch.values import Found, Variable, find_home_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mcp_launch.state.profile_cache import Record

USER_FILE = ".config/mcp-launch/config.toml"
PROJECT_FILE = ".mcp-launch.toml"

# The table of the user's file that applies to every server.
DEFAULTS = "[defaults]"


class Profile:
    """What the user wants; every value has been checked."""

    __slots__ = (
        "call_timeout",
        "command",
        "cwd",
        "cwd_origin",
        "direct",
        "dotenv",
        "env",
        "literals",
        "max_concurrent",
        "max_servers",
        "no_log",
        "no_meta",
        "no_record",
        "on_change",
        "on_failure",
        "pass_env",
        "passed_over",
        "policies",
        "profile_name",
        "record_arguments",
        "rest",
        "rest_anyway",
        "restart",
        "runner",
        "server",
        "set_by_option",
        "share",
        "start",
        "stdout",
        "strict",
        "trace",
        "when_unknown",
    )

    def __init__(
        self, values: Mapping[str, list[str]], command: list[str], records: list[Record]
    ) -> None:
        self.command = command
        self.passed_over = ""  # why the project's file was not used
        self.profile_name = _last(values, "--server")  # empty: no server's table applies
        self.server = self.profile_name or command[0].rpartition("/")[2]
        self.literals: dict[str, str] = {}
        self.env: dict[str, Variable] = {}
        for record in records:
            for name in (*record.literals, *record.variables):
                self.literals.pop(name, None)
                self.env.pop(name, None)
            self.literals |= record.literals
            self.env |= record.variables
        for text in values.get("--env", []):
            name, source = options.split_variable(text)
            self.env[name] = Variable(source, name)
            self.literals.pop(name, None)
        fixed = dict(options.split_fixed(text) for text in values.get("--set", []))
        self.literals |= fixed
        self.set_by_option = fixed.keys()  # the literals that are not a file's
        for name in fixed:
            self.env.pop(name, None)
        self.dotenv = list(values.get("--dotenv", []))
        self.pass_env = options.split_passed(_last(values, "--pass-env") or "all")
        self.cwd = _last(values, "--cwd") or "session"
        self.cwd_origin = "--cwd"  # where the user named the directory
        self.stdout = _choose(values, "--stdout")
        self.on_change = _choose(values, "--on-change")
        most = _last(values, "--max-servers") or options.MAX_SERVERS
        self.max_servers = options.read_number("--max-servers", most, options.ALLOWED_SERVERS)
        calls = _last(values, "--max-concurrent")  # 0: any number
        self.max_concurrent = (
            options.read_number("--max-concurrent", calls, options.ALLOWED_CALLS) if calls else 0
        )
        timeout = _last(values, "--call-timeout") or "off"
        self.call_timeout = options.read_limit("--call-timeout", timeout)  # in seconds; 0: never
        self.share = _choose(values, "--share")
        self.on_failure = _choose(values, "--on-failure")
        self.when_unknown = _choose(values, "--when-unknown")
        self.start = _choose(values, "--start")
        self.rest = options.read_limit("--rest", _last(values, "--rest") or "off")  # likewise
        self.rest_anyway = "--rest-anyway" in values
        self.restart = _choose(values, "--restart")
        self.runner = _choose(values, "--runner")
        self.strict = "--strict" in values
        self.direct = "--direct" in values
        self.no_meta = "--no-meta" in values
        self.no_log = "--no-log" in values
        self.no_record = "--no-record" in values
        self.record_arguments = "--record-arguments" in values
        self.policies: list[dict[str, Any]] = []  # of each file that sets some
        self.trace = "--trace" in values


def load(
    arguments: list[str],
    environ: Mapping[str, str],
    find_place: Callable[[], str] = str,
    *,
    is_launch: bool = True,
) -> Profile:
    """Return the profile from the arguments of `run`, the environment and the files.

    A project's file is read only for a server that has a name; `find_place` returns where its
    session works, which determines the project. A file that was never trusted cannot stop a
    server that does not need it: the launch continues without it, unless it is strict.

    Raises:
        UsageError: An argument or a variable is invalid.
        ProfileRefused: A file is invalid, or may not be used.

    """
    given, command = options.split(arguments)
    variables = options.read_variables(environ)
    server = name_server(given, environ)
    users = read_user_profile(server, environ, is_launch=is_launch)
    records = list(users.values())
    policies = _find_policies(records)
    untrusted: ProfileUntrusted | None = None
    if server:
        try:
            own = read_project_profile(server, environ, find_place(), is_launch=is_launch)
            records += [own] if own else []
            policies += _find_policies([own] if own else [])
        except ProfileUntrusted as refused:
            untrusted = refused
    values = _join([record.options for record in records], variables, given)
    command = command or next((one.command for one in reversed(records) if one.command), [])
    if untrusted is not None and (not command or "--strict" in values):
        raise untrusted
    if not command:
        has_profile = len(records) > len(users.keys() & {DEFAULTS})
        from mcp_launch.launch import missing_command

        def list_files() -> list[str]:
            return [locate_user_file(environ), locate_project_file(find_place())]

        raise missing_command.explain(server, environ, list_files, has_profile=has_profile)
    wanted = Profile(values, command, records)
    wanted.policies = policies
    if wanted.direct and policies:
        raise Contradiction(
            f"{wanted.server} cannot run with --direct: its profile sets `tools` or `arguments`, "
            "and with --direct nobody reads its calls",
            fix="remove `direct`, or remove `tools` and `arguments` from its profile",
        )
    if "--cwd" not in given:
        variable = options.name_variable("--cwd")
        wanted.cwd_origin = variable if variables.get("--cwd") else "the profile"
    if untrusted is not None:
        wanted.passed_over = untrusted.problem
        state.note(f"continues without the project's profile: {untrusted.problem}")
    return wanted


def _find_policies(records: list[Record]) -> list[dict[str, Any]]:
    """Return the policies of one file: a server's own replace those of all servers."""
    joined: dict[str, Any] = {"tools": None, "arguments": {}, "arguments_of": {}}
    for record in records:
        joined |= {key: value for key, value in record.policies.items() if value is not None}
    return [joined] if any(joined.values()) else []


def read_options(words: list[str], records: list[Record] | None = None) -> Profile:
    """Return what options of `run` ask for, and these tables of files, whatever the server.

    Raises:
        UsageError: One is invalid.

    """
    given, _ = options.split(words)
    values = _join([record.options for record in records or ()], {}, given)
    return Profile(values, ["a server"], records or [])


def _join(
    files: list[dict[str, list[str] | None]],
    variables: Mapping[str, list[str] | None],
    given: Mapping[str, list[str]],
) -> dict[str, list[str]]:
    """Return the options of all layers; a later layer overrides an earlier one."""
    values: dict[str, list[str]] = {}
    for layer in (*files, variables, given):
        for name, texts in layer.items():
            if texts is None:
                values.pop(name, None)
            else:
                # Options that may repeat add up; for one variable name the last one counts.
                values[name] = [*values.get(name, []), *texts] if name in MAY_REPEAT else texts
    return values


def name_server(given: Mapping[str, list[str]], environ: Mapping[str, str]) -> str:
    """Return the server's name in profile files; empty if it has none."""
    return _last(given, "--server") or environ.get(options.name_variable("--server"), "")


def _last(values: Mapping[str, list[str]], name: str) -> str:
    return values[name][-1] if values.get(name) else ""


def _choose(values: Mapping[str, list[str]], option: str) -> str:
    known = CHOICES[option]
    word = _last(values, option) or known[0]
    if word not in known:
        choices = [choice for choice in known if choice]
        raise UsageError(
            f"{option} (or {options.name_variable(option)}) does not take {word}",
            fix=f"{suggest(word, choices)}write one of {', '.join(choices)}",
        )
    return word


def read_user_profile(
    server: str, environ: Mapping[str, str], *, is_launch: bool = True
) -> dict[str, Record]:
    """Return the tables of the user's file for every server, and for this one.

    Only a launch keeps records of files; a command that only reads leaves nothing behind.

    Raises:
        ProfileRefused: It is invalid, or others can write to it.

    """
    path = locate_user_file(environ)
    status = _look(path)
    if status is None:
        return {}
    refuse_if_others_can_write(path, status)
    kept = _read(path, environ, is_projects=False, is_launch=is_launch)
    from mcp_launch.state.profile_cache import Record, list_refused

    if refused := list_refused(kept).get(server):
        raise refused
    tables = {DEFAULTS: kept["defaults"], name_table(server): kept["servers"].get(server)}
    return {name: Record(table) for name, table in tables.items() if table}


def read_project_profile(
    server: str, environ: Mapping[str, str], place: str, *, is_launch: bool = True
) -> Record | None:
    """Return what the file of the session's project sets for a server; None for nothing.

    Raises:
        ProfileUntrusted: It may not be used, and was never trusted.
        ProfileRefused: It was trusted, and now is invalid or has changed.

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
            return None  # just removed, or a dangling link
        kept = _read(path, environ, is_projects=True, is_launch=is_launch)
    except ProfileRefused as refused:
        raise refusal(
            refused.without_place,
            fix=refused.fix,
            path=refused.path,
            line=refused.line,
            column=refused.column,
        ) from None
    table = kept["servers"].get(server)
    if table and not kept["trusted"]:
        since = " since it was changed" if kept["was_trusted"] else ""
        raise refusal(
            f"{path} configures the server {server}, but you have not trusted it{since}",
            fix=f"read it, then run: mcp-launch trust {quote(path)}",
        )
    return profile_cache.Record(table) if table else None


def name_table(server: str) -> str:
    """Return the table of one server."""
    return f"[servers.{server}]"


def locate_user_file(environ: Mapping[str, str]) -> str:
    """Return the path of the user's file; XDG_* is ignored, as Codex does not pass it on."""
    return f"{find_home_directory(environ)}/{USER_FILE}"


def locate_project_file(place: str) -> str:
    """Return the path of the project's file, whether or not it exists; empty outside projects.

    The project's real path: trust belongs to the directory, whichever link leads to it.
    """
    root = find_project_root(place)
    if not isinstance(root, Found):
        return ""
    return os.path.join(os.path.realpath(root.value), PROJECT_FILE)


def refuse_foreign(path: str, place: str = "") -> None:
    """Refuse a project's file that is not the project's own, or not this session's.

    Its commands run where the session works: what is harmless in one project (`npm run mcp`) may
    run anything in another. So no link may bring in another project's file, or lead out of it.

    Raises:
        ProfileRefused: It is a link out of the project, or the session works outside of it.

    """
    root = os.path.dirname(path)
    if os.path.islink(path) and not is_inside(path, [root]):
        raise ProfileRefused(
            f"{path} is a link to {os.path.realpath(path)}, which is outside of the project",
            fix="replace the link with a file in the project",
        )
    if place and not is_inside(place, [root]):
        raise ProfileRefused(
            f"{path} does not apply in {os.path.realpath(place)}: a link led the session there, "
            "outside of the project",
            fix="start the session in the project itself",
        )


def refuse_if_others_can_write(path: str, status: os.stat_result) -> None:
    """Refuse a file that would let another user run commands as this one."""
    if not hasattr(os, "geteuid"):
        return  # Windows, where nothing is launched
    if status.st_uid not in {0, os.geteuid()}:
        raise ProfileRefused(f"{path} belongs to another user", fix="replace it with your own copy")
    if status.st_mode & state.OTHERS_CAN_WRITE:
        raise ProfileRefused(
            f"{path} can be written by other users", fix=f"run: chmod go-w {quote(path)}"
        )


def _look(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ProfileRefused(
            f"{path} cannot be read: {error.strerror}", fix=f"run: chmod u+r {quote(path)}"
        ) from None


def _read(
    path: str, environ: Mapping[str, str], *, is_projects: bool, is_launch: bool
) -> dict[str, Any]:
    """Return a record of the file's present content."""
    from mcp_launch.state import profile_cache

    kept = profile_cache.read(path, environ)
    if kept and kept["digest"] == profile_cache.digest(profile_cache.read_file(path)):
        return kept
    from mcp_launch.launch import profile_reader

    if is_launch:
        return profile_reader.keep(path, environ, kept, is_projects=is_projects)
    return profile_reader.read(path, kept, is_projects=is_projects)


def quote(path: str) -> str:
    """Return a path quoted for a shell."""
    import shlex

    return shlex.quote(path)

"""What the user wants for a server: options, environment variables, and the user's file.

`load` joins them. Precedence: option, variable, the server's own table in the user's file
(`profile_tables`), and its `[defaults]`.
"""

from __future__ import annotations

from mcp_launch.errors import UsageError, suggest
from mcp_launch.launch import options, profile_tables
from mcp_launch.launch.options import CHOICES, MAY_REPEAT
from mcp_launch.launch.profile_tables import DEFAULTS
from mcp_launch.values import Variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mcp_launch.launch.profile_tables import Table


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
        "strict",
        "trace",
        "when_unknown",
    )

    def __init__(
        self, values: Mapping[str, list[str]], command: list[str], tables: list[Table]
    ) -> None:
        self.command = command
        self.profile_name = _last(values, "--server")  # empty: no server's table applies
        self.server = self.profile_name or command[0].rpartition("/")[2]
        self.literals: dict[str, str] = {}
        self.env: dict[str, Variable] = {}
        for table in tables:
            for name in (*table.literals, *table.variables):
                self.literals.pop(name, None)
                self.env.pop(name, None)
            self.literals |= table.literals
            self.env |= table.variables
        for text in values.get("--env", []):
            name, source = options.split_variable(text)
            self.env[name] = Variable(source, name)
            self.literals.pop(name, None)
        fixed = dict(options.split_fixed(text) for text in values.get("--set", []))
        self.literals |= fixed
        self.set_by_option = fixed.keys()  # the literals that are not the file's
        for name in fixed:
            self.env.pop(name, None)
        self.dotenv = list(values.get("--dotenv", []))
        self.pass_env = options.split_passed(_last(values, "--pass-env") or "all")
        self.cwd = _last(values, "--cwd") or "session"
        self.cwd_origin = "--cwd"  # where the user named the directory
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
        self.policies = _join_policies(tables)
        self.trace = "--trace" in values


def load(arguments: list[str], environ: Mapping[str, str]) -> Profile:
    """Return the profile from the arguments of `run`, the environment and the user's file.

    Raises:
        UsageError: An argument or a variable is invalid.
        ProfileRefused: The file is invalid, or others can write to it.

    """
    given, command = options.split(arguments)
    variables = options.read_variables(environ)
    server = name_server(given, environ)
    file = profile_tables.read(environ)
    named = file.find_tables(server)
    tables = [*named.values()]
    values = _join([table.options for table in tables], variables, given)
    command = command or next((table.command for table in tables if table.command), [])
    if not command:
        from mcp_launch.launch import program_help

        has_profile = bool(named.keys() - {DEFAULTS})
        raise program_help.explain_missing(server, file.list_names(), has_profile=has_profile)
    wanted = Profile(values, command, tables)
    if wanted.direct and wanted.policies:
        raise UsageError(
            f"{wanted.server} cannot run with --direct: its profile sets `tools` or `arguments`, "
            "and with --direct nobody reads its calls",
            fix="remove `direct`, or remove `tools` and `arguments` from its profile",
        )
    if "--cwd" not in given:
        variable = options.name_variable("--cwd")
        wanted.cwd_origin = variable if variables.get("--cwd") else "the profile"
    return wanted


def read_options(words: list[str], tables: list[Table] | None = None) -> Profile:
    """Return what options of `run` ask for, and these tables of the file, whatever the server.

    Raises:
        UsageError: One is invalid.

    """
    given, _ = options.split(words)
    values = _join([table.options for table in tables or ()], {}, given)
    return Profile(values, ["a server"], tables or [])


def _join_policies(tables: list[Table]) -> dict[str, Any]:
    """Return the policies in force; empty if there are none.

    A server's own replace those of all servers, key by key.
    """
    joined: dict[str, Any] = {"tools": {}, "arguments": {}, "arguments_of": {}}
    for table in tables:
        joined |= {key: value for key, value in table.policies.items() if value is not None}
    return joined if any(joined.values()) else {}


def _join(
    tables: list[dict[str, list[str] | None]],
    variables: Mapping[str, list[str] | None],
    given: Mapping[str, list[str]],
) -> dict[str, list[str]]:
    """Return the options of all layers; a later layer overrides an earlier one."""
    values: dict[str, list[str]] = {}
    for layer in (*tables, variables, given):
        for name, texts in layer.items():
            if texts is None:
                values.pop(name, None)
            else:
                # Options that may repeat add up; for one variable name the last one counts.
                values[name] = [*values.get(name, []), *texts] if name in MAY_REPEAT else texts
    return values


def name_server(given: Mapping[str, list[str]], environ: Mapping[str, str]) -> str:
    """Return the server's name in the user's file; empty if it has none."""
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

"""Variables that a server needs but does not get, and credentials that it gets needlessly."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from mcp_launch.doctor import needed_variables
from mcp_launch.doctor.check import Finding, check
from mcp_launch.launch import environment
from mcp_launch.machine import host_environment
from mcp_launch.machine.preview import predict
from mcp_launch.machine.survey import Subject
from mcp_launch.machine.wrap_warnings import tell_how

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_launch.config_files.host_config import HostConfig
    from mcp_launch.doctor.needed_variables import Need
    from mcp_launch.machine.preview import Preview
    from mcp_launch.machine.survey import Item, Survey

# Anything else after -e is not a variable's name, or a mistake that the program reports.
_NAME = re.compile(r"[A-Za-z_]\w*")

# How many servers a message names.
_SERVERS_SHOWN = 5


@check("ML205", "error", "the server does not get a variable that it needs", "server")
def check_needed(survey: Survey, item: Item) -> Iterator[Finding]:
    """The server's command or its profile needs a variable that the server will not have.

    Most servers then fail to log in somewhere, or do not start. The variable is set in your shell,
    so the same command works when you try it by hand. Codex passes on a short list of variables,
    Gemini CLI none that look like secrets; or the host was started before the variable was set, or
    `--pass-env` or a profile's `pass_env` removes it. A variable counts as needed if `docker run -e
    NAME` in the entry names it, or a profile asks for it.

    Name it where the host wants it, or restart the host from a shell that has it:

    * Codex: `env_vars = ["GITHUB_TOKEN"]`
    * Claude Code: `"env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}`
    * If mcp-launch removes it: `mcp-launch wrap github -- --env GITHUB_TOKEN=local`
    """
    launch = predict(survey, item)
    keyring = host_environment.list_of_keyring(item)
    known = {*keyring, *launch.failed}  # what fails is reported separately
    for need in needed_variables.list_of_command(launch.command):
        if need.name not in known and need.name not in launch.server_environ:
            yield from _report(survey, item, launch, need)
    yield from _check_kept_back(item, launch)
    if launch.profile is not None:
        for need in needed_variables.list_of_profile(launch.profile):
            if need.name not in keyring and need.name not in launch.situation.environ:
                yield from _report(survey, item, launch, need)


def _report(survey: Survey, item: Item, launch: Preview, need: Need) -> Iterator[Finding]:
    if not _NAME.fullmatch(need.name):
        return
    title, name = item.host.title, need.name
    subject = item.point()
    known = {**survey.environ, **host_environment.read_host(survey, item.host)}
    if name in launch.situation.environ:
        message = f"--pass-env (or a profile's pass_env) removes {name}, but {need.why}"
        yield Finding("ML205", subject, message, _explain_passing(launch, item, name))
    elif name in known and not host_environment.passes(item, name, known):
        message = f"{title} does not pass {name} on, but {need.why}"
        yield Finding("ML205", subject, message, _explain(item, name))
    elif name in known:
        message = f"the running {title} was started without {name}, but {need.why}"
        yield Finding("ML205", subject, message, f"restart {title} from where {name} is set")
    elif need.is_sure:
        message = f"{name} is not set anywhere, but {need.why}"
        fix = f"set {name} where {title} is started, or in {_name_table(item)}"
        yield Finding("ML205", subject, message, fix)


def _check_kept_back(item: Item, launch: Preview) -> Iterator[Finding]:
    """Find variables that the entry sets but that do not reach the server."""
    if launch.profile is None:
        return
    kept_back = launch.decided.kept_back
    needed = {
        need.name for need in needed_variables.list_of_command(launch.command)
    }  # already reported
    for name in (*item.variables, *host_environment.list_named(item)):
        if name in kept_back and name not in launch.server_environ and name not in needed:
            option = f"--pass-env {','.join(launch.profile.pass_env)}"
            message = f"the entry sets {name}, but {option} removes it: {kept_back[name]}"
            fix = _explain_passing(launch, item, name)
            yield Finding("ML205", item.point(), message, fix)


def _explain_passing(launch: Preview, item: Item, name: str) -> str:
    is_safe = launch.profile is not None and launch.profile.pass_env == [environment.SAFE]
    if is_safe:
        return f"pass it on: {tell_how(item, f'--env {shlex.quote(name)}=local')}"
    return f"add {name} to it"


def _explain(item: Item, name: str) -> str:
    if item.host.quirks.environment.has_env_vars:
        return f'add "{name}" to env_vars in [mcp_servers.{item.name}]: env_vars = ["{name}"]'
    if borrowed := item.host.quirks.texts.borrow.format(name):
        return f'add it to the entry: "env": {{"{name}": "{borrowed}"}}'
    return f"set it in {_name_table(item)}"


def _name_table(item: Item) -> str:
    return f"the `{item.host.quirks.texts.table}` of the entry"


@check("ML206", "warning", "servers inherit the host's credentials")
def check_credentials(survey: Survey) -> Iterator[Finding]:
    """The host gives its servers its own credentials: `ANTHROPIC_API_KEY` and the like.

    A server for weather or documentation has no use for the key that pays for your model. Every
    package it depends on can read it, and a single compromised release is enough to send it away.
    Claude Code, VS Code, Zed, opencode and Goose pass on nearly everything that they were started
    with; Codex passes on a short list. A key that the entry itself sets in `env` is not reported.

    Pass on everything but the hosts' own secrets, for all entries of one host with `mcp-launch wrap
    --host claude -- --pass-env safe`, or for every wrapped server with `pass_env = "safe"` below
    `[defaults]` in `~/.config/mcp-launch/config.toml`. If a server does need such a key, name it:
    `mcp-launch wrap docs -- --env OPENAI_API_KEY=local`. If you trust a server with them, ignore
    it: `ignore = ["ML206:docs"]` below `[doctor]` in that file.
    """
    for host in survey.hosts:
        servers = [item for item in survey.servers if item.host.name == host.name]
        if host.quirks.environment.hands_all_on and servers:
            yield from _report_credentials(survey, host, servers)


def _report_credentials(survey: Survey, host: HostConfig, servers: list[Item]) -> Iterator[Finding]:
    inherited = host_environment.read_host(survey, host)
    got: dict[str, None] = {}
    getting = []
    for item in servers:
        names = _list_credentials(survey, item, inherited)
        got |= dict.fromkeys(names)
        getting += [item.name] if names else []
    if not got:
        return
    shown = ", ".join(getting[:_SERVERS_SHOWN])
    more = f" and {len(getting) - _SERVERS_SHOWN} more" if len(getting) > _SERVERS_SHOWN else ""
    yield Finding(
        "ML206",
        Subject(host.name),
        f"{host.title} passes its credentials on to {len(getting)} of its servers "
        f"({shown}{more}): {', '.join(got)}",
        f"run: mcp-launch wrap --host {host.name} -- --pass-env safe; or write "
        'pass_env = "safe" below [defaults] in ~/.config/mcp-launch/config.toml',
        servers=tuple(getting),
    )


def _list_credentials(survey: Survey, item: Item, inherited: Mapping[str, str]) -> list[str]:
    """Return the credentials that a server gets without its entry naming them."""
    got = predict(survey, item).server_environ
    return [
        name
        for name in inherited
        if got.get(name) and name not in item.variables and environment.is_host_secret(name)
    ]
